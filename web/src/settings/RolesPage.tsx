import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { EllipsisVertical, Pencil, Plus, Trash2, UsersRound, X } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useMe } from "@/api/me";
import { membersQuery } from "@/api/members";
import { mayAdministerOrganization, type Permission } from "@/api/permissions";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  Card,
  Combobox,
  Confirm,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  SkeletonRows,
  toast,
} from "@/ui";
import { rolesQuery } from "./rolesQuery";
import { ReadOnlyNote, SettingsFrame } from "./SettingsFrame";

const RoleDialog = lazy(() =>
  import("./RoleDialog").then((module) => ({ default: module.RoleDialog })),
);

type Role = Schemas["Role"];

/// `feature_flags_access_level`: the role sees flags, or edits them all.
export const FLAGS_EDIT = 37;

export function RolesPage() {
  const { project } = useProject();
  const me = useMe();
  const client = useQueryClient();
  const organizationId = project.organization;
  const organization = me.organizations.find(({ id }) => id === organizationId);
  const permission = mayAdministerOrganization(organization);
  const [dialog, setDialog] = useState<"new" | Role | null>(null);
  const [deleting, setDeleting] = useState<Role | null>(null);
  const query = useQuery(rolesQuery(organizationId));
  const remove = useMutation({
    mutationFn: ({ id }: Role) =>
      call(
        api.DELETE("/api/organizations/{organization_id}/roles/{role_id}", {
          params: { path: { organization_id: organizationId, role_id: id } },
        }),
      ),
    onSuccess: (_, { name }) => {
      setDeleting(null);
      toast.success(`Deleted the role “${name}”`);
      void client.invalidateQueries({ queryKey: ["roles", organizationId] });
    },
    onError: (error) => toast.error(error, "Could not delete the role"),
  });
  const add = (
    <Button
      variant="primary"
      icon={<Plus aria-hidden />}
      disabledReason={permission.allowed ? undefined : permission.reason}
      onClick={() => setDialog("new")}
    >
      New role
    </Button>
  );
  const roles = query.data?.results ?? [];
  return (
    <SettingsFrame
      title="Roles"
      description="A role gathers members, so that access rules can name them together."
      actions={add}
    >
      <ReadOnlyNote reason={permission.reason} />
      {query.isPending ? (
        <Card>
          <SkeletonRows label="Loading roles" />
        </Card>
      ) : query.isError ? (
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      ) : roles.length === 0 ? (
        <Card>
          <EmptyState icon={<UsersRound aria-hidden />} title="No roles yet" action={add}>
            Make a role such as “Support”, add its people, and say under Access what they see and
            change.
          </EmptyState>
        </Card>
      ) : (
        roles.map((role) => (
          <RoleCard
            key={role.id}
            role={role}
            organizationId={organizationId}
            permission={permission}
            onEdit={() => setDialog(role)}
            onDelete={() => setDeleting(role)}
          />
        ))
      )}
      <Suspense>
        {dialog && (
          <RoleDialog
            organizationId={organizationId}
            role={dialog === "new" ? undefined : dialog}
            onClose={() => setDialog(null)}
          />
        )}
      </Suspense>
      <Confirm
        open={deleting !== null}
        onOpenChange={(open) => !open && setDeleting(null)}
        title={`Delete the role “${deleting?.name ?? ""}”?`}
        action="Delete role"
        danger
        busy={remove.isPending}
        onConfirm={() => deleting && remove.mutate(deleting)}
      >
        Its access rules go with it; its members stay in the organization.
      </Confirm>
    </SettingsFrame>
  );
}

interface RoleCardProps {
  role: Role;
  organizationId: string;
  permission: Permission;
  onEdit: () => void;
  onDelete: () => void;
}

function RoleCard({ role, organizationId, permission, onEdit, onDelete }: RoleCardProps) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const members = useQuery(membersQuery(organizationId));
  const path = { organization_id: organizationId, role_id: role.id };
  const reload = () => client.invalidateQueries({ queryKey: ["roles", organizationId] });
  const add = useMutation({
    mutationFn: (user_uuid: string) =>
      call(
        api.POST("/api/organizations/{organization_id}/roles/{role_id}/role_memberships", {
          params: { path },
          body: { user_uuid },
        }),
      ),
    onSuccess: reload,
    onError: (error) => toast.error(error, "Could not add them"),
  });
  const remove = useMutation({
    mutationFn: (uuid: string) =>
      call(
        api.DELETE("/api/organizations/{organization_id}/roles/{role_id}/role_memberships/{uuid}", {
          params: { path: { ...path, uuid } },
        }),
      ),
    onSuccess: reload,
    onError: (error) => toast.error(error, "Could not remove them"),
  });
  const inside = new Set(role.members.map(({ user }) => user.uuid));
  const others = (members.data?.results ?? []).filter(({ user }) => !inside.has(user.uuid));
  const { allowed } = permission;
  return (
    <Card
      title={
        <span className="flex items-center gap-2">
          {role.name}
          {role.is_default && <Badge tone="info">New members get it</Badge>}
          {role.feature_flags_access_level === FLAGS_EDIT && <Badge>Edits all flags</Badge>}
        </span>
      }
      actions={
        allowed && (
          <Menu
            align="end"
            trigger={
              <IconButton size="sm" label={`Actions of ${role.name}`}>
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              { label: "Edit", icon: <Pencil />, onSelect: onEdit },
              { label: "Delete", icon: <Trash2 />, danger: true, onSelect: onDelete },
            ]}
          />
        )
      }
    >
      <div className="flex flex-col items-start gap-2">
        {role.members.length === 0 ? (
          <p className="text-muted">Nobody has this role yet.</p>
        ) : (
          <ul aria-label={`Members of ${role.name}`} className="flex flex-wrap gap-1.5">
            {role.members.map(({ id, user }) => (
              <li
                key={id}
                className="inline-flex min-h-7 items-center gap-1 rounded-md border pl-2 text-[0.8125rem]"
              >
                <span className={allowed ? undefined : "pr-2"}>{userName(user)}</span>
                {allowed && (
                  <IconButton
                    size="sm"
                    className="size-6!"
                    label={`Remove ${userName(user)} from ${role.name}`}
                    onClick={() => remove.mutate(id)}
                  >
                    <X aria-hidden />
                  </IconButton>
                )}
              </li>
            ))}
          </ul>
        )}
        {allowed && others.length > 0 && (
          <Combobox
            label={`Member for ${role.name}`}
            size="sm"
            value={null}
            trigger={
              <Button size="sm" icon={<Plus aria-hidden />} aria-label={`Add to ${role.name}`}>
                Add member
              </Button>
            }
            options={others.map(({ user }) => ({
              value: user.uuid,
              label: userName(user),
              hint: user.email,
            }))}
            onChange={(uuid) => add.mutate(uuid)}
          />
        )}
        {role.associated_flags.length > 0 && (
          <p className="text-muted">
            May edit the flags{" "}
            {role.associated_flags.map(({ id, key }, at) => (
              <span key={id}>
                {at > 0 && ", "}
                <Link
                  to={`/project/${projectId}/feature_flags/${id}` as string}
                  className="text-accent-text underline underline-offset-2"
                >
                  {key}
                </Link>
              </span>
            ))}
            .
          </p>
        )}
      </div>
    </Card>
  );
}
