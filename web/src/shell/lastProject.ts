import type { Me } from "@/api/me";

const KEY = "hedgerow.project";

export function rememberProject(projectId: string): void {
  localStorage.setItem(KEY, projectId);
}

/// The project that was open last, if the person still has it; otherwise their current or first one.
export function lastProject(me: Me): string | null {
  const own = me.organization?.teams.map((project) => String(project.id)) ?? [];
  const last = localStorage.getItem(KEY);
  if (last && own.includes(last)) return last;
  return me.team ? String(me.team.id) : (own[0] ?? null);
}
