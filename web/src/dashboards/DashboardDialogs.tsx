import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { FileText, Flag, Globe, type LucideIcon, Users } from "lucide-react";
import { type FormEvent, type ReactNode, useId, useState } from "react";
import { api, call } from "@/api/client";
import { fieldError } from "@/api/errors";
import { useProject } from "@/shell/useProject";
import { Button, Checkbox, cx, Dialog, Field, Input, Textarea, toast } from "@/ui";
import { type Dashboard, type DashboardBasic, dashboardName, useDashboardChange } from "./api";

const NAME_CHARS_MAX = 400;
const DESCRIPTION_CHARS_MAX = 16_384;

interface FormDialogProps {
  title: string;
  action: string;
  busy: boolean;
  disabled?: boolean;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}

/// A dialog whose fields are sent by Enter or by its button.
function FormDialog({
  title,
  action,
  busy,
  disabled,
  onSubmit,
  onClose,
  children,
}: FormDialogProps) {
  const form = useId();
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!busy && !disabled) onSubmit();
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" form={form} variant="primary" busy={busy} disabled={disabled}>
            {action}
          </Button>
        </>
      }
    >
      <form id={form} onSubmit={submit} className="flex flex-col gap-4">
        {children}
      </form>
    </Dialog>
  );
}

/// The server's built-in templates, by the names it takes.
const TEMPLATES: { value: string; label: string; hint: string; icon: LucideIcon; name: string }[] =
  [
    { value: "", label: "Empty", hint: "Add insights one by one.", icon: FileText, name: "" },
    {
      value: "DEFAULT_APP",
      label: "Product overview",
      hint: "Active people, retention, growth.",
      icon: Users,
      name: "Product overview",
    },
    {
      value: "WEBSITE_TRAFFIC",
      label: "Website traffic",
      hint: "Views, visitors, pages, browsers.",
      icon: Globe,
      name: "Website traffic",
    },
    {
      value: "FLAG_USAGE",
      label: "Feature flag usage",
      hint: "Which flags are evaluated, and their values.",
      icon: Flag,
      name: "Feature flag usage",
    },
  ];

export function NewDashboardDialog({ onClose }: { onClose: () => void }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const [template, setTemplate] = useState("");
  const chosen = TEMPLATES.find(({ value }) => value === template);
  const create = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/dashboards", {
          params: { path: { project_id: projectId } },
          body: {
            name: name.trim() || chosen?.name || "New dashboard",
            ...(template && { use_template: template }),
          },
        }),
      ),
    onSuccess: ({ id }) => {
      void client.invalidateQueries({ queryKey: ["dashboards", projectId] });
      void navigate({
        to: "/project/$projectId/dashboard/$id",
        params: { projectId, id: String(id) },
      });
    },
    onError: (error) => {
      if (!fieldError(error, "name")) toast.error(error, "Could not create the dashboard");
    },
  });
  return (
    <FormDialog
      title="New dashboard"
      action="Create dashboard"
      busy={create.isPending}
      onSubmit={() => create.mutate()}
      onClose={onClose}
    >
      <Field label="Name" error={fieldError(create.error, "name")}>
        <Input
          maxLength={NAME_CHARS_MAX}
          placeholder={chosen?.name || "New dashboard"}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      <fieldset>
        <legend className="mb-1 text-[0.8125rem] font-medium">Start with</legend>
        <div className="grid gap-2 sm:grid-cols-2">
          {TEMPLATES.map(({ value, label, hint, icon: Icon }) => (
            <label
              key={value}
              className={cx(
                "flex cursor-pointer items-start gap-2.5 rounded-md border p-3 has-focus-visible:outline-2 has-focus-visible:outline-accent",
                template === value ? "border-accent bg-accent-soft" : "hover:bg-hover",
              )}
            >
              <input
                type="radio"
                name="template"
                className="sr-only"
                value={value}
                checked={template === value}
                onChange={() => setTemplate(value)}
              />
              <Icon className="mt-0.5 size-4 shrink-0 text-muted" aria-hidden />
              <span>
                <span className="block font-medium">{label}</span>
                <span className="block text-xs text-muted">{hint}</span>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
    </FormDialog>
  );
}

export function CopyDashboardDialog({
  dashboard,
  onClose,
}: {
  dashboard: Dashboard | DashboardBasic;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const [name, setName] = useState(`${dashboardName(dashboard)} (copy)`);
  const [deep, setDeep] = useState(true);
  const copy = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/dashboards", {
          params: { path: { project_id: projectId } },
          body: { name, use_dashboard: dashboard.id, duplicate_tiles: deep },
        }),
      ),
    onSuccess: ({ id }) => {
      void client.invalidateQueries({ queryKey: ["dashboards", projectId] });
      onClose();
      void navigate({
        to: "/project/$projectId/dashboard/$id",
        params: { projectId, id: String(id) },
      });
    },
    onError: (error) => {
      if (!fieldError(error, "name")) toast.error(error, "Could not copy the dashboard");
    },
  });
  return (
    <FormDialog
      title="Copy dashboard"
      action="Copy"
      busy={copy.isPending}
      onSubmit={() => copy.mutate()}
      onClose={onClose}
    >
      <Field label="Name of the copy" error={fieldError(copy.error, "name")}>
        <Input
          maxLength={NAME_CHARS_MAX}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      <div>
        <Checkbox label="Copy its insights as well" checked={deep} onChange={setDeep} />
        <p className="ml-6.5 text-xs text-muted">
          {deep
            ? "Changes to insights of the copy do not change the original."
            : "Both dashboards show the same insights: a change to one shows on both."}
        </p>
      </div>
    </FormDialog>
  );
}

/// Tags as people type them: separated by commas, each once.
export function readTags(text: string): string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim().toLowerCase()))].filter(Boolean);
}

export function DetailsDialog({
  dashboard,
  onClose,
}: {
  dashboard: Dashboard;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const change = useDashboardChange(projectId, dashboard.id, { onTheirs: onClose });
  // The dashboard may be loaded again while the form is open.
  const [version] = useState(dashboard.version);
  const [name, setName] = useState(dashboard.name ?? "");
  const [description, setDescription] = useState(dashboard.description);
  const [tags, setTags] = useState(dashboard.tags.join(", "));
  return (
    <FormDialog
      title="Name and description"
      action="Save"
      busy={change.isPending}
      onSubmit={() =>
        change.mutate({ name, description, tags: readTags(tags), version }, { onSuccess: onClose })
      }
      onClose={onClose}
    >
      <Field label="Name" error={fieldError(change.error, "name")}>
        <Input
          maxLength={NAME_CHARS_MAX}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
      </Field>
      <Field label="Description" error={fieldError(change.error, "description")}>
        <Textarea
          maxLength={DESCRIPTION_CHARS_MAX}
          value={description}
          onChange={(event) => setDescription(event.currentTarget.value)}
        />
      </Field>
      <Field label="Tags" hint="Separated by commas." error={fieldError(change.error, "tags")}>
        <Input value={tags} onChange={(event) => setTags(event.currentTarget.value)} />
      </Field>
    </FormDialog>
  );
}
