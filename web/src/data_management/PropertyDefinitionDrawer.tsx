import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { History, ListFilter, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { type PropertyDefinition, propertyValuesQuery } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import {
  Button,
  buttonClass,
  Confirm,
  Drawer,
  ErrorPanel,
  Field,
  Select,
  SkeletonRows,
} from "@/ui";
import { exact } from "@/ui/format";
import { DefinitionFields } from "./DefinitionFields";
import {
  TYPE_LABELS,
  useDeletePropertyDefinition,
  usePropertyDefinitionChange,
} from "./definitionApi";

const VALUES_MAX = 20;
const UNKNOWN = "";

export interface PropertyDefinitionDrawerProps {
  id: string;
  source: "event" | "person" | "group";
  groupIndex?: number;
  onClose: () => void;
}

export function PropertyDefinitionDrawer({ id, onClose, ...rest }: PropertyDefinitionDrawerProps) {
  const { projectId } = useProject();
  const query = useQuery({
    queryKey: ["property_definition_by_id", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/property_definitions/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
  return (
    <Drawer open onOpenChange={(open) => !open && onClose()} title={query.data?.name ?? "Property"}>
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : !query.data ? (
        <SkeletonRows label="Loading the property" />
      ) : (
        <Details key={id} definition={query.data} onClose={onClose} {...rest} />
      )}
    </Drawer>
  );
}

function Details({
  definition,
  source,
  groupIndex,
  onClose,
}: Omit<PropertyDefinitionDrawerProps, "id"> & { definition: PropertyDefinition }) {
  const { projectId } = useProject();
  const change = usePropertyDefinitionChange(projectId);
  const [deleting, setDeleting] = useState(false);
  const remove = useDeletePropertyDefinition(projectId, onClose);
  const { id, name } = definition;
  return (
    <div className="flex flex-col gap-5">
      <div className="flex flex-wrap gap-2">
        {source !== "group" && (
          <Link
            to="/project/$projectId/activity/explore"
            params={{ projectId }}
            search={{
              properties: [{ key: name, type: source, operator: "is_set", value: "is_set" }],
            }}
            className={buttonClass("secondary", "sm")}
          >
            <ListFilter aria-hidden />
            Events with it
          </Link>
        )}
        <Link
          to="/project/$projectId/activity-log"
          params={{ projectId }}
          search={{ scope: "PropertyDefinition", item: id }}
          className={buttonClass("secondary", "sm")}
        >
          <History aria-hidden />
          History
        </Link>
      </div>
      <Field label="Type" hint="How filters and charts read its values.">
        <Select
          className="w-full"
          value={definition.property_type ?? UNKNOWN}
          options={[
            { value: UNKNOWN, label: "Unknown" },
            ...Object.entries(TYPE_LABELS).map(([value, label]) => ({ value, label })),
          ]}
          onChange={(next) =>
            change.mutate({
              id,
              property_type: next === UNKNOWN ? null : (next as Schemas["PropertyType"]),
            })
          }
        />
      </Field>
      <DefinitionFields
        definition={definition}
        busy={change.isPending}
        onChange={(fields) => change.mutate({ id, ...fields })}
      />
      <Values name={name} source={source} groupIndex={groupIndex} />
      <div className="border-t pt-4">
        <Button variant="danger" icon={<Trash2 aria-hidden />} onClick={() => setDeleting(true)}>
          Delete definition
        </Button>
      </div>
      <Confirm
        open={deleting}
        onOpenChange={setDeleting}
        title={`Delete the definition of “${name}”?`}
        action="Delete definition"
        danger
        busy={remove.isPending}
        onConfirm={() => remove.mutate(definition)}
      >
        Stored values stay. Its description, type and tags are lost, and the next event with it
        makes a new definition. To keep it out of pickers, hide it instead.
      </Confirm>
    </div>
  );
}

function Values({
  name,
  source,
  groupIndex,
}: {
  name: string;
  source: "event" | "person" | "group";
  groupIndex?: number;
}) {
  const { projectId } = useProject();
  const query = useQuery(
    propertyValuesQuery(projectId, { type: source, key: name, search: "", groupIndex }),
  );
  const values = (query.data ?? []).slice(0, VALUES_MAX);
  return (
    <section className="flex flex-col gap-1.5">
      <h3 className="text-[0.8125rem] font-medium">Values</h3>
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows rows={3} label="Loading values" />
      ) : values.length === 0 ? (
        <p className="text-muted">None of late.</p>
      ) : (
        <ul className="flex flex-col divide-y rounded-md border">
          {values.map((value) => (
            <li key={value.name} className="flex min-h-8 items-center gap-3 px-2.5">
              <span className="min-w-0 flex-1 truncate">{value.name || "(empty)"}</span>
              {value.count !== undefined && (
                <span className="text-xs text-muted tabular-nums">{exact(value.count)}</span>
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}
