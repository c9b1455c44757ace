import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChartNoAxesCombined, ChevronDown, ChevronUp, Columns3, ListFilter } from "lucide-react";
import { useState } from "react";
import { api, call } from "@/api/client";
import { isHidden } from "@/api/errors";
import { propertyLabel } from "@/filters/operators";
import type { PropertyFilter } from "@/filters/types";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  buttonClass,
  CopyButton,
  Drawer,
  EmptyState,
  ErrorPanel,
  IconButton,
  SearchInput,
  SkeletonRows,
  Tabs,
} from "@/ui";
import { dateTime } from "@/ui/format";
import {
  eventPropertyColumn,
  eventText,
  personName,
  personPropertyColumn,
  valueText,
} from "./columns";
import type { Event } from "./eventList";
import { JsonView } from "./JsonView";
import { trendOf } from "./trend";

export interface EventDrawerProps {
  /// The event whose drawer is open; null closes it.
  id: string | null;
  /// The event where it is known already.
  event?: Event;
  onClose: () => void;
  /// Adds a filter; without it the drawer offers none.
  onFilter?: (filter: PropertyFilter) => void;
  onColumn?: (column: string) => void;
  columns?: readonly string[];
  /// Opens the previous or the next row.
  onStep?: { before?: () => void; after?: () => void };
}

type Tab = "properties" | "person" | "json";

/// Everything about one event.
export function EventDrawer({ id, event, onClose, ...rest }: EventDrawerProps) {
  const { projectId, project } = useProject();
  const query = useQuery({
    queryKey: ["event", projectId, id],
    enabled: id !== null && !event,
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/events/{id}", {
          params: {
            path: { project_id: projectId, id: id ?? "" },
            query: { include_person: "true" },
          },
          signal,
        }),
      ),
  });
  const shown = event ?? query.data;
  const { onStep } = rest;
  return (
    <Drawer
      open={id !== null}
      onOpenChange={(open) => !open && onClose()}
      size="lg"
      title={shown ? eventText(shown.event) : "Event"}
      footer={
        shown && (
          <div className="flex w-full flex-wrap items-center gap-2">
            {onStep && (
              <div className="mr-auto flex gap-1">
                <IconButton label="Previous row" disabled={!onStep.before} onClick={onStep.before}>
                  <ChevronUp aria-hidden />
                </IconButton>
                <IconButton label="Next row" disabled={!onStep.after} onClick={onStep.after}>
                  <ChevronDown aria-hidden />
                </IconButton>
              </div>
            )}
            <CopyButton
              withLabel
              label="Copy link"
              text={`${window.location.origin}/project/${projectId}/activity/explore?id=${shown.id}`}
            />
            <CopyButton withLabel label="Copy JSON" text={() => JSON.stringify(shown, null, 2)} />
          </div>
        )
      }
    >
      {shown ? (
        <EventDetails event={shown} timeZone={project.timezone} projectId={projectId} {...rest} />
      ) : isHidden(query.error) ? (
        <EmptyState title="This event does not exist (any more)">
          It may be deleted, or the link may be of another project.
        </EmptyState>
      ) : query.isError ? (
        <ErrorPanel
          title="Could not load this event"
          error={query.error}
          onRetry={() => query.refetch()}
        />
      ) : (
        <SkeletonRows />
      )}
    </Drawer>
  );
}

interface DetailsProps extends Pick<EventDrawerProps, "onFilter" | "onColumn" | "columns"> {
  event: Event;
  timeZone: string;
  projectId: string;
}

function EventDetails({ event, timeZone, projectId, ...actions }: DetailsProps) {
  const [tab, setTab] = useState<Tab>("properties");
  const at = new Date(event.timestamp);
  return (
    <>
      <dl className="mb-3 grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
        <dt className="text-muted">Time</dt>
        <dd>
          <time dateTime={event.timestamp}>{dateTime(at, timeZone)}</time>{" "}
          <span className="text-muted">
            {timeZone}
            {timeZone !== "UTC" && ` · ${dateTime(at, "UTC")} UTC`}
          </span>
        </dd>
        <dt className="text-muted">Person</dt>
        <dd className="flex min-w-0 flex-wrap items-center gap-x-2">
          <Link
            to="/project/$projectId/persons/$id"
            params={{ projectId, id: event.distinct_id }}
            className="font-medium wrap-anywhere hover:underline"
          >
            {personName(event)}
          </Link>
          <Link
            to="/project/$projectId/activity/explore"
            params={{ projectId }}
            search={{ distinct_id: event.distinct_id }}
            className="text-accent-text underline-offset-2 hover:underline"
          >
            All their events
          </Link>
        </dd>
        <dt className="text-muted">Event id</dt>
        <dd className="flex min-w-0 items-center gap-1">
          <code className="truncate font-mono text-xs">{event.id}</code>
          <CopyButton size="sm" label="Copy event id" text={event.id} />
        </dd>
      </dl>
      <Tabs<Tab>
        label="Parts of the event"
        value={tab}
        onChange={setTab}
        actions={
          <Link
            to="/project/$projectId/insights/new"
            params={{ projectId }}
            hash={trendOf(event.event)}
            className={buttonClass("ghost", "sm")}
          >
            <ChartNoAxesCombined aria-hidden />
            Chart it
          </Link>
        }
        items={[
          {
            value: "properties",
            label: "Properties",
            panel: <Properties values={event.properties} source="event" {...actions} />,
          },
          {
            value: "person",
            label: "Person",
            panel: <PersonPanel projectId={projectId} event={event} {...actions} />,
          },
          {
            value: "json",
            label: "JSON",
            panel: <JsonView value={event} label="The event as JSON" />,
          },
        ]}
      />
    </>
  );
}

