import {
  ArrowDown,
  ArrowUp,
  Copy,
  CopyPlus,
  FilterX,
  Forward,
  Move,
  Pencil,
  SlidersHorizontal,
  Text,
  Trash2,
} from "lucide-react";
import { Suspense, useState } from "react";
import { lazy } from "@/api/lazy";
import { useProject } from "@/shell/useProject";
import { type MenuEntry, PanelBoundary, Skeleton, toast } from "@/ui";
import { type Dashboard, tileName, useDashboardChange } from "./api";
import { DashboardGrid } from "./DashboardGrid";
import type { Filters } from "./filters";
import { InsightTile } from "./InsightTile";
import { moveTile, type Place, type Tile } from "./layout";
import {
  LinkTileDialog,
  OverridesDialog,
  PlaceDialog,
  SendTileDialog,
  TextTileDialog,
} from "./lazyDialogs";
import type { Variables } from "./variables";

const content = () => import("./ContentTiles");
const TextTile = lazy(async () => ({ default: (await content()).TextTile }));
const LinkTile = lazy(async () => ({ default: (await content()).LinkTile }));

export interface DashboardTilesProps {
  dashboard: Dashboard;
  filters: Filters;
  variables: Variables;
  overridden: boolean;
  refreshes: number;
  places: readonly Place[];
  editing?: boolean;
  /// Without the actions that change the dashboard.
  readOnly: boolean;
  onPlaces?: (places: readonly Place[]) => void;
  onAge: (tileId: number, at: string | null) => void;
  onWide?: (wide: boolean) => void;
}

type TileDialog = { kind: "edit" | "place" | "copy" | "move" | "filters"; tileId: number } | null;

/// The tiles of a dashboard with what can be done to each.
export function DashboardTiles({
  dashboard,
  filters,
  variables,
  overridden,
  refreshes,
  places,
  editing = false,
  readOnly,
  onPlaces = () => {},
  onAge,
  onWide,
}: DashboardTilesProps) {
  const { projectId } = useProject();
  const change = useDashboardChange(projectId, dashboard.id);
  const [dialog, setDialog] = useState<TileDialog>(null);

  const remove = (tile: Tile) =>
    change.mutate(
      { tiles: [{ id: tile.id, deleted: true }] },
      {
        onSuccess: () =>
          toast.success(`Removed “${tileName(tile)}”`, {
            description: tile.insight ? "The insight itself is still there." : undefined,
            undo: () => change.mutate({ tiles: [{ id: tile.id, deleted: false }] }),
          }),
      },
    );
  const menuOf = (tile: Tile, narrow: boolean): MenuEntry[] => {
    if (readOnly) return [];
    const open = (kind: NonNullable<TileDialog>["kind"]) => () =>
      setDialog({ kind, tileId: tile.id });
    const step = (move: "up" | "down") => {
      const moved = moveTile(places, tile.id, move);
      return {
        label: move === "up" ? "Move up" : "Move down",
        icon: move === "up" ? <ArrowUp /> : <ArrowDown />,
        disabledReason: narrow
          ? "On a wider screen"
          : moved === places
            ? move === "up"
              ? "At the top"
              : "At the bottom"
            : undefined,
        onSelect: () => onPlaces(moved),
      };
    };
    const hasOverrides = Object.keys(tile.filters_overrides).length > 0;
    const own: MenuEntry[] = tile.insight
      ? [
          { label: "Filters of this tile", icon: <SlidersHorizontal />, onSelect: open("filters") },
          ...(hasOverrides
            ? [
                {
                  label: "Remove its filters",
                  icon: <FilterX />,
                  onSelect: () =>
                    change.mutate({ tiles: [{ id: tile.id, filters_overrides: {} }] }),
                },
              ]
            : []),
          ...(tile.insight.description
            ? [
                {
                  label: tile.show_description === false ? "Show description" : "Hide description",
                  icon: <Text />,
                  onSelect: () =>
                    change.mutate({
                      tiles: [{ id: tile.id, show_description: tile.show_description === false }],
                    }),
                },
              ]
            : []),
        ]
      : [{ label: "Edit", icon: <Pencil />, onSelect: open("edit") }];
    return [
      ...(tile.insight ? (["separator"] as const) : []),
      ...own,
      "separator",
      step("up"),
      step("down"),
      {
        label: "Position and size",
        icon: <Move />,
        disabledReason: narrow ? "On a wider screen" : undefined,
        onSelect: open("place"),
      },
      "separator",
      {
        label: "Duplicate",
        icon: <CopyPlus />,
        onSelect: () => change.mutate({ duplicate_tiles: [{ id: tile.id }] }),
      },
      { label: "Copy to dashboard", icon: <Copy />, onSelect: open("copy") },
      { label: "Move to dashboard", icon: <Forward />, onSelect: open("move") },
      {
        label: "Remove from dashboard",
        icon: <Trash2 />,
        danger: true,
        onSelect: () => remove(tile),
      },
    ];
  };
  const tile = dialog && dashboard.tiles.find(({ id }) => id === dialog.tileId);
  const close = () => setDialog(null);
  const EditDialog = tile?.text ? TextTileDialog : LinkTileDialog;
  return (
    <>
      <DashboardGrid
        tiles={dashboard.tiles}
        places={places}
        editing={editing}
        onChange={onPlaces}
        onWide={onWide}
      >
        {(shown, { draggable, narrow }) => {
          const shared = { tile: shown, menu: menuOf(shown, narrow), draggable };
          return (
            <PanelBoundary title="This tile failed" className="h-full rounded-lg border bg-surface">
              {shown.insight ? (
                <InsightTile
                  {...shared}
                  dashboardId={dashboard.id}
                  filters={filters}
                  variables={variables}
                  overridden={overridden}
                  refreshes={refreshes}
                  onAge={onAge}
                />
              ) : (
                <Suspense fallback={<Skeleton className="h-full" />}>
                  {shown.text ? <TextTile {...shared} /> : <LinkTile {...shared} />}
                </Suspense>
              )}
            </PanelBoundary>
          );
        }}
      </DashboardGrid>
      <Suspense>
        {tile && dialog.kind === "edit" && (
          <EditDialog dashboard={dashboard} tile={tile} onClose={close} />
        )}
        {tile && dialog.kind === "place" && (
          <PlaceDialog tile={tile} places={places} onChange={onPlaces} onClose={close} />
        )}
        {tile && dialog.kind === "filters" && (
          <OverridesDialog dashboard={dashboard} tile={tile} onClose={close} />
        )}
        {tile && (dialog.kind === "copy" || dialog.kind === "move") && (
          <SendTileDialog
            dashboard={dashboard}
            tile={tile}
            move={dialog.kind === "move"}
            onClose={close}
          />
        )}
      </Suspense>
    </>
  );
}
