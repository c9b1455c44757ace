import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { type AccessLevel, mayEdit } from "@/api/permissions";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import { Button, Card, Combobox, ErrorPanel, IconButton, Select, SkeletonRows, toast } from "@/ui";
import type { Flag } from "../flagApi";

type Rule = Schemas["AccessControl"];

const LEVELS: Record<AccessLevel, string> = {
  none: "No access",
  viewer: "Can view",
  editor: "Can edit",
  manager: "Can manage access",
};
const LISTED_MAX = 200;

function useMembersAndRoles() {
  const { project } = useProject();
  const path = { organization_id: project.organization };
  const query = { limit: LISTED_MAX };
  const members = useQuery({
    queryKey: ["members", project.organization],
    staleTime: 60_000,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/members", {
          params: { path, query },
          signal,
        }),
      ),
  });
  const roles = useQuery({
    queryKey: ["roles", project.organization],
    staleTime: 60_000,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/roles", { params: { path, query }, signal }),
      ),
  });
  return { members: members.data?.results ?? [], roles: roles.data?.results ?? [] };
}

/// Who may see and change the flag.
export function AccessTab({ flag }: { flag: Flag }) {
  return (
    <div className="flex flex-col gap-4">
      <Rules flag={flag} />
      <EditingRoles flag={flag} />
    </div>
  );
}

/// The subject of a rule as the value of a choice.
function subjectOf({ organization_member: member, role }: Rule): string {
  return member ? `member ${member}` : role ? `role ${role}` : "everyone";
}

function Rules({ flag }: { flag: Flag }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const { members, roles } = useMembersAndRoles();
  const [subject, setSubject] = useState<string | null>(null);
  const [level, setLevel] = useState<AccessLevel>("viewer");
  const path = { project_id: projectId, id: flag.id };
  const queryKey = ["flag_access", projectId, flag.id];
  const query = useQuery({
    queryKey,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/{id}/access_controls", {
          params: { path },
          signal,
        }),
      ),
  });
  const set = useMutation({
    mutationFn: (rule: { who: string; level: AccessLevel | null }) => {
      const [kind, id] = rule.who.split(" ");
      return call(
        api.PUT("/api/projects/{project_id}/feature_flags/{id}/access_controls", {
          params: { path },
          body: {
            access_level: rule.level,
            organization_member: kind === "member" ? id : undefined,
            role: kind === "role" ? id : undefined,
          },
        }),
      );
    },
    onSuccess: () => {
      setSubject(null);
      void client.invalidateQueries({ queryKey });
      void client.invalidateQueries({ queryKey: ["feature_flag", projectId, flag.id] });
    },
    onError: (error) => toast.error(error, "The rule was not changed"),
  });
  if (query.isPending) return <SkeletonRows rows={3} />;
  if (query.isError) {
    return (
      <Card title="Access rules">
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      </Card>
    );
  }
  const {
    access_controls: rules,
    available_access_levels: levels,
    default_access_level: standard,
    user_can_edit_access_levels: mayChange,
  } = query.data;
  const nameOf = (who: string) => {
    const [kind, id] = who.split(" ");
    if (kind === "everyone") return "Everybody in the project";
    if (kind === "role") return roles.find((role) => role.id === id)?.name ?? "A role";
    const member = members.find((one) => one.id === id);
    return member ? userName(member.user) : "A member";
  };
  const options = levels.map((level) => ({
    value: level as AccessLevel,
    label: LEVELS[level as AccessLevel] ?? level,
  }));
  const ruled = new Set(rules.map(subjectOf));
  const others = [
    { value: "everyone", label: "Everybody in the project" },
    ...roles.map(({ id, name }) => ({ value: `role ${id}`, label: name, hint: "Role" })),
    ...members.map(({ id, user }) => ({
      value: `member ${id}`,
      label: userName(user),
      hint: user.email,
    })),
  ].filter(({ value }) => !ruled.has(value));
  return (
    <Card
      title="Access rules"
      description={`Where no rule applies: ${(LEVELS[standard as AccessLevel] ?? standard).toLowerCase()}. Administrators always can.`}
    >
      <div className="flex flex-col gap-3">
        {rules.length === 0 ? (
          <p className="text-muted">No rule: everybody has the project’s access.</p>
        ) : (
          <ul aria-label="Access rules" className="flex flex-col divide-y rounded-md border">
            {rules.map((rule) => {
              const who = subjectOf(rule);
              const name = nameOf(who);
              return (
                <li key={who} className="flex min-h-11 items-center gap-2 px-3 py-1">
                  <span className="min-w-0 flex-1 truncate">{name}</span>
                  <Select
                    label={`Access of ${name}`}
                    size="sm"
                    value={rule.access_level as AccessLevel}
                    options={options}
                    disabled={!mayChange || set.isPending}
                    onChange={(next) => set.mutate({ who, level: next })}
                  />
                  {mayChange && (
                    <IconButton
                      size="sm"
                      label={`Remove the rule of ${name}`}
                      onClick={() => set.mutate({ who, level: null })}
                    >
                      <X aria-hidden />
                    </IconButton>
                  )}
                </li>
              );
            })}
          </ul>
        )}
        {mayChange ? (
          <div className="flex flex-wrap items-center gap-2">
            <Combobox
              label="Whose access"
              className="w-64"
              value={subject}
              options={others}
              onChange={setSubject}
            />
            <Select label="Access" value={level} options={options} onChange={setLevel} />
            <Button
              busy={set.isPending}
              disabled={subject === null}
              onClick={() => subject && set.mutate({ who: subject, level })}
            >
              Add rule
            </Button>
          </div>
        ) : (
          <p className="text-xs text-muted">
            Only managers of this flag can change who has access.
          </p>
        )}
      </div>
    </Card>
  );
}

