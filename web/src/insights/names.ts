import { eventLabel, propertyLabel } from "@/filters/operators";
import { mathLabel } from "./maths";
import {
  breakdownLabel,
  formulasOf,
  type InsightQuery,
  type RetentionEntity,
  type SeriesNode,
  type SqlQuery,
} from "./queries";

/// What a series counts, by its own name or its event's.
export function seriesName(node: SeriesNode): string {
  if (node.custom_name) return node.custom_name;
  if (node.kind === "ActionsNode") return node.name ?? `Action ${node.id ?? ""}`;
  return eventLabel(node.event);
}

export function entityName(entity: RetentionEntity | null | undefined): string {
  if (!entity) return eventLabel("$pageview");
  if (entity.type === "actions") return entity.name ?? `Action ${entity.id}`;
  return eventLabel(entity.id === null || entity.id === undefined ? null : String(entity.id));
}

export function seriesLetter(index: number): string {
  return String.fromCharCode(65 + index);
}

/// The name of a series beside others: with its math where there is one.
export function seriesTitle(node: SeriesNode): string {
  const math = node.custom_name ? "" : mathLabel(node);
  return math ? `${seriesName(node)} (${math})` : seriesName(node);
}

function breakdownNames(query: InsightQuery): string {
  if (!("breakdownFilter" in query) || !query.breakdownFilter) return "";
  const { breakdown, breakdowns } = query.breakdownFilter;
  const names =
    breakdowns && breakdowns.length > 0
      ? breakdowns.map(({ property }) => propertyLabel(String(property)))
      : breakdown !== null && breakdown !== undefined && breakdown !== ""
        ? [propertyLabel(breakdownLabel(breakdown))]
        : [];
  return names.length > 0 ? ` by ${names.join(", ")}` : "";
}

/// A name for an insight without one, as in "Signed up, Paid by plan".
export function derivedName(query: InsightQuery | SqlQuery): string {
  switch (query.kind) {
    case "HogQLQuery":
      return "SQL query";
    case "TrendsQuery": {
      const formulas = formulasOf(query);
      const names =
        formulas.length > 0
          ? formulas.map(({ formula, custom_name }) => custom_name || formula)
          : query.series.map(seriesTitle);
      return names.join(", ") + breakdownNames(query);
    }
    case "FunnelsQuery":
      return query.series.map(seriesName).join(" → ") + breakdownNames(query);
    case "RetentionQuery": {
      const filter = query.retentionFilter;
      return `Retention: ${entityName(filter?.targetEntity)} → ${entityName(filter?.returningEntity)}`;
    }
    case "LifecycleQuery":
      return `Lifecycle of ${query.series.map(seriesName).join(", ")}`;
    case "StickinessQuery":
      return `Stickiness of ${query.series.map(seriesName).join(", ")}`;
    case "PathsQuery": {
      const { startPoint, endPoint } = query.pathsFilter ?? {};
      const from = startPoint ? ` from ${startPoint}` : "";
      return `Paths${from}${endPoint ? ` to ${endPoint}` : ""}`;
    }
  }
}
