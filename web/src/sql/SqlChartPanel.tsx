import { type ReactNode, Suspense, useMemo } from "react";
import { lazy } from "@/api/lazy";
import { columnShapes, SQL_DISPLAYS, type SqlChart, type SqlDisplay } from "@/insights/sqlChart";
import { EmptyState, MultiCombobox, Select, Skeleton } from "@/ui";
import { EMPTY_DRAFT, storedQuery } from "./sqlDraft";
import type { Finished } from "./useRun";

const InsightResult = lazy(() =>
  import("@/insights/InsightResult").then((m) => ({ default: m.InsightResult })),
);

export interface SqlChartPanelProps {
  finished: Finished;
  chart: SqlChart;
  timeZone: string;
  onChange: (chart: SqlChart) => void;
}

const FIRST = "";

/// The rows as a chart, and which columns it draws.
export function SqlChartPanel({ finished, chart, timeZone, onChange }: SqlChartPanelProps) {
  const shapes = useMemo(() => columnShapes(finished.answer), [finished]);
  const numbers = shapes.filter(({ kind }) => kind === "number");
  const stored = useMemo(() => storedQuery(EMPTY_DRAFT, chart), [chart]);
  const choices = shapes.map(({ name }) => ({ value: name, label: name }));
  const splits = shapes.filter(({ kind }) => kind === "text");
  const isMany = ["ActionsLineGraph", "ActionsAreaGraph", "ActionsBar"].includes(chart.display);
  return (
    <div className="flex flex-col gap-3 p-4">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <Labelled text="Chart">
          <Select<SqlDisplay>
            label="Chart"
            size="sm"
            value={chart.display}
            onChange={(display) => onChange({ ...chart, display })}
            options={SQL_DISPLAYS}
          />
        </Labelled>
        {chart.display !== "ActionsTable" && (
          <>
            {chart.display !== "BoldNumber" && (
              <Labelled text="Axis">
                <Select
                  label="Axis"
                  size="sm"
                  value={chart.x ?? FIRST}
                  onChange={(x) => onChange({ ...chart, x: x === FIRST ? null : x })}
                  options={[{ value: FIRST, label: "Automatic" }, ...choices]}
                />
              </Labelled>
            )}
            <Labelled text="Values">
              <MultiCombobox
                label="Values"
                size="sm"
                className="max-w-56"
                value={chart.y.length > 0 ? chart.y : numbers.map(({ name }) => name)}
                onChange={(y) => onChange({ ...chart, y })}
                options={numbers.map(({ name }) => ({ value: name, label: name }))}
                empty="No column has numbers only."
              />
            </Labelled>
            {isMany && splits.length > 0 && (
              <Labelled text="Series by">
                <Select
                  label="Series by"
                  size="sm"
                  value={chart.series ?? FIRST}
                  onChange={(series) =>
                    onChange({ ...chart, series: series === FIRST ? null : series })
                  }
                  options={[
                    { value: FIRST, label: "Nothing" },
                    ...splits.map(({ name }) => ({ value: name, label: name })),
                  ]}
                />
              </Labelled>
            )}
          </>
        )}
      </div>
      {numbers.length === 0 && chart.display !== "ActionsTable" ? (
        <EmptyState title="Nothing to draw" className="py-8">
          A chart needs a column of numbers, such as count().
        </EmptyState>
      ) : (
        <Suspense fallback={<Skeleton className="h-80" />}>
          <InsightResult
            className="h-80"
            label="Result"
            query={finished.query}
            stored={stored}
            answer={finished.answer}
            timeZone={timeZone}
          />
        </Suspense>
      )}
    </div>
  );
}

function Labelled({ text, children }: { text: string; children: ReactNode }) {
  return (
    <span className="flex min-w-0 items-center gap-1.5 text-[0.8125rem]">
      <span className="text-muted" aria-hidden>
        {text}
      </span>
      {children}
    </span>
  );
}
