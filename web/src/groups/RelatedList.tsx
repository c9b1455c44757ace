import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Building2 } from "lucide-react";
import { api, call, type Schemas } from "@/api/client";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { Badge, EmptyState, ErrorPanel, SkeletonRows } from "@/ui";
import { type Column, Table } from "@/ui/Table";
import { groupName } from "./groupName";

type Related = Schemas["Related"];

export interface RelatedListProps {
  projectId: string;
  /// A person's uuid, or a group's key with its index.
  id: string;
  index?: number;
  empty: string;
}

function isGroup(one: Related): one is Schemas["GroupActor"] {
  return one.type === "group";
}

/// Persons and groups that occur in the same events.
export function RelatedList({ projectId, id, index, empty }: RelatedListProps) {
  const types = useQuery(groupTypesQuery(projectId));
  const query = useQuery({
    queryKey: ["related", projectId, id, index ?? null],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/groups/related", {
          params: {
            path: { project_id: projectId },
            query: { id, group_type_index: index === undefined ? undefined : String(index) },
          },
          signal,
        }),
      ),
  });
  if (query.isPending) return <SkeletonRows rows={5} label="Loading related" />;
  if (query.isError) {
    return (
      <ErrorPanel
        title="Could not load what is related"
        error={query.error}
        onRetry={() => query.refetch()}
      />
    );
  }
  const rows = query.data as Related[];
  if (rows.length === 0) {
    return (
      <EmptyState icon={<Building2 aria-hidden />} title="Nothing related">
        {empty}
      </EmptyState>
    );
  }
  const typeName = (one: Related) => {
    if (!isGroup(one)) return "person";
    const type = types.data?.find((type) => type.group_type_index === one.group_type_index);
    return type ? groupTypeName(type) : `group ${one.group_type_index}`;
  };
  const columns: Column<Related>[] = [
    {
      id: "name",
      header: "Name",
      cell: (one) =>
        isGroup(one) ? (
          <Link
            to="/project/$projectId/groups/$index/$key"
            params={{ projectId, index: String(one.group_type_index), key: one.group_key }}
            className="block max-w-72 truncate font-medium hover:underline"
          >
            {groupName(one.group_key, one.properties)}
          </Link>
        ) : (
          <Link
            to="/project/$projectId/persons/$id"
            params={{ projectId, id: one.uuid }}
            className="block max-w-72 truncate font-medium hover:underline"
          >
            {one.name}
          </Link>
        ),
    },
    {
      id: "type",
      header: "Kind",
      sortValue: typeName,
      cell: (one) => <Badge tone={isGroup(one) ? "info" : "neutral"}>{typeName(one)}</Badge>,
    },
    {
      id: "key",
      header: "Key or id",
      className: "text-muted",
      cell: (one) => (
        <code className="block max-w-72 truncate font-mono text-xs">
          {isGroup(one) ? one.group_key : one.distinct_ids[0]}
        </code>
      ),
    },
  ];
  return (
    <>
      <Table
        label="Related persons and groups"
        rows={rows}
        columns={columns}
        rowKey={(one) => `${one.type} ${isGroup(one) ? one.group_type_index : ""} ${one.id}`}
      />
      <p className="border-t px-4 py-2 text-xs text-muted">
        From the newest events of the last 90 days, at most 100 of each kind.
      </p>
    </>
  );
}
