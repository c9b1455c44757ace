import { useInfiniteQuery, useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Users } from "lucide-react";
import { type FormEvent, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { fieldError } from "@/api/errors";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Dialog,
  Drawer,
  EmptyState,
  ErrorPanel,
  Field,
  Input,
  SearchInput,
  Skeleton,
  SkeletonRows,
  Tabs,
  toast,
} from "@/ui";
import { count, dateTime, elapsed, exact } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { CodeBlock } from "./CodeBlock";
import { curlOf } from "./curl";
import type { Point } from "./points";
import { type Answer, ask, type InsightQuery } from "./queries";
import { SqlBlock } from "./SqlBlock";
import { PLAIN, valueFormat } from "./valueFormat";

type ActorsSource = Schemas["DrillDownSource"];

const PAGE = 100;

interface Actor {
  id: string;
  name: string;
  detail: string;
  events: number;
  properties: Record<string, unknown>;
}

export interface ExplainDrawerProps {
  point: Point | null;
  query: InsightQuery;
  answer: Answer;
  onClose: () => void;
}

/// Explains a number: its persons, exactly its events, its SQL, what it cost, and how to ask for it.
export function ExplainDrawer({ point, query, answer, onClose }: ExplainDrawerProps) {
  return (
    <Drawer
      open={point !== null}
      onOpenChange={(open) => !open && onClose()}
      title={point ? point.title : "Explain this number"}
      size="lg"
    >
      {point && (
        <Explanation
          key={JSON.stringify(point.actors)}
          point={point}
          query={query}
          answer={answer}
        />
      )}
    </Drawer>
  );
}

type Tab = "persons" | "events" | "sql" | "api";

function Explanation({
  point,
  query,
  answer,
}: {
  point: Point;
  query: InsightQuery;
  answer: Answer;
}) {
  const { projectId, project } = useProject();
  const [tab, setTab] = useState<Tab>("persons");
  const [saving, setSaving] = useState(false);
  const actors = point.actors;
  const isGroup = (query.aggregation_group_type_index ?? null) !== null;
  const noun = isGroup ? "Groups" : "Persons";
  const unit = query.kind === "TrendsQuery" ? valueFormat(query.trendsFilter) : PLAIN;
  return (
    <div className="flex min-h-full flex-col gap-3">
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        {point.value !== null && (
          <p className="text-3xl font-semibold tracking-tight tabular-nums">
            {unit.exact(point.value)}
          </p>
        )}
        <p className="pb-1 text-muted">{point.place}</p>
        {actors && !isGroup && (
          <Button className="ml-auto" icon={<Users aria-hidden />} onClick={() => setSaving(true)}>
            Save as cohort
          </Button>
        )}
      </div>
      <Cost answer={answer} timeZone={project.timezone} />
      {actors ? (
        <Tabs<Tab>
          label="Explanation"
          value={tab}
          onChange={setTab}
          items={[
            {
              value: "persons",
              label: noun,
              panel: <Actors source={actors} timeZone={project.timezone} isGroup={isGroup} />,
            },
            {
              value: "events",
              label: "Events",
              panel: <Events source={actors} timeZone={project.timezone} />,
            },
            { value: "sql", label: "SQL", panel: <Sql source={actors} answer={answer} /> },
            {
              value: "api",
              label: "API",
              panel: (
                <CodeBlock
                  label="curl"
                  code={curlOf(window.location.origin, projectId, actorsQuery(actors, ""))}
                />
              ),
            },
          ]}
        />
      ) : (
        <EmptyState title="This number has no list of its own">{point.reason}</EmptyState>
      )}
      {saving && actors && (
        <CohortDialog
          name={`${point.title}, ${point.place}`}
          source={actors}
          onClose={() => setSaving(false)}
        />
      )}
    </div>
  );
}

