import type { Schemas } from "@/api/client";

type Entry = Schemas["Entry"];

const NAMED_MAX = 3;

function listed(values: readonly unknown[]): string {
  const names = values.slice(0, NAMED_MAX).map(String).join(", ");
  const more = values.length - NAMED_MAX;
  return more > 0 ? `${names} and ${more} more` : names;
}

const DONE: Record<string, string> = {
  created: "created",
  deleted: "deleted",
  restored: "restored",
  people_merged_into: "merged another person into",
  merged_into: "merged another person into",
  persons_added_manually: "added persons to",
  person_removed_manually: "removed a person from",
};

/// What an entry of the log says, after its author's name.
export function activitySentence({ activity, detail }: Entry, noun: string): string {
  const changes = detail.changes ?? [];
  if (activity === "split_person") {
    const after = changes[0]?.after;
    const ids =
      typeof after === "object" && after !== null && "distinct_ids" in after
        ? (after as { distinct_ids: unknown }).distinct_ids
        : after;
    return Array.isArray(ids) && ids.length > 0
      ? `split ${listed(ids)} off this ${noun}`
      : `split this ${noun}`;
  }
  if (activity === "delete_property") return `removed a property of this ${noun}`;
  const done = DONE[activity];
  if (done) return `${done} this ${noun}`;
  const fields = [...new Set(changes.flatMap(({ field }) => (field ? [field] : [])))];
  if (activity === "updated" && fields.length > 0) {
    return `changed ${listed(fields.map((field) => field.replaceAll("_", " ")))} of this ${noun}`;
  }
  return `${activity.replaceAll("_", " ")} this ${noun}`;
}
