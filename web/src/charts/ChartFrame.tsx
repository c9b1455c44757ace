import { type KeyboardEvent, type ReactNode, useCallback, useState } from "react";
import { cx } from "@/ui/cx";
import { ChartTable } from "./ChartTable";
import type { ChartData, ChartView } from "./types";

export interface ChartFrameProps {
  label: string;
  /// One sentence: what the chart shows, its highest and last values.
  summary: string;
  data: ChartData;
  view?: ChartView;
  format?: (value: number) => string;
  className?: string;
  children: ReactNode;
}

/// A figure with its summary sentence and its table twin.
export function ChartFrame({
  label,
  summary,
  data,
  view = "chart",
  format,
  className,
  children,
}: ChartFrameProps) {
  return (
    <figure className={cx("flex min-h-0 min-w-0 flex-col", className)}>
      <figcaption className="sr-only">
        {label}. {summary}
      </figcaption>
      {view === "table" ? <ChartTable label={label} data={data} format={format} /> : children}
    </figure>
  );
}

export interface Point {
  /// Along the chart: an interval, a step, a bar.
  x: number;
  /// Across it: a series.
  y: number;
}

export interface PointKeysOptions {
  label: string;
  columns: number;
  rows: number;
  /// What is read out at a point.
  read: (point: Point) => string;
  onMove?: (point: Point | null) => void;
  onOpen?: (point: Point) => void;
}

/// Arrow keys go from point to point and say each; Enter opens one.
export function usePointKeys({ label, columns, rows, read, onMove, onOpen }: PointKeysOptions) {
  const [point, setPoint] = useState<Point | null>(null);
  const move = useCallback(
    (next: Point | null) => {
      setPoint(next);
      onMove?.(next);
    },
    [onMove],
  );
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || columns === 0 || rows === 0) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { x, y } = point ?? { x: event.key === "ArrowLeft" ? columns : -1, y: 0 };
    const at = (column: number, row: number): Point => ({
      x: Math.min(columns - 1, Math.max(0, column)),
      y: Math.min(rows - 1, Math.max(0, row)),
    });
    switch (event.key) {
      case "ArrowRight":
        move(at(x + 1, y));
        break;
      case "ArrowLeft":
        move(at(x - 1, y));
        break;
      case "ArrowDown":
        move(at(x, y + 1));
        break;
      case "ArrowUp":
        move(at(x, y - 1));
        break;
      case "Home":
        move(at(0, y));
        break;
      case "End":
        move(at(columns - 1, y));
        break;
      case "Escape":
        if (!point) return;
        move(null);
        break;
      case "Enter":
        if (!point || !onOpen) return;
        onOpen(point);
        break;
      default:
        return;
    }
    event.preventDefault();
  };
  const inRange = point && point.x < columns && point.y < rows ? point : null;
  return {
    point: inRange,
    chartProps: {
      role: "application",
      "aria-roledescription": "chart",
      "aria-label": `${label}. Arrow keys read out its values.`,
      tabIndex: 0,
      onKeyDown,
      onBlur: () => move(null),
    },
    announcement: (
      <span role="status" className="sr-only">
        {inRange ? read(inRange) : ""}
      </span>
    ),
  };
}
