import { type CSSProperties, type ReactNode, useEffect, useMemo } from "react";
import { GridLayout, type Layout, useContainerWidth } from "react-grid-layout";
import { insightSource } from "@/insights/queries";
import "./grid.css";
import { isWritten } from "./isWritten";
import {
  COLUMNS,
  GAP_PX,
  heightMin,
  type Place,
  ROW_PX,
  readingOrder,
  settle,
  type Tile,
  WIDTH_MIN,
} from "./layout";
import { DRAG_HANDLE } from "./TileFrame";

/// Narrower than this, tiles stand in one column.
const ONE_COLUMN_PX = 640;

export interface DashboardGridProps {
  tiles: readonly Tile[];
  places: readonly Place[];
  editing: boolean;
  onChange: (places: readonly Place[]) => void;
  /// Called with whether the grid has room for its columns.
  onWide?: (wide: boolean) => void;
  children: (tile: Tile, options: { draggable: boolean; narrow: boolean }) => ReactNode;
}

/// Tiles on the grid, or below one another where it is too narrow. In the document they stand in
/// reading order.
export function DashboardGrid({
  tiles,
  places,
  editing,
  onChange,
  onWide,
  children,
}: DashboardGridProps) {
  const { width, containerRef, mounted } = useContainerWidth();
  const ordered = useMemo(() => readingOrder(tiles, places), [tiles, places]);
  const layout = useMemo(
    (): Layout =>
      places.map(({ id, ...place }) => {
        const tile = tiles.find((candidate) => candidate.id === id);
        return { i: String(id), ...place, minW: WIDTH_MIN, minH: tile ? heightMin(tile) : 1 };
      }),
    [places, tiles],
  );
  const narrow = width < ONE_COLUMN_PX;
  useEffect(() => {
    if (mounted) onWide?.(!narrow);
  }, [mounted, narrow, onWide]);
  const drop = (changed: Layout) =>
    onChange(settle(changed.map(({ i, x, y, w, h }) => ({ id: Number(i), x, y, w, h }))));
  return (
    <div ref={containerRef} className="min-w-0">
      {!mounted ? null : narrow ? (
        <div className="flex flex-col gap-3">
          {ordered.map((tile) => (
            <div key={tile.id} style={columnStyle(tile, places)}>
              {children(tile, { draggable: false, narrow })}
            </div>
          ))}
        </div>
      ) : (
        <GridLayout
          width={width}
          layout={layout}
          gridConfig={{
            cols: COLUMNS,
            rowHeight: ROW_PX,
            margin: [GAP_PX, GAP_PX],
            containerPadding: [0, 0],
          }}
          dragConfig={{ enabled: editing, handle: `.${DRAG_HANDLE}` }}
          resizeConfig={{ enabled: editing, handles: ["se"] }}
          onDragStop={drop}
          onResizeStop={drop}
        >
          {ordered.map((tile) => (
            <div key={String(tile.id)}>{children(tile, { draggable: editing, narrow })}</div>
          ))}
        </GridLayout>
      )}
    </div>
  );
}

const DRAWN_PX_MIN = 260;
const DRAWN_PX_MAX = 420;
/// Of numbers, bars and tables, which are as high as what they say.
const WRITTEN_PX_MIN = 150;
const WRITTEN_PX_MAX = 640;

function columnStyle(tile: Tile, places: readonly Place[]): CSSProperties | undefined {
  if (!tile.insight) return undefined;
  if (isWritten(insightSource(tile.insight.query))) {
    return {
      display: "grid",
      grid: "minmax(0, 1fr) / minmax(0, 1fr)",
      minHeight: WRITTEN_PX_MIN,
      maxHeight: WRITTEN_PX_MAX,
    };
  }
  const rows = places.find(({ id }) => id === tile.id)?.h ?? 5;
  return { height: Math.min(DRAWN_PX_MAX, Math.max(DRAWN_PX_MIN, rows * ROW_PX)) };
}
