import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { EllipsisVertical, Pencil, Plus, StickyNote, Trash2 } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { loadedRows, nextOffset } from "@/api/paging";
import { userName } from "@/api/users";
import { DataFrame } from "@/data_management/DataFrame";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import { Button, EmptyState, IconButton, Menu, Select } from "@/ui";
import { dateTime } from "@/ui/format";
import { ListPanel } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { type Annotation, SCOPES, scopeText, useDeleteAnnotation } from "./api";

const AnnotationDialog = lazy(() =>
  import("./AnnotationDialog").then((module) => ({ default: module.AnnotationDialog })),
);

const PAGE_ROWS = 100;
const route = getRouteApi("/project/$projectId/data-management/annotations");

export function AnnotationsPage() {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/data-management/annotations" });
  const filters = route.useSearch();
  const { search, scope } = filters;
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const [dialog, setDialog] = useState<Annotation | "new" | null>(null);
  const remove = useDeleteAnnotation(projectId);
  const query = useInfiniteQuery({
    queryKey: ["annotations", projectId, { search, scope }],
    initialPageParam: 0,
    queryFn: ({ pageParam, signal }) =>
      call(
        api.GET("/api/projects/{project_id}/annotations", {
          params: {
            path: { project_id: projectId },
            query: { search, scope, limit: PAGE_ROWS, offset: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: nextOffset,
  });
  const add = (
    <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setDialog("new")}>
      New annotation
    </Button>
  );
  const columns: Column<Annotation>[] = [
    {
      id: "content",
      header: "Text",
      cell: (annotation) => (
        <button
          type="button"
          onClick={() => setDialog(annotation)}
          className="my-1.5 line-clamp-2 min-h-6 max-w-96 min-w-40 text-left font-medium wrap-anywhere hover:underline"
        >
          {annotation.content || "No text"}
        </button>
      ),
    },
    {
      id: "at",
      header: "Date",
      className: "whitespace-nowrap text-muted",
      sortValue: ({ date_marker }) => date_marker,
      cell: ({ date_marker }) =>
        date_marker ? dateTime(new Date(date_marker), project.timezone) : "No date",
    },
    { id: "scope", header: "Shown on", cell: (annotation) => <Place annotation={annotation} /> },
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
      cell: (annotation) => (
        <Menu
          align="end"
          trigger={
            <IconButton size="sm" label={`Actions of ${annotation.content ?? "annotation"}`}>
              <EllipsisVertical aria-hidden />
            </IconButton>
          }
          items={[
            { label: "Edit", icon: <Pencil />, onSelect: () => setDialog(annotation) },
            {
              label: "Delete",
              icon: <Trash2 />,
              danger: true,
              onSelect: () => void remove(annotation),
            },
          ]}
        />
      ),
    },
  ];
  return (
    <DataFrame title="Annotations" actions={add}>
      <ListPanel
        label="Annotations"
        nouns={["annotation", "annotations"]}
        query={query}
        rows={loadedRows(query.data)}
        columns={columns}
        rowKey={({ id }) => String(id)}
        search={{ text, onChange: setText }}
        filtered={Boolean(search || scope)}
        filters={
          <Select
            label="Shown on"
            value={scope ?? ""}
            options={[{ value: "", label: "Any chart" }, ...SCOPES]}
            onChange={(next) => void set({ scope: next || undefined })}
          />
        }
        empty={
          <EmptyState icon={<StickyNote aria-hidden />} title="No annotations yet" action={add}>
            An annotation marks an instant on charts, such as a release or a campaign, so that a
            change beside it explains itself.
          </EmptyState>
        }
        note={`Times are in ${project.timezone}.`}
        total={query.data?.pages[0]?.count}
        onOpen={setDialog}
      />
      <Suspense>
        {dialog && (
          <AnnotationDialog
            annotation={dialog === "new" ? undefined : dialog}
            onClose={() => setDialog(null)}
          />
        )}
      </Suspense>
    </DataFrame>
  );
}

function Place({ annotation }: { annotation: Annotation }) {
  const { projectId } = useProject();
  const { scope, dashboard_id: dashboard, insight_short_id: insight } = annotation;
  const text = scopeText(annotation);
  const className = "block max-w-64 truncate hover:underline";
  if (scope === "dashboard" && dashboard) {
    return (
      <Link
        to="/project/$projectId/dashboard/$id"
        params={{ projectId, id: String(dashboard) }}
        search={{}}
        className={className}
      >
        {text}
      </Link>
    );
  }
  if (scope === "dashboard_item" && insight) {
    return (
      <Link
        to="/project/$projectId/insights/$shortId"
        params={{ projectId, shortId: insight }}
        className={className}
      >
        {text}
      </Link>
    );
  }
  return <span className="whitespace-nowrap text-muted">{text}</span>;
}
