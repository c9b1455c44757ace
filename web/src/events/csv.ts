import { api, call } from "@/api/client";
import { download } from "@/charts/export";
import { columnExpression } from "./columns";
import { type EventFilter, eventParameters } from "./eventList";

/// The most that the API lists at once.
export const CSV_ROWS_MAX = 50_000;

/// Downloads the events of a filter: the given columns, or all properties.
export async function downloadEvents(
  projectId: string,
  filter: EventFilter,
  columns: readonly string[] | null,
): Promise<void> {
  const selected = columns && {
    select: JSON.stringify(columns.map(columnExpression)),
    // `select` takes the order as HogQL.
    orderBy: JSON.stringify([filter.order === "oldest" ? "timestamp" : "timestamp DESC"]),
  };
  const content = await call(
    api.GET("/api/projects/{project_id}/events", {
      params: {
        path: { project_id: projectId },
        query: {
          ...eventParameters(filter),
          ...selected,
          limit: String(CSV_ROWS_MAX),
          format: "csv",
        },
      },
      parseAs: "blob",
    }),
  );
  download("events.csv", content as unknown as Blob);
}
