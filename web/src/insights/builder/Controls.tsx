import { RangePicker } from "@/ranges/RangePicker";
import { Select, type SelectOption } from "@/ui";
import {
  type FunnelsQuery,
  type InsightQuery,
  type Interval,
  isTotal,
  type TrendsDisplay,
} from "../queries";
import type { Edit } from "./options";
import { tooMany, withRange } from "./withRange";

export interface ControlsProps {
  query: InsightQuery;
  edit: Edit;
  timeZone: string;
  /// Only the range on phones, where a drawer has the rest.
  short?: boolean;
}

const INTERVALS: readonly SelectOption<Interval>[] = [
  { value: "minute", label: "by minute" },
  { value: "hour", label: "by hour" },
  { value: "day", label: "by day" },
  { value: "week", label: "by week" },
  { value: "month", label: "by month" },
];
const DISPLAYS: readonly SelectOption<TrendsDisplay>[] = [
  { value: "ActionsLineGraph", label: "Line" },
  { value: "ActionsLineGraphCumulative", label: "Cumulative line" },
  { value: "ActionsAreaGraph", label: "Area" },
  { value: "ActionsBar", label: "Bars over time" },
  { value: "BoldNumber", label: "Number" },
  { value: "ActionsBarValue", label: "Bars by value" },
  { value: "ActionsPie", label: "Pie" },
  { value: "ActionsTable", label: "Table of totals" },
  { value: "WorldMap", label: "Countries" },
];

const VIEWS: readonly SelectOption<
  NonNullable<NonNullable<FunnelsQuery["funnelsFilter"]>["funnelVizType"]>
>[] = [
  { value: "steps", label: "Steps" },
  { value: "time_to_convert", label: "Time to convert" },
  { value: "trends", label: "Conversion over time" },
];

const COMPARISONS: readonly SelectOption<string>[] = [
  { value: "none", label: "No comparison" },
  { value: "before", label: "vs previous period" },
  { value: "-1d", label: "vs a day earlier" },
  { value: "-1w", label: "vs a week earlier" },
  { value: "-1m", label: "vs a month earlier" },
  { value: "-1y", label: "vs a year earlier" },
];

/// Which intervals a query has, if any.
function hasInterval(query: InsightQuery): boolean {
  if (query.kind === "FunnelsQuery") return query.funnelsFilter?.funnelVizType === "trends";
  if (query.kind === "TrendsQuery" && isTotal(query.trendsFilter?.display)) return false;
  return ["TrendsQuery", "LifecycleQuery", "StickinessQuery"].includes(query.kind);
}

/// Range, interval, comparison and chart type: what one changes while looking.
export function Controls({ query, edit, timeZone, short = false }: ControlsProps) {
  const compare =
    query.kind === "TrendsQuery" ||
    query.kind === "StickinessQuery" ||
    query.kind === "FunnelsQuery";
  const comparison =
    "compareFilter" in query && query.compareFilter?.compare
      ? (query.compareFilter.compare_to ?? "before")
      : "none";
  const comparisons = COMPARISONS.some(({ value }) => value === comparison)
    ? COMPARISONS
    : [...COMPARISONS, { value: comparison, label: `vs ${comparison.replace(/^-/, "")} earlier` }];
  return (
    <div className="flex flex-wrap items-center gap-2">
      <RangePicker
        value={query.dateRange}
        emptyLabel={query.kind === "RetentionQuery" ? "Up to now" : undefined}
        onChange={(range) => edit(withRange(query, range))}
        timeZone={timeZone}
      />
      <div className={short ? "hidden sm:contents" : "contents"}>
        {hasInterval(query) && "series" in query && (
          <Select
            label="Interval"
            value={query.interval ?? "day"}
            onChange={(interval) => edit({ ...query, interval })}
            options={INTERVALS.filter(({ value }) => !tooMany(value, query.dateRange))}
          />
        )}
        {compare && (
          <Select
            label="Compare with"
            value={comparison}
            onChange={(next) =>
              edit({
                ...query,
                compareFilter:
                  next === "none"
                    ? undefined
                    : next === "before"
                      ? { compare: true }
                      : { compare: true, compare_to: next },
              })
            }
            options={comparisons}
          />
        )}
        {query.kind === "TrendsQuery" && (
          <Select
            label="Chart type"
            value={displayOf(query.trendsFilter?.display)}
            onChange={(display) =>
              edit({
                ...query,
                trendsFilter: {
                  ...query.trendsFilter,
                  display: display === "ActionsLineGraph" ? undefined : display,
                },
              })
            }
            options={DISPLAYS}
          />
        )}
        {query.kind === "FunnelsQuery" && (
          <Select
            label="Chart type"
            value={query.funnelsFilter?.funnelVizType ?? "steps"}
            onChange={(viz) =>
              edit({
                ...query,
                funnelsFilter: {
                  ...query.funnelsFilter,
                  funnelVizType: viz === "steps" ? undefined : viz,
                },
              })
            }
            options={VIEWS}
          />
        )}
      </div>
    </div>
  );
}

/// The menu's entry of a display: PostHog has three names for stacked bars.
function displayOf(display: TrendsDisplay | undefined): TrendsDisplay {
  if (display === undefined) return "ActionsLineGraph";
  return DISPLAYS.some(({ value }) => value === display) ? display : "ActionsBar";
}
