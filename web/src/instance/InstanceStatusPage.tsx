import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, TriangleAlert } from "lucide-react";
import { type ReactNode, Suspense, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useMe } from "@/api/me";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Card,
  cx,
  EmptyState,
  ErrorPanel,
  Page,
  PageHeader,
  PanelBoundary,
  SearchInput,
  Skeleton,
  SkeletonRows,
} from "@/ui";
import { bytes, count, duration, exact } from "@/ui/format";
import { Meter } from "./Meter";
import { dropText, forecastText, lagText, settingsBySection } from "./words";

const DeadLetters = lazy(() =>
  import("./DeadLetters").then((module) => ({ default: module.DeadLetters })),
);
const Warnings = lazy(() => import("./Warnings").then((module) => ({ default: module.Warnings })));

type Status = Schemas["InstanceStatus"];

const REFETCH_MS = 5_000;

/// Whether events land, for the staff of the instance.
export function InstanceStatusPage() {
  const me = useMe();
  const query = useQuery({
    queryKey: ["instance_status"],
    enabled: me.is_staff,
    refetchInterval: REFETCH_MS,
    queryFn: ({ signal }) => call(api.GET("/api/instance_status", { signal })),
  });
  if (!me.is_staff) return <RouteNotFound />;
  const status = query.data;
  return (
    <Page>
      <PageHeader
        title="Instance status"
        description={
          status && (
            <>
              Hedgerow {status.version}, up for {duration(status.uptime_seconds)}
            </>
          )
        }
      />
      {status ? (
        <div className="flex flex-col gap-4">
          {query.isError && (
            <Card>
              <ErrorPanel
                error={query.error}
                title="These figures are old"
                onRetry={() => query.refetch()}
                className="py-3"
              />
            </Card>
          )}
          <Problems status={status} />
          <div className="grid gap-4 lg:grid-cols-2">
            <Journal status={status} />
            <Disk status={status} />
            <Stored status={status} />
            <Memory status={status} />
            <Received status={status} />
            <Pipeline status={status} />
          </div>
          <PanelBoundary>
            <Suspense fallback={<Skeleton className="h-40" />}>
              <DeadLetters waiting={status.dead_letters.waiting} />
              <Warnings />
            </Suspense>
          </PanelBoundary>
          <Settings settings={status.settings} />
        </div>
      ) : query.isError ? (
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      ) : (
        <Card>
          <SkeletonRows label="Loading the status" />
        </Card>
      )}
    </Page>
  );
}

function Problems({ status: { problems } }: { status: Status }) {
  if (problems.length === 0) {
    return (
      <p className="flex items-center gap-2 rounded-lg border bg-accent-soft px-4 py-2.5 text-accent-text">
        <CircleCheck className="size-4 shrink-0" aria-hidden />
        Events are accepted and applied. No limit is near.
      </p>
    );
  }
  return (
    <ul aria-label="Problems" className="flex flex-col gap-2">
      {problems.map(({ code, severity, detail }) => (
        <li
          key={code}
          className={cx(
            "flex items-start gap-2 rounded-lg border px-4 py-2.5",
            severity === "critical" ? "bg-danger-soft text-danger" : "bg-warn-soft text-warn",
          )}
        >
          {severity === "critical" ? (
            <CircleAlert className="mt-0.5 size-4 shrink-0" role="img" aria-label="Critical" />
          ) : (
            <TriangleAlert className="mt-0.5 size-4 shrink-0" role="img" aria-label="Warning" />
          )}
          {detail}
        </li>
      ))}
    </ul>
  );
}

