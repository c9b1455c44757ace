import { addDays, type DateRange } from "@/ranges/range";

/// When events happened, as the list of events takes it. `before` is exclusive: a date there ends the
/// list with the day before it.
export interface Bounds {
  after?: string;
  before?: string;
}

const DAY = /^\d{4}-\d{2}-\d{2}$/;

export function rangeOf({ after, before }: Bounds): DateRange {
  return {
    date_from: after ?? "all",
    date_to: before && DAY.test(before) ? addDays(before, -1) : before,
  };
}

export function boundsOf({ date_from: from, date_to: to }: DateRange): Bounds {
  return {
    after: from && from !== "all" ? from : undefined,
    before: to && DAY.test(to) ? addDays(to, 1) : (to ?? undefined),
  };
}
