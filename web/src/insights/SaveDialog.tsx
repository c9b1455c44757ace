import { useMutation, useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { api, call } from "@/api/client";
import { fieldError } from "@/api/errors";
import { queryClient } from "@/api/queryClient";
import { ConflictError } from "@/api/versions";
import { useProject } from "@/shell/useProject";
import { Button, Dialog, ErrorPanel, Field, Input, MultiCombobox, Textarea } from "@/ui";
import {
  createInsight,
  dashboardsQuery,
  type Insight,
  type InsightFields,
  saveInsight,
} from "./insightApi";
import { TagsInput } from "./TagsInput";

export interface SaveDialogProps {
  title: string;
  action: string;
  /// The insight to change; a new one without it.
  insight?: Insight;
  /// Fields that are saved beside those of the form.
  fields: InsightFields;
  initial: { name: string; description?: string; tags?: string[]; dashboards?: number[] };
  onClose: () => void;
  onSaved: (insight: Insight) => void;
}

/// Name, dashboards, description and tags at once.
export function SaveDialog({
  title,
  action,
  insight,
  fields,
  initial,
  onClose,
  onSaved,
}: SaveDialogProps) {
  const { projectId } = useProject();
  const [name, setName] = useState(initial.name);
  const [description, setDescription] = useState(initial.description ?? "");
  const [tags, setTags] = useState<string[]>(initial.tags ?? []);
  const [places, setPlaces] = useState<string[]>((initial.dashboards ?? []).map(String));
  // The insight may be loaded again while the form is open.
  const [edited] = useState(insight);
  const save = useMutation({
    mutationFn: async () => {
      const dashboards: number[] = [];
      for (const place of places) {
        const id = place.startsWith(NEW)
          ? await createDashboard(projectId, place.slice(NEW.length))
          : Number(place);
        // A second attempt does not make it again.
        setPlaces((before) => before.map((one) => (one === place ? String(id) : one)));
        dashboards.push(id);
      }
      const body: InsightFields = { ...fields, name, description, tags, dashboards };
      return edited
        ? saveInsight(projectId, edited, body, onClose)
        : createInsight(projectId, body);
    },
    onSuccess: onSaved,
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    save.mutate();
  };
  const known = ["name", "description", "tags", "dashboards"];
  const general =
    save.error &&
    !(save.error instanceof ConflictError) &&
    !known.some((attr) => fieldError(save.error, attr))
      ? save.error
      : null;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="save-insight" busy={save.isPending}>
            {action}
          </Button>
        </>
      }
    >
      <form id="save-insight" className="flex flex-col gap-3" onSubmit={submit}>
        <Field label="Name" error={fieldError(save.error, "name")}>
          <Input
            autoFocus
            maxLength={400}
            value={name}
            placeholder={String(fields.derived_name ?? "")}
            onChange={(event) => setName(event.currentTarget.value)}
          />
        </Field>
        <Field
          label="Dashboards"
          hint="Where the insight is shown, if anywhere."
          error={fieldError(save.error, "dashboards")}
        >
          <DashboardChoice value={places} onChange={setPlaces} />
        </Field>
        <Field label="Description" error={fieldError(save.error, "description")}>
          <Textarea
            value={description}
            rows={2}
            onChange={(event) => setDescription(event.currentTarget.value)}
          />
        </Field>
        <Field label="Tags" error={fieldError(save.error, "tags")}>
          <TagsInput value={tags} onChange={setTags} />
        </Field>
      </form>
      {general && <ErrorPanel error={general} title="Could not save" className="py-3" />}
    </Dialog>
  );
}

/// Marks the name of a dashboard that is made when the insight is saved.
const NEW = "new:";

async function createDashboard(projectId: string, name: string): Promise<number> {
  const { id } = await call(
    api.POST("/api/projects/{project_id}/dashboards", {
      params: { path: { project_id: projectId } },
      body: { name },
    }),
  );
  void queryClient.invalidateQueries({ queryKey: ["dashboards", projectId] });
  return id;
}

/// Existing dashboards by their ids, or a new one by the name that was typed.
function DashboardChoice({
  value,
  onChange,
}: {
  value: readonly string[];
  onChange: (places: string[]) => void;
}) {
  const { projectId } = useProject();
  const dashboards = useQuery(dashboardsQuery(projectId));
  const [text, setText] = useState("");
  const typed = text.trim();
  const known = (dashboards.data?.results ?? []).map((dashboard) => ({
    value: String(dashboard.id),
    label: dashboard.name || `Dashboard ${dashboard.id}`,
    // 21 views only.
    disabled: dashboard.effective_privilege_level < 37,
  }));
  const added = value
    .filter((place) => place.startsWith(NEW))
    .map((place) => ({ value: place, label: place.slice(NEW.length) }));
  const options = [...known, ...added].filter(({ label }) =>
    label.toLowerCase().includes(typed.toLowerCase()),
  );
  const fresh = typed || (known.length + added.length === 0 ? "My dashboard" : "");
  if (fresh && !options.some(({ label }) => label === fresh)) {
    options.push({ value: `${NEW}${fresh}`, label: `New dashboard “${fresh}”` });
  }
  return (
    <MultiCombobox
      label="Dashboards"
      className="w-full"
      options={options}
      value={value}
      valueLabels={Object.fromEntries([...known, ...added].map((one) => [one.value, one.label]))}
      onChange={onChange}
      onSearch={setText}
      loading={dashboards.isPending}
      empty="Type the name of a new dashboard."
    />
  );
}
