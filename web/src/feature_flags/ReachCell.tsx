import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { useSeen } from "@/dashboards/useSeen";
import { useProject } from "@/shell/useProject";
import { exact, percent } from "@/ui/format";
import { type Flag, reachQuery } from "./flagApi";
import { conditionsOf, kindOf } from "./model/draft";

/// How many match a flag's conditions. Counted once the row is seen, a few rows at a time.
export function ReachCell({ flag }: { flag: Flag }) {
  const { projectId } = useProject();
  const host = useRef<HTMLSpanElement>(null);
  const conditions = conditionsOf(flag.filters);
  const types = new Set(conditions.map(({ aggregation_group_type_index: index }) => index ?? null));
  const [type = null] = types;
  const counts = kindOf(flag) !== "remote" && conditions.length > 0 && types.size === 1;
  const { seen } = useSeen(host);
  const reach = useQuery({
    ...reachQuery(projectId, conditions, type, "later"),
    enabled: counts && seen,
  });
  const { affected = 0, total = 0 } = reach.data ?? {};
  return (
    <span ref={host} className="whitespace-nowrap tabular-nums">
      {!counts ? (
        <span className="text-muted">{types.size > 1 ? "Mixed" : "–"}</span>
      ) : reach.data ? (
        <>
          {exact(affected)}
          <span className="ml-1 inline-block w-12 text-muted">
            {total > 0 ? percent(affected / total) : ""}
          </span>
        </>
      ) : reach.isError ? (
        <span className="text-muted" title={reach.error.message}>
          not counted
        </span>
      ) : (
        <span className="text-muted" role="status" aria-label="Counting">
          …
        </span>
      )}
    </span>
  );
}
