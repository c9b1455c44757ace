import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call } from "@/api/client";
import { ApiError, fieldError } from "@/api/errors";
import { dashboardsQuery } from "@/insights/insightApi";
import { zonedDateTime, zonedTime } from "@/insights/zones";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Button, Combobox, Dialog, ErrorPanel, Field, Input, Select, Textarea } from "@/ui";
import { type Annotation, type AnnotationFields, SCOPES, saveAnnotation } from "./api";

const INSIGHTS_MAX = 50;
const MINUTE_CHARS = "2026-11-01T14:00".length;

export interface AnnotationDialogProps {
  /// The annotation to change; a new one without it.
  annotation?: Annotation;
  /// The insight that a new one is for.
  insight?: { id: number; name: string };
  onClose: () => void;
}

/// A note at an instant, on charts that the scope names.
export function AnnotationDialog({ annotation, insight: shownOn, onClose }: AnnotationDialogProps) {
  const { projectId, project } = useProject();
  const client = useQueryClient();
  const [content, setContent] = useState(annotation?.content ?? "");
  const [at, setAt] = useState(() =>
    zonedDateTime(
      annotation?.date_marker ? Date.parse(annotation.date_marker) : Date.now(),
      project.timezone,
    ).slice(0, MINUTE_CHARS),
  );
  const [scope, setScope] = useState<Annotation["scope"]>(
    annotation?.scope ?? (shownOn ? "dashboard_item" : "project"),
  );
  const [dashboard, setDashboard] = useState(annotation?.dashboard_id ?? null);
  const [insight, setInsight] = useState(annotation?.dashboard_item ?? shownOn?.id ?? null);
  const save = useMutation({
    mutationFn: () => {
      const instant = zonedTime(at, project.timezone);
      const body: AnnotationFields = {
        content: content.trim(),
        date_marker: Number.isNaN(instant) ? null : new Date(instant).toISOString(),
        scope,
        dashboard_id: scope === "dashboard" ? dashboard : null,
        dashboard_item: scope === "dashboard_item" ? insight : null,
      };
      return saveAnnotation(projectId, annotation?.id ?? null, body);
    },
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["annotations", projectId] });
      onClose();
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const known = ["content", "date_marker", "scope", "dashboard_id", "dashboard_item"];
  const { error } = save;
  const general = error && !(error instanceof ApiError && known.includes(error.attr ?? ""));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={annotation ? "Edit annotation" : "New annotation"}
      description="A note at an instant, drawn on time charts."
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="annotation" busy={save.isPending}>
            {annotation ? "Save" : "Add annotation"}
          </Button>
        </>
      }
    >
      <form id="annotation" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="Text" error={fieldError(error, "content")}>
          <Textarea
            autoFocus
            required
            rows={2}
            value={content}
            placeholder="Version 2.0 released"
            onChange={(event) => setContent(event.currentTarget.value)}
          />
        </Field>
        <Field
          label="Date and time"
          hint={`In ${project.timezone}.`}
          error={fieldError(error, "date_marker")}
        >
          <Input
            type="datetime-local"
            required
            className="w-full sm:w-60"
            value={at}
            onChange={(event) => setAt(event.currentTarget.value)}
          />
        </Field>
        <Field label="Shown on" error={fieldError(error, "scope")}>
          <Select
            className="w-full sm:w-80"
            value={scope}
            options={SCOPES}
            onChange={(next) => setScope(next)}
          />
        </Field>
        {scope === "dashboard" && (
          <Field label="Dashboard" error={fieldError(error, "dashboard_id")}>
            <DashboardPicker
              value={dashboard}
              valueLabel={annotation?.dashboard_name ?? undefined}
              onChange={setDashboard}
            />
          </Field>
        )}
        {scope === "dashboard_item" && (
          <Field label="Insight" error={fieldError(error, "dashboard_item")}>
            <InsightPicker
              value={insight}
              valueLabel={
                annotation?.insight_name || annotation?.insight_derived_name || shownOn?.name
              }
              onChange={setInsight}
            />
          </Field>
        )}
      </form>
      {general && <ErrorPanel error={error} title="Could not save" className="py-3" />}
    </Dialog>
  );
}

interface PickerProps {
  value: number | null;
  valueLabel?: string;
  onChange: (id: number) => void;
}

function DashboardPicker({ value, valueLabel, onChange }: PickerProps) {
  const { projectId } = useProject();
  const dashboards = useQuery(dashboardsQuery(projectId));
  const options = (dashboards.data?.results ?? []).map(({ id, name }) => ({
    value: String(id),
    label: name || `Dashboard ${id}`,
  }));
  const known = options.some((option) => option.value === String(value));
  return (
    <Combobox
      label="Dashboard"
      className="w-full"
      value={value === null ? null : String(value)}
      valueLabel={known ? undefined : valueLabel}
      options={options}
      loading={dashboards.isPending}
      onChange={(id) => onChange(Number(id))}
    />
  );
}

function InsightPicker({ value, valueLabel, onChange }: PickerProps) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(valueLabel);
  const search = useDebounced(text.trim(), 150);
  const insights = useQuery({
    queryKey: ["insights", projectId, { search, picker: true }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/insights", {
          params: {
            path: { project_id: projectId },
            query: {
              search: search || undefined,
              limit: INSIGHTS_MAX,
              saved: "true",
              basic: "true",
              order: "-last_modified_at",
            },
          },
          signal,
        }),
      ),
  });
  const options = (insights.data?.results ?? []).map(({ id, name, derived_name }) => ({
    value: String(id),
    label: name || derived_name || `Insight ${id}`,
  }));
  return (
    <Combobox
      label="Insight"
      className="w-full"
      value={value === null ? null : String(value)}
      valueLabel={chosen}
      options={options}
      loading={insights.isFetching}
      onSearch={setText}
      onChange={(id) => {
        setChosen(options.find((option) => option.value === id)?.label);
        onChange(Number(id));
      }}
    />
  );
}
