import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { EllipsisVertical, Merge, Split, Trash2 } from "lucide-react";
import { type ReactNode, Suspense, useEffect, useState } from "react";
import { api, call } from "@/api/client";
import { isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Card,
  CopyButton,
  ErrorPanel,
  IconButton,
  Menu,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  Skeleton,
  SkeletonRows,
  Tabs,
} from "@/ui";
import { exact } from "@/ui/format";
import { ActivityList } from "./ActivityList";
import {
  type Person,
  personChanged,
  personQuery,
  removePersonProperty,
  setPersonProperty,
} from "./personApi";
import type { PersonTab } from "./search";

const Timeline = lazy(() => import("./Timeline").then((m) => ({ default: m.Timeline })));
const PropertyList = lazy(() =>
  import("./PropertyList").then((m) => ({ default: m.PropertyList })),
);
const PersonIds = lazy(() => import("./PersonIds").then((m) => ({ default: m.PersonIds })));
const PersonCohorts = lazy(() =>
  import("./PersonCohorts").then((m) => ({ default: m.PersonCohorts })),
);
const PersonFlags = lazy(() => import("./PersonFlags").then((m) => ({ default: m.PersonFlags })));
const RelatedList = lazy(() =>
  import("@/groups/RelatedList").then((m) => ({ default: m.RelatedList })),
);
const MergeDialog = lazy(() => import("./MergeDialog").then((m) => ({ default: m.MergeDialog })));
const SplitDialog = lazy(() => import("./SplitDialog").then((m) => ({ default: m.SplitDialog })));
const DeleteDialog = lazy(() =>
  import("./DeleteDialog").then((m) => ({ default: m.DeleteDialog })),
);

const route = getRouteApi("/project/$projectId/persons/$id");

function BackLink({ projectId }: { projectId: string }) {
  return (
    <Link
      to="/project/$projectId/persons"
      params={{ projectId }}
      className="inline-flex min-h-6 items-center hover:underline"
    >
      Persons
    </Link>
  );
}

export function PersonPage() {
  const { projectId } = useProject();
  const { id } = route.useParams();
  const { tab } = route.useSearch();
  const navigate = useNavigate();
  const query = useQuery(personQuery(projectId, id));
  const uuid = query.data?.uuid;
  // One address a person, whichever id the link had.
  useEffect(() => {
    if (uuid && uuid !== id) {
      void navigate({
        to: "/project/$projectId/persons/$id",
        params: { projectId, id: uuid },
        search: true,
        replace: true,
      });
    }
  }, [uuid, id, projectId, navigate]);
  if (query.isPending) {
    return (
      <Page>
        <PageHeader title="Person" eyebrow={<BackLink projectId={projectId} />} />
        <Skeleton className="mb-3 h-9" />
        <Card flush>
          <SkeletonRows rows={10} />
        </Card>
      </Page>
    );
  }
  if (query.isError) {
    return isHidden(query.error) ? (
      <RouteNotFound />
    ) : (
      <Page>
        <PageHeader title="Person" eyebrow={<BackLink projectId={projectId} />} />
        <Card>
          <ErrorPanel
            title="Could not load this person"
            error={query.error}
            onRetry={() => query.refetch()}
          />
        </Card>
      </Page>
    );
  }
  return <Profile key={query.data.uuid} person={query.data} projectId={projectId} tab={tab} />;
}

interface ProfileProps {
  person: Person;
  projectId: string;
  tab: PersonTab | undefined;
}

type OpenDialog = "merge" | "split" | "delete";

