import { ADMINISTRATOR, MEMBER, OWNER } from "@/api/permissions";

export const LEVELS = [
  { value: String(MEMBER), label: "Member" },
  { value: String(ADMINISTRATOR), label: "Administrator" },
  { value: String(OWNER), label: "Owner" },
] as const;

export function levelName(level: number): string {
  return LEVELS.find(({ value }) => value === String(level))?.label ?? `Level ${level}`;
}
