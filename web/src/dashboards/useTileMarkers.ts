import { useNavigate } from "@tanstack/react-router";
import { useMemo } from "react";
import type { Schemas } from "@/api/client";
import type { TimeMarker } from "@/charts/TimeChart";
import type { Answer, InsightQuery, SqlQuery } from "@/insights/queries";
import { resultModel } from "@/insights/results";
import { sqlChartOf } from "@/insights/sqlChart";
import { type MarkerRange, useMarkers } from "@/insights/useMarkers";
import { useProject } from "@/shell/useProject";

const DAY_MS = 86_400_000;

interface TileMarkers {
  insight: Pick<Schemas["Insight"], "id" | "short_id"> | null | undefined;
  dashboardId: number;
  query: InsightQuery | SqlQuery | null;
  /// The query as it is stored, with its wrapper.
  stored: unknown;
  answer: Answer | undefined;
  timeZone: string;
  enabled: boolean;
}

/// Flag changes and annotations of a tile's time chart. A flag change opens the insight with the time
/// before and after it side by side.
export function useTileMarkers(tile: TileMarkers): TimeMarker[] {
  const { insight, dashboardId, query, stored, answer, timeZone, enabled } = tile;
  const { projectId } = useProject();
  const navigate = useNavigate();
  const range = useMemo((): MarkerRange | null => {
    if (!query || !answer) return null;
    const model = resultModel(query, answer, { timeZone, chart: sqlChartOf(stored) });
    if (model.type !== "time") return null;
    const [first, last] = [model.times[0], model.times.at(-1)];
    if (first === undefined || last === undefined) return null;
    // The chart leaves out what is after its last interval.
    const days = model.interval === "month" ? 31 : model.interval === "week" ? 7 : 1;
    return {
      date_from: new Date(first).toISOString(),
      date_to: new Date(last + days * DAY_MS).toISOString(),
    };
  }, [query, answer, timeZone, stored]);
  const dashboardIds = useMemo(() => [dashboardId], [dashboardId]);
  const markers = useMarkers(projectId, range, { insightId: insight?.id, dashboardIds }, enabled);
  return markers.map((marker) =>
    marker.kind === "flag" && insight && query?.kind === "TrendsQuery"
      ? {
          ...marker,
          label: `${marker.label}: compare before and after`,
          onOpen: async () => {
            const { comparedDraft } = await import("@/insights/builder/comparedDraft");
            await navigate({
              to: "/project/$projectId/insights/$shortId",
              params: { projectId, shortId: insight.short_id },
              hash: comparedDraft(query, marker.at, timeZone),
            });
          },
        }
      : marker,
  );
}
