import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Filter, RefreshCw, Table2 } from "lucide-react";
import { Suspense, useEffect, useMemo, useRef, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useLiveRefetch } from "@/api/live";
import { insightSource } from "@/insights/queries";
import { useProject } from "@/shell/useProject";
import {
  cx,
  EmptyState,
  ErrorPanel,
  type MenuEntry,
  PanelBoundary,
  RelativeTime,
  Skeleton,
  Tooltip,
} from "@/ui";
import { eventsOf, storedAnswer } from "./answers";
import { tileName } from "./api";
import { type Filters, reachesNow, withFilters } from "./filters";
import type { Tile } from "./layout";
import { TileFrame } from "./TileFrame";
import { useSeen } from "./useSeen";
import { useTileMarkers } from "./useTileMarkers";
import type { Variables } from "./variables";

const loadResult = () => import("@/insights/InsightResult");
const InsightResult = lazy(async () => ({ default: (await loadResult()).InsightResult }));
// While the dashboard's tiles are on their way.
void loadResult();

export interface InsightTileProps {
  tile: Tile;
  dashboardId: number;
  /// The dashboard's filters with those of the URL on top.
  filters: Filters;
  /// The dashboard's variables with those of the URL on top.
  variables: Variables;
  /// Whether they differ from the saved ones, so that the results in the dashboard do not count.
  overridden: boolean;
  /// Changes when the reader asks for all results again.
  refreshes: number;
  /// Called with the time of the result that is shown.
  onAge: (tileId: number, at: string | null) => void;
  /// What may be done to the tile, besides what any reader may.
  menu: readonly MenuEntry[];
  draggable: boolean;
}

/// An insight on a dashboard. It loads when it is first seen and follows new events while in view.
export function InsightTile(props: InsightTileProps) {
  const { tile, dashboardId, filters, variables, overridden, refreshes, onAge } = props;
  const { menu, draggable } = props;
  const { projectId, project } = useProject();
  const host = useRef<HTMLDivElement>(null);
  const { visible, seen } = useSeen(host);
  const [view, setView] = useState<"chart" | "table">("chart");
  const mode = useRef<"blocking" | "force_blocking">("blocking");
  const insight = tile.insight;
  const stored = overridden || insight?.result === null ? undefined : (insight ?? undefined);
  const query = useQuery({
    queryKey: [
      "tile",
      projectId,
      dashboardId,
      tile.id,
      insight?.last_modified_at,
      tile.filters_overrides,
      filters,
      variables,
    ],
    enabled: seen && insight !== undefined,
    initialData: stored?.result === undefined ? undefined : stored,
    initialDataUpdatedAt: stored?.last_refresh ? Date.parse(stored.last_refresh) : undefined,
    queryFn: async ({ signal }) => {
      const refresh = mode.current;
      mode.current = "blocking";
      return call(
        api.GET("/api/projects/{project_id}/insights/{id}", {
          params: {
            path: { project_id: projectId, id: insight?.short_id ?? "" },
            query: {
              refresh,
              from_dashboard: String(dashboardId),
              filters_override: overridden ? JSON.stringify(filters) : undefined,
              variables_override: overridden ? JSON.stringify(variables) : undefined,
            },
          },
          signal,
        }),
      );
    },
  });
  const { refetch } = query;
  const force = () => {
    mode.current = "force_blocking";
    return refetch();
  };
  const refreshed = useRef(refreshes);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new request of the reader counts.
  useEffect(() => {
    if (refreshed.current === refreshes) return;
    refreshed.current = refreshes;
    mode.current = "force_blocking";
    if (seen) void refetch();
  }, [refreshes]);

  const shown = useMemo(
    () => withFilters(insight?.query, [filters, tile.filters_overrides]),
    [insight?.query, filters, tile.filters_overrides],
  );
  const source = useMemo(() => insightSource(shown), [shown]);
  const answer = useMemo(() => query.data && storedAnswer(query.data, shown), [query.data, shown]);
  const range = source && "dateRange" in source ? source.dateRange : null;
  useLiveRefetch({
    projectId,
    events: eventsOf(insight?.query),
    enabled: visible && query.data !== undefined && reachesNow(range?.date_to),
    refetch: force,
  });
  // A tile that was never seen does not count: its result is asked for when it is.
  const age = (seen && query.data?.last_refresh) || null;
  useEffect(() => onAge(tile.id, age), [onAge, tile.id, age]);

  const timeZone = query.data?.timezone ?? project.timezone;
  const markers = useTileMarkers({
    insight,
    dashboardId,
    query: source,
    stored: shown,
    answer,
    timeZone,
    enabled: visible,
  });

  const name = tileName(tile);
  const hasOverrides = Object.keys(tile.filters_overrides).length > 0;
  const items: MenuEntry[] = [
    {
      label: view === "chart" ? "Show as table" : "Show as chart",
      icon: <Table2 />,
      onSelect: () => setView(view === "chart" ? "table" : "chart"),
    },
    { label: "Refresh", icon: <RefreshCw />, onSelect: () => void force() },
    ...menu,
  ];
  return (
    <div ref={host} className="h-full">
      <TileFrame
        name={name}
        title={
          <Link
            to="/project/$projectId/insights/$shortId"
            params={{ projectId, shortId: insight?.short_id ?? "" }}
            className="-my-0.5 inline-block max-w-full truncate align-top leading-6 hover:underline"
          >
            {name}
          </Link>
        }
        description={tile.show_description === false ? null : insight?.description}
        status={
          <span className="flex items-center gap-1.5">
            {hasOverrides && (
              <Tooltip label="This tile has filters of its own.">
                <button
                  type="button"
                  aria-label="Filters of its own"
                  className="size-6 place-items-center grid -my-1 rounded"
                >
                  <Filter className="size-3.5" aria-hidden />
                </button>
              </Tooltip>
            )}
            {query.isFetching && <RefreshCw className="size-3 animate-spin" aria-hidden />}
            {age && (
              <span className="@max-2xs:hidden">
                <RelativeTime at={age} short />
              </span>
            )}
          </span>
        }
        menu={items}
        draggable={draggable}
        transparent={tile.transparent_background ?? false}
      >
        <div
          className={cx(
            "flex min-h-0 flex-1 flex-col px-4 pt-1 pb-3",
            query.isPlaceholderData && "opacity-60",
          )}
          aria-busy={query.isFetching || undefined}
        >
          {query.isError ? (
            <ErrorPanel
              error={query.error}
              title="This could not be calculated"
              className="my-auto py-2"
              onRetry={force}
            />
          ) : query.data === undefined || answer === undefined ? (
            <Skeleton className="min-h-24 w-full flex-1" />
          ) : source === null ? (
            <EmptyState title="This kind of insight cannot be drawn" className="my-auto py-2">
              It was made by another program.
            </EmptyState>
          ) : (
            <PanelBoundary resetKey={query.dataUpdatedAt} className="my-auto py-2">
              <Suspense fallback={<Skeleton className="h-full w-full" />}>
                <InsightResult
                  label={name}
                  query={source}
                  stored={shown}
                  answer={answer}
                  timeZone={timeZone}
                  view={view}
                  markers={markers}
                  className="min-h-0 flex-1"
                />
              </Suspense>
            </PanelBoundary>
          )}
        </div>
      </TileFrame>
    </div>
  );
}
