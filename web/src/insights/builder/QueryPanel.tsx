import { FilterEditor } from "@/filters/FilterEditor";
import { Switch } from "@/ui";
import { eventsOf, type InsightQuery } from "../queries";
import { BreakdownEditor } from "./BreakdownEditor";
import { type Edit, OptionsEditor } from "./options";
import { PathsEditor } from "./PathsEditor";
import type { FieldProblem } from "./problems";
import { RetentionEditor } from "./RetentionEditor";
import { Section } from "./Section";
import { type MathOffer, SeriesEditor } from "./SeriesEditor";

export interface QueryPanelProps {
  query: InsightQuery;
  edit: Edit;
  /// What the server finds wrong, and where.
  problem: FieldProblem | null;
}

const SERIES_TITLES: Partial<Record<InsightQuery["kind"], string>> = {
  TrendsQuery: "Series",
  FunnelsQuery: "Steps",
  LifecycleQuery: "Event",
  StickinessQuery: "Series",
};
const MATHS: Partial<Record<InsightQuery["kind"], MathOffer>> = {
  TrendsQuery: "all",
  StickinessQuery: "actors",
};
const SERIES_MAX: Partial<Record<InsightQuery["kind"], number>> = {
  TrendsQuery: 26,
  StickinessQuery: 26,
  FunnelsQuery: 20,
  LifecycleQuery: 1,
};

/// The query of an insight, part by part.
export function QueryPanel({ query, edit, problem }: QueryPanelProps) {
  const events = eventsOf(query) ?? undefined;
  const errorAt = (field: FieldProblem["field"]) =>
    problem?.field === field ? problem.message : null;
  return (
    <div>
      {query.kind === "RetentionQuery" ? (
        <Section title="Who comes back" error={errorAt("series")}>
          <RetentionEditor query={query} edit={edit} />
        </Section>
      ) : query.kind === "PathsQuery" ? (
        <Section title="Paths of" error={errorAt("series")}>
          <PathsEditor query={query} edit={edit} />
        </Section>
      ) : (
        <Section title={SERIES_TITLES[query.kind] ?? "Series"} error={errorAt("series")}>
          <SeriesEditor
            series={query.series}
            onChange={(series, topic) => edit({ ...query, series }, topic)}
            math={MATHS[query.kind] ?? "none"}
            marks={
              query.kind === "FunnelsQuery"
                ? "numbers"
                : query.kind === "TrendsQuery"
                  ? "letters"
                  : "none"
            }
            addLabel={query.kind === "FunnelsQuery" ? "Add step" : "Add series"}
            max={SERIES_MAX[query.kind] ?? 1}
            optional={
              query.kind === "FunnelsQuery" &&
              (query.funnelsFilter?.funnelVizType ?? "steps") === "steps" &&
              query.funnelsFilter?.funnelOrderType !== "unordered"
            }
          />
        </Section>
      )}
      <Section title="Filters" error={errorAt("filters")}>
        <FilterEditor
          value={query.properties}
          onChange={(properties) => edit({ ...query, properties })}
          events={events}
        />
        <Switch
          className="mt-1.5 text-[0.8125rem]"
          label="Leave test accounts out"
          checked={query.filterTestAccounts ?? false}
          onChange={(on) => edit({ ...query, filterTestAccounts: on || undefined })}
        />
      </Section>
      {"breakdownFilter" in query ||
      query.kind === "TrendsQuery" ||
      query.kind === "FunnelsQuery" ||
      query.kind === "RetentionQuery" ? (
        <Section title="Break down by" error={errorAt("breakdown")}>
          <BreakdownEditor
            value={query.breakdownFilter}
            onChange={(breakdownFilter) => edit({ ...query, breakdownFilter })}
            events={events}
            max={query.kind === "TrendsQuery" ? 3 : 1}
          />
        </Section>
      ) : null}
      <Section title="Options" error={errorAt("options")}>
        <OptionsEditor query={query} edit={edit} />
      </Section>
    </div>
  );
}
