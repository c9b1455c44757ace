import { LoaderCircle } from "lucide-react";
import { Badge, RelativeTime, Tooltip } from "@/ui";
import { type Cohort, isPending } from "./cohortApi";

/// Whether a cohort's number of persons is right, and since when.
export function CohortState({ cohort }: { cohort: Cohort }) {
  if (cohort.is_static) return <span className="text-muted">A list</span>;
  if (isPending(cohort)) {
    return (
      <span className="inline-flex items-center gap-1.5 text-muted">
        <LoaderCircle className="size-3.5 animate-spin" aria-hidden /> Calculating
      </span>
    );
  }
  if (cohort.errors_calculating > 0) {
    return (
      <Tooltip label={cohort.last_error_message ?? "The last calculation failed."}>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: the reason is read by keyboard as well. */}
        <span tabIndex={0} className="rounded">
          <Badge tone="danger">Failed</Badge>
        </span>
      </Tooltip>
    );
  }
  return cohort.last_calculation ? (
    <span className="text-muted">
      Calculated <RelativeTime at={cohort.last_calculation} />
    </span>
  ) : (
    <span className="text-muted">Not calculated yet</span>
  );
}
