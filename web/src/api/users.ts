import type { Schemas } from "./client";

export function userName(
  user: Pick<Schemas["User"], "first_name" | "last_name" | "email">,
): string {
  return [user.first_name, user.last_name].filter(Boolean).join(" ") || user.email;
}
