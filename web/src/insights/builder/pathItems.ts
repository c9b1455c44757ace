import { ask, type PathsQuery } from "../queries";

const EDGES_MAX = 1_000;

/// The pages and events of paths, and how many paths have them at their first step or at any.
export async function pathItems(
  projectId: string,
  query: PathsQuery,
  signal?: AbortSignal,
): Promise<{ name: string; count: number; entries: number }[]> {
  const { startPoint: _start, endPoint: _end, ...filter } = query.pathsFilter ?? {};
  const answer = await ask(
    projectId,
    { ...query, pathsFilter: { ...filter, edgeLimit: EDGES_MAX } },
    { signal },
  );
  const items = new Map<string, { name: string; count: number; entries: number }>();
  for (const { source, target, value } of answer.results) {
    for (const node of [source, target]) {
      const [, step, name = ""] = /^(\d+)_(.*)$/s.exec(node) ?? [];
      const item = items.get(name) ?? { name, count: 0, entries: 0 };
      item.count += value;
      if (step === "1") item.entries += value;
      items.set(name, item);
    }
  }
  return [...items.values()];
}
