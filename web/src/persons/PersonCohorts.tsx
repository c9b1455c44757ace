import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus, Shapes, X } from "lucide-react";
import { addToCohort, removeFromCohort } from "@/cohorts/cohortApi";
import { cohortsQuery } from "@/filters/definitions";
import { Badge, Button, Combobox, EmptyState, ErrorPanel, SkeletonRows, toast } from "@/ui";
import { count } from "@/ui/format";
import { cohortsOfPersonQuery, personChanged } from "./personApi";

export interface PersonCohortsProps {
  projectId: string;
  personId: string;
}

/// The cohorts that a person is in, as last calculated; static ones are changed here.
export function PersonCohorts({ projectId, personId }: PersonCohortsProps) {
  const query = useQuery(cohortsOfPersonQuery(projectId, personId));
  const cohorts = useQuery(cohortsQuery(projectId));
  const all = new Map((cohorts.data?.results ?? []).map((cohort) => [cohort.id, cohort]));
  const change = useMutation({
    mutationFn: async ({ id, add }: { id: number; add: boolean }) => {
      if (add) await addToCohort(projectId, id, [personId]);
      else await removeFromCohort(projectId, id, personId);
    },
    onSuccess: (_, { id, add }) => {
      void personChanged(projectId);
      const name = all.get(id)?.name ?? `Cohort ${id}`;
      toast.success(add ? `Added to ${name}` : `Removed from ${name}`, {
        undo: () => change.mutate({ id, add: !add }),
      });
    },
    onError: (error) => toast.error(error, "Could not change the cohort"),
  });
  if (query.isPending) return <SkeletonRows rows={4} label="Loading cohorts" />;
  if (query.isError) {
    return (
      <ErrorPanel
        title="Could not load the cohorts"
        error={query.error}
        onRetry={() => query.refetch()}
      />
    );
  }
  const inside = query.data.results;
  const open = [...all.values()].filter(
    ({ id, is_static }) => is_static && !inside.some((cohort) => cohort.id === id),
  );
  const add = open.length > 0 && (
    <Combobox
      label="Static cohort"
      value={null}
      onChange={(id) => change.mutate({ id: Number(id), add: true })}
      options={open.map(({ id, name }) => ({ value: String(id), label: name ?? `Cohort ${id}` }))}
      empty="No other static cohort has this name."
      trigger={
        <Button
          icon={<Plus aria-hidden />}
          busy={change.isPending}
          aria-label="Add to a static cohort"
        >
          Add to a static cohort
        </Button>
      }
    />
  );
  if (inside.length === 0) {
    return (
      <EmptyState icon={<Shapes aria-hidden />} title="In no cohort" action={add}>
        A cohort is a set of persons, by conditions such as “on the plan pro” or by a list.
      </EmptyState>
    );
  }
  return (
    <>
      {add && <div className="flex justify-end border-b px-4 py-2">{add}</div>}
      <ul aria-label="Cohorts">
        {inside.map(({ id, name, count: size }) => {
          const isStatic = all.get(id)?.is_static ?? false;
          const label = name ?? `Cohort ${id}`;
          return (
            <li key={id} className="flex min-h-10 items-center gap-2 border-b px-4 last:border-b-0">
              <Link
                to="/project/$projectId/cohorts/$id"
                params={{ projectId, id: String(id) }}
                className="min-w-0 truncate font-medium hover:underline"
              >
                {label}
              </Link>
              {isStatic && <Badge>Static</Badge>}
              <span className="ml-auto text-xs whitespace-nowrap text-muted">
                {size !== null && size !== undefined && count(size, "person")}
              </span>
              {isStatic && (
                <Button
                  size="sm"
                  variant="ghost"
                  icon={<X aria-hidden />}
                  aria-label={`Remove from ${label}`}
                  onClick={() => change.mutate({ id, add: false })}
                >
                  Remove
                </Button>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}
