import type { Schemas } from "@/api/client";

type Event = Schemas["Event"];

export type TimelineItem =
  | { kind: "day"; key: string; at: Date; events: number; more: boolean }
  | { kind: "event"; key: string; event: Event };

/// Events in their order, newest first, with a heading for each day of the project's zone. The last
/// day may go on below: its number is then a lower bound.
export function timelineItems(
  events: readonly Event[],
  timeZone: string,
  isComplete: boolean,
): TimelineItem[] {
  const format = new Intl.DateTimeFormat("en-CA", { timeZone, dateStyle: "short" });
  const items: TimelineItem[] = [];
  let heading: Extract<TimelineItem, { kind: "day" }> | null = null;
  let day = "";
  for (const event of events) {
    const at = new Date(event.timestamp);
    const found = format.format(at);
    if (found !== day || !heading) {
      day = found;
      heading = { kind: "day", key: `day ${found} ${items.length}`, at, events: 0, more: false };
      items.push(heading);
    }
    heading.events += 1;
    items.push({ kind: "event", key: event.id, event });
  }
  if (heading && !isComplete) heading.more = true;
  return items;
}

/// What tells events of one name apart, in one line.
export function eventHint(event: Event): string {
  const { properties } = event;
  const named = ["$feature_flag", "$pathname", "$current_url", "$screen_name", "$el_text"] as const;
  for (const name of named) {
    const value = properties[name];
    if (typeof value !== "string" || value === "") continue;
    return name === "$feature_flag" ? `${value}: ${properties.$feature_flag_response}` : value;
  }
  const own = Object.entries(properties).filter(
    ([name, value]) => !name.startsWith("$") && ["string", "number"].includes(typeof value),
  );
  return own
    .slice(0, 2)
    .map(([name, value]) => `${name}: ${value}`)
    .join(" · ");
}
