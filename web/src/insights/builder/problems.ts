import { ApiError } from "@/api/errors";

export interface FieldProblem {
  field: "series" | "filters" | "breakdown" | "options" | "range";
  message: string;
}

const PLACES: readonly [RegExp, FieldProblem["field"]][] = [
  [/^(trendsFilter|funnelsFilter|retentionFilter|stickinessFilter|pathsFilter)\b/, "options"],
  [
    /^Formula|aggregationType|aggregationProperty|exclusion|funnelToStep|funnelFromStep|conversion window|totalIntervals|Limit is/i,
    "options",
  ],
  [/^breakdownFilter\b|breakdown/i, "breakdown"],
  [/^properties\b|regex|cohort|operator|cannot be filtered/i, "filters"],
  [/^dateRange\b|date range|intervals|interval/i, "range"],
  [/^series\b|math|action|steps|Syntax error/i, "series"],
];

/// Where a refused query is wrong, by what the server says.
export function fieldProblem(error: unknown): FieldProblem | null {
  if (!(error instanceof ApiError) || error.status !== 400) return null;
  const text = error.attr ? `${error.attr}: ${error.detail}` : error.detail;
  const place = PLACES.find(([pattern]) => pattern.test(text));
  return place ? { field: place[1], message: error.detail } : null;
}
