import * as v from "valibot";

/// The search parameters that lists share. Wrong ones are dropped: an old link still opens.
export const ListSearch = v.object({
  search: v.fallback(v.optional(v.string()), undefined),
  page: v.fallback(v.optional(v.pipe(v.number(), v.integer(), v.minValue(1))), undefined),
});