function Figures({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="flex flex-col">
      {rows.map(([label, value]) => (
        <div key={label} className="flex min-h-7 items-baseline justify-between gap-4">
          <dt className="text-muted">{label}</dt>
          <dd className="text-right tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Journal({ status: { journal, lag } }: { status: Status }) {
  return (
    <Card title="Journal" description="What was received and is not in both stores yet.">
      <div className="flex flex-col gap-3">
        <Meter
          label="Size"
          value={journal.disk_bytes}
          max={journal.disk_bytes_max}
          text={`${bytes(journal.disk_bytes)} of ${bytes(journal.disk_bytes_max)}`}
        />
        <Figures
          rows={[
            ["Accepts events", journal.refusal ? `No: ${journal.refusal}` : "Yes"],
            ["Lag", lag.seconds > 0 ? duration(lag.seconds) : "None"],
            ["Backlog", lagText(lag)],
            ["Not durable yet", bytes(journal.queue_bytes)],
            [
              "Applied up to",
              `${exact(journal.applied_position)} of ${exact(journal.next_position)}`,
            ],
          ]}
        />
      </div>
    </Card>
  );
}

function Disk({ status: { disk } }: { status: Status }) {
  const used = disk.total_bytes - disk.free_bytes;
  return (
    <Card title="Disk" description="The file system of the data directory.">
      <div className="flex flex-col gap-3">
        <Meter
          label="Used"
          value={used}
          max={disk.total_bytes}
          warnFrom={0.9}
          alarmFrom={0.98}
          text={`${bytes(used)} of ${bytes(disk.total_bytes)}`}
        />
        <Figures rows={[["Free", bytes(disk.free_bytes)]]} />
        <p>{forecastText(disk, bytes)}</p>
      </div>
    </Card>
  );
}

function Stored({ status: { events } }: { status: Status }) {
  const { disk_bytes_max: max, days_max: days } = events;
  return (
    <Card title="Events" description="Stored in all projects.">
      <div className="flex flex-col gap-3">
        {max != null && (
          <Meter
            label="Size"
            value={events.disk_bytes}
            max={max}
            text={`${bytes(events.disk_bytes)} of ${bytes(max)}`}
          />
        )}
        <Figures
          rows={[
            ["Events", exact(events.events)],
            ["On disk", `${bytes(events.disk_bytes)} in ${count(events.segments, "segment")}`],
            ["In memory, not flushed", bytes(events.memory_bytes)],
            ["Kept for", days == null ? "Forever" : count(days, "day")],
          ]}
        />
      </div>
    </Card>
  );
}

function Memory({ status: { memory } }: { status: Status }) {
  return (
    <Card title="Memory">
      <div className="flex flex-col gap-3">
        <Meter
          label="Queries"
          value={memory.query_bytes}
          max={memory.query_bytes_max}
          // A cache that is full is used well.
          warnFrom={2}
          alarmFrom={2}
          text={`${bytes(memory.query_bytes)} of ${bytes(memory.query_bytes_max)}`}
        />
        <Figures
          rows={[
            ["Process", memory.resident_bytes == null ? "–" : bytes(memory.resident_bytes)],
            ["Person indexes", bytes(memory.persons_bytes)],
            ["Requests in flight", bytes(memory.in_flight_bytes)],
            ...memory.pools
              .filter((pool) => pool.bytes > 0 || pool.refused > 0)
              .map(
                ({ use, bytes: held, refused }) =>
                  [
                    `Held for ${use.replaceAll("_", " ")}`,
                    refused > 0 ? `${bytes(held)}, refused ${count(refused, "time")}` : bytes(held),
                  ] as const,
              ),
          ]}
        />
      </div>
    </Card>
  );
}

function Received({ status: { capture } }: { status: Status }) {
  const dropped = [...capture.dropped].sort((a, b) => b.count - a.count);
  return (
    <Card title="Received" description="Since the start.">
      <Figures
        rows={[
          ["Accepted", count(capture.accepted, "event")],
          ...dropped.map((drop) => [dropText(drop.reason), exact(drop.count)] as const),
          ...(capture.warnings_lost > 0
            ? [["Warnings that were not kept", exact(capture.warnings_lost)] as const]
            : []),
        ]}
      />
      {dropped.length === 0 && <p className="mt-2 text-muted">No event was dropped.</p>}
    </Card>
  );
}

function Pipeline({ status: { pipeline } }: { status: Status }) {
  return (
    <Card title="Applied" description="From the journal to the stores, since the start.">
      <Figures
        rows={[
          ["Events", exact(pipeline.events)],
          [
            "Records",
            `${exact(pipeline.records)} in ${count(pipeline.batches, "batch", "batches")}`,
          ],
          ["Batches that failed and were retried", exact(pipeline.failures)],
          ["Records that could not be applied", exact(pipeline.dead_letters)],
        ]}
      />
    </Card>
  );
}

function Settings({ settings }: { settings: Status["settings"] }) {
  const { projectId } = useProject();
  const [search, setSearch] = useState("");
  const sections = settingsBySection(settings, search);
  return (
    <Card
      title="Server settings"
      description="Read at the start from arguments, environment variables and the configuration file."
    >
      <div className="flex flex-col gap-4">
        <SearchInput
          label="Search settings"
          className="w-full sm:w-72"
          value={search}
          onChange={(event) => setSearch(event.currentTarget.value)}
        />
        {sections.length === 0 && (
          <EmptyState title="No setting matches" className="py-6">
            Settings of a project are{" "}
            <Link
              to="/project/$projectId/settings/project"
              params={{ projectId }}
              className="text-accent-text underline underline-offset-2"
            >
              on a page of their own
            </Link>
            .
          </EmptyState>
        )}
        {sections.map((section) => (
          <section key={section.heading}>
            <h3 className="mb-1 text-xs font-semibold text-muted">{section.heading}</h3>
            <dl className="divide-y rounded-md border">
              {section.settings.map(({ key, value, origin, secret, help }) => (
                <div
                  key={key}
                  className="grid gap-x-4 gap-y-0.5 px-3 py-2 sm:grid-cols-[minmax(0,1fr)_minmax(0,1fr)]"
                >
                  <dt className="min-w-0">
                    <code className="font-mono text-xs wrap-anywhere">{key}</code>
                    <p className="text-xs text-muted">{help}</p>
                  </dt>
                  <dd className="flex min-w-0 flex-wrap items-center gap-2 self-center sm:justify-end">
                    <span
                      className={cx("wrap-anywhere", (value == null || secret) && "text-muted")}
                    >
                      {value ?? "not set"}
                    </span>
                    <Badge tone={origin === "default" ? "neutral" : "info"}>{origin}</Badge>
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Card>
  );
}
