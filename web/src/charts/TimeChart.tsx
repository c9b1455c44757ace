import { Flag, StickyNote } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { cx } from "@/ui/cx";
import { compact, exact, type Interval, intervalLabel } from "@/ui/format";
import { Tooltip } from "@/ui/Tooltip";
import { ChartFrame, type Point, usePointKeys } from "./ChartFrame";
import { mix, resolveColor, seriesColor, useThemeChanges, withAlpha } from "./palette";
import { labelSteps, splitUnfinished, stack, valueRange } from "./stacking";
import { timeSummary } from "./summary";
import type { ChartData, ChartProps } from "./types";

export interface TimeSeries {
  /// Stays the same while the series does, so that its colour and its hiding do.
  id: string;
  label: string;
  values: readonly (number | null)[];
  /// A CSS colour; by its position in the palette otherwise.
  color?: string;
  /// A series of the range before: dimmed, not stacked.
  compare?: boolean;
}

export interface TimeMarker {
  /// Milliseconds since 1970.
  at: number;
  kind: "annotation" | "flag";
  label: string;
  onOpen?: () => void;
}

export interface TimeChartProps extends ChartProps {
  /// The starts of the intervals, in milliseconds since 1970, ascending.
  times: readonly number[];
  interval: Interval;
  timeZone: string;
  series: readonly TimeSeries[];
  /// Lines, stacked areas or stacked bars.
  kind?: "line" | "area" | "bar";
  /// The first interval that is not over yet; drawn dashed.
  unfinishedFrom?: number;
  /// Formats a value shortly, on the axis; `compact` by default.
  axisFormat?: (value: number) => string;
  goals?: readonly { label: string; value: number }[];
  markers?: readonly TimeMarker[];
  hiddenIds?: ReadonlySet<string>;
  /// Gets the starts of the first and the last interval of a dragged range.
  onSelectRange?: (from: number, to: number) => void;
  /// A click or Enter on a value.
  onOpenPoint?: (series: TimeSeries, index: number) => void;
  /// Pixels; without it the chart fills its parent.
  height?: number;
  /// Without axes and tooltip, for lists.
  thumbnail?: boolean;
}

/// The table twin of a time chart: one row an interval.
export function timeTable(
  props: Pick<TimeChartProps, "times" | "interval" | "timeZone" | "series">,
): ChartData {
  const { times, interval, timeZone, series } = props;
  return {
    columns: [
      interval.slice(0, 1).toUpperCase() + interval.slice(1),
      ...series.map(({ label }) => label),
    ],
    rows: times.map((time, at) => [
      intervalLabel(new Date(time), interval, timeZone),
      ...series.map(({ values }) => values[at] ?? null),
    ]),
  };
}

interface Drawn {
  /// The position of the series in the props.
  source: number;
  dashed: boolean;
  values: (number | null)[];
}

const DAY_MS = 86_400_000;
const INTERVAL_MS: Record<Interval, number> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: DAY_MS,
  week: 7 * DAY_MS,
  month: 30 * DAY_MS,
};
const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const LABEL_PX = 84;
const CLICK_PX_MAX = 4;
const POINTS_SHOWN_MAX = 40;

/// Axis labels: hours name their day only where it changes.
function axisLabels(indexes: readonly number[], props: TimeChartProps): string[] {
  const { times, interval, timeZone } = props;
  const isClock = interval === "hour" || interval === "minute";
  const clock = new Intl.DateTimeFormat(undefined, {
    hour: "numeric",
    minute: "2-digit",
    timeZone,
  });
  let day = "";
  return indexes.map((at) => {
    const date = new Date(times[at] ?? 0);
    if (!isClock) return intervalLabel(date, interval, timeZone, "short");
    const dayLabel = intervalLabel(date, "day", timeZone, "short");
    if (dayLabel === day) return clock.format(date);
    day = dayLabel;
    return dayLabel;
  });
}

/// What uPlot draws: each line solid and, where unfinished, dashed; stacks from the top down, so that
/// the lower ones are painted over the higher.
type Layout = Pick<TimeChartProps, "series" | "kind" | "unfinishedFrom" | "hiddenIds">;

