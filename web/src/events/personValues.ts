import { useEffect, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { columnExpression, type PersonValues, personPropertyColumn } from "./columns";
import { type Event, type EventFilter, eventParameters } from "./eventList";

const ROWS_AT_ONCE = 500;
const NONE: PersonValues = new Map();

/// The next rows without values: neighbours, so that one range of time covers them.
function missing(rows: readonly Event[], values: PersonValues): readonly Event[] {
  const start = rows.findIndex((row) => !values.has(row.id));
  if (start < 0) return [];
  const end = rows.findIndex((row, at) => at > start && values.has(row.id));
  return rows.slice(start, Math.min(end < 0 ? rows.length : end, start + ROWS_AT_ONCE));
}

/// Properties of the persons behind the rows. The list itself has their e-mail and name only.
export function usePersonValues(
  projectId: string,
  filter: EventFilter,
  rows: readonly Event[],
  names: readonly string[],
): PersonValues {
  const [known, setKnown] = useState<{ key: string; values: PersonValues }>({
    key: "",
    values: NONE,
  });
  const key = JSON.stringify([projectId, filter, names]);
  const values = known.key === key ? known.values : NONE;
  useEffect(() => {
    const wanted = names.length > 0 ? missing(rows, values) : [];
    const times = wanted.map((row) => Date.parse(row.timestamp));
    if (times.length === 0) return;
    const controller = new AbortController();
    const query = {
      ...eventParameters(filter),
      // Milliseconds are coarser than the stored time: a little more than the rows.
      after: new Date(Math.min(...times) - 1).toISOString(),
      before: new Date(Math.max(...times) + 2).toISOString(),
      orderBy: '["timestamp DESC"]',
      limit: String(ROWS_AT_ONCE * 2),
      select: JSON.stringify([
        "uuid",
        ...names.map((name) => columnExpression(personPropertyColumn(name))),
      ]),
    };
    const show = (found: readonly unknown[][]) => {
      const next = new Map(values);
      for (const row of wanted) next.set(row.id, {});
      for (const [id, ...cells] of found) {
        next.set(String(id), Object.fromEntries(names.map((name, at) => [name, cells[at]])));
      }
      setKnown({ key, values: next });
    };
    call(
      api.GET("/api/projects/{project_id}/events", {
        params: { path: { project_id: projectId }, query },
        signal: controller.signal,
      }),
    ).then(
      (answer) => show((answer as Schemas["Selected"]).results as unknown[][]),
      () => !controller.signal.aborted && show([]),
    );
    return () => controller.abort();
  }, [projectId, filter, rows, names, key, values]);
  return values;
}
