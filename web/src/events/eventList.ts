import { type InfiniteData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import type { ExploreSearch } from "./search";

export type Event = Schemas["Event"];

export const PAGE_ROWS = 200;
/// More rows than these are for the CSV.
export const ROWS_MAX = 10_000;

export type EventFilter = Omit<ExploreSearch, "columns" | "id">;

export interface EventPage {
  events: Event[];
  next: PageStart | null;
}

/// Where a page starts, from the link of the page before.
export interface PageStart {
  after?: string;
  before?: string;
  cursor?: string;
}

/// The parameters of `GET events` for a filter.
export function eventParameters(filter: EventFilter) {
  return {
    event: filter.event,
    distinct_id: filter.distinct_id,
    person_id: filter.person_id,
    action_id: filter.action_id,
    after: filter.after,
    before: filter.before,
    properties: filter.properties ? JSON.stringify(filter.properties) : undefined,
    orderBy: filter.order === "oldest" ? '["timestamp"]' : undefined,
  };
}

export function pageStart(next: string | null | undefined): PageStart | null {
  if (!next) return null;
  const search = new URL(next, "http://server").searchParams;
  const text = (name: string) => search.get(name) ?? undefined;
  return { after: text("after"), before: text("before"), cursor: text("cursor") };
}

async function fetchPage(
  projectId: string,
  filter: EventFilter,
  start: PageStart | null,
  signal?: AbortSignal,
): Promise<EventPage> {
  const answer = await call(
    api.GET("/api/projects/{project_id}/events", {
      params: {
        path: { project_id: projectId },
        query: {
          ...eventParameters(filter),
          ...start,
          limit: String(PAGE_ROWS),
          include_person: "true",
        },
      },
      signal,
    }),
  );
  // Without `select` the answer is a list of whole events.
  const listing = answer as Schemas["EventListing"];
  return { events: listing.results, next: pageStart(listing.next) };
}

/// Adds what a newer first page has to the rows that are loaded, newest first. A first page that shares
/// no row with them replaces them: what lies between is not known.
export function mergeNewer(loaded: EventPage[], newest: EventPage): EventPage[] {
  const [first, ...rest] = loaded;
  if (!first) return [newest];
  const known = new Set(loaded.flatMap((page) => page.events.map((event) => event.id)));
  const added = newest.events.filter((event) => !known.has(event.id));
  if (added.length === 0) return loaded;
  if (added.length === newest.events.length && newest.next) return [newest];
  const events = [...added, ...first.events].sort((a, b) =>
    a.timestamp < b.timestamp ? 1 : a.timestamp > b.timestamp ? -1 : 0,
  );
  return [{ events, next: first.next }, ...rest];
}

/// The events of a filter, page by page, and what arrived since.
export function useEventList(projectId: string, filter: EventFilter) {
  const client = useQueryClient();
  const queryKey = useMemo(() => ["events", projectId, filter], [projectId, filter]);
  const query = useInfiniteQuery({
    queryKey,
    initialPageParam: null as PageStart | null,
    queryFn: ({ pageParam, signal }) => fetchPage(projectId, filter, pageParam, signal),
    getNextPageParam: (page: EventPage, pages) =>
      pages.length * PAGE_ROWS >= ROWS_MAX ? null : page.next,
    // The pulse says when to ask again; asking for fifty pages again would be too much.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
  const [newest, setNewest] = useState<{ key: unknown; page: EventPage } | null>(null);
  const rows = useMemo(() => query.data?.pages.flatMap((page) => page.events) ?? [], [query.data]);

  const show = useCallback(
    (page: EventPage) => {
      client.setQueryData<InfiniteData<EventPage, PageStart | null>>(queryKey, (data) => {
        if (!data) return data;
        const pages = mergeNewer(data.pages, page);
        return pages === data.pages
          ? data
          : { pages, pageParams: data.pageParams.slice(0, pages.length) };
      });
      setNewest(null);
    },
    [client, queryKey],
  );

  /// Asks for the first page again. At the top its rows are shown at once; further down they wait, so
  /// that nothing moves under the reader.
  const refresh = useCallback(
    async (atTop: boolean) => {
      const page = await fetchPage(projectId, filter, null);
      if (atTop) show(page);
      else setNewest({ key: queryKey, page });
    },
    [projectId, filter, queryKey, show],
  );

  const waiting = useMemo(() => {
    if (!newest || newest.key !== queryKey) return null;
    const known = new Set(rows.map((event) => event.id));
    const added = newest.page.events.filter((event) => !known.has(event.id)).length;
    if (added === 0) return null;
    return { added, more: added === PAGE_ROWS, show: () => show(newest.page) };
  }, [newest, queryKey, rows, show]);

  return { query, rows, refresh, waiting };
}