function drawnSeries(props: Layout): Drawn[] {
  const { series, kind = "line", unfinishedFrom, hiddenIds } = props;
  const shown = series
    .map((item, source) => ({ item, source }))
    .filter(({ item }) => !hiddenIds?.has(item.id));
  const stacked = shown.filter(({ item }) => kind !== "line" && !item.compare);
  const sums = stack(stacked.map(({ item }) => item.values));
  const drawn: Drawn[] = [];
  for (const { item, source } of [...shown].reverse()) {
    const at = stacked.findIndex((candidate) => candidate.source === source);
    const values: readonly (number | null)[] = at >= 0 ? (sums[at] ?? []) : item.values;
    if (kind === "bar" && !item.compare) {
      const from = unfinishedFrom ?? values.length;
      drawn.push({
        source,
        dashed: false,
        values: values.map((value, i) => (i < from ? value : null)),
      });
      if (from < values.length) {
        drawn.push({
          source,
          dashed: true,
          values: values.map((value, i) => (i >= from ? value : null)),
        });
      }
      continue;
    }
    const [solid, dashed] = splitUnfinished(values, unfinishedFrom);
    drawn.push({ source, dashed: false, values: solid });
    if (dashed.length > 0) drawn.push({ source, dashed: true, values: dashed });
  }
  return drawn;
}

function colorOf(series: TimeSeries, index: number): string {
  return resolveColor(series.color ?? seriesColor(index));
}

interface Hover {
  index: number;
  left: number;
  top: number;
  nearest: number | null;
  /// The card is on the left of the pointer.
  flip: boolean;
}

export function TimeChart(props: TimeChartProps) {
  const { label, view, format = exact, className, times, interval, timeZone, series } = props;
  const data = useMemo(
    () => timeTable({ times, interval, timeZone, series }),
    [times, interval, timeZone, series],
  );
  const labels = data.rows.map((row) => String(row[0]));
  return (
    <ChartFrame
      label={label}
      summary={timeSummary(series, labels, format)}
      data={data}
      view={view}
      format={format}
      className={className}
    >
      <Canvas {...props} />
    </ChartFrame>
  );
}

