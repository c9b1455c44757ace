import * as v from "valibot";
import type { Filters } from "@/filters/types";

/// A parameter that looks like a number arrives as one.
const Text = v.fallback(
  v.optional(
    v.union([
      v.pipe(v.string(), v.nonEmpty()),
      v.pipe(
        v.number(),
        v.transform((value) => String(value)),
      ),
    ]),
  ),
  undefined,
);

const COLUMNS_MAX = 50;

/// Filters as the API takes them: a list, or a group. The API says what is wrong inside of them.
const FiltersSchema = v.custom<Filters>((value) =>
  Array.isArray(value)
    ? value.every((filter) => typeof filter === "object" && filter !== null && "key" in filter)
    : typeof value === "object" && value !== null && "values" in value,
);

/// The state of the explorer. Wrong parameters are dropped: an old link still opens.
export const ExploreSearch = v.object({
  event: Text,
  properties: v.fallback(v.optional(FiltersSchema), undefined),
  after: Text,
  before: Text,
  columns: v.fallback(
    v.optional(v.pipe(v.array(v.string()), v.nonEmpty(), v.maxLength(COLUMNS_MAX))),
    undefined,
  ),
  distinct_id: Text,
  person_id: Text,
  action_id: Text,
  order: v.fallback(v.optional(v.picklist(["oldest"])), undefined),
  /// The event whose drawer is open.
  id: Text,
});

export type ExploreSearch = v.InferOutput<typeof ExploreSearch>;

export const LiveSearch = v.object({
  event: Text,
  distinct_id: Text,
  q: Text,
  tab: v.fallback(v.optional(v.picklist(["refused"])), undefined),
});

export type LiveSearch = v.InferOutput<typeof LiveSearch>;
