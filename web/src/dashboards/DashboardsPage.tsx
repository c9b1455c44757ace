import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Copy, EllipsisVertical, LayoutDashboard, Pin, PinOff, Plus, Trash2 } from "lucide-react";
import { Suspense, useEffect, useState } from "react";
import { api, call } from "@/api/client";
import { mayEdit } from "@/api/permissions";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  Card,
  Chip,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  Page,
  PageHeader,
  RelativeTime,
  SearchInput,
  SkeletonRows,
  toast,
} from "@/ui";
import { type Column, Table } from "@/ui/Table";
import { type DashboardBasic, dashboardName, patchDashboard, useDeleteDashboard } from "./api";
import { CopyDashboardDialog, NewDashboardDialog } from "./lazyDialogs";

const PAGE = 100;
const route = getRouteApi("/project/$projectId/dashboard");

export function DashboardsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/dashboard" });
  const client = useQueryClient();
  const { search, tag, new: isNew } = route.useSearch();
  const [text, setText] = useState(search ?? "");
  const [dialog, setDialog] = useState<"new" | DashboardBasic | null>(null);
  const term = useDebounced(text.trim(), 200);
  useEffect(() => {
    void navigate({
      search: (before) => ({ ...before, search: term || undefined }),
      replace: true,
    });
  }, [term, navigate]);
  // Said once: going back to the list does not ask again.
  useEffect(() => {
    if (!isNew) return;
    setDialog("new");
    void navigate({ search: (before) => ({ ...before, new: undefined }), replace: true });
  }, [isNew, navigate]);
  const query = useInfiniteQuery({
    queryKey: ["dashboards", projectId, { search, tag }],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/dashboards", {
          params: {
            path: { project_id: projectId },
            query: { search, tags: tag ? [tag] : undefined, limit: PAGE, offset: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: (last, pages) =>
      last.next ? pages.reduce((sum, page) => sum + page.results.length, 0) : undefined,
  });
  const deleteDashboard = useDeleteDashboard(projectId);
  const pin = useMutation({
    mutationFn: ({ id, pinned }: DashboardBasic) =>
      patchDashboard(projectId, id, { pinned: !pinned }),
    onSuccess: () => client.invalidateQueries({ queryKey: ["dashboards", projectId] }),
    onError: (error) => toast.error(error),
  });
  const createButton = (
    <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setDialog("new")}>
      New dashboard
    </Button>
  );
  const columns: Column<DashboardBasic>[] = [
    {
      id: "name",
      header: "Name",
      sortValue: (dashboard) => dashboardName(dashboard).toLowerCase(),
      cell: (dashboard) => (
        <span className="flex min-w-44 items-center gap-2 py-1.5">
          <span className="min-w-0">
            <Link
              to="/project/$projectId/dashboard/$id"
              params={{ projectId, id: String(dashboard.id) }}
              className="font-medium wrap-anywhere hover:underline"
            >
              {dashboardName(dashboard)}
            </Link>
            {dashboard.description && (
              <span className="block max-w-96 truncate text-xs text-muted max-sm:hidden">
                {dashboard.description}
              </span>
            )}
          </span>
          {dashboard.pinned && (
            <Pin className="size-3.5 shrink-0 text-muted" role="img" aria-label="Pinned" />
          )}
          {dashboard.is_shared && <Badge tone="info">Shared</Badge>}
        </span>
      ),
    },
    {
      id: "tags",
      header: "Tags",
      cell: (dashboard) => (
        <span className="flex gap-1">
          {dashboard.tags.map((name) => (
            <Link
              key={name}
              from="/project/$projectId/dashboard"
              search={(before) => ({ ...before, tag: name })}
              className="inline-flex h-6 items-center rounded hover:underline"
              aria-label={`Only dashboards with the tag ${name}`}
            >
              <Badge>{name}</Badge>
            </Link>
          ))}
        </span>
      ),
    },
    {
      id: "by",
      header: "Created by",
      secondary: true,
      className: "text-muted whitespace-nowrap",
      sortValue: (dashboard) => dashboard.created_by?.first_name,
      cell: (dashboard) => dashboard.created_by?.first_name ?? "",
    },
    {
      id: "created",
      header: "Created",
      className: "text-muted",
      sortValue: (dashboard) => dashboard.created_at,
      cell: (dashboard) => <RelativeTime at={dashboard.created_at} />,
    },
    {
      id: "viewed",
      header: "Last opened",
      className: "text-muted",
      sortValue: (dashboard) => dashboard.last_accessed_at,
      cell: (dashboard) =>
        dashboard.last_accessed_at ? <RelativeTime at={dashboard.last_accessed_at} /> : "Never",
    },
    {
      id: "actions",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      width: 52,
      cell: (dashboard) => {
        const { allowed, reason } = mayEdit(dashboard);
        const disabledReason = allowed ? undefined : reason;
        return (
          <Menu
            align="end"
            trigger={
              <IconButton size="sm" label={`Actions of ${dashboardName(dashboard)}`}>
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: dashboard.pinned ? "Unpin" : "Pin",
                icon: dashboard.pinned ? <PinOff /> : <Pin />,
                disabledReason,
                onSelect: () => pin.mutate(dashboard),
              },
              { label: "Copy", icon: <Copy />, onSelect: () => setDialog(dashboard) },
              "separator",
              {
                label: "Delete",
                icon: <Trash2 />,
                danger: true,
                disabledReason,
                onSelect: () => deleteDashboard(dashboard),
              },
            ]}
          />
        );
      },
    },
  ];
  // Pinned ones first; the server's order otherwise.
  const dashboards = (query.data?.pages.flatMap((page) => page.results) ?? []).sort(
    (a, b) => Number(b.pinned) - Number(a.pinned),
  );
  const filtered = Boolean(search || tag);
  return (
    <Page>
      <PageHeader
        title="Dashboards"
        description="Charts that belong together, on one page."
        actions={createButton}
      />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchInput
          label="Search dashboards"
          className="w-full max-w-sm"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        {tag && (
          <Chip
            removeLabel={`Remove tag ${tag}`}
            onRemove={() => navigate({ search: (before) => ({ ...before, tag: undefined }) })}
          >
            Tag: {tag}
          </Chip>
        )}
      </div>
      <Card flush>
        {query.isPending ? (
          <SkeletonRows />
        ) : query.isError ? (
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        ) : dashboards.length === 0 ? (
          filtered ? (
            <EmptyState title="No dashboard matches">
              Try another word of its name, or remove the tag.
            </EmptyState>
          ) : (
            <EmptyState
              icon={<LayoutDashboard aria-hidden />}
              title="No dashboards yet"
              action={createButton}
            >
              A dashboard shows several insights side by side, for one range of time. Templates
              begin with active people, traffic or flags.
            </EmptyState>
          )
        ) : (
          <Table
            label="Dashboards"
            rows={dashboards}
            columns={columns}
            rowKey={(dashboard) => String(dashboard.id)}
            stale={query.isPlaceholderData}
            onEnd={() => query.hasNextPage && !query.isFetchingNextPage && query.fetchNextPage()}
            onOpen={(dashboard) =>
              navigate({
                to: "/project/$projectId/dashboard/$id",
                params: { projectId, id: String(dashboard.id) },
                search: {},
              })
            }
          />
        )}
        {query.hasNextPage && (
          <div className="border-t p-2 text-center">
            <Button busy={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
              Show more
            </Button>
          </div>
        )}
      </Card>
      <Suspense>
        {dialog === "new" && <NewDashboardDialog onClose={() => setDialog(null)} />}
        {dialog && dialog !== "new" && (
          <CopyDashboardDialog dashboard={dialog} onClose={() => setDialog(null)} />
        )}
      </Suspense>
    </Page>
  );
}