function Canvas(props: TimeChartProps) {
  const {
    label,
    times,
    interval,
    timeZone,
    series,
    kind,
    unfinishedFrom,
    hiddenIds,
    format = exact,
    thumbnail = false,
  } = props;
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const [hover, setHover] = useState<Hover | null>(null);
  const [markerLefts, setMarkerLefts] = useState<number[]>([]);
  const theme = useThemeChanges();

  const visible = useMemo(
    () => series.filter(({ id }) => !hiddenIds?.has(id)),
    [series, hiddenIds],
  );
  const drawn = useMemo(
    () => drawnSeries({ series, kind, unfinishedFrom, hiddenIds }),
    [series, kind, unfinishedFrom, hiddenIds],
  );
  const xs = useMemo(() => times.map((time) => time / 1_000), [times]);
  const shape = JSON.stringify([
    drawn.map(({ source, dashed }) => [series[source]?.id, series[source]?.color, source, dashed]),
    props.kind,
    interval,
    timeZone,
    props.goals,
    thumbnail,
    times.length > POINTS_SHOWN_MAX,
    // Their icons take room above the chart.
    (props.markers?.length ?? 0) > 0,
  ]);
  const marked = JSON.stringify(props.markers?.map(({ at }) => at) ?? []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: `shape` stands for what is read here.
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const options = plotOptions(latest, drawn, element, setHover, setMarkerLefts);
    const instance = new uPlot(options, [xs, ...drawn.map(({ values }) => values)], element);
    plot.current = instance;
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element;
      if (width > 0 && height > 0) instance.setSize({ width, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      instance.destroy();
      plot.current = null;
    };
  }, [shape, theme]);

  useEffect(() => {
    plot.current?.setData([xs, ...drawn.map(({ values }) => values)]);
  }, [xs, drawn]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawing reads the markers itself.
  useEffect(() => {
    plot.current?.redraw(false);
  }, [marked]);

  const onMove = useCallback((point: Point | null) => {
    const instance = plot.current;
    if (!instance) return;
    const x = point && instance.data[0][point.x];
    if (point === null || x === undefined || x === null) {
      instance.setCursor({ left: -10, top: -10 });
      return;
    }
    instance.setCursor({ left: instance.valToPos(x, "x"), top: 12 });
  }, []);
  const { chartProps, announcement, point } = usePointKeys({
    label,
    columns: times.length,
    rows: visible.length,
    read: ({ x, y }) => {
      const value = visible[y]?.values[x];
      const at = intervalLabel(new Date(times[x] ?? 0), interval, timeZone);
      return `${visible[y]?.label}, ${at}: ${value === null || value === undefined ? "no value" : format(value)}`;
    },
    onMove,
    onOpen: ({ x, y }) => {
      const item = visible[y];
      if (item) props.onOpenPoint?.(item, x);
    },
  });
  const markers = props.markers ?? [];
  return (
    <div
      className={cx("relative min-h-0 w-full flex-1", thumbnail && "pointer-events-none")}
      style={props.height ? { height: props.height, flex: "none" } : undefined}
    >
      <div
        ref={host}
        {...(thumbnail ? { "aria-hidden": true } : chartProps)}
        className={cx(
          "absolute inset-0 overflow-hidden rounded -outline-offset-2",
          props.onOpenPoint && "[&_.u-over]:cursor-pointer",
        )}
      />
      {!thumbnail && announcement}
      {!thumbnail &&
        markers.map((marker, at) => {
          const left = markerLefts[at];
          if (left === undefined || left < 0) return null;
          const Icon = marker.kind === "flag" ? Flag : StickyNote;
          return (
            <Tooltip key={`${marker.kind} ${marker.at} ${marker.label}`} label={marker.label}>
              <button
                type="button"
                aria-label={marker.label}
                onClick={marker.onOpen}
                style={{ left: left - 12 }}
                className="absolute top-0 grid size-6 place-items-center rounded text-muted hover:bg-hover hover:text-text"
              >
                <Icon className="size-3.5" aria-hidden />
              </button>
            </Tooltip>
          );
        })}
      {!thumbnail && hover && (
        <HoverCard
          {...props}
          series={visible}
          all={series}
          hover={hover}
          active={point?.y ?? hover.nearest}
        />
      )}
    </div>
  );
}

interface HoverCardProps extends TimeChartProps {
  all: readonly TimeSeries[];
  hover: Hover;
  active: number | null;
}

const HOVER_ROWS_MAX = 12;

function HoverCard({
  series,
  all,
  hover,
  active,
  times,
  interval,
  timeZone,
  format = exact,
  unfinishedFrom,
}: HoverCardProps) {
  const rows = series
    .map((item, at) => ({ item, at, value: item.values[hover.index] ?? null }))
    .sort((a, b) => (b.value ?? Number.NEGATIVE_INFINITY) - (a.value ?? Number.NEGATIVE_INFINITY));
  const shown = rows.slice(0, HOVER_ROWS_MAX);
  const unfinished = unfinishedFrom !== undefined && hover.index >= unfinishedFrom;
  return (
    <div
      aria-hidden="true"
      style={{ left: hover.left, top: Math.max(8, hover.top) }}
      className={cx(
        "pointer-events-none absolute z-10 max-w-72 min-w-36 rounded-md border bg-surface px-2.5 py-2 text-xs shadow-popup",
        hover.flip ? "-translate-x-[calc(100%+12px)]" : "translate-x-3",
      )}
    >
      <p className="mb-1 font-medium whitespace-nowrap">
        {intervalLabel(new Date(times[hover.index] ?? 0), interval, timeZone)}
        {unfinished && <span className="font-normal text-muted"> · not over yet</span>}
      </p>
      {shown.map(({ item, at, value }) => (
        <p
          key={item.id}
          className={cx(
            "flex items-center gap-2 py-px",
            at === active ? "font-semibold" : "text-muted",
          )}
        >
          <span
            className={cx("size-2 shrink-0 rounded-full", item.compare && "opacity-50")}
            style={{ background: item.color ?? seriesColor(all.indexOf(item)) }}
          />
          <span className="min-w-0 flex-1 truncate">{item.label}</span>
          <span className="tabular-nums text-text">{value === null ? "–" : format(value)}</span>
        </p>
      ))}
      {rows.length > shown.length && (
        <p className="text-muted">and {rows.length - shown.length} more</p>
      )}
    </div>
  );
}

/// A stacked area is filled down to the one below it.
function bands(drawn: readonly Drawn[], series: readonly TimeSeries[]): uPlot.Band[] {
  const found: uPlot.Band[] = [];
  drawn.forEach((upper, at) => {
    if (series[upper.source]?.compare) return;
    const below = drawn.findIndex(
      (lower, index) =>
        index > at && lower.dashed === upper.dashed && !series[lower.source]?.compare,
    );
    if (below > 0) found.push({ series: [at + 1, below + 1] });
  });
  return found;
}

/// Distances of the value axis' lines, from 1e-12 to 5e18.
const STEPS = Array.from({ length: 31 }, (_, at) => at - 12).flatMap((power) =>
  [1, 2, 2.5, 5].map((step) => Number(`${step}e${power}`)),
);
const WHOLE_STEPS = STEPS.filter((step) => step % 1 === 0);

/// Counts have no fractions, so neither has their axis.
function hasWholeValues({ series }: TimeChartProps): boolean {
  return series.every(({ values }) =>
    values.every((value) => value === null || Number.isInteger(value)),
  );
}

function plotOptions(
  latest: { current: TimeChartProps },
  drawn: readonly Drawn[],
  element: HTMLElement,
  setHover: (hover: Hover | null) => void,
  setMarkerLefts: (lefts: number[]) => void,
): uPlot.Options {
  const props = latest.current;
  const { series, kind = "line", interval, thumbnail = false } = props;
  const token = (name: string) => resolveColor(`var(--${name})`);
  const [line, muted, surface, accent] = [
    token("line"),
    token("muted"),
    token("surface"),
    token("accent"),
  ];
  const many = props.times.length > POINTS_SHOWN_MAX;
  const bars = uPlot.paths.bars?.({ size: [0.72, 48], radius: 0.08 });

  const pad = () => {
    const { times } = latest.current;
    const step =
      times.length > 1
        ? ((times[1] ?? 0) - (times[0] ?? 0)) / 1_000
        : INTERVAL_MS[interval] / 1_000;
    return kind === "bar" || times.length < 2 ? step / 2 : 0;
  };

  return {
    width: element.clientWidth || 300,
    height: element.clientHeight || 150,
    class: "hedgerow-plot",
    padding: thumbnail ? [4, 2, 4, 2] : [(props.markers?.length ?? 0) > 0 ? 26 : 10, 24, 0, 0],
    legend: { show: false },
    cursor: {
      show: !thumbnail,
      drag: { x: props.onSelectRange !== undefined, y: false, setScale: false },
      points: {
        size: 8,
        width: 2,
        stroke: (_, index) => stroke(index - 1),
        fill: () => surface,
      },
      focus: { prox: 40 },
    },
    scales: {
      x: {
        time: true,
        range: (_, min, max) => [min - pad(), max + pad()],
      },
      y: {
        range: () => {
          const goals = latest.current.goals?.map(({ value }) => value) ?? [];
          const all = drawnSeries(latest.current).flatMap((item) => item.values);
          return valueRange([...goals, ...all.filter((value) => value !== null)]);
        },
      },
    },
    axes: thumbnail
      ? [{ show: false }, { show: false }]
      : [
          {
            stroke: muted,
            font: FONT,
            gap: 6,
            size: 30,
            grid: { show: false },
            ticks: { stroke: line, size: 4, width: 1 },
            splits: (plot) =>
              labelSteps(latest.current.times.length, plot.width / LABEL_PX).map(
                (at) => (latest.current.times[at] ?? 0) / 1_000,
              ),
            values: (plot) =>
              axisLabels(
                labelSteps(latest.current.times.length, plot.width / LABEL_PX),
                latest.current,
              ),
          },
          {
            stroke: muted,
            font: FONT,
            gap: 6,
            size: (_, values) =>
              16 + Math.max(0, ...(values ?? []).map((value) => value.length)) * 6.5,
            grid: { stroke: line, width: 1 },
            ticks: { show: false },
            space: 44,
            incrs: () => (hasWholeValues(latest.current) ? WHOLE_STEPS : STEPS),
            values: (_, splits) => splits.map(latest.current.axisFormat ?? compact),
          },
        ],
    series: [
      {},
      ...drawn.map(({ source, dashed }): uPlot.Series => {
        const item = series[source];
        const color = item ? colorOf(item, source) : accent;
        const dimmed = item?.compare ? withAlpha(color, 0.45) : color;
        if (kind === "bar" && !item?.compare) {
          return {
            stroke: dashed ? color : surface,
            width: 1,
            dash: dashed ? [4, 3] : undefined,
            fill: dashed ? mix(color, surface, 0.35) : color,
            paths: bars,
            points: { show: false },
          };
        }
        return {
          stroke: dimmed,
          width: thumbnail ? 1.5 : 2,
          dash: dashed ? [5, 5] : item?.compare ? [2, 3] : undefined,
          fill:
            kind === "area" && !item?.compare ? withAlpha(color, dashed ? 0.12 : 0.28) : undefined,
          spanGaps: false,
          points: {
            show: !many && !thumbnail && !dashed && kind === "line",
            size: 5,
            fill: dimmed,
          },
        };
      }),
    ],
    bands: kind === "area" ? bands(drawn, series) : undefined,
    hooks: {
      setCursor: [
        (plot) => {
          const { idx, left = -1, top = -1 } = plot.cursor;
          if (thumbnail || idx === null || idx === undefined || left < 0) return setHover(null);
          const offset = plot.over.offsetLeft;
          const x = plot.data[0][idx] ?? 0;
          setHover({
            index: idx,
            left: offset + plot.valToPos(x, "x"),
            top: plot.over.offsetTop + Math.min(top, plot.over.clientHeight - 60),
            nearest: nearest(plot, idx, top),
            flip: left > plot.over.clientWidth / 2,
          });
        },
      ],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          const { onSelectRange, times } = latest.current;
          if (width > CLICK_PX_MAX && onSelectRange) {
            const from = times[plot.posToIdx(left)];
            const to = times[plot.posToIdx(left + width)];
            if (from !== undefined && to !== undefined) onSelectRange(from, to);
          }
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [
        (plot) => {
          const { ctx, bbox } = plot;
          ctx.save();
          ctx.lineWidth = devicePixelRatio;
          for (const { label, value } of latest.current.goals ?? []) {
            const y = Math.round(plot.valToPos(value, "y", true));
            ctx.strokeStyle = muted;
            ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio]);
            ctx.beginPath();
            ctx.moveTo(bbox.left, y);
            ctx.lineTo(bbox.left + bbox.width, y);
            ctx.stroke();
            ctx.font = FONT.replace("11px", `${11 * devicePixelRatio}px`);
            ctx.textAlign = "right";
            ctx.textBaseline = "bottom";
            ctx.fillStyle = muted;
            ctx.fillText(label, bbox.left + bbox.width - 4, y - 3 * devicePixelRatio);
          }
          const lefts = (latest.current.markers ?? []).map(({ at }) => {
            const { min = 0, max = 0 } = plot.scales.x ?? {};
            // The last interval has no room on a line: what happened in it stands at its point.
            const end = (latest.current.times.at(-1) ?? 0) + INTERVAL_MS[interval];
            const x = at < end ? Math.min(at / 1_000, max ?? 0) : at / 1_000;
            if (x < (min ?? 0) || x > (max ?? 0)) return -1;
            const px = Math.round(plot.valToPos(x, "x", true));
            ctx.strokeStyle = muted;
            ctx.setLineDash([2 * devicePixelRatio, 3 * devicePixelRatio]);
            ctx.beginPath();
            ctx.moveTo(px, bbox.top);
            ctx.lineTo(px, bbox.top + bbox.height);
            ctx.stroke();
            return plot.valToPos(x, "x") + bbox.left / devicePixelRatio;
          });
          ctx.restore();
          setMarkerLefts(lefts);
        },
      ],
      ready: [
        (plot) => {
          let downAt = -1;
          plot.over.addEventListener("mousedown", (event) => {
            downAt = event.clientX;
          });
          plot.over.addEventListener("click", (event) => {
            if (Math.abs(event.clientX - downAt) > CLICK_PX_MAX) return;
            const { idx, top = 0 } = plot.cursor;
            if (idx === null || idx === undefined) return;
            const at = nearest(plot, idx, top);
            const shown = latest.current.series.filter(
              ({ id }) => !latest.current.hiddenIds?.has(id),
            );
            const item = at === null ? undefined : shown[at];
            if (item) latest.current.onOpenPoint?.(item, idx);
          });
        },
      ],
    },
  };

  function stroke(index: number): string {
    const source = drawn[index]?.source ?? 0;
    const item = series[source];
    return item ? colorOf(item, source) : accent;
  }

  /// The shown series whose value is nearest to the pointer; of a stack, the one under it.
  function nearest(plot: uPlot, index: number, top: number): number | null {
    let best: number | null = null;
    let bestDistance = Number.POSITIVE_INFINITY;
    drawn.forEach(({ source, values }, at) => {
      const value = values[index];
      if (value === null || value === undefined) return;
      const y = plot.valToPos(value, "y");
      const isStack = kind !== "line" && !series[source]?.compare;
      const distance = isStack ? (y <= top ? top - y : Number.MAX_VALUE) : Math.abs(y - top);
      if (distance < bestDistance || best === null) {
        bestDistance = distance;
        best = at;
      }
    });
    if (best === null) return null;
    const source = drawn[best]?.source ?? 0;
    const shown = latest.current.series.filter(({ id }) => !latest.current.hiddenIds?.has(id));
    const item = series[source];
    const at = item ? shown.findIndex(({ id }) => id === item.id) : -1;
    return at < 0 ? null : at;
  }
}
