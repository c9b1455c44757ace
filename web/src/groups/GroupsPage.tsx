import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Building2, EllipsisVertical, Pencil, Plus } from "lucide-react";
import { Suspense, useMemo, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { loadedRows } from "@/api/paging";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { PeopleFrame } from "@/persons/PeopleFrame";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import {
  Button,
  buttonClass,
  Card,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  RelativeTime,
  SkeletonRows,
} from "@/ui";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { groupName } from "./groupName";

const NewGroupDialog = lazy(() =>
  import("./GroupDialogs").then((m) => ({ default: m.NewGroupDialog })),
);
const RenameTypeDialog = lazy(() =>
  import("./GroupDialogs").then((m) => ({ default: m.RenameTypeDialog })),
);

type Group = Schemas["Group"];

/// The API's page; more rows than these are found by searching.
const PAGES_MAX = 100;
const route = getRouteApi("/project/$projectId/groups/$index");

function cursorOf(next: string | null | undefined): string | undefined {
  return next
    ? (new URL(next, "http://server").searchParams.get("cursor") ?? undefined)
    : undefined;
}

export function GroupsPage() {
  const { projectId } = useProject();
  const { index } = route.useParams();
  const types = useQuery(groupTypesQuery(projectId));
  const type = types.data?.find((one) => String(one.group_type_index) === index);
  if (types.isPending) {
    return (
      <PeopleFrame title="Groups">
        <Card flush>
          <SkeletonRows rows={12} label="Loading groups" />
        </Card>
      </PeopleFrame>
    );
  }
  if (types.isError) {
    return (
      <PeopleFrame title="Groups">
        <Card>
          <ErrorPanel
            title="Could not load the groups"
            error={types.error}
            onRetry={() => types.refetch()}
          />
        </Card>
      </PeopleFrame>
    );
  }
  if (!type) {
    return types.data.length > 0 ? (
      <RouteNotFound />
    ) : (
      <PeopleFrame title="Groups">
        <Card>
          <EmptyState
            icon={<Building2 aria-hidden />}
            title="No groups yet"
            action={
              <Link
                to="/project/$projectId/onboarding"
                params={{ projectId }}
                className={buttonClass("primary")}
              >
                Connect an app
              </Link>
            }
            example={
              <pre className="overflow-x-auto rounded-md border bg-sunken p-3 font-mono text-xs">
                posthog.group("company", "acme")
              </pre>
            }
          >
            A group is what persons belong to, such as a company or a project. Apps name it with
            their events; charts and flags can then count and choose by group.
          </EmptyState>
        </Card>
      </PeopleFrame>
    );
  }
  return <Groups key={index} type={type} projectId={projectId} />;
}

function Groups({ type, projectId }: { type: Schemas["GroupType"]; projectId: string }) {
  const navigate = useNavigate({ from: "/project/$projectId/groups/$index" });
  const { search } = route.useSearch();
  const index = String(type.group_type_index);
  const [dialog, setDialog] = useState<"new" | "rename" | null>(null);
  const [text, setText] = useSearchText(search, (term) =>
    navigate({ search: { search: term }, replace: true }),
  );
  const query = useInfiniteQuery({
    queryKey: ["groups", projectId, index, { search }],
    initialPageParam: undefined as string | undefined,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/groups", {
          params: {
            path: { project_id: projectId },
            query: { group_type_index: index, search, cursor: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: (last, pages) => (pages.length < PAGES_MAX ? cursorOf(last.next) : undefined),
  });
  const many = groupTypeName(type, true);
  const one = groupTypeName(type);
  const title = many.slice(0, 1).toUpperCase() + many.slice(1);
  const columns = useMemo(
    (): Column<Group>[] => [
      {
        id: "name",
        header: "Name",
        cell: (group) => (
          <Link
            to="/project/$projectId/groups/$index/$key"
            params={{ projectId, index, key: group.group_key }}
            className="block max-w-52 truncate font-medium hover:underline sm:max-w-80"
          >
            {groupName(group.group_key, group.group_properties)}
          </Link>
        ),
      },
      {
        id: "key",
        header: "Key",
        className: "text-muted",
        cell: (group) => (
          <code className="block max-w-60 truncate font-mono text-xs">{group.group_key}</code>
        ),
      },
      {
        id: "properties",
        header: "Properties",
        align: "right",
        cell: (group) => Object.keys(group.group_properties).length,
      },
      {
        id: "created",
        header: "First seen",
        className: "text-muted whitespace-nowrap",
        cell: (group) => <RelativeTime at={group.created_at} />,
      },
    ],
    [projectId, index],
  );
  if (isHidden(query.error)) return <RouteNotFound />;
  return (
    <PeopleFrame
      title={title}
      actions={
        <>
          <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setDialog("new")}>
            New {one}
          </Button>
          <Menu
            align="end"
            trigger={
              <IconButton label="More actions">
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: "Name this type of group",
                icon: <Pencil />,
                onSelect: () => setDialog("rename"),
              },
            ]}
          />
        </>
      }
    >
      <ListPanel
        label={title}
        nouns={[one, many]}
        className="max-h-[max(20rem,calc(100dvh-16rem))]"
        query={query}
        rows={loadedRows(query.data)}
        columns={columns}
        rowKey={(group) => group.group_key}
        search={{ text, onChange: setText }}
        filtered={Boolean(search)}
        empty={
          <EmptyState icon={<Building2 aria-hidden />} title={`No ${many} yet`}>
            They appear with the first event that names one.
          </EmptyState>
        }
        onOpen={(group) =>
          navigate({
            to: "/project/$projectId/groups/$index/$key",
            params: { projectId, index, key: group.group_key },
            search: {},
          })
        }
      />
      <Suspense>
        {dialog === "new" && (
          <NewGroupDialog projectId={projectId} type={type} onClose={() => setDialog(null)} />
        )}
        {dialog === "rename" && (
          <RenameTypeDialog projectId={projectId} type={type} onClose={() => setDialog(null)} />
        )}
      </Suspense>
    </PeopleFrame>
  );
}
