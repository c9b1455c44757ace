import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { Braces, EllipsisVertical, Pencil, Plus, Trash2 } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { DataFrame } from "@/data_management/DataFrame";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { Button, Confirm, EmptyState, IconButton, Menu, toast } from "@/ui";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import {
  type InsightVariable,
  placeholder,
  TYPES,
  variablesKey,
  variablesQuery,
} from "./variableApi";

const VariableDialog = lazy(() =>
  import("./VariableDialog").then((module) => ({ default: module.VariableDialog })),
);

const route = getRouteApi("/project/$projectId/data-management/variables");

export function VariablesPage() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/project/$projectId/data-management/variables" });
  const { search } = route.useSearch();
  const [text, setText] = useSearchText(search, (term) =>
    navigate({ search: { search: term }, replace: true }),
  );
  const [dialog, setDialog] = useState<InsightVariable | "new" | null>(null);
  const [deleted, setDeleted] = useState<InsightVariable | null>(null);
  const query = useQuery(variablesQuery(projectId));
  const remove = useMutation({
    mutationFn: ({ id }: InsightVariable) =>
      call(
        api.DELETE("/api/projects/{project_id}/insight_variables/{id}", {
          params: { path: { project_id: projectId, id } },
        }),
      ),
    onSuccess: async (_, { name }) => {
      setDeleted(null);
      toast.success("Deleted the variable", { description: name });
      await client.invalidateQueries({ queryKey: variablesKey(projectId) });
    },
    onError: (error) => toast.error(error, "Could not delete the variable"),
  });
  const words = (search ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = (query.data ?? []).filter(({ name, code_name: codeName }) => {
    const hay = `${name} ${codeName}`.toLowerCase();
    return words.every((word) => hay.includes(word));
  });
  const add = (
    <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setDialog("new")}>
      New variable
    </Button>
  );
  const columns: Column<InsightVariable>[] = [
    {
      id: "name",
      header: "Variable",
      sortValue: ({ name }) => name.toLowerCase(),
      cell: (variable) => (
        <button
          type="button"
          onClick={() => setDialog(variable)}
          className="my-1.5 min-h-6 max-w-72 min-w-32 text-left font-medium wrap-anywhere hover:underline"
        >
          {variable.name}
        </button>
      ),
    },
    {
      id: "code",
      header: "In SQL",
      cell: ({ code_name: codeName }) => (
        <code className="block max-w-72 truncate font-mono text-xs">{placeholder(codeName)}</code>
      ),
    },
    {
      id: "type",
      header: "Type",
      className: "whitespace-nowrap text-muted",
      cell: ({ type }) => TYPES.find(({ value }) => value === type)?.label,
    },
    {
      id: "default",
      header: "Default",
      cell: ({ default_value: value }) =>
        value === null ? (
          <span className="text-muted">None</span>
        ) : (
          <span className="block max-w-64 truncate">{String(value)}</span>
        ),
    },
    {
      id: "menu",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (variable) => (
        <Menu
          align="end"
          trigger={
            <IconButton size="sm" label={`Actions of ${variable.name}`}>
              <EllipsisVertical aria-hidden />
            </IconButton>
          }
          items={[
            { label: "Edit", icon: <Pencil />, onSelect: () => setDialog(variable) },
            {
              label: "Delete",
              icon: <Trash2 />,
              danger: true,
              onSelect: () => setDeleted(variable),
            },
          ]}
        />
      ),
    },
  ];
  return (
    <DataFrame title="Variables" actions={add}>
      <ListPanel
        label="Variables"
        nouns={["variable", "variables"]}
        query={query}
        rows={rows}
        columns={columns}
        rowKey={({ id }) => id}
        search={{ text, onChange: setText }}
        filtered={Boolean(search)}
        empty={
          <EmptyState icon={<Braces aria-hidden />} title="No variables yet" action={add}>
            A variable is a value that SQL names, such as {placeholder("country")}. Insights use its
            default until somebody sets another value.
          </EmptyState>
        }
        onOpen={setDialog}
      />
      <Confirm
        open={deleted !== null}
        onOpenChange={(open) => !open && setDeleted(null)}
        title={`Delete ${deleted?.name ?? "the variable"}?`}
        action="Delete variable"
        danger
        busy={remove.isPending}
        onConfirm={() => deleted && remove.mutate(deleted)}
      >
        Insights whose SQL names {placeholder(deleted?.code_name ?? "")} and give it no value of
        their own fail. This cannot be undone.
      </Confirm>
      <Suspense>
        {dialog && (
          <VariableDialog
            variable={dialog === "new" ? undefined : dialog}
            onClose={() => setDialog(null)}
          />
        )}
      </Suspense>
    </DataFrame>
  );
}
