import { cx } from "@/ui/cx";
import { compact, exact, percent } from "@/ui/format";
import { ChartFrame } from "./ChartFrame";
import type { ChartData, ChartProps } from "./types";

export interface RetentionCohort {
  id: string;
  /// When the cohort began, as in "Mon, Nov 3".
  label: string;
  /// Persons in each period since; the first is the cohort's size. Null has not come yet.
  values: readonly (number | null)[];
  /// What the grid shows in place of shares: a sum or an average in each period.
  amounts?: readonly (number | null)[];
  /// The first period that is not over yet.
  unfinishedFrom?: number;
}

export interface RetentionGridProps extends ChartProps {
  cohorts: readonly RetentionCohort[];
  /// The name of a period, as in "Day".
  period: string;
  /// The headings of the periods, where they are not numbered: as in "Day 2-4".
  headings?: readonly string[];
  onOpen?: (cohort: RetentionCohort, period: number) => void;
  /// The first cohorts and periods only, for lists.
  thumbnail?: boolean;
}

const WHOLE = new Intl.NumberFormat(undefined, { style: "percent", maximumFractionDigits: 0 });

/// Short enough for a cell; the exact share is in its label.
function wholePercent(share: number): string {
  if (share > 0 && share < 0.005) return `<${WHOLE.format(0.01)}`;
  if (share >= 0.995 && share < 1) return `>${WHOLE.format(0.99)}`;
  return WHOLE.format(share);
}

const THUMBNAIL_COHORTS = 2;
const THUMBNAIL_PERIODS = 3;

export function retentionTable({
  cohorts,
  period,
  headings,
}: Pick<RetentionGridProps, "cohorts" | "period" | "headings">): ChartData {
  const periods = Math.max(0, ...cohorts.map(({ values }) => values.length));
  return {
    columns: [
      "Cohort",
      "Size",
      ...Array.from({ length: periods }, (_, at) => headings?.[at] ?? `${period} ${at}`),
    ],
    rows: cohorts.map(({ label, values, amounts = values }) => [
      label,
      values[0] ?? null,
      ...Array.from({ length: periods }, (_, at) => amounts[at] ?? null),
    ]),
  };
}

/// Steps of the shade. Text on each passes AA in both themes, since it is the surface's own.
const SHADES = ["ret-0", "ret-1", "ret-2", "ret-3", "ret-4", "ret-5"] as const;

function shade(share: number): string {
  if (share <= 0) return SHADES[0];
  return SHADES[Math.min(5, 1 + Math.floor(share * 5))] ?? SHADES[5];
}

/// A triangle of cohorts: how many came back in each period. It is a table itself.
export function RetentionGrid({
  label,
  view,
  format = exact,
  className,
  cohorts,
  period,
  headings,
  onOpen,
  thumbnail = false,
}: RetentionGridProps) {
  const data = retentionTable({ cohorts, period, headings });
  const heading = (at: number) => headings?.[at] ?? `${period} ${at}`;
  const periods = Math.min(
    data.columns.length - 2,
    thumbnail ? THUMBNAIL_PERIODS : Number.POSITIVE_INFINITY,
  );
  const shown = thumbnail ? cohorts.slice(0, THUMBNAIL_COHORTS) : cohorts;
  const size = cohorts.reduce((sum, { values }) => sum + (values[0] ?? 0), 0);
  const mean = (at: number) => {
    let came = 0;
    let of = 0;
    for (const { values } of cohorts) {
      const value = values[at];
      if (value === null || value === undefined) continue;
      came += value;
      of += values[0] ?? 0;
    }
    return of > 0 ? came / of : null;
  };
  // Shades of amounts are shares of the largest.
  const amounts = cohorts.flatMap((cohort) => cohort.amounts ?? []);
  const largest = Math.max(0, ...amounts.map((amount) => amount ?? 0));
  const summary =
    cohorts.length === 0
      ? "No values."
      : `${cohorts.length} cohorts with ${exact(size)} persons. On average ${percent(mean(1) ?? 0)} came back in ${heading(1).toLowerCase()}.`;
  return (
    <ChartFrame
      label={label}
      summary={summary}
      data={data}
      view={view}
      format={format}
      className={className}
    >
      <section
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin min-h-0 overflow-auto -outline-offset-2"
      >
        <table className="w-full border-separate border-spacing-0.5 text-[0.8125rem]">
          <thead>
            <tr className="text-xs text-muted">
              <th scope="col" className="sticky left-0 z-10 bg-surface px-1 text-left font-medium">
                Cohort
              </th>
              <th scope="col" className="px-1 text-right font-medium">
                Size
              </th>
              {Array.from({ length: periods }, (_, at) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: a period is its position.
                <th key={at} scope="col" className="min-w-9 px-0.5 font-medium whitespace-nowrap">
                  {heading(at)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {amounts.length === 0 && (
              <tr className="text-muted">
                <th
                  scope="row"
                  className="sticky left-0 z-10 bg-surface px-1 text-left font-medium"
                >
                  Mean
                </th>
                <td className="px-1 text-right tabular-nums">{exact(size)}</td>
                {Array.from({ length: periods }, (_, at) => {
                  const share = mean(at);
                  return (
                    <td
                      // biome-ignore lint/suspicious/noArrayIndexKey: a period is its position.
                      key={at}
                      title={share === null ? undefined : percent(share)}
                      className="h-7 text-center tabular-nums"
                    >
                      {share === null ? "" : wholePercent(share)}
                    </td>
                  );
                })}
              </tr>
            )}
            {shown.map((cohort) => (
              <tr key={cohort.id}>
                <th
                  scope="row"
                  className="sticky left-0 z-10 bg-surface px-1 text-left font-normal whitespace-nowrap"
                >
                  {cohort.label}
                </th>
                <td className="px-1 text-right tabular-nums">{exact(cohort.values[0] ?? 0)}</td>
                {Array.from({ length: periods }, (_, at) => {
                  const value = cohort.values[at];
                  const first = cohort.values[0] ?? 0;
                  if (value === null || value === undefined) {
                    // biome-ignore lint/suspicious/noArrayIndexKey: a period is its position.
                    return <td key={at} />;
                  }
                  const came = first > 0 ? value / first : 0;
                  const amount = cohort.amounts?.[at];
                  const hasAmount = amount !== undefined && amount !== null;
                  const share = hasAmount ? (largest > 0 ? amount / largest : 0) : came;
                  const text = hasAmount ? compact(amount) : wholePercent(came);
                  const unfinished =
                    cohort.unfinishedFrom !== undefined && at >= cohort.unfinishedFrom;
                  const label = `${cohort.label}, ${heading(at)}: ${exact(value)} of ${exact(first)}${unfinished ? ", not over yet" : ""}`;
                  const title = `${hasAmount ? format(amount) : percent(came)}. ${label}`;
                  const cell = cx(
                    "grid h-7 w-full min-w-9 place-items-center rounded-sm tabular-nums",
                    hasAmount && "px-1",
                    shade(share),
                    unfinished && "border border-dashed border-line-strong",
                  );
                  return (
                    // biome-ignore lint/suspicious/noArrayIndexKey: a period is its position.
                    <td key={at} className="p-0">
                      {onOpen ? (
                        <button
                          type="button"
                          title={title}
                          aria-label={`${text}. ${label}`}
                          onClick={() => onOpen(cohort, at)}
                          className={cell}
                        >
                          {text}
                        </button>
                      ) : (
                        <div title={title} className={cell}>
                          {text}
                        </div>
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
    </ChartFrame>
  );
}