function Cost({ answer, timeZone }: { answer: Answer; timeZone: string }) {
  const seconds = (answer.timings ?? []).reduce((sum, { t }) => sum + t, 0);
  const metadata = answer.query_metadata;
  const parts: [string, string][] = [["Computed in", elapsed(seconds)]];
  for (const [name, value] of [
    ["Rows scanned", metadata?.rows_scanned],
    ["Rows matched", metadata?.rows_matched],
  ] as const) {
    if (value !== undefined && value !== null) parts.push([name, exact(value)]);
  }
  if (answer.last_refresh) {
    parts.push(["At", dateTime(new Date(answer.last_refresh), timeZone)]);
  }
  return (
    <dl className="flex flex-wrap gap-x-5 gap-y-1 rounded-md bg-sunken px-3 py-2 text-xs">
      {parts.map(([name, value]) => (
        <div key={name} className="flex gap-1.5">
          <dt className="text-muted">{name}</dt>
          <dd className="font-medium tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function actorsQuery(source: ActorsSource, search: string): Schemas["ActorsQuery"] {
  return {
    kind: "ActorsQuery",
    source,
    select: ["actor", "id", "event_count"],
    orderBy: ["event_count DESC"],
    ...(search ? { search } : {}),
  };
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function actorOf(row: unknown[]): Actor {
  const actor = (row[0] ?? {}) as Record<string, unknown>;
  const properties = (actor.properties ?? {}) as Record<string, unknown>;
  const distinctIds = Array.isArray(actor.distinct_ids) ? actor.distinct_ids : [];
  const id = String(row[1] ?? "");
  const name =
    text(properties.email) ||
    text(properties.name) ||
    text(properties.username) ||
    text(distinctIds[0]) ||
    id;
  const detail = name === text(properties.email) ? text(properties.name) : text(distinctIds[0]);
  return {
    id,
    name,
    detail: detail === name ? "" : detail,
    events: Number(row[2] ?? 0),
    properties,
  };
}

interface ListProps {
  source: ActorsSource;
  timeZone: string;
}

function Actors({ source, timeZone: _zone, isGroup }: ListProps & { isGroup: boolean }) {
  const { projectId } = useProject();
  const [typed, setTyped] = useState("");
  const [opened, setOpened] = useState<string | null>(null);
  const search = useDebounced(typed.trim(), 200);
  const pages = useInfiniteQuery({
    queryKey: ["actors", projectId, source, search],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      ask(
        projectId,
        { ...actorsQuery(source, search), limit: PAGE, offset: pageParam },
        { signal },
      ),
    getNextPageParam: (last, all) => (last.hasMore ? all.length * PAGE : undefined),
  });
  const rows = (pages.data?.pages ?? []).flatMap(({ results }) => results.map(actorOf));
  const missing = pages.data?.pages[0]?.missing_actors_count;
  const counted = rows.some(({ events }) => events > 0);
  const columns: Column<Actor>[] = [
    {
      id: "name",
      header: isGroup ? "Group" : "Person",
      cell: (actor) => (
        <span className="flex min-w-0 flex-col py-1">
          <button
            type="button"
            aria-expanded={opened === actor.id}
            className="min-h-6 max-w-56 truncate text-left sm:max-w-96 font-medium hover:underline"
            onClick={() => setOpened(opened === actor.id ? null : actor.id)}
          >
            {actor.name}
          </button>
          {actor.detail && <span className="text-xs text-muted">{actor.detail}</span>}
          {opened === actor.id && (
            <>
              {!isGroup && (
                <Link
                  to="/project/$projectId/persons/$id"
                  params={{ projectId, id: actor.id }}
                  className="inline-flex min-h-6 items-center self-start text-accent-text underline-offset-2 hover:underline"
                >
                  Open profile
                </Link>
              )}
              <Properties properties={actor.properties} />
            </>
          )}
        </span>
      ),
    },
    ...(counted
      ? [
          {
            id: "events",
            header: "Events",
            align: "right" as const,
            cell: ({ events }: Actor) => exact(events),
          },
        ]
      : []),
  ];
  return (
    <div className="flex flex-col gap-2">
      <SearchInput
        label={isGroup ? "Search groups" : "Search persons"}
        value={typed}
        onChange={(event) => setTyped(event.currentTarget.value)}
      />
      {pages.isPending ? (
        <SkeletonRows label="Loading persons" />
      ) : pages.isError ? (
        <ErrorPanel error={pages.error} onRetry={() => pages.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState title={search ? "Nobody matches" : "Nobody is counted here"} />
      ) : (
        <Table
          label={isGroup ? "Groups" : "Persons"}
          rows={rows}
          columns={columns}
          rowKey={({ id }) => id}
          stale={pages.isPlaceholderData}
          onEnd={() => pages.hasNextPage && !pages.isFetching && pages.fetchNextPage()}
          className="max-h-[60dvh] rounded-md border"
        />
      )}
      {pages.hasNextPage && (
        <Button busy={pages.isFetchingNextPage} onClick={() => pages.fetchNextPage()}>
          Load more
        </Button>
      )}
      {missing ? (
        <p className="text-xs text-muted">
          {count(missing, "more has", "more have")} events but no profile.
        </p>
      ) : null}
    </div>
  );
}

function Properties({ properties }: { properties: Record<string, unknown> }) {
  const entries = Object.entries(properties).sort(([a], [b]) => (a < b ? -1 : 1));
  if (entries.length === 0) return <p className="text-xs text-muted">No properties.</p>;
  return (
    <dl className="mt-1 grid max-w-full grid-cols-[auto_1fr] gap-x-3 gap-y-0.5 rounded bg-sunken p-2 text-xs">
      {entries.map(([key, value]) => (
        <div key={key} className="contents">
          <dt className="text-muted">{key}</dt>
          <dd className="wrap-anywhere">
            {typeof value === "string" ? value : JSON.stringify(value)}
          </dd>
        </div>
      ))}
    </dl>
  );
}

interface CountedEvent {
  uuid: string;
  event: string;
  timestamp: string;
  person: string;
  properties: Record<string, unknown>;
}

function eventOf(row: unknown[]): CountedEvent {
  const event = (row[0] ?? {}) as Record<string, unknown>;
  const person = (row[1] ?? {}) as Record<string, unknown>;
  return {
    uuid: text(event.uuid),
    event: text(event.event),
    timestamp: text(event.timestamp),
    person: text(person.display_name) || text(event.distinct_id),
    properties: (event.properties ?? {}) as Record<string, unknown>,
  };
}

function Events({ source, timeZone }: ListProps) {
  const { projectId } = useProject();
  const [opened, setOpened] = useState<string | null>(null);
  const pages = useInfiniteQuery({
    queryKey: ["counted_events", projectId, source],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      ask(
        projectId,
        {
          kind: "EventsQuery",
          source,
          select: ["*", "person_display_name"],
          orderBy: ["timestamp DESC"],
          limit: PAGE,
          offset: pageParam,
        },
        { signal },
      ),
    getNextPageParam: (last, all) => (last.hasMore ? all.length * PAGE : undefined),
  });
  if (pages.isPending) return <SkeletonRows label="Loading events" />;
  if (pages.isError) {
    return (
      <ErrorPanel
        error={pages.error}
        title="Could not list the events"
        onRetry={() => pages.refetch()}
      />
    );
  }
  const rows = pages.data.pages.flatMap(({ results }) => results.map(eventOf));
  if (rows.length === 0) return <EmptyState title="No event is counted here" />;
  const columns: Column<CountedEvent>[] = [
    {
      id: "event",
      header: "Event",
      cell: (row) => (
        <span className="flex min-w-28 flex-col">
          <button
            type="button"
            aria-expanded={opened === row.uuid}
            className="min-h-6 text-left font-medium hover:underline"
            onClick={() => setOpened(opened === row.uuid ? null : row.uuid)}
          >
            {row.event}
          </button>
          {opened === row.uuid && <Properties properties={row.properties} />}
        </span>
      ),
    },
    {
      id: "person",
      header: "Person",
      className: "max-w-48 truncate",
      cell: ({ person }) => person,
    },
    {
      id: "time",
      header: "Time",
      className: "whitespace-nowrap text-muted",
      cell: ({ timestamp }) => dateTime(new Date(timestamp), timeZone),
    },
  ];
  return (
    <div className="flex flex-col gap-2">
      <Table
        label="Counted events"
        rows={rows}
        columns={columns}
        rowKey={({ uuid }) => uuid}
        onEnd={() => pages.hasNextPage && !pages.isFetching && pages.fetchNextPage()}
        className="max-h-[60dvh] rounded-md border"
      />
      {pages.hasNextPage && (
        <Button busy={pages.isFetchingNextPage} onClick={() => pages.fetchNextPage()}>
          Load more
        </Button>
      )}
    </div>
  );
}

function Sql({ source, answer }: { source: ActorsSource; answer: Answer }) {
  const { projectId } = useProject();
  const actors = useQuery({
    queryKey: ["actors_sql", projectId, source],
    queryFn: ({ signal }) => ask(projectId, { ...actorsQuery(source, ""), limit: 1 }, { signal }),
  });
  if (actors.isPending && !answer.hogql) return <Skeleton className="h-40" />;
  const own = actors.data?.hogql;
  if (!own && !answer.hogql) {
    return (
      <EmptyState title="No SQL for this number">The server gave none with its answer.</EmptyState>
    );
  }
  return (
    <div className="flex flex-col gap-3">
      {answer.hogql && (
        <section>
          <h3 className="mb-1 text-xs font-semibold text-muted">The insight</h3>
          <SqlBlock label="SQL of the insight" sql={answer.hogql} />
        </section>
      )}
      {own && (
        <section>
          <h3 className="mb-1 text-xs font-semibold text-muted">The persons of this number</h3>
          <SqlBlock label="SQL of the persons" sql={own} />
        </section>
      )}
    </div>
  );
}

interface CohortDialogProps {
  name: string;
  source: ActorsSource;
  onClose: () => void;
}

function CohortDialog({ name: suggested, source, onClose }: CohortDialogProps) {
  const { projectId } = useProject();
  const [name, setName] = useState(suggested);
  const save = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/cohorts", {
          params: { path: { project_id: projectId } },
          body: {
            name,
            is_static: true,
            query: { kind: "ActorsQuery", source, select: ["id"] },
          },
        }),
      ),
    onSuccess: () => {
      toast.success("Saved as cohort", { description: name });
      onClose();
    },
    onError: (error) => {
      if (!fieldError(error, "name")) toast.error(error, "The cohort was not saved");
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Save as cohort"
      description="The persons of this number, as they are now. Filters and flags can use them."
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="save-cohort" busy={save.isPending}>
            Save cohort
          </Button>
        </>
      }
    >
      <form id="save-cohort" onSubmit={submit}>
        <Field label="Name" error={fieldError(save.error, "name")}>
          <Input
            required
            maxLength={400}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
      </form>
    </Dialog>
  );
}
