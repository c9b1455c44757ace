import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChartNoAxesCombined, History, ListFilter, MousePointerClick, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, call } from "@/api/client";
import { membersQuery } from "@/api/members";
import { userName } from "@/api/users";
import { trendOf } from "@/events/trend";
import {
  actionsQuery,
  type EventDefinition,
  propertyDefinitionsQuery,
} from "@/filters/definitions";
import { eventLabel } from "@/filters/operators";
import { useProject } from "@/shell/useProject";
import {
  Button,
  buttonClass,
  Confirm,
  Drawer,
  ErrorPanel,
  Field,
  RelativeTime,
  Select,
  SkeletonRows,
} from "@/ui";
import { exact } from "@/ui/format";
import { DefinitionFields } from "./DefinitionFields";
import { useDeleteEventDefinition, useEventDefinitionChange } from "./definitionApi";

const NOBODY = "nobody";

export interface EventDefinitionDrawerProps {
  id: string;
  /// The definition if the list has it.
  listed?: EventDefinition;
  onClose: () => void;
}

export function EventDefinitionDrawer({ id, listed, onClose }: EventDefinitionDrawerProps) {
  const { projectId } = useProject();
  const query = useQuery({
    queryKey: ["event_definition", projectId, id],
    placeholderData: listed,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/event_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
  const definition = query.data;
  return (
    <Drawer
      open
      onOpenChange={(open) => !open && onClose()}
      title={definition ? eventLabel(definition.name) : "Event"}
    >
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : !definition ? (
        <SkeletonRows label="Loading the event" />
      ) : (
        <Details key={definition.id} definition={definition} onClose={onClose} />
      )}
    </Drawer>
  );
}

function Details({ definition, onClose }: { definition: EventDefinition; onClose: () => void }) {
  const { projectId } = useProject();
  const { name } = definition;
  const change = useEventDefinitionChange(projectId);
  const [deleting, setDeleting] = useState(false);
  const remove = useDeleteEventDefinition(projectId, onClose);
  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap gap-2">
        <Link
          to="/project/$projectId/activity/explore"
          params={{ projectId }}
          search={{ event: name }}
          className={buttonClass("secondary", "sm")}
        >
          <ListFilter aria-hidden />
          Events
        </Link>
        <Link
          to="/project/$projectId/insights/new"
          params={{ projectId }}
          hash={trendOf(name)}
          className={buttonClass("secondary", "sm")}
        >
          <ChartNoAxesCombined aria-hidden />
          New insight
        </Link>
        <Link
          to="/project/$projectId/data-management/actions/new"
          params={{ projectId }}
          search={{ event: name }}
          className={buttonClass("secondary", "sm")}
        >
          <MousePointerClick aria-hidden />
          New action
        </Link>
        <Link
          to="/project/$projectId/activity-log"
          params={{ projectId }}
          search={{ scope: "EventDefinition", item: definition.id }}
          className={buttonClass("secondary", "sm")}
        >
          <History aria-hidden />
          History
        </Link>
      </div>
      <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1">
        <dt className="text-muted">In 30 days</dt>
        <dd>{exact(definition.volume_30_day)}</dd>
        <dt className="text-muted">Last seen</dt>
        <dd>{definition.last_seen_at ? <RelativeTime at={definition.last_seen_at} /> : "Never"}</dd>
        <dt className="text-muted">First seen</dt>
        <dd>{definition.created_at ? <RelativeTime at={definition.created_at} /> : "Never"}</dd>
        {definition.verified && definition.verified_by && (
          <>
            <dt className="text-muted">Verified by</dt>
            <dd>{userName(definition.verified_by)}</dd>
          </>
        )}
      </dl>
      <DefinitionFields
        definition={definition}
        busy={change.isPending}
        onChange={(fields) => change.mutate({ id: definition.id, ...fields })}
      />
      <OwnerField
        definition={definition}
        onChange={(owner) => change.mutate({ id: definition.id, owner })}
      />
      <UsedProperties
        definition={definition}
        onPrimary={(primary_property) => change.mutate({ id: definition.id, primary_property })}
      />
      <UsingActions name={name} />
      <div className="border-t pt-4">
        <Button variant="danger" icon={<Trash2 aria-hidden />} onClick={() => setDeleting(true)}>
          Delete definition
        </Button>
      </div>
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title={`Delete the definition of “${eventLabel(name)}”?`}
        action="Delete definition"
        danger
        busy={remove.isPending}
        onConfirm={() => remove.mutate(definition)}
      >
        Its events stay. Its description, tags and marks are lost, and the next event of this name
        makes a new definition. To keep it out of pickers, hide it instead.
      </Confirm>
    </div>
  );
}

