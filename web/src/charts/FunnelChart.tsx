import { cx } from "@/ui/cx";
import { count, duration, exact, percent } from "@/ui/format";
import { ChartFrame } from "./ChartFrame";
import { seriesColor } from "./palette";
import type { ChartData, ChartProps } from "./types";

export interface FunnelStep {
  label: string;
  /// Persons (or groups) that reached the step.
  count: number;
  /// Seconds from the step before, averaged and in the middle.
  averageSeconds?: number | null;
  medianSeconds?: number | null;
  /// Persons may skip it.
  optional?: boolean;
}

export interface FunnelSeries {
  id: string;
  /// A value of the breakdown; empty without one.
  label: string;
  steps: readonly FunnelStep[];
  color?: string;
  /// Of the period that is compared with.
  compare?: boolean;
}

export interface FunnelChartProps extends ChartProps {
  series: readonly FunnelSeries[];
  /// What is counted, as in "person".
  noun?: string;
  /// Opens those who reached a step, or who dropped off before it.
  onOpen?: (series: FunnelSeries, step: number, outcome: "converted" | "dropped") => void;
}

/// The last step before that nobody may skip.
export function requiredBefore<Step extends { optional?: boolean }>(
  steps: readonly Step[],
  at: number,
): Step | undefined {
  return steps.slice(0, at).findLast(({ optional }) => !optional);
}

function swatch({ color, compare }: FunnelSeries, index: number) {
  return { background: color ?? seriesColor(index), opacity: compare ? 0.45 : undefined };
}

export function funnelTable({ series }: Pick<FunnelChartProps, "series">): ChartData {
  const broken = series.length > 1;
  return {
    columns: [
      "Step",
      ...(broken ? ["Breakdown"] : []),
      "Reached",
      "Of the first step",
      "Of the step before",
      "Median time",
    ],
    rows: (series[0]?.steps ?? []).flatMap((_, at) =>
      series.map(({ label, steps }) => {
        const step = steps[at];
        const first = steps[0]?.count ?? 0;
        const before = requiredBefore(steps, at)?.count ?? first;
        const reached = step?.count ?? 0;
        return [
          `${at + 1}. ${step?.label ?? ""}${step?.optional ? " (optional)" : ""}`,
          ...(broken ? [label] : []),
          reached,
          first > 0 ? percent(reached / first) : null,
          before > 0 ? percent(reached / before) : null,
          step?.medianSeconds ? duration(step.medianSeconds) : null,
        ];
      }),
    ),
  };
}

