import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Plus, Zap } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { loadedRows, nextOffset } from "@/api/paging";
import type { EventDefinition } from "@/filters/definitions";
import { eventLabel } from "@/filters/operators";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { Button, Checkbox, Chip, EmptyState, RelativeTime, Select } from "@/ui";
import { exact } from "@/ui/format";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { DataFrame } from "./DataFrame";
import { DefinitionName, TagList } from "./DefinitionFields";

const EventDefinitionDrawer = lazy(() =>
  import("./EventDefinitionDrawer").then((module) => ({ default: module.EventDefinitionDrawer })),
);
const NewEventDialog = lazy(() =>
  import("./NewEventDialog").then((module) => ({ default: module.NewEventDialog })),
);

const PAGE_ROWS = 100;
const route = getRouteApi("/project/$projectId/data-management/events");

const KINDS = [
  { value: "", label: "All events" },
  { value: "event_custom", label: "Your own events" },
  { value: "event_posthog", label: "Events of the SDKs" },
] as const;

export function EventDefinitionsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/data-management/events" });
  const filters = route.useSearch();
  const { search, kind, verified, hidden, tag, id } = filters;
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const [adding, setAdding] = useState(false);
  const query = useInfiniteQuery({
    queryKey: ["event_definitions", projectId, { list: { search, kind, verified, hidden, tag } }],
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      call(
        api.GET("/api/projects/{project_id}/event_definitions", {
          params: {
            path: { project_id: projectId },
            query: {
              search,
              event_type: kind,
              verified: verified ? "true" : undefined,
              exclude_hidden: hidden ? undefined : "true",
              tags: tag ? JSON.stringify([tag]) : undefined,
              ordering: "-last_seen_at",
              limit: PAGE_ROWS,
              offset: pageParam,
            },
          },
          signal,
        }),
      ),
    getNextPageParam: nextOffset,
  });
  const rows = loadedRows(query.data);
  const open = (definition: EventDefinition) => void set({ id: definition.id });
  const columns: Column<EventDefinition>[] = [
    {
      id: "name",
      header: "Event",
      cell: (definition) => (
        <DefinitionName
          name={eventLabel(definition.name)}
          definition={definition}
          onOpen={() => open(definition)}
        />
      ),
    },
    {
      id: "volume",
      header: "In 30 days",
      align: "right",
      sortValue: ({ volume_30_day }) => volume_30_day,
      cell: ({ volume_30_day }) => exact(volume_30_day),
    },
    {
      id: "seen",
      header: "Last seen",
      className: "text-muted",
      sortValue: ({ last_seen_at }) => last_seen_at,
      cell: ({ last_seen_at }) => (last_seen_at ? <RelativeTime at={last_seen_at} /> : "Never"),
    },
    { id: "tags", header: "Tags", cell: ({ tags }) => <TagList tags={tags} /> },
  ];
  return (
    <DataFrame
      title="Event definitions"
      actions={
        <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setAdding(true)}>
          New event
        </Button>
      }
    >
      <ListPanel
        label="Event definitions"
        nouns={["event", "events"]}
        query={query}
        rows={rows}
        columns={columns}
        rowKey={({ id: key }) => key}
        selectedKey={id}
        search={{ text, onChange: setText }}
        filtered={Boolean(search || kind || verified || tag)}
        filters={
          <>
            <Select
              label="Kind"
              value={kind ?? ""}
              options={KINDS}
              onChange={(next) => void set({ kind: next === "" ? undefined : next })}
            />
            <Checkbox
              label="Verified only"
              checked={verified ?? false}
              onChange={(next) => void set({ verified: next || undefined })}
            />
            <Checkbox
              label="Show hidden"
              checked={hidden ?? false}
              onChange={(next) => void set({ hidden: next || undefined })}
            />
            {tag && (
              <Chip removeLabel={`Remove tag ${tag}`} onRemove={() => void set({ tag: undefined })}>
                Tag: {tag}
              </Chip>
            )}
          </>
        }
        empty={
          <EmptyState icon={<Zap aria-hidden />} title="No event definitions yet">
            The first event of each name is listed here by itself. Describe events so that others
            know what they count.
          </EmptyState>
        }
        total={query.data?.pages[0]?.count}
        onOpen={open}
      />
      <Suspense>
        {id && (
          <EventDefinitionDrawer
            id={id}
            listed={rows.find((definition) => definition.id === id)}
            onClose={() => void set({ id: undefined })}
          />
        )}
        {adding && (
          <NewEventDialog
            onClose={() => setAdding(false)}
            onCreated={(definition) => {
              setAdding(false);
              open(definition);
            }}
          />
        )}
      </Suspense>
    </DataFrame>
  );
}
