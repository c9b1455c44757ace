import { useQuery } from "@tanstack/react-query";
import { Link, useLocation } from "@tanstack/react-router";
import { CircleAlert, TriangleAlert } from "lucide-react";
import { api, call, type Schemas } from "@/api/client";
import { cx } from "@/ui";

const REFETCH_MS = 30_000;
/// Waits for somebody to look at it, and delays nothing.
const QUIET: readonly Schemas["ProblemCode"][] = ["dead_letters"];

type Status = Schemas["IngestionStatus"];

/// The sentence that everybody is shown, and whether it is an alarm; null where all is well.
export function bannerOf(status: Status): { text: string; critical: boolean } | null {
  if (status.detail) return { text: status.detail, critical: status.status === "stopped" };
  const loud = (status.problems ?? []).filter(({ code }) => !QUIET.includes(code));
  const worst = loud.find(({ severity }) => severity === "critical") ?? loud[0];
  return worst ? { text: worst.detail, critical: worst.severity === "critical" } : null;
}

/// Trouble of the instance, above every page: for everybody that events are late or refused, for staff
/// also why, and what will be trouble soon.
export function IngestionBanner({ projectId }: { projectId: string }) {
  const { data } = useQuery({
    queryKey: ["ingestion_status", projectId],
    retry: false,
    refetchInterval: REFETCH_MS,
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/ingestion_status", {
          params: { path: { project_id: projectId } },
          signal,
        }),
      ),
  });
  // The page with the details lists the same problems.
  const isOnStatus = useLocation({
    select: ({ pathname }) => pathname.endsWith("/instance/status"),
  });
  const banner = data && bannerOf(data);
  if (!banner || isOnStatus) return null;
  const Icon = banner.critical ? CircleAlert : TriangleAlert;
  return (
    <section
      aria-label="Trouble of the instance"
      aria-live="polite"
      className={cx(
        "flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2 sm:px-6",
        banner.critical ? "bg-danger-soft text-danger" : "bg-warn-soft text-warn",
      )}
    >
      <Icon className="size-4 shrink-0" aria-hidden />
      <p className="min-w-0 flex-1 basis-48">{banner.text}</p>
      {data.problems && (
        <Link
          to="/project/$projectId/instance/status"
          params={{ projectId }}
          className="inline-flex min-h-6 items-center font-medium underline underline-offset-2"
        >
          Instance status
        </Link>
      )}
    </section>
  );
}
