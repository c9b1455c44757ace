import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { X } from "lucide-react";
import { api, call } from "@/api/client";
import { useMe } from "@/api/me";
import { mayEdit } from "@/api/permissions";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import { Combobox, Dialog, ErrorPanel, Field, IconButton, Select, SkeletonRows, toast } from "@/ui";
import {
  COLLABORATORS_EDIT,
  type Dashboard,
  dashboardQuery,
  EVERYONE_EDITS,
  useDashboardChange,
} from "./api";

const LEVELS = [
  { value: String(EVERYONE_EDITS), label: "Everyone in the project can edit" },
  { value: String(COLLABORATORS_EDIT), label: "Only the author and collaborators can edit" },
];

/// Who may edit a dashboard. Who may see it is set in the project's access rules.
export function AccessDialog({
  dashboard,
  onClose,
}: {
  dashboard: Dashboard;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const me = useMe();
  const client = useQueryClient();
  const change = useDashboardChange(projectId, dashboard.id);
  const { allowed, reason } = mayEdit(dashboard);
  const path = { project_id: projectId, id: dashboard.id };
  const key = ["collaborators", projectId, dashboard.id];
  const isRestricted = dashboard.restriction_level === COLLABORATORS_EDIT;
  const collaborators = useQuery({
    queryKey: key,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/dashboards/{id}/collaborators", {
          params: { path },
          signal,
        }),
      ),
  });
  const organizationId = me.organization?.id ?? "";
  const members = useQuery({
    queryKey: ["members", organizationId],
    enabled: allowed && isRestricted && organizationId !== "",
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/members", {
          params: { path: { organization_id: organizationId }, query: { limit: 200 } },
          signal,
        }),
      ),
  });
  const reload = () => {
    void client.invalidateQueries({ queryKey: key });
    void client.invalidateQueries({ queryKey: dashboardQuery(projectId, dashboard.id).queryKey });
  };
  const add = useMutation({
    mutationFn: (uuid: string) =>
      call(
        api.POST("/api/projects/{project_id}/dashboards/{id}/collaborators", {
          params: { path },
          body: { user_uuid: uuid, level: COLLABORATORS_EDIT },
        }),
      ),
    onSuccess: reload,
    onError: (error) => toast.error(error, "Could not add them"),
  });
  const remove = useMutation({
    mutationFn: (uuid: string) =>
      call(
        api.DELETE("/api/projects/{project_id}/dashboards/{id}/collaborators/{uuid}", {
          params: { path: { ...path, uuid } },
        }),
      ),
    onSuccess: reload,
    onError: (error) => toast.error(error, "Could not remove them"),
  });
  const list = collaborators.data ?? [];
  const known = new Set([
    dashboard.created_by?.uuid,
    ...list.map((collaborator) => collaborator.user_uuid),
  ]);
  const others = (members.data?.results ?? []).filter(({ user }) => !known.has(user.uuid));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Who can edit"
      description="Administrators of the project always can."
    >
      <div className="flex flex-col gap-4">
        {!allowed && <p className="rounded-md bg-sunken px-3 py-2 text-muted">{reason}</p>}
        <Field label="Editing">
          <Select
            value={String(dashboard.restriction_level)}
            options={LEVELS}
            disabled={!allowed || change.isPending}
            onChange={(level) => change.mutate({ restriction_level: Number(level) })}
          />
        </Field>
        {isRestricted && (
          <section className="flex flex-col gap-2">
            <h3 className="text-[0.8125rem] font-medium">Collaborators</h3>
            {collaborators.isError ? (
              <ErrorPanel error={collaborators.error} onRetry={() => collaborators.refetch()} />
            ) : collaborators.isPending ? (
              <SkeletonRows rows={2} />
            ) : (
              <ul className="flex flex-col divide-y rounded-md border">
                {dashboard.created_by && (
                  <li className="flex min-h-10 items-center gap-2 px-3">
                    <span className="min-w-0 flex-1 truncate">
                      {userName(dashboard.created_by)}
                    </span>
                    <span className="text-xs text-muted">Author</span>
                  </li>
                )}
                {list.map(({ user, user_uuid: uuid }) => (
                  <li key={uuid} className="flex min-h-10 items-center gap-2 px-3">
                    <span className="min-w-0 flex-1 truncate">{userName(user)}</span>
                    <span className="truncate text-xs text-muted">{user.email}</span>
                    {allowed && (
                      <IconButton
                        size="sm"
                        label={`Remove ${userName(user)}`}
                        onClick={() => remove.mutate(uuid)}
                      >
                        <X aria-hidden />
                      </IconButton>
                    )}
                  </li>
                ))}
              </ul>
            )}
            {allowed && (
              <Combobox
                label="Person to add"
                className="w-60"
                value={null}
                loading={members.isPending}
                empty="Everyone is in the list already."
                options={others.map(({ user }) => ({
                  value: user.uuid,
                  label: userName(user),
                  hint: user.email,
                }))}
                onChange={(uuid) => add.mutate(uuid)}
              />
            )}
          </section>
        )}
      </div>
    </Dialog>
  );
}
