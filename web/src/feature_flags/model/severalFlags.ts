import type { Schemas } from "@/api/client";

/// Projects that the API copies to in one request.
export const TARGETS_MAX = 50;

export interface RefusedCopy {
  key: string;
  projectId: number;
  reason: string;
}

export interface CopyOutcome {
  copied: Schemas["CopiedFlag"][];
  failed: RefusedCopy[];
}

/// What became of each flag in each project; a request that failed as a whole has a reason only.
export function copyOutcome(
  answers: readonly (readonly [key: string, answer: Schemas["CopiedFlags"] | string])[],
  targets: readonly number[],
): CopyOutcome {
  const outcome: CopyOutcome = { copied: [], failed: [] };
  for (const [key, answer] of answers) {
    if (typeof answer === "string") {
      for (const projectId of targets) outcome.failed.push({ key, projectId, reason: answer });
      continue;
    }
    outcome.copied.push(...answer.success);
    for (const { project_id: projectId, error_message: reason } of answer.failed) {
      outcome.failed.push({ key, projectId, reason });
    }
  }
  return outcome;
}

export type TagAction = Schemas["TagAction"];

/// The tags of a flag after a change of several.
export function tagsAfter(
  tags: readonly string[],
  action: TagAction,
  sent: readonly string[],
): string[] {
  if (action === "set") return [...sent];
  if (action === "remove") return tags.filter((tag) => !sent.includes(tag));
  return [...new Set([...tags, ...sent])];
}

/// Requests that give flags back the tags they had: one for each set of tags.
export function restoringTags(
  flags: readonly { id: number; tags: readonly string[] }[],
): { ids: number[]; tags: string[] }[] {
  const ids = new Map<string, number[]>();
  for (const { id, tags } of flags) {
    const key = JSON.stringify(tags);
    ids.set(key, [...(ids.get(key) ?? []), id]);
  }
  return [...ids].map(([key, those]) => ({ ids: those, tags: JSON.parse(key) as string[] }));
}
