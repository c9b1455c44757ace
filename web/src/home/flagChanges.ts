import type { Schemas } from "@/api/client";

type Entry = Schemas["Entry"];

const VERBS: Record<string, string> = {
  created: "created",
  deleted: "deleted",
  restored: "restored",
};
/// Fields that change with every save and say nothing.
const SILENT = new Set(["version", "last_modified_by", "updated_at"]);
const FIELDS: Record<string, string> = {
  filters: "the conditions",
  name: "the description",
  key: "the key",
  tags: "the tags",
  active: "the state",
  ensure_experience_continuity: "the persistence",
};

/// A change of `filters` has them whole.
function rollout(filters: unknown): number | null {
  const { groups } = (filters ?? {}) as Schemas["FlagFilters"];
  return groups?.length === 1 ? (groups[0]?.rollout_percentage ?? 100) : null;
}

/// A flag's change in words, without the actor and the key: "changed the rollout from 20% to 50%".
export function describeFlagChange({
  activity,
  detail,
}: Pick<Entry, "activity" | "detail">): string {
  const changes = detail.changes.filter(({ field }) => !SILENT.has(field ?? ""));
  const active = changes.find(({ field }) => field === "active");
  if (active && changes.length === 1) return active.after === true ? "switched on" : "switched off";
  const filters = changes.find(({ field }) => field === "filters");
  if (filters && changes.length === 1) {
    const [before, after] = [rollout(filters.before), rollout(filters.after)];
    if (before !== null && after !== null && before !== after) {
      return `changed the rollout from ${before}% to ${after}% of`;
    }
  }
  const verb = VERBS[activity];
  if (verb) return verb;
  const names = changes.map(({ field }) => FIELDS[field ?? ""] ?? field ?? "it");
  if (names.length === 0) return "saved";
  const list = new Intl.ListFormat("en").format([...new Set(names)].slice(0, 3));
  return `changed ${list} of`;
}

export function actorName({
  user,
  is_system: isSystem,
}: Pick<Entry, "user" | "is_system">): string {
  if (isSystem) return "Hedgerow";
  return user?.first_name || user?.email || "Somebody";
}
