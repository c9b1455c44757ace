import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Copy, EllipsisVertical, Pencil, RotateCw, Trash2 } from "lucide-react";
import { type ReactNode, Suspense, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { fieldError, isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { ActivityList } from "@/persons/ActivityList";
import { RouteNotFound } from "@/shell/routeStates";
import { useFragmentDraft } from "@/shell/useFragmentDraft";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  Card,
  ErrorPanel,
  IconButton,
  Menu,
  Page,
  PageHeader,
  PanelBoundary,
  SkeletonRows,
  Tabs,
  toast,
} from "@/ui";
import { count, exact } from "@/ui/format";
import { CohortState } from "./CohortState";
import {
  type Cohort,
  calculateCohort,
  cohortName,
  cohortQuery,
  deleteCohort,
  duplicateCohort,
  updateCohort,
} from "./cohortApi";
import { completeConditions, conditionsOf, filtersOf, incompleteCount } from "./conditions";
import { DRAFT_CODEC } from "./draftCodec";
import type { CohortTab } from "./routes";

const CohortForm = lazy(() => import("./CohortForm").then((m) => ({ default: m.CohortForm })));
const CohortMembers = lazy(() =>
  import("./CohortMembers").then((m) => ({ default: m.CohortMembers })),
);
const CohortUsers = lazy(() => import("./CohortUsers").then((m) => ({ default: m.CohortUsers })));
const NameDialog = lazy(() => import("./NameDialog").then((m) => ({ default: m.NameDialog })));

const route = getRouteApi("/project/$projectId/cohorts/$id");

export function CohortPage() {
  const { projectId } = useProject();
  const { id } = route.useParams();
  const query = useQuery({
    ...cohortQuery(projectId, Number(id)),
    enabled: /^\d+$/.test(id),
  });
  if (!/^\d+$/.test(id) || (query.isError && isHidden(query.error))) return <RouteNotFound />;
  if (!query.data) {
    return (
      <Page>
        <PageHeader title="Cohort" eyebrow={<BackLink projectId={projectId} />} />
        <Card flush={query.isPending}>
          {query.isPending ? (
            <SkeletonRows rows={10} />
          ) : (
            <ErrorPanel
              title="Could not load this cohort"
              error={query.error}
              onRetry={() => query.refetch()}
            />
          )}
        </Card>
      </Page>
    );
  }
  return <CohortScreen key={id} projectId={projectId} cohort={query.data} />;
}

function BackLink({ projectId }: { projectId: string }) {
  return (
    <Link
      to="/project/$projectId/cohorts"
      params={{ projectId }}
      className="inline-flex min-h-6 items-center hover:underline"
    >
      Cohorts
    </Link>
  );
}

function CohortScreen({ projectId, cohort }: { projectId: string; cohort: Cohort }) {
  const navigate = useNavigate({ from: "/project/$projectId/cohorts/$id" });
  const search = route.useSearch();
  const { id, is_static: isStatic } = cohort;
  const [naming, setNaming] = useState(false);
  // A calculation that ends changes the cohort, not what is edited.
  const savedKey = JSON.stringify([cohort.name, cohort.description, cohort.filters]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the fields.
  const saved = useMemo(
    () => ({
      name: cohort.name ?? "",
      description: cohort.description,
      conditions: conditionsOf(cohort.filters),
    }),
    [savedKey],
  );
  const draft = useFragmentDraft(saved, DRAFT_CODEC);
  const tab: CohortTab = search.tab ?? (draft.isChanged && !isStatic ? "conditions" : "persons");
  const { name, description, conditions } = draft.value;
  const save = useMutation({
    mutationFn: () =>
      updateCohort(projectId, id, {
        name: name.trim() || null,
        description,
        filters: filtersOf(completeConditions(conditions) ?? conditions),
      }),
    onSuccess: () => toast.success("Saved", { description: "The persons are calculated anew." }),
  });
  const calculate = useMutation({
    mutationFn: () => calculateCohort(projectId, id),
    onError: (error) => toast.error(error, "Could not calculate it"),
  });
  const duplicate = useMutation({
    mutationFn: () => duplicateCohort(projectId, id),
    onSuccess: (copy) =>
      navigate({
        to: "/project/$projectId/cohorts/$id",
        params: { projectId, id: String(copy.id) },
        search: {},
      }),
    onError: (error) => toast.error(error, "Could not duplicate it"),
  });
  const activity = useQuery({
    queryKey: ["activity", projectId, "cohort", id],
    enabled: tab === "activity",
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/cohorts/{id}/activity", {
          params: { path: { project_id: projectId, id }, query: { limit: 100 } },
          signal,
        }),
      ),
  });
  const reason =
    conditions.values.length === 0
      ? "Add a condition first."
      : incompleteCount(conditions) > 0
        ? "A condition has no value yet."
        : undefined;
  const run = () => {
    if (draft.isChanged && !reason && !save.isPending && !isStatic) save.mutate();
  };
  useKeys([{ key: "mod+s", run }]);
  const nameError = fieldError(save.error, "name");
  const panel = (content: ReactNode, flush = true) => (
    <PanelBoundary resetKey={tab}>
      {flush ? (
        <Card flush className="overflow-hidden">
          <Suspense fallback={<SkeletonRows rows={8} />}>{content}</Suspense>
        </Card>
      ) : (
        <Suspense fallback={<SkeletonRows rows={8} />}>{content}</Suspense>
      )}
    </PanelBoundary>
  );
  const failed = !isStatic && cohort.errors_calculating > 0 && cohort.last_error_message;
  return (
    <Page>
      <PageHeader
        title={cohortName(cohort)}
        heading={
          <h1 className="flex min-w-0 flex-wrap items-center gap-2 text-xl font-semibold tracking-tight">
            <span className="min-w-0 wrap-anywhere">{cohortName(cohort)}</span>
            {isStatic && <Badge>Static</Badge>}
          </h1>
        }
        description={cohort.description || undefined}
        eyebrow={<BackLink projectId={projectId} />}
        actions={
          <>
            {!isStatic && draft.isChanged && (
              <>
                <Button onClick={draft.discard}>Discard</Button>
                <Button
                  variant="primary"
                  busy={save.isPending}
                  disabledReason={reason}
                  onClick={run}
                >
                  Save
                </Button>
              </>
            )}
            <Menu
              align="end"
              trigger={
                <IconButton label="More actions">
                  <EllipsisVertical aria-hidden />
                </IconButton>
              }
              items={[
                ...(isStatic
                  ? [
                      {
                        label: "Name and description",
                        icon: <Pencil />,
                        onSelect: () => setNaming(true),
                      },
                    ]
                  : [
                      {
                        label: "Calculate now",
                        icon: <RotateCw />,
                        onSelect: () => calculate.mutate(),
                      },
                    ]),
                {
                  label: "Duplicate as static",
                  icon: <Copy />,
                  onSelect: () => duplicate.mutate(),
                },
                "separator",
                {
                  label: "Delete",
                  icon: <Trash2 />,
                  danger: true,
                  onSelect: () =>
                    void deleteCohort(projectId, cohort).then((gone) => {
                      if (gone) {
                        void navigate({
                          to: "/project/$projectId/cohorts",
                          params: { projectId },
                          search: {},
                        });
                      }
                    }),
                },
              ]}
            />
          </>
        }
      />
      <div className="-mt-2 mb-3 flex flex-wrap items-center gap-x-4 gap-y-1 text-xs">
        <span className="text-muted">
          {cohort.count === null || cohort.count === undefined
            ? "Not counted yet"
            : count(cohort.count, "person")}
        </span>
        <CohortState cohort={cohort} />
      </div>
      {failed && (
        <p
          role="alert"
          className="mb-3 rounded-md border border-danger/40 bg-danger-soft px-3 py-2 wrap-anywhere text-danger"
        >
          The last calculation failed, so the persons are those of the calculation before: {failed}
        </p>
      )}
      {save.isError && !nameError && (
        <Card className="mb-3">
          <ErrorPanel error={save.error} title="Could not save the cohort" className="py-2" />
        </Card>
      )}
      <Tabs<CohortTab>
        label="Parts of the cohort"
        value={tab}
        onChange={(next) =>
          navigate({
            search: { tab: next === "persons" ? undefined : next },
            hash: true,
            replace: true,
          })
        }
        items={[
          {
            value: "persons",
            label: (
              <>
                Persons
                {typeof cohort.count === "number" && (
                  <>
                    {" "}
                    <span className="text-xs font-normal text-muted">{exact(cohort.count)}</span>
                  </>
                )}
              </>
            ),
            panel: panel(<CohortMembers projectId={projectId} cohort={cohort} />),
          },
          ...(isStatic
            ? []
            : [
                {
                  value: "conditions" as const,
                  label: draft.isChanged ? "Conditions (edited)" : "Conditions",
                  panel: panel(
                    <CohortForm
                      projectId={projectId}
                      draft={draft.value}
                      onChange={draft.edit}
                      cohortId={id}
                      nameError={nameError}
                    />,
                    false,
                  ),
                },
              ]),
          {
            value: "used",
            label: "Where used",
            panel: panel(<CohortUsers projectId={projectId} id={id} />),
          },
          {
            value: "activity",
            label: "Activity",
            panel: panel(<ActivityList query={activity} noun="cohort" />),
          },
        ]}
      />
      <Suspense>
        {naming && (
          <NameDialog projectId={projectId} cohort={cohort} onClose={() => setNaming(false)} />
        )}
      </Suspense>
    </Page>
  );
}
