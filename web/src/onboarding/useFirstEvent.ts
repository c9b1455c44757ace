import { useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { followTail } from "@/events/tail";

type Event = Schemas["Event"];

/// The live stream may be in another tab or refused: the list is asked as well.
const POLL_MS = 4_000;

async function newestEvent(projectId: string, signal?: AbortSignal): Promise<Event | null> {
  const answer = await call(
    api.GET("/api/projects/{project_id}/events", {
      params: { path: { project_id: projectId }, query: { limit: "1" } },
      signal,
    }),
  );
  return (answer as Schemas["EventListing"]).results[0] ?? null;
}

export interface FirstEvent {
  /// The newest event when the page was opened; undefined while that is not known.
  before: Event | null | undefined;
  /// The first event since.
  arrived: Event | null;
}

/// Waits for the first event since the page was opened.
export function useFirstEvent(projectId: string): FirstEvent {
  const [arrived, setArrived] = useState<Event | null>(null);
  const [before, setBefore] = useState<Event | null | undefined>(undefined);
  useEffect(() => {
    setArrived(null);
    setBefore(undefined);
    return followTail({ projectId }, (message) => {
      if (message.kind === "event") setArrived((first) => first ?? message.event);
    });
  }, [projectId]);
  const newest = useQuery({
    queryKey: ["newest_event", projectId],
    queryFn: ({ signal }) => newestEvent(projectId, signal),
    enabled: arrived === null,
    refetchInterval: POLL_MS,
    staleTime: 0,
    gcTime: 0,
    placeholderData: undefined,
  });
  useEffect(() => {
    const event = newest.data;
    if (event === undefined) return;
    if (before === undefined) setBefore(event);
    else if (event && event.id !== before?.id) setArrived((first) => first ?? event);
  }, [newest.data, before]);
  return { before, arrived };
}
