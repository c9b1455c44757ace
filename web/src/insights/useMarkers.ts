import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { api, call, type Schemas } from "@/api/client";
import type { TimeMarker } from "@/charts/TimeChart";
import { exact } from "@/ui/format";

const ANNOTATIONS_MAX = 100;
const MARKERS_MAX = 40;
const STALE_MS = 60_000;

export interface MarkerRange {
  date_from: string;
  date_to: string;
}

/// Where a chart stands: some annotations are of one insight or dashboard only.
export interface MarkerPlace {
  insightId?: number;
  dashboardIds?: readonly number[];
}

export function isShownOn(
  {
    scope,
    dashboard_id: dashboard,
    dashboard_item: insight,
  }: Pick<Schemas["Annotation"], "scope" | "dashboard_id" | "dashboard_item">,
  { insightId, dashboardIds = [] }: MarkerPlace,
): boolean {
  if (scope === "dashboard_item") return insightId !== undefined && insight === insightId;
  if (scope === "dashboard") return dashboardIds.some((id) => id === dashboard);
  return true;
}

/// Changes of flags and annotations within a range, for time charts. A person who may not see the
/// log of flags gets only the annotations.
export function useMarkers(
  projectId: string,
  range: MarkerRange | null | undefined,
  { insightId, dashboardIds }: MarkerPlace = {},
  enabled = true,
): TimeMarker[] {
  const flags = useQuery({
    queryKey: ["flag_changes", projectId],
    enabled: enabled && Boolean(range),
    staleTime: STALE_MS,
    retry: false,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/activity_log", {
          params: { path: { project_id: projectId }, query: { scope: "FeatureFlag" } },
          signal,
        }),
      ),
  });
  const annotations = useQuery({
    queryKey: ["annotations", projectId, range?.date_from, range?.date_to],
    enabled: enabled && Boolean(range),
    staleTime: STALE_MS,
    retry: false,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/annotations", {
          params: {
            path: { project_id: projectId },
            query: { limit: ANNOTATIONS_MAX, after: range?.date_from, before: range?.date_to },
          },
          signal,
        }),
      ),
  });
  return useMemo(() => {
    if (!range) return [];
    const [from, to] = [Date.parse(range.date_from), Date.parse(range.date_to)];
    const markers: TimeMarker[] = [];
    for (const { activity, created_at, detail } of flags.data?.results ?? []) {
      markers.push({
        at: Date.parse(created_at),
        kind: "flag",
        label: `Flag ${detail.name ?? ""} ${activity}`,
      });
    }
    for (const annotation of annotations.data?.results ?? []) {
      const { date_marker, content, deleted } = annotation;
      if (!date_marker || deleted || !isShownOn(annotation, { insightId, dashboardIds })) continue;
      markers.push({ at: Date.parse(date_marker), kind: "annotation", label: content ?? "Note" });
    }
    return merged(markers.filter(({ at }) => at >= from && at <= to)).slice(0, MARKERS_MAX);
  }, [range, flags.data, annotations.data, insightId, dashboardIds]);
}

const MERGE_MS = 3_600_000;

/// Changes within an hour of one another become one marker, so that each can be pointed at.
export function merged(markers: readonly TimeMarker[]): TimeMarker[] {
  const groups: TimeMarker[][] = [];
  for (const marker of [...markers].sort((a, b) => a.at - b.at)) {
    const last = groups.at(-1);
    const first = last?.[0];
    if (last && first && first.kind === marker.kind && marker.at - first.at < MERGE_MS) {
      last.push(marker);
    } else {
      groups.push([marker]);
    }
  }
  return groups.map(([first, ...rest]) => {
    const marker = first as TimeMarker;
    return rest.length === 0
      ? marker
      : { ...marker, label: `${marker.label}, and ${exact(rest.length)} more` };
  });
}
