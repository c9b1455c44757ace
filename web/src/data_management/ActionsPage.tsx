import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import {
  ChartNoAxesCombined,
  EllipsisVertical,
  ListFilter,
  MousePointerClick,
  Pin,
  PinOff,
  Plus,
  Trash2,
} from "lucide-react";
import { mayEdit } from "@/api/permissions";
import { userName } from "@/api/users";
import { actionsQuery } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { buttonClass, Chip, EmptyState, IconButton, Menu, toast } from "@/ui";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { type Action, saveAction, trendOfAction, useDeleteAction } from "./actionApi";
import { DataFrame } from "./DataFrame";
import { TagList } from "./DefinitionFields";
import { describeStep } from "./steps";

const route = getRouteApi("/project/$projectId/data-management/actions");

export function ActionsPage() {
  const { projectId } = useProject();
  const client = useQueryClient();
  const navigate = useNavigate({ from: "/project/$projectId/data-management/actions" });
  const { search, tag } = route.useSearch();
  const [text, setText] = useSearchText(search, (term) =>
    navigate({ search: (before) => ({ ...before, search: term }), replace: true }),
  );
  const query = useQuery(actionsQuery(projectId));
  const remove = useDeleteAction(projectId);
  const pin = useMutation({
    mutationFn: ({ id, pinned_at }: Action) =>
      saveAction(projectId, id, { pinned_at: pinned_at ? null : new Date().toISOString() }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["actions", projectId] }),
    onError: (error) => toast.error(error),
  });
  const words = (search ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const rows = (query.data?.results ?? [])
    .filter(({ name, description, tags }) => {
      const hay = `${name} ${description}`.toLowerCase();
      return words.every((word) => hay.includes(word)) && (!tag || tags.includes(tag));
    })
    .sort((a, b) => Number(Boolean(b.pinned_at)) - Number(Boolean(a.pinned_at)));
  const link = (action: Action) => ({
    to: "/project/$projectId/data-management/actions/$actionId" as const,
    params: { projectId, actionId: String(action.id) },
  });
  const add = (
    <Link
      to="/project/$projectId/data-management/actions/new"
      params={{ projectId }}
      className={buttonClass("primary")}
    >
      <Plus aria-hidden />
      New action
    </Link>
  );
  const columns: Column<Action>[] = [
    {
      id: "name",
      header: "Action",
      sortValue: ({ name }) => name.toLowerCase(),
      cell: (action) => (
        <span className="flex min-w-40 items-center gap-2 py-1.5">
          <span className="flex min-w-0 flex-col">
            <Link
              {...link(action)}
              className="inline-flex min-h-6 max-w-96 items-center font-medium wrap-anywhere hover:underline"
            >
              {action.name || "Untitled action"}
            </Link>
            {action.description && (
              <span className="block max-w-96 truncate text-xs text-muted max-sm:hidden">
                {action.description}
              </span>
            )}
          </span>
          {action.pinned_at && (
            <Pin className="size-3.5 shrink-0 text-muted" role="img" aria-label="Pinned" />
          )}
        </span>
      ),
    },
    {
      id: "steps",
      header: "Matches",
      cell: ({ steps }) => (
        <span className="block max-w-96 truncate text-muted">
          {steps.length === 0 ? "nothing" : steps.map(describeStep).join(", or ")}
        </span>
      ),
    },
    { id: "tags", header: "Tags", cell: ({ tags }) => <TagList tags={tags} /> },
    {
      id: "author",
      header: "By",
      className: "whitespace-nowrap text-muted",
      cell: ({ created_by }) => (created_by ? userName(created_by) : "–"),
    },
    {
      id: "menu",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (action) => {
        const { allowed, reason } = mayEdit(action);
        const disabledReason = allowed ? undefined : reason;
        return (
          <Menu
            align="end"
            trigger={
              <IconButton size="sm" label={`Actions of ${action.name}`}>
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: "Events",
                icon: <ListFilter />,
                href: `/project/${projectId}/activity/explore?action_id=${action.id}`,
              },
              {
                label: "New insight",
                icon: <ChartNoAxesCombined />,
                href: `/project/${projectId}/insights/new#${trendOfAction(action)}`,
              },
              {
                label: action.pinned_at ? "Unpin" : "Pin",
                icon: action.pinned_at ? <PinOff /> : <Pin />,
                disabledReason,
                onSelect: () => pin.mutate(action),
              },
              "separator",
              {
                label: "Delete",
                icon: <Trash2 />,
                danger: true,
                disabledReason,
                onSelect: () => void remove(action),
              },
            ]}
          />
        );
      },
    },
  ];
  return (
    <DataFrame title="Actions" actions={add}>
      <ListPanel
        label="Actions"
        nouns={["action", "actions"]}
        query={query}
        rows={rows}
        columns={columns}
        rowKey={({ id }) => String(id)}
        search={{ text, onChange: setText }}
        filtered={Boolean(search || tag)}
        filters={
          tag && (
            <Chip
              removeLabel={`Remove tag ${tag}`}
              onRemove={() => void navigate({ search: { search }, replace: true })}
            >
              Tag: {tag}
            </Chip>
          )
        }
        empty={
          <EmptyState icon={<MousePointerClick aria-hidden />} title="No actions yet" action={add}>
            An action names events by conditions, such as page views of the checkout or clicks on
            “Buy now”. Charts, cohorts and flags use it like an event.
          </EmptyState>
        }
        onOpen={(action) => void navigate(link(action))}
      />
    </DataFrame>
  );
}
