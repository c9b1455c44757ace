import * as v from "valibot";
import type { Filters } from "@/filters/types";

/// A parameter that looks like a number arrives as one.
export const Text = v.fallback(
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

const FiltersSchema = v.custom<Filters>((value) =>
  Array.isArray(value)
    ? value.every((filter) => typeof filter === "object" && filter !== null && "key" in filter)
    : typeof value === "object" && value !== null && "values" in value,
);

export const PersonsSearch = v.object({
  search: Text,
  properties: v.fallback(v.optional(FiltersSchema), undefined),
  cohort: Text,
});

export type PersonsSearch = v.InferOutput<typeof PersonsSearch>;

export const PERSON_TABS = [
  "timeline",
  "properties",
  "ids",
  "cohorts",
  "flags",
  "groups",
  "activity",
] as const;

export type PersonTab = (typeof PERSON_TABS)[number];

export const PersonSearch = v.object({
  tab: v.fallback(v.optional(v.picklist(PERSON_TABS)), undefined),
});
