import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Copy, EllipsisVertical, Plus, RotateCw, Shapes, Trash2 } from "lucide-react";
import { api, call } from "@/api/client";
import { loadedRows, nextOffset } from "@/api/paging";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import {
  Badge,
  buttonClass,
  EmptyState,
  IconButton,
  Menu,
  Page,
  PageHeader,
  Select,
  toast,
} from "@/ui";
import { exact } from "@/ui/format";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { CohortState } from "./CohortState";
import {
  type Cohort,
  calculateCohort,
  cohortName,
  deleteCohort,
  duplicateCohort,
  isPending,
} from "./cohortApi";

const PAGE_ROWS = 100;
const POLL_MS = 2_000;
const route = getRouteApi("/project/$projectId/cohorts");

export function CohortsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/cohorts" });
  const filters = route.useSearch();
  const { search, type } = filters;
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const query = useInfiniteQuery({
    queryKey: ["cohorts", projectId, { search, type }],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/cohorts", {
          params: {
            path: { project_id: projectId },
            query: { search, type, limit: PAGE_ROWS, offset: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: nextOffset,
    refetchInterval: ({ state }) =>
      state.data?.pages.some((page) => page.results.some(isPending)) ? POLL_MS : false,
  });
  const open = (id: number) =>
    navigate({
      to: "/project/$projectId/cohorts/$id",
      params: { projectId, id: String(id) },
      search: {},
    });
  const duplicate = useMutation({
    mutationFn: (cohort: Cohort) => duplicateCohort(projectId, cohort.id),
    onSuccess: (copy) =>
      toast.success("Duplicated as a static cohort", {
        description: cohortName(copy),
        action: { label: "Open", onClick: () => void open(copy.id) },
      }),
    onError: (error) => toast.error(error, "Could not duplicate it"),
  });
  const calculate = useMutation({
    mutationFn: (cohort: Cohort) => calculateCohort(projectId, cohort.id),
    onError: (error) => toast.error(error, "Could not calculate it"),
  });
  const create = (
    <Link
      to="/project/$projectId/cohorts/new"
      params={{ projectId }}
      className={buttonClass("primary")}
    >
      <Plus aria-hidden />
      New cohort
    </Link>
  );
  const columns: Column<Cohort>[] = [
    {
      id: "name",
      header: "Name",
      sortValue: (cohort) => cohortName(cohort).toLowerCase(),
      cell: (cohort) => (
        <span className="flex min-w-40 items-center gap-2 py-1.5">
          <span className="min-w-0">
            <Link
              to="/project/$projectId/cohorts/$id"
              params={{ projectId, id: String(cohort.id) }}
              className="font-medium wrap-anywhere hover:underline"
            >
              {cohortName(cohort)}
            </Link>
            {cohort.description && (
              <span className="block max-w-96 truncate text-xs text-muted max-sm:hidden">
                {cohort.description}
              </span>
            )}
          </span>
          {cohort.is_static && <Badge>Static</Badge>}
          {cohort.cohort_type === "behavioral" && <Badge tone="info">Behavior</Badge>}
        </span>
      ),
    },
    {
      id: "count",
      header: "Persons",
      align: "right",
      sortValue: (cohort) => cohort.count,
      cell: (cohort) =>
        cohort.count === null || cohort.count === undefined ? "–" : exact(cohort.count),
    },
    {
      id: "state",
      header: "State",
      secondary: true,
      className: "whitespace-nowrap",
      cell: (cohort) => <CohortState cohort={cohort} />,
    },
    {
      id: "by",
      header: "Created by",
      className: "text-muted whitespace-nowrap",
      cell: (cohort) => (cohort.created_by ? userName(cohort.created_by) : ""),
    },
    {
      id: "actions",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      width: 52,
      cell: (cohort) => (
        <Menu
          align="end"
          trigger={
            <IconButton size="sm" label={`Actions of ${cohortName(cohort)}`}>
              <EllipsisVertical aria-hidden />
            </IconButton>
          }
          items={[
            ...(cohort.is_static
              ? []
              : [
                  {
                    label: "Calculate now",
                    icon: <RotateCw />,
                    onSelect: () => calculate.mutate(cohort),
                  },
                ]),
            {
              label: "Duplicate as static",
              icon: <Copy />,
              onSelect: () => duplicate.mutate(cohort),
            },
            "separator",
            {
              label: "Delete",
              icon: <Trash2 />,
              danger: true,
              onSelect: () => void deleteCohort(projectId, cohort),
            },
          ]}
        />
      ),
    },
  ];
  return (
    <Page>
      <PageHeader
        title="Cohorts"
        description="Sets of persons, by conditions or by a list, for filters, flags and breakdowns."
        actions={create}
      />
      <ListPanel
        label="Cohorts"
        nouns={["cohort", "cohorts"]}
        query={query}
        rows={loadedRows(query.data)}
        columns={columns}
        rowKey={(cohort) => String(cohort.id)}
        search={{ text, onChange: setText }}
        filtered={Boolean(search || type)}
        filters={
          <Select
            label="Kind of cohort"
            value={type ?? "all"}
            onChange={(next) => void set({ type: next === "all" ? undefined : next })}
            options={[
              { value: "all", label: "All kinds" },
              { value: "dynamic", label: "By conditions" },
              { value: "static", label: "Static lists" },
            ]}
          />
        }
        empty={
          <EmptyState
            icon={<Shapes aria-hidden />}
            title="No cohorts yet"
            action={create}
            example={
              <p className="rounded-md border bg-sunken p-3 text-center">
                Persons with <strong>plan is pro</strong> who did <strong>order paid</strong> at
                least 3 times in the last 30 days
              </p>
            }
          >
            A cohort names a set of persons, so that charts and flags can use it.
          </EmptyState>
        }
        total={query.data?.pages[0]?.count}
        onOpen={(cohort) => void open(cohort.id)}
      />
    </Page>
  );
}
