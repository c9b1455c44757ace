import type { Schemas } from "./client";

export type AccessLevel = Schemas["AccessLevel"];

export interface Permission {
  allowed: boolean;
  /// Why not, for a tooltip or a note; empty if allowed.
  reason: string;
}

const RANK: Record<AccessLevel, number> = { none: 0, viewer: 1, editor: 2, manager: 3 };

/// `effective_privilege_level` of a dashboard: 21 views, 37 edits.
const PRIVILEGE_EDIT = 37;
/// `effective_restriction_level` of a dashboard that collaborators alone edit.
const RESTRICTED = 37;

const ALLOWED: Permission = { allowed: true, reason: "" };

function atLeast(level: string, needed: AccessLevel, reason: string): Permission {
  const rank = level in RANK ? RANK[level as AccessLevel] : RANK.manager;
  return rank >= RANK[needed] ? ALLOWED : { allowed: false, reason };
}

/// Whether the person may change an object, by what the API says of it, never by roles.
export function mayEdit(object: {
  user_access_level: string;
  effective_privilege_level?: number;
  effective_restriction_level?: number;
}): Permission {
  const { effective_privilege_level: privilege, effective_restriction_level: restriction } = object;
  const reason =
    restriction === RESTRICTED
      ? "Only its author and collaborators can edit this."
      : "You can view this but not edit it.";
  if (privilege !== undefined && privilege < PRIVILEGE_EDIT) return { allowed: false, reason };
  return atLeast(object.user_access_level, "editor", reason);
}

/// Whether the person may change who has access to an object.
export function mayManage(object: { user_access_level: string }): Permission {
  return atLeast(
    object.user_access_level,
    "manager",
    "Only managers of this can change who has access.",
  );
}

/// `membership_level` of an organization.
export const MEMBER = 1;
export const ADMINISTRATOR = 8;
export const OWNER = 15;

/// Whether the person administers a project: keys, access, deletion.
export function mayAdminister(project: { user_access_level: string }): Permission {
  return project.user_access_level === "admin"
    ? ALLOWED
    : { allowed: false, reason: "Only administrators of this project can change this." };
}

/// Whether the person's level in an organization is high enough.
export function mayAdministerOrganization(
  organization: { membership_level: number } | null | undefined,
  level = ADMINISTRATOR,
): Permission {
  if ((organization?.membership_level ?? 0) >= level) return ALLOWED;
  const who = level === OWNER ? "owners" : "administrators";
  return { allowed: false, reason: `Only ${who} of the organization can change this.` };
}