interface PropertiesProps extends Pick<EventDrawerProps, "onFilter" | "onColumn" | "columns"> {
  values: Record<string, unknown>;
  source: "event" | "person";
}

const SEARCHED_PROPERTIES_MIN = 8;

function isScalar(value: unknown): value is string | number | boolean {
  return ["string", "number", "boolean"].includes(typeof value);
}

/// A list of properties: the app's own first, then those that the SDK adds.
function Properties({ values, source, onFilter, onColumn, columns = [] }: PropertiesProps) {
  const [search, setSearch] = useState("");
  const needle = search.trim().toLowerCase();
  const all = Object.entries(values).sort(
    ([a], [b]) => Number(a.startsWith("$")) - Number(b.startsWith("$")) || (a < b ? -1 : 1),
  );
  const rows = all.filter(
    ([name, value]) =>
      needle === "" ||
      `${name} ${propertyLabel(name)} ${valueText(value)}`.toLowerCase().includes(needle),
  );
  if (all.length === 0) {
    return (
      <EmptyState className="py-6" title="No properties">
        {source === "event"
          ? "The event was sent without any."
          : "Nothing is known about this person yet."}
      </EmptyState>
    );
  }
  return (
    <>
      {all.length >= SEARCHED_PROPERTIES_MIN && (
        <SearchInput
          label="Search properties"
          className="mb-1"
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
      )}
      <ul>
        {rows.map(([name, value]) => {
          const label = propertyLabel(name);
          const column =
            source === "event" ? eventPropertyColumn(name) : personPropertyColumn(name);
          return (
            <li
              key={name}
              className="flex min-h-9 flex-wrap items-start gap-x-2 border-b py-1 last:border-b-0 hover:bg-sunken sm:flex-nowrap"
            >
              <span
                className="w-full min-w-0 shrink-0 py-0.5 text-muted wrap-anywhere sm:w-2/5"
                title={name}
              >
                {label}
              </span>
              <span
                className={`min-w-0 flex-1 py-0.5 wrap-anywhere ${typeof value === "object" ? "font-mono text-xs leading-5" : ""}`}
              >
                {value === null ? <span className="text-faint">null</span> : valueText(value)}
              </span>
              {onFilter && isScalar(value) && (
                <IconButton
                  size="sm"
                  className="text-muted"
                  label={`Only events where ${label} is this`}
                  onClick={() =>
                    onFilter({ key: name, type: source, operator: "exact", value: [value] })
                  }
                >
                  <ListFilter aria-hidden />
                </IconButton>
              )}
              {onColumn && (
                <IconButton
                  size="sm"
                  className="text-muted"
                  label={
                    columns.includes(column) ? `${label} is a column` : `Show ${label} as a column`
                  }
                  disabled={columns.includes(column)}
                  onClick={() => onColumn(column)}
                >
                  <Columns3 aria-hidden />
                </IconButton>
              )}
            </li>
          );
        })}
      </ul>
      {rows.length === 0 && <p className="py-4 text-center text-muted">No property matches.</p>}
    </>
  );
}

interface PersonPanelProps extends Pick<EventDrawerProps, "onFilter" | "onColumn" | "columns"> {
  projectId: string;
  event: Event;
}

function PersonPanel({ projectId, event, ...actions }: PersonPanelProps) {
  const query = useQuery({
    queryKey: ["persons", projectId, { distinct_id: event.distinct_id }],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons", {
          params: {
            path: { project_id: projectId },
            query: { distinct_id: event.distinct_id, limit: 1 },
          },
          signal,
        }),
      ),
  });
  if (query.isPending) return <SkeletonRows rows={4} />;
  if (query.isError) {
    return <ErrorPanel error={query.error} onRetry={() => query.refetch()} />;
  }
  const person = query.data.results[0];
  if (!person) {
    return (
      <EmptyState className="py-6" title="No person">
        The event came from <code className="font-mono text-xs">{event.distinct_id}</code> and was
        sent without creating a person.
      </EmptyState>
    );
  }
  return (
    <>
      <div className="mb-2 flex flex-wrap items-center gap-2">
        <Link
          to="/project/$projectId/persons/$id"
          params={{ projectId, id: person.uuid }}
          className="font-medium wrap-anywhere hover:underline"
        >
          {person.name}
        </Link>
        <Badge tone={person.is_identified ? "accent" : "neutral"}>
          {person.is_identified ? "Identified" : "Anonymous"}
        </Badge>
        <Link
          to="/project/$projectId/activity/explore"
          params={{ projectId }}
          search={{ person_id: person.uuid }}
          className="ml-auto text-accent-text underline-offset-2 hover:underline"
        >
          Events of all their ids
        </Link>
      </div>
      <p className="mb-2 text-muted wrap-anywhere">
        Ids: {person.distinct_ids.slice(0, 10).join(", ")}
        {person.distinct_ids.length > 10 && ` and ${person.distinct_ids.length - 10} more`}
      </p>
      <Properties
        values={person.properties as Record<string, unknown>}
        source="person"
        {...actions}
      />
    </>
  );
}
