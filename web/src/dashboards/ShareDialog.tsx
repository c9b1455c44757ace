import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { RotateCw } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Checkbox,
  Confirm,
  CopyButton,
  Dialog,
  ErrorPanel,
  Field,
  Input,
  Select,
  SkeletonRows,
  Switch,
  Textarea,
  toast,
} from "@/ui";
import { dashboardQuery } from "./api";

type Sharing = Schemas["SharingConfiguration"];

const THEMES = [
  { value: "system", label: "Viewer’s system" },
  { value: "light", label: "Light" },
  { value: "dark", label: "Dark" },
] as const;
type Theme = (typeof THEMES)[number]["value"];

export function sharedUrl(token: string, kind: "shared" | "embedded" = "shared"): string {
  return `${window.location.origin}/${kind}/${token}`;
}

/// The code that shows a dashboard on another page. Names are escaped for the attribute.
export function embedCode(token: string, title: string): string {
  const escaped = title
    .replaceAll("&", "&amp;")
    .replaceAll('"', "&quot;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;");
  return `<iframe src="${sharedUrl(token, "embedded")}" title="${escaped}" width="100%" height="600" frameborder="0" loading="lazy"></iframe>`;
}

/// What the public link shows.
export type SharedObject = { kind: "dashboard"; id: number } | { kind: "insight"; shortId: string };

export interface ShareDialogProps {
  shared: SharedObject;
  name: string;
  /// Why the reader cannot change the link; empty if they can.
  reason: string;
  onClose: () => void;
}

/// The calls about the link of a dashboard or an insight.
function sharingCalls(projectId: string, shared: SharedObject) {
  if (shared.kind === "dashboard") {
    const params = { path: { project_id: projectId, id: shared.id } };
    return {
      read: (signal: AbortSignal) =>
        call(api.GET("/api/projects/{project_id}/dashboards/{id}/sharing", { params, signal })),
      change: (body: Schemas["SharingFields"]) =>
        call(api.PATCH("/api/projects/{project_id}/dashboards/{id}/sharing", { params, body })),
      renew: () =>
        call(api.POST("/api/projects/{project_id}/dashboards/{id}/sharing/refresh", { params })),
    };
  }
  const params = { path: { project_id: projectId, id: shared.shortId } };
  return {
    read: (signal: AbortSignal) =>
      call(api.GET("/api/projects/{project_id}/insights/{id}/sharing", { params, signal })),
    change: (body: Schemas["SharingFields"]) =>
      call(api.PATCH("/api/projects/{project_id}/insights/{id}/sharing", { params, body })),
    renew: () =>
      call(api.POST("/api/projects/{project_id}/insights/{id}/sharing/refresh", { params })),
  };
}

export function ShareDialog({ shared, name, reason, onClose }: ShareDialogProps) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [renewing, setRenewing] = useState(false);
  const calls = sharingCalls(projectId, shared);
  const key = ["sharing", projectId, shared];
  const query = useQuery({
    queryKey: key,
    placeholderData: undefined,
    queryFn: ({ signal }) => calls.read(signal),
  });
  const changed = (sharing: Sharing) => {
    client.setQueryData(key, sharing);
    if (shared.kind === "insight") return;
    void client.invalidateQueries({ queryKey: dashboardQuery(projectId, shared.id).queryKey });
    void client.invalidateQueries({ queryKey: ["dashboards", projectId] });
  };
  const change = useMutation({
    mutationFn: calls.change,
    onSuccess: changed,
    onError: (error) => toast.error(error, "Could not change the link"),
  });
  const renew = useMutation({
    mutationFn: calls.renew,
    onSuccess: (sharing) => {
      changed(sharing);
      setRenewing(false);
      toast.success("The link is new");
    },
    onError: (error) => toast.error(error, "Could not renew the link"),
  });
  const sharing = query.data;
  const settings = sharing?.settings ?? {};
  const set = (setting: Schemas["SharingSettings"]) =>
    change.mutate({ settings: { ...settings, ...setting } });
  const disabled = Boolean(reason) || change.isPending;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={`Share this ${shared.kind}`}
      description="Anyone with the link can see it, without logging in."
    >
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : !sharing ? (
        <SkeletonRows rows={5} />
      ) : (
        <div className="flex flex-col gap-4">
          {reason && <p className="rounded-md bg-sunken px-3 py-2 text-muted">{reason}</p>}
          <Switch
            label="Public link"
            checked={sharing.enabled}
            disabled={disabled}
            onChange={(enabled) => change.mutate({ enabled })}
          />
          {sharing.enabled && !sharing.access_token && (
            <p className="text-muted">
              This {shared.kind} shows something that you cannot see, so you cannot see its link
              either.
            </p>
          )}
          {sharing.enabled && sharing.access_token && (
            <>
              <div className="flex items-end gap-2">
                <Field label="Link" className="min-w-0 flex-1">
                  <Input readOnly value={sharedUrl(sharing.access_token)} />
                </Field>
                <CopyButton text={sharedUrl(sharing.access_token)} label="Copy link" withLabel />
              </div>
              <div className="flex flex-col gap-2">
                <Field label="Embed code" hint={`Shows the ${shared.kind} on another page.`}>
                  <Textarea
                    readOnly
                    rows={5}
                    className="font-mono text-xs"
                    value={embedCode(sharing.access_token, name)}
                  />
                </Field>
                <div>
                  <CopyButton
                    text={embedCode(sharing.access_token, name)}
                    label="Copy embed code"
                    withLabel
                  />
                </div>
              </div>
              <fieldset className="flex flex-col gap-2">
                <legend className="mb-1 text-[0.8125rem] font-medium">Appearance</legend>
                <Select<Theme>
                  label="Theme"
                  className="max-w-60"
                  value={settings.theme ?? "system"}
                  options={THEMES}
                  disabled={disabled}
                  onChange={(theme) => set({ theme })}
                />
                <Checkbox
                  label="Hide the name and description"
                  checked={settings.noHeader === true}
                  disabled={disabled}
                  onChange={(on) => set({ noHeader: on })}
                />
                <Checkbox
                  label="Hide the Hedgerow name"
                  checked={settings.whitelabel === true}
                  disabled={disabled}
                  onChange={(on) => set({ whitelabel: on })}
                />
              </fieldset>
              <div className="flex items-center justify-between gap-4 border-t pt-3">
                <p className="text-muted">Did the link reach the wrong people?</p>
                <Button
                  icon={<RotateCw aria-hidden />}
                  disabledReason={reason || undefined}
                  onClick={() => setRenewing(true)}
                >
                  New link
                </Button>
              </div>
            </>
          )}
        </div>
      )}
      <Confirm
        open={renewing}
        onOpenChange={setRenewing}
        title="Make a new link?"
        action="Make a new link"
        busy={renew.isPending}
        onConfirm={() => renew.mutate()}
      >
        The link and the embed code in use stop working after a few minutes.
      </Confirm>
    </Dialog>
  );
}
