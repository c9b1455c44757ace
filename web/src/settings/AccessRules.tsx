import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import type { Schemas } from "@/api/client";
import { membersQuery } from "@/api/members";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import { Button, Combobox, type ComboboxGroup, IconButton, Select } from "@/ui";
import { rolesQuery } from "./rolesQuery";

type Rule = Schemas["AccessControl"];

export interface Subject {
  organization_member?: string;
  role?: string;
}

export interface AccessRulesProps {
  /// What the rules are about, as in "dashboards".
  about: string;
  rules: readonly Rule[];
  levels: readonly string[];
  defaultLevel: string;
  disabled: boolean;
  /// A level of null removes the rule.
  onSet: (subject: Subject, level: string | null) => void;
}

const LEVEL_LABELS: Readonly<Record<string, string>> = {
  none: "No access",
  viewer: "View",
  editor: "View and edit",
  manager: "View, edit and manage access",
  member: "Member",
  admin: "Administrator",
};

export function accessLabel(level: string): string {
  return LEVEL_LABELS[level] ?? level;
}

const NO_RULE = "";

/// The level of everybody, of roles and of members. The highest of the rules that name a person or one of
/// their roles counts; without any, that of everybody.
export function AccessRules({
  about,
  rules,
  levels,
  defaultLevel,
  disabled,
  onSet,
}: AccessRulesProps) {
  const { project } = useProject();
  const members = useQuery(membersQuery(project.organization));
  const roles = useQuery(rolesQuery(project.organization));
  const everyone = rules.find(({ organization_member, role }) => !organization_member && !role);
  const own = rules.filter((rule) => rule !== everyone);
  const nameOf = ({ organization_member: member, role }: Rule) => {
    if (role) return `Role ${roles.data?.results.find(({ id }) => id === role)?.name ?? role}`;
    const found = members.data?.results.find(({ id }) => id === member);
    return found ? userName(found.user) : "A member";
  };
  const options = levels.map((value) => ({ value, label: accessLabel(value) }));
  const has = (key: keyof Subject, id: string) => own.some((rule) => rule[key] === id);
  const groups: ComboboxGroup[] = [
    {
      heading: "Roles",
      items: (roles.data?.results ?? [])
        .filter(({ id }) => !has("role", id))
        .map(({ id, name }) => ({ value: `role:${id}`, label: name })),
    },
    {
      heading: "Members",
      items: (members.data?.results ?? [])
        .filter(({ id }) => !has("organization_member", id))
        .map(({ id, user }) => ({
          value: `organization_member:${id}`,
          label: userName(user),
          hint: user.email,
        })),
    },
  ].filter(({ items }) => items.length > 0);
  return (
    <div className="flex flex-col gap-2">
      <ul aria-label={`Access rules of ${about}`} className="divide-y rounded-md border">
        <li className="flex min-h-11 flex-wrap items-center justify-between gap-2 px-3 py-1.5">
          <span className="font-medium">Everybody in the organization</span>
          <Select
            size="sm"
            label={`Level of everybody for ${about}`}
            value={everyone?.access_level ?? NO_RULE}
            disabled={disabled}
            options={[
              { value: NO_RULE, label: `Default: ${accessLabel(defaultLevel).toLowerCase()}` },
              ...options,
            ]}
            onChange={(level) => onSet({}, level === NO_RULE ? null : level)}
          />
        </li>
        {own.map((rule) => {
          const subject = rule.role
            ? { role: rule.role }
            : { organization_member: rule.organization_member ?? undefined };
          const name = nameOf(rule);
          return (
            <li
              key={rule.role ?? rule.organization_member}
              className="flex min-h-11 flex-wrap items-center justify-between gap-2 px-3 py-1.5"
            >
              <span className="min-w-0 truncate">{name}</span>
              <span className="flex items-center gap-1">
                <Select
                  size="sm"
                  label={`Level of ${name} for ${about}`}
                  value={rule.access_level}
                  disabled={disabled}
                  options={options}
                  onChange={(level) => onSet(subject, level)}
                />
                {!disabled && (
                  <IconButton
                    size="sm"
                    label={`Remove the rule of ${name} for ${about}`}
                    onClick={() => onSet(subject, null)}
                  >
                    <Trash2 aria-hidden />
                  </IconButton>
                )}
              </span>
            </li>
          );
        })}
      </ul>
      {!disabled && groups.length > 0 && (
        <Combobox
          label={`Role or member for ${about}`}
          value={null}
          trigger={
            <Button
              size="sm"
              className="self-start"
              icon={<Plus aria-hidden />}
              aria-label={`Add a role or member for ${about}`}
            >
              Add role or member
            </Button>
          }
          options={groups}
          onChange={(chosen) => {
            const [kind, ...id] = chosen.split(":");
            const subject = { [kind as keyof Subject]: id.join(":") };
            // The lowest level but "none", which one then raises.
            onSet(subject, levels.find((level) => level !== "none") ?? null);
          }}
        />
      )}
    </div>
  );
}
