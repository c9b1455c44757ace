import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Tags } from "lucide-react";
import { Suspense } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { loadedRows, nextOffset } from "@/api/paging";
import { groupTypeName, groupTypesQuery, type PropertyDefinition } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { Badge, Checkbox, EmptyState, Select } from "@/ui";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { DataFrame } from "./DataFrame";
import { DefinitionName, TagList } from "./DefinitionFields";
import { TYPE_LABELS } from "./definitionApi";

const PropertyDefinitionDrawer = lazy(() =>
  import("./PropertyDefinitionDrawer").then((module) => ({
    default: module.PropertyDefinitionDrawer,
  })),
);

const PAGE_ROWS = 100;
const route = getRouteApi("/project/$projectId/data-management/properties");

export function PropertyDefinitionsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/data-management/properties" });
  const filters = route.useSearch();
  const { search, type = "event", group, hidden, id } = filters;
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const groupTypes = useQuery(groupTypesQuery(projectId));
  const query = useInfiniteQuery({
    queryKey: ["property_definitions", projectId, { list: { search, type, group, hidden } }],
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      call(
        api.GET("/api/projects/{project_id}/property_definitions", {
          params: {
            path: { project_id: projectId },
            query: {
              search,
              type,
              group_type_index: type === "group" ? String(group ?? 0) : undefined,
              exclude_hidden: hidden ? undefined : "true",
              limit: PAGE_ROWS,
              offset: pageParam,
            },
          },
          signal,
        }),
      ),
    getNextPageParam: nextOffset,
  });
  const open = (definition: PropertyDefinition) => void set({ id: definition.id });
  const columns: Column<PropertyDefinition>[] = [
    {
      id: "name",
      header: "Property",
      cell: (definition) => (
        <DefinitionName
          name={definition.name}
          definition={definition}
          onOpen={() => open(definition)}
        />
      ),
    },
    {
      id: "type",
      header: "Type",
      cell: ({ property_type: kind }) =>
        kind ? <Badge>{TYPE_LABELS[kind]}</Badge> : <span className="text-muted">Unknown</span>,
    },
    { id: "tags", header: "Tags", cell: ({ tags }) => <TagList tags={tags} /> },
  ];
  const sources = [
    { value: "event", label: "Of events" },
    { value: "person", label: "Of persons" },
    ...(groupTypes.data ?? []).map((one) => ({
      value: `group:${one.group_type_index}`,
      label: `Of ${groupTypeName(one, true)}`,
    })),
  ];
  return (
    <DataFrame title="Property definitions">
      <ListPanel
        label="Property definitions"
        nouns={["property", "properties"]}
        query={query}
        rows={loadedRows(query.data)}
        columns={columns}
        rowKey={({ id: key }) => key}
        selectedKey={id}
        search={{ text, onChange: setText }}
        filtered={Boolean(search)}
        filters={
          <>
            <Select
              label="Whose"
              value={type === "group" ? `group:${group ?? 0}` : type}
              options={sources}
              onChange={(next) => {
                const [kind, index] = next.split(":");
                void set({
                  type: kind === "person" || kind === "group" ? kind : undefined,
                  group: index === undefined ? undefined : Number(index),
                });
              }}
            />
            <Checkbox
              label="Show hidden"
              checked={hidden ?? false}
              onChange={(next) => void set({ hidden: next || undefined })}
            />
          </>
        }
        empty={
          <EmptyState icon={<Tags aria-hidden />} title="No properties yet">
            Properties are listed here by themselves once they come with an event, such as a plan or
            an amount.
          </EmptyState>
        }
        total={query.data?.pages[0]?.count}
        onOpen={open}
      />
      <Suspense>
        {id && (
          <PropertyDefinitionDrawer
            id={id}
            source={type}
            groupIndex={type === "group" ? (group ?? 0) : undefined}
            onClose={() => void set({ id: undefined })}
          />
        )}
      </Suspense>
    </DataFrame>
  );
}