function OwnerField({
  definition,
  onChange,
}: {
  definition: EventDefinition;
  onChange: (owner: number | null) => void;
}) {
  const { project } = useProject();
  const members = useQuery(membersQuery(project.organization));
  const { owner } = definition;
  const users = (members.data?.results ?? []).map(({ user }) => user);
  if (owner && !users.some(({ id }) => id === owner.id)) users.unshift(owner);
  return (
    <Field label="Owner" hint="Who knows what it means.">
      <Select
        className="w-full"
        value={owner ? String(owner.id) : NOBODY}
        options={[
          { value: NOBODY, label: "Nobody" },
          ...users.map((user) => ({ value: String(user.id), label: userName(user) })),
        ]}
        onChange={(next) => onChange(next === NOBODY ? null : Number(next))}
      />
    </Field>
  );
}

/// The properties that came with the event; one of them can be shown beside its name.
function UsedProperties({
  definition,
  onPrimary,
}: {
  definition: EventDefinition;
  onPrimary: (name: string | null) => void;
}) {
  const { projectId } = useProject();
  const { name, primary_property: primary } = definition;
  const query = useQuery(
    propertyDefinitionsQuery(projectId, { type: "event", search: "", events: [name] }),
  );
  const properties = query.data?.results ?? [];
  return (
    <section className="flex flex-col gap-1.5">
      <h3 className="text-[0.8125rem] font-medium">Properties it came with</h3>
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows rows={3} label="Loading properties" />
      ) : properties.length === 0 ? (
        <p className="text-muted">None so far.</p>
      ) : (
        <>
          <ul className="flex flex-wrap gap-1.5">
            {properties.map((property) => (
              <li key={property.id}>
                <Link
                  to="/project/$projectId/data-management/properties"
                  params={{ projectId }}
                  search={{ id: property.id }}
                  className="inline-flex min-h-6 items-center rounded bg-sunken px-1.5 text-xs hover:underline"
                >
                  {property.name}
                </Link>
              </li>
            ))}
          </ul>
          <Field label="Primary property" className="mt-2">
            <Select
              className="w-full"
              value={primary ?? ""}
              options={[
                { value: "", label: "None" },
                ...(primary && !properties.some((one) => one.name === primary)
                  ? [{ value: primary, label: primary }]
                  : []),
                ...properties.map((property) => ({ value: property.name, label: property.name })),
              ]}
              onChange={(next) => onPrimary(next || null)}
            />
          </Field>
        </>
      )}
    </section>
  );
}

function UsingActions({ name }: { name: string }) {
  const { projectId } = useProject();
  const actions = useQuery(actionsQuery(projectId));
  const using = (actions.data?.results ?? []).filter(({ steps }) =>
    steps.some(({ event }) => event === name),
  );
  if (using.length === 0) return null;
  return (
    <section className="flex flex-col gap-1.5">
      <h3 className="text-[0.8125rem] font-medium">Actions that match it</h3>
      <ul className="flex flex-col gap-0.5">
        {using.map((action) => (
          <li key={action.id}>
            <Link
              to="/project/$projectId/data-management/actions/$actionId"
              params={{ projectId, actionId: String(action.id) }}
              className="inline-flex min-h-6 items-center text-accent-text underline underline-offset-2"
            >
              {action.name}
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}
