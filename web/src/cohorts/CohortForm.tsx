import { useQuery } from "@tanstack/react-query";
import { LoaderCircle } from "lucide-react";
import { api, call } from "@/api/client";
import { ApiError, errorMessage } from "@/api/errors";
import { useDebounced } from "@/shell/useDebounced";
import { Card } from "@/ui";
import { count, exact, percent } from "@/ui/format";
import { ConditionEditor } from "./ConditionEditor";
import { type CohortDraft, completeConditions, filtersOf, incompleteCount } from "./conditions";
import { NameCard } from "./NameCard";

const COUNT_REST_MS = 300;

export interface CohortFormProps {
  projectId: string;
  draft: CohortDraft;
  onChange: (draft: CohortDraft, topic?: string) => void;
  cohortId?: number;
  nameError?: string;
}

/// Name and conditions of a cohort, with the number of persons who match while one edits.
export function CohortForm({ projectId, draft, onChange, cohortId, nameError }: CohortFormProps) {
  return (
    <div className="grid gap-4 lg:grid-cols-[1fr_17rem]">
      <Card title="Persons who match">
        <ConditionEditor
          group={draft.conditions}
          onChange={(conditions, topic) => onChange({ ...draft, conditions }, topic)}
          cohortId={cohortId}
        />
      </Card>
      <div className="flex flex-col gap-4 max-lg:order-first">
        <NameCard draft={draft} onChange={onChange} nameError={nameError} />
        <Reach projectId={projectId} draft={draft} />
      </div>
    </div>
  );
}

function Reach({ projectId, draft }: { projectId: string; draft: CohortDraft }) {
  const conditions = completeConditions(draft.conditions);
  const key = useDebounced(conditions ? JSON.stringify(filtersOf(conditions)) : "", COUNT_REST_MS);
  const query = useQuery({
    queryKey: ["cohort_count", projectId, key],
    enabled: key !== "",
    // A wrong condition stays wrong.
    retry: (attempts, error) => error instanceof ApiError && error.isTransient && attempts < 2,
    queryFn: ({ signal }) =>
      call(
        api.POST("/api/projects/{project_id}/cohorts/count", {
          params: { path: { project_id: projectId } },
          body: { filters: JSON.parse(key) as ReturnType<typeof filtersOf> },
          signal,
        }),
      ),
  });
  const open = incompleteCount(draft.conditions);
  const found = query.data;
  return (
    <Card title="Now">
      <div role="status" aria-busy={query.isFetching || undefined}>
        {key === "" ? (
          <p className="text-muted">Add a condition to see how many persons match.</p>
        ) : query.isError ? (
          <p className="wrap-anywhere text-danger">{errorMessage(query.error)}</p>
        ) : found ? (
          <div className={query.isPlaceholderData ? "opacity-60" : undefined}>
            <p className="text-2xl font-semibold tabular-nums">{exact(found.count)}</p>
            <p className="text-muted">
              of {count(found.total, "person")}
              {found.total > 0 && ` (${percent(found.count / found.total)})`}
            </p>
          </div>
        ) : (
          <p className="flex items-center gap-1.5 text-muted">
            <LoaderCircle className="size-3.5 animate-spin" aria-hidden /> Counting
          </p>
        )}
        {open > 0 && (
          <p className="mt-1 text-xs text-warn">
            Without {count(open, "condition that has", "conditions that have")} no value yet.
          </p>
        )}
      </div>
    </Card>
  );
}