/// Roles that may edit the flag where the organization restricts who edits flags.
function EditingRoles({ flag }: { flag: Flag }) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const { roles } = useMembersAndRoles();
  const { allowed, reason } = mayEdit(flag);
  const [role, setRole] = useState<string | null>(null);
  const path = { project_id: projectId, id: flag.id };
  const queryKey = ["flag_roles", projectId, flag.id];
  const query = useQuery({
    queryKey,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/{id}/role_access", {
          params: { path, query: { limit: LISTED_MAX } },
          signal,
        }),
      ),
  });
  const reload = () => void client.invalidateQueries({ queryKey });
  const grant = useMutation({
    mutationFn: (id: string) =>
      call(
        api.POST("/api/projects/{project_id}/feature_flags/{id}/role_access", {
          params: { path },
          body: { role_id: id },
        }),
      ),
    onSuccess: () => {
      setRole(null);
      reload();
    },
    onError: (error) => toast.error(error, "The role was not added"),
  });
  const revoke = useMutation({
    mutationFn: (id: number) =>
      call(
        api.DELETE("/api/projects/{project_id}/feature_flags/{id}/role_access/{access_id}", {
          params: { path: { ...path, access_id: id } },
        }),
      ),
    onSuccess: reload,
    onError: (error) => toast.error(error, "The role was not removed"),
  });
  const granted = query.data?.results ?? [];
  const known = new Set(granted.map(({ role_id: id }) => id));
  const others = roles.filter(({ id }) => !known.has(id));
  return (
    <Card
      title="Roles that edit it"
      description="They may edit this flag where the organization restricts who edits flags."
    >
      {query.isPending ? (
        <SkeletonRows rows={2} />
      ) : query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : (
        <div className="flex flex-col gap-3">
          {granted.length === 0 ? (
            <p className="text-muted">No role was added.</p>
          ) : (
            <ul
              aria-label="Roles that edit it"
              className="flex flex-col divide-y rounded-md border"
            >
              {granted.map(({ id, role: { name, members } }) => (
                <li key={id} className="flex min-h-11 items-center gap-2 px-3 py-1">
                  <span className="min-w-0 flex-1 truncate">{name}</span>
                  <span className="text-xs text-muted">{members.length} members</span>
                  {allowed && (
                    <IconButton
                      size="sm"
                      label={`Remove the role ${name}`}
                      onClick={() => revoke.mutate(id)}
                    >
                      <X aria-hidden />
                    </IconButton>
                  )}
                </li>
              ))}
            </ul>
          )}
          <div className="flex flex-wrap items-center gap-2">
            <Combobox
              label="Role to add"
              className="w-64"
              value={role}
              empty="There is no other role."
              disabled={!allowed}
              options={others.map(({ id, name }) => ({ value: id, label: name }))}
              onChange={setRole}
            />
            <Button
              busy={grant.isPending}
              disabled={role === null}
              disabledReason={allowed ? undefined : reason}
              onClick={() => role && grant.mutate(role)}
            >
              Add
            </Button>
          </div>
        </div>
      )}
    </Card>
  );
}
