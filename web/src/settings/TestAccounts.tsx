import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError } from "@/api/errors";
import { FilterEditor } from "@/filters/FilterEditor";
import { completeFilters } from "@/filters/operators";
import type { Filters } from "@/filters/types";
import { ask } from "@/insights/queries";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Button, Card, Switch } from "@/ui";
import { exact, percent } from "@/ui/format";
import { type ProjectChange, useProjectChange } from "./useProjectChange";

const REST_MS = 400;

/// Filters that leave out your own people, and how much they leave out.
export function TestAccounts() {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const saved = project.test_account_filters as Filters & unknown[];
  const [draft, setDraft] = useState<Filters | undefined | null>(null);
  const filters = draft === null ? saved : draft;
  const complete = completeFilters(filters);
  const isChanged = draft !== null && JSON.stringify(draft ?? []) !== JSON.stringify(saved);
  return (
    <Card
      title="Test accounts"
      description="Charts can leave out people of your own. These filters say who stays."
    >
      <div className="flex flex-col items-start gap-3.5">
        <FilterEditor
          groups={false}
          value={filters}
          addLabel="Filter"
          onChange={(next) => setDraft(next)}
        />
        {fieldError(change.error, "test_account_filters") && (
          <p role="alert" className="text-xs text-danger">
            {fieldError(change.error, "test_account_filters")}
          </p>
        )}
        <Effect filters={complete} />
        {isChanged && (
          <div className="flex gap-2">
            <Button
              variant="primary"
              busy={change.isPending}
              onClick={() =>
                change.mutate(
                  {
                    test_account_filters: (Array.isArray(complete)
                      ? complete
                      : []) as ProjectChange["test_account_filters"],
                  },
                  { onSuccess: () => setDraft(null) },
                )
              }
            >
              Save filters
            </Button>
            <Button onClick={() => setDraft(null)}>Discard</Button>
          </div>
        )}
        <Switch
          label="New charts leave test accounts out"
          checked={project.test_account_filters_default_checked === true}
          disabled={change.isPending}
          onChange={(on) => change.mutate({ test_account_filters_default_checked: on })}
        />
      </div>
    </Card>
  );
}

/// Events and persons of the last seven days with the filters, of all.
function Effect({ filters }: { filters: Filters | undefined }) {
  const { projectId } = useProject();
  const key = useDebounced(JSON.stringify(filters ?? []), REST_MS);
  const counts = (properties: Filters | undefined, signal: AbortSignal) =>
    ask(
      projectId,
      {
        kind: "TrendsQuery",
        series: [
          { kind: "EventsNode", event: null, math: "total" },
          { kind: "EventsNode", event: null, math: "dau" },
        ],
        dateRange: { date_from: "-7d" },
        trendsFilter: { display: "BoldNumber" },
        ...(properties && { properties }),
      },
      { signal },
    ).then(({ results }) => results.map(({ aggregated_value: value }) => value ?? 0));
  const query = useQuery({
    queryKey: ["test_accounts_effect", projectId, key],
    retry: false,
    queryFn: async ({ signal }) => {
      const draft = JSON.parse(key) as Filters & unknown[];
      const all = await counts(undefined, signal);
      const kept = draft.length === 0 ? all : await counts(draft, signal);
      return { all, kept };
    },
  });
  if (query.isError) {
    return <p className="text-muted">The effect of these filters could not be calculated.</p>;
  }
  const { all: [events = 0, persons = 0] = [], kept: [keptEvents = 0, keptPersons = 0] = [] } =
    query.data ?? {};
  const share = events > 0 ? percent((events - keptEvents) / events) : "nothing";
  return (
    <p
      aria-live="polite"
      aria-busy={query.isFetching}
      className={query.isFetching ? "opacity-60" : undefined}
    >
      {query.isPending ? (
        "Counting…"
      ) : (
        <>
          Of the last seven days, <strong>{exact(keptEvents)}</strong> of {exact(events)} events and{" "}
          <strong>{exact(keptPersons)}</strong> of {exact(persons)} persons stay
          {events > 0 && keptEvents < events && `; ${share} of the events is left out`}.
        </>
      )}
    </p>
  );
}