/// Steps side by side: how many of the first reached each. On narrow screens, one below another.
export function FunnelChart({
  label,
  view,
  format = exact,
  className,
  series,
  noun = "person",
  onOpen,
}: FunnelChartProps) {
  const steps = series[0]?.steps ?? [];
  const first = steps[0]?.count ?? 0;
  const last = requiredBefore(steps, steps.length)?.count ?? 0;
  const all = steps.some(({ optional }) => optional) ? "required" : steps.length;
  const people = (value: number) => count(value, noun, noun === "person" ? "persons" : undefined);
  const summary =
    steps.length === 0
      ? "No values."
      : `${people(last)} of ${exact(first)} (${percent(first > 0 ? last / first : 0)}) went through all ${all} steps.`;
  const tallest = Math.max(1, ...series.map(({ steps: [head] }) => head?.count ?? 0));
  return (
    <ChartFrame
      label={label}
      summary={summary}
      data={funnelTable({ series })}
      view={view}
      format={format}
      className={cx("@container", className)}
    >
      <ol
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        // On wide screens two rows, so that all bars stand on one line whatever is written below.
        className="scroll-thin flex min-h-0 flex-1 flex-col gap-4 overflow-auto p-2 @md:grid @md:auto-cols-[minmax(6rem,1fr)] @md:grid-flow-col @md:grid-rows-[minmax(8rem,1fr)_auto] @md:gap-x-2 @md:gap-y-0 -outline-offset-2"
      >
        {steps.map((step, at) => (
          <li
            // biome-ignore lint/suspicious/noArrayIndexKey: a step is its position.
            key={at}
            className="flex min-w-0 flex-col-reverse @md:row-span-2 @md:grid @md:grid-rows-subgrid"
          >
            <div className="flex flex-col gap-1 @md:flex-row @md:border-b @md:px-2">
              {series.map((item, index) => {
                const own = item.steps[at];
                const head = item.steps[0]?.count ?? 0;
                const share = own && head > 0 ? own.count / head : 0;
                const full = series.length > 1 ? tallest : Math.max(1, head);
                const size = Math.min(1, (own?.count ?? 0) / full);
                const look = swatch(item, index);
                const name = `${item.label ? `${item.label}: ` : ""}${people(own?.count ?? 0)}, ${percent(share)} of the first step`;
                const bar = (
                  <>
                    {/* The same bar, lying on narrow screens and standing on wide ones. */}
                    <span
                      className="block h-4 rounded-sm @md:hidden"
                      style={{ width: `${size * 100}%`, ...look }}
                    />
                    <span className="hidden @md:block" style={{ flexGrow: 1 - size }} />
                    <span
                      className="hidden rounded-t-sm @md:block"
                      style={{ flexGrow: size, ...look }}
                    />
                  </>
                );
                const track =
                  "flex min-h-6 w-full min-w-0 flex-1 items-center rounded-sm bg-sunken @md:flex-col @md:items-stretch -outline-offset-2";
                return onOpen ? (
                  <button
                    key={item.id}
                    type="button"
                    aria-label={name}
                    title={name}
                    onClick={() => onOpen(item, at, "converted")}
                    className={cx(track, "hover:bg-hover")}
                  >
                    {bar}
                  </button>
                ) : (
                  <div key={item.id} title={name} className={track}>
                    {bar}
                  </div>
                );
              })}
            </div>
            <div className="min-w-0 pb-1 @md:px-2 @md:pt-2">
              <p className="line-clamp-2 font-medium wrap-break-word" title={step.label}>
                <span className="mr-1.5 text-muted">{at + 1}</span>
                {step.label}
                {step.optional && (
                  <span className="ml-1.5 text-xs font-normal text-muted">optional</span>
                )}
              </p>
              {series.map((item, index) => (
                <StepText
                  key={item.id}
                  look={series.length > 1 ? swatch(item, index) : undefined}
                  label={item.label}
                  step={item.steps[at]}
                  before={requiredBefore(item.steps, at)}
                  first={item.steps[0]?.count ?? 0}
                  people={people}
                  onDropped={onOpen && at > 0 ? () => onOpen(item, at, "dropped") : undefined}
                />
              ))}
            </div>
          </li>
        ))}
      </ol>
      {series.length > 1 && (
        <ul className="flex flex-wrap gap-x-4 gap-y-1 px-2 pt-2 text-xs">
          {series.map((item, index) => (
            <li key={item.id} className="flex items-center gap-1.5">
              <span className="size-2.5 rounded-sm" style={swatch(item, index)} />
              {item.label}
            </li>
          ))}
        </ul>
      )}
    </ChartFrame>
  );
}

interface StepTextProps {
  /// Tells the values of a breakdown and compared periods apart.
  look?: { background: string; opacity?: number };
  label: string;
  step: FunnelStep | undefined;
  before: FunnelStep | undefined;
  first: number;
  people: (value: number) => string;
  onDropped?: () => void;
}

function StepText({ look, label, step, before, first, people, onDropped }: StepTextProps) {
  const reached = step?.count ?? 0;
  const dropped = before ? before.count - reached : 0;
  const share = before && before.count > 0 ? percent(dropped / before.count) : "";
  const left = `${exact(dropped)} ${step?.optional ? "skipped it" : "dropped off"} (${share})`;
  return (
    <div className={cx(look && "text-xs not-first-of-type:mt-1")}>
      <p className="flex flex-wrap items-center gap-x-1.5" title={label || undefined}>
        {look && <span className="size-2.5 shrink-0 rounded-sm" style={look} aria-hidden />}
        {label && <span className="sr-only">{label}:</span>}
        <span className="font-semibold tabular-nums">
          {percent(first > 0 ? reached / first : 0)}
        </span>
        <span className="text-muted">{look ? exact(reached) : people(reached)}</span>
      </p>
      {share && (
        <div className={cx("text-xs text-muted", look && "pl-4")}>
          {onDropped ? (
            <button
              type="button"
              onClick={onDropped}
              className="min-h-6 text-left underline-offset-2 hover:underline"
            >
              {left}
            </button>
          ) : (
            <p>{left}</p>
          )}
          {!look && step?.medianSeconds ? <p>median {duration(step.medianSeconds)}</p> : null}
        </div>
      )}
    </div>
  );
}
