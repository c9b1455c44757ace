import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { api, call } from "@/api/client";
import { JsonView } from "@/events/JsonView";
import { reasonOf, type Warning } from "@/events/refusals";
import { useProject } from "@/shell/useProject";
import { Badge, buttonClass, Card, ErrorPanel, RelativeTime, SkeletonRows } from "@/ui";
import { count } from "@/ui/format";

const NEWEST = 200;
const KINDS_MAX = 10;

interface Kind {
  kind: Warning["type"];
  warnings: number;
  newest: Warning;
}

function byKind(warnings: readonly Warning[]): Kind[] {
  const kinds = new Map<Warning["type"], Kind>();
  for (const warning of warnings) {
    const known = kinds.get(warning.type);
    if (known) known.warnings += 1;
    else kinds.set(warning.type, { kind: warning.type, warnings: 1, newest: warning });
  }
  return [...kinds.values()].sort((a, b) => b.warnings - a.warnings).slice(0, KINDS_MAX);
}

/// The kinds of the newest ingestion warnings of this project, each with a sample.
export function Warnings() {
  const { projectId, project } = useProject();
  const [open, setOpen] = useState<Warning["type"] | null>(null);
  const query = useQuery({
    queryKey: ["ingestion_warnings", projectId, { newest: NEWEST }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/ingestion_warnings", {
          params: { path: { project_id: projectId }, query: { limit: NEWEST } },
          signal,
        }),
      ),
  });
  const kinds = byKind(query.data?.results ?? []);
  return (
    <Card
      title="Ingestion warnings"
      description={`The newest of ${project.name}, by kind.`}
      actions={
        <Link
          to="/project/$projectId/activity/live"
          params={{ projectId }}
          search={{ tab: "refused" }}
          className={buttonClass("secondary", "sm")}
        >
          All warnings
        </Link>
      }
    >
      {query.isPending ? (
        <SkeletonRows rows={2} label="Loading warnings" />
      ) : query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : kinds.length === 0 ? (
        <p className="text-muted">None in the last 30 days.</p>
      ) : (
        <ul aria-label="Kinds of warnings" className="divide-y rounded-md border">
          {kinds.map(({ kind, warnings, newest }) => {
            const { title, refused } = reasonOf(kind);
            return (
              <li key={kind} className="px-3 py-2">
                <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
                  <button
                    type="button"
                    aria-expanded={open === kind}
                    onClick={() => setOpen(open === kind ? null : kind)}
                    className="min-h-6 min-w-0 flex-1 basis-48 text-left font-medium hover:underline"
                  >
                    {title}
                  </button>
                  <Badge tone={refused ? "danger" : "warn"}>
                    {refused ? "Not stored" : "Stored with changes"}
                  </Badge>
                  <span className="text-xs text-muted">
                    {count(warnings, "warning")}, <RelativeTime at={newest.timestamp} />
                  </span>
                </div>
                {open === kind && (
                  <div className="mt-2 flex flex-col gap-2">
                    <p className="text-muted">{reasonOf(kind).remedy}</p>
                    <JsonView label={`Sample: ${title}`} value={newest.details} />
                  </div>
                )}
              </li>
            );
          })}
        </ul>
      )}
    </Card>
  );
}
