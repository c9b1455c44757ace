import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, Suspense } from "react";
import { api, call, type Schemas } from "@/api/client";
import { isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { queryClient } from "@/api/queryClient";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import {
  Card,
  CopyButton,
  ErrorPanel,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  Skeleton,
  SkeletonRows,
  Tabs,
} from "@/ui";
import { exact } from "@/ui/format";
import { groupName } from "./groupName";
import type { GroupTab } from "./routes";

const PropertyList = lazy(() =>
  import("@/persons/PropertyList").then((m) => ({ default: m.PropertyList })),
);
const RelatedList = lazy(() => import("./RelatedList").then((m) => ({ default: m.RelatedList })));
const Timeline = lazy(() => import("@/persons/Timeline").then((m) => ({ default: m.Timeline })));

const route = getRouteApi("/project/$projectId/groups/$index/$key");

export function GroupPage() {
  const { projectId } = useProject();
  const { index, key } = route.useParams();
  const types = useQuery(groupTypesQuery(projectId));
  const type = types.data?.find((one) => String(one.group_type_index) === index);
  const query = useQuery({
    queryKey: ["group", projectId, index, key],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/groups/find", {
          params: {
            path: { project_id: projectId },
            query: { group_type_index: index, group_key: key },
          },
          signal,
        }),
      ),
  });
  const back = (
    <Link
      to="/project/$projectId/groups/$index"
      params={{ projectId, index }}
      className="inline-flex min-h-6 items-center capitalize hover:underline"
    >
      {type ? groupTypeName(type, true) : "Groups"}
    </Link>
  );
  if (query.isError && isHidden(query.error)) return <RouteNotFound />;
  if (!query.data) {
    return (
      <Page>
        <PageHeader title="Group" eyebrow={back} />
        <Card flush={query.isPending}>
          {query.isPending ? (
            <>
              <Skeleton className="m-4 h-9" />
              <SkeletonRows rows={8} />
            </>
          ) : (
            <ErrorPanel
              title="Could not load this group"
              error={query.error}
              onRetry={() => query.refetch()}
            />
          )}
        </Card>
      </Page>
    );
  }
  return (
    <GroupProfile
      key={`${index} ${key}`}
      projectId={projectId}
      group={query.data}
      noun={type ? groupTypeName(type) : "group"}
      back={back}
    />
  );
}

interface GroupProfileProps {
  projectId: string;
  group: Schemas["Group"];
  noun: string;
  back: ReactNode;
}

function GroupProfile({ projectId, group, noun, back }: GroupProfileProps) {
  const navigate = useNavigate({ from: "/project/$projectId/groups/$index/$key" });
  const { tab = "properties" } = route.useSearch() as { tab?: GroupTab };
  const { group_key: key, group_type_index: index, group_properties: properties } = group;
  const params = {
    path: { project_id: projectId },
    query: { group_type_index: String(index), group_key: key },
  };
  const changed = (stored: Schemas["Group"]) => {
    queryClient.setQueryData(["group", projectId, String(index), key], stored);
    void queryClient.invalidateQueries({ queryKey: ["groups", projectId] });
  };
  const panel = (content: ReactNode, flush: boolean) => (
    <PanelBoundary resetKey={tab}>
      <Card flush={flush} className={flush ? "overflow-hidden" : undefined}>
        <Suspense fallback={<SkeletonRows rows={8} />}>{content}</Suspense>
      </Card>
    </PanelBoundary>
  );
  return (
    <Page>
      <PageHeader title={groupName(key, properties)} eyebrow={back} />
      <dl className="-mt-2 mb-3 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
        <div className="flex items-center gap-1">
          <dt>First seen</dt>
          <dd>
            <RelativeTime at={group.created_at} />
          </dd>
        </div>
        <div className="flex min-w-0 items-center gap-1">
          <dt className="shrink-0">Key</dt>
          <dd className="flex min-w-0 items-center">
            <code className="truncate font-mono">{key}</code>
            <CopyButton size="sm" label="Copy key" text={key} />
          </dd>
        </div>
      </dl>
      <Tabs<GroupTab>
        label="Parts of the group"
        value={tab}
        onChange={(next) =>
          navigate({ search: { tab: next === "properties" ? undefined : next }, replace: true })
        }
        items={[
          {
            value: "properties",
            label: (
              <>
                Properties{" "}
                <span className="text-xs font-normal text-muted">
                  {exact(Object.keys(properties).length)}
                </span>
              </>
            ),
            panel: panel(
              <PropertyList
                noun={noun}
                properties={properties}
                onSet={(name, value) =>
                  call(
                    api.POST("/api/projects/{project_id}/groups/update_property", {
                      params,
                      body: { key: name, value },
                    }),
                  ).then(changed)
                }
                onRemove={(name) =>
                  call(
                    api.POST("/api/projects/{project_id}/groups/delete_property", {
                      params,
                      body: { $unset: name },
                    }),
                  ).then(changed)
                }
              />,
              false,
            ),
          },
          {
            value: "related",
            label: "Persons and groups",
            panel: panel(
              <RelatedList
                projectId={projectId}
                id={key}
                index={index}
                empty={`No event of the last 90 days named this ${noun}.`}
              />,
              true,
            ),
          },
          {
            value: "timeline",
            label: "Timeline",
            panel: panel(
              <Timeline
                filter={{
                  properties: [
                    {
                      key: `$group_${index}`,
                      type: "event_metadata",
                      operator: "exact",
                      value: [key],
                    },
                  ],
                }}
                empty={`No event names this ${noun} yet.`}
              />,
              true,
            ),
          },
        ]}
      />
    </Page>
  );
}