function Profile({ person, projectId, tab = "timeline" }: ProfileProps) {
  const navigate = useNavigate({ from: "/project/$projectId/persons/$id" });
  const [dialog, setDialog] = useState<OpenDialog | null>(null);
  const [leaving, setLeaving] = useState<readonly string[] | null>(null);
  const { uuid, distinct_ids: ids } = person;
  const close = () => setDialog(null);
  const activity = useQuery({
    queryKey: ["activity", projectId, "person", uuid],
    enabled: tab === "activity",
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons/{id}/activity", {
          params: { path: { project_id: projectId, id: uuid }, query: { limit: 100 } },
          signal,
        }),
      ),
  });
  const panel = (content: ReactNode, flush = false) => (
    <PanelBoundary resetKey={tab}>
      <Card flush={flush} className={flush ? "overflow-hidden" : undefined}>
        <Suspense fallback={<SkeletonRows rows={8} />}>{content}</Suspense>
      </Card>
    </PanelBoundary>
  );
  const label = (text: string, number: number) => (
    <>
      {text} <span className="text-xs font-normal text-muted">{exact(number)}</span>
    </>
  );
  return (
    <Page>
      <PageHeader
        title={person.name}
        heading={
          <h1 className="flex min-w-0 flex-wrap items-center gap-2 text-xl font-semibold tracking-tight">
            <span className="min-w-0 wrap-anywhere">{person.name}</span>
            <Badge tone={person.is_identified ? "accent" : "neutral"}>
              {person.is_identified ? "Identified" : "Anonymous"}
            </Badge>
          </h1>
        }
        eyebrow={<BackLink projectId={projectId} />}
        actions={
          <Menu
            align="end"
            trigger={
              <IconButton label="More actions">
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: "Merge with another person",
                icon: <Merge />,
                onSelect: () => setDialog("merge"),
              },
              {
                label: "Split distinct ids off",
                icon: <Split />,
                disabledReason: ids.length < 2 ? "There is only one id" : undefined,
                onSelect: () => {
                  setLeaving(null);
                  setDialog("split");
                },
              },
              "separator",
              {
                label: "Delete",
                icon: <Trash2 />,
                danger: true,
                onSelect: () => setDialog("delete"),
              },
            ]}
          />
        }
      />
      <dl className="-mt-2 mb-3 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
        <div className="flex items-center gap-1">
          <dt>First seen</dt>
          <dd>
            <RelativeTime at={person.created_at} />
          </dd>
        </div>
        <div className="flex min-w-0 items-center gap-1">
          <dt className="shrink-0">Person id</dt>
          <dd className="flex min-w-0 items-center">
            <code className="truncate font-mono">{uuid}</code>
            <CopyButton size="sm" label="Copy person id" text={uuid} />
          </dd>
        </div>
      </dl>
      <Tabs<PersonTab>
        label="Parts of the person"
        value={tab}
        onChange={(next) =>
          navigate({ search: { tab: next === "timeline" ? undefined : next }, replace: true })
        }
        items={[
          {
            value: "timeline",
            label: "Timeline",
            panel: panel(
              <Timeline filter={{ person_id: uuid }} empty="This person sent no events." />,
              true,
            ),
          },
          {
            value: "properties",
            label: label("Properties", Object.keys(person.properties).length),
            panel: panel(
              <PropertyList
                noun="person"
                properties={person.properties}
                onSet={(key, value) =>
                  setPersonProperty(projectId, uuid, key, value).then(() =>
                    personChanged(projectId),
                  )
                }
                onRemove={(key) =>
                  removePersonProperty(projectId, uuid, key).then(() => personChanged(projectId))
                }
              />,
            ),
          },
          {
            value: "ids",
            label: label("Distinct ids", ids.length),
            panel: panel(
              <PersonIds
                ids={ids}
                onSplit={(chosen) => {
                  setLeaving(chosen);
                  setDialog("split");
                }}
              />,
              true,
            ),
          },
          {
            value: "cohorts",
            label: "Cohorts",
            panel: panel(<PersonCohorts projectId={projectId} personId={uuid} />, true),
          },
          {
            value: "flags",
            label: "Feature flags",
            panel: panel(<PersonFlags projectId={projectId} person={person} />, true),
          },
          {
            value: "groups",
            label: "Groups",
            panel: panel(
              <RelatedList
                projectId={projectId}
                id={uuid}
                empty="None of the last 90 days' events of this person named a group."
              />,
              true,
            ),
          },
          {
            value: "activity",
            label: "Activity",
            panel: panel(<ActivityList query={activity} noun="person" />, true),
          },
        ]}
      />
      <Suspense>
        {dialog === "merge" && (
          <MergeDialog projectId={projectId} person={person} onClose={close} />
        )}
        {dialog === "split" && (
          <SplitDialog projectId={projectId} person={person} leaving={leaving} onClose={close} />
        )}
        {dialog === "delete" && (
          <DeleteDialog
            projectId={projectId}
            persons={[person]}
            onClose={close}
            onDeleted={(scope) => {
              close();
              if (scope !== "events")
                void navigate({ to: "/project/$projectId/persons", params: { projectId } });
            }}
          />
        )}
      </Suspense>
    </Page>
  );
}
