import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ArrowDownRight, ArrowUpRight, ChartNoAxesCombined, Flag, Plug, Star } from "lucide-react";
import { type ReactNode, Suspense, useMemo, useRef } from "react";
import { api, call, type Schemas } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useLiveRefetch } from "@/api/live";
import { dashboardName, dashboardQuery } from "@/dashboards/api";
import { useSeen } from "@/dashboards/useSeen";
import { type Answered, ask, insightSource } from "@/insights/queries";
import { DemoButton } from "@/onboarding/DemoButton";
import { useProject } from "@/shell/useProject";
import {
  buttonClass,
  Card,
  cx,
  EmptyState,
  ErrorPanel,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  Skeleton,
} from "@/ui";
import { count, exact, percent } from "@/ui/format";
import { actorName, describeFlagChange } from "./flagChanges";
import { soFarQuery, todayQuery, todaySums } from "./today";

const InsightResult = lazy(async () => ({
  default: (await import("@/insights/InsightResult")).InsightResult,
}));
const HomeDashboard = lazy(async () => ({
  default: (await import("./HomeDashboard")).HomeDashboard,
}));

export function HomePage() {
  const { projectId, project } = useProject();
  const last = useLastEvent();
  const primary = project.primary_dashboard;
  const dashboard = useQuery({
    ...dashboardQuery(projectId, primary ?? 0),
    enabled: primary !== null && primary !== undefined,
  });
  const opensDashboard = dashboard.isLoading || dashboard.data !== undefined;
  if (last.data === null) {
    return (
      <Page>
        <PageHeader title={project.name} description={<IngestionLight last={last.data} />} />
        <Card>
          <EmptyState
            icon={<Plug aria-hidden />}
            title="No events yet"
            action={
              <div className="flex flex-wrap justify-center gap-2">
                <Link
                  to="/project/$projectId/onboarding"
                  params={{ projectId }}
                  className={buttonClass("primary")}
                >
                  Connect an app
                </Link>
                <DemoButton />
              </div>
            }
          >
            Hedgerow draws what your app sends. Copy a snippet into it, and the first event shows
            here within a second.
          </EmptyState>
        </Card>
      </Page>
    );
  }
  return (
    <Page wide={opensDashboard}>
      <PageHeader title={project.name} description={<IngestionLight last={last.data} />} />
      <div className="flex flex-col gap-6">
        <TodayRow />
        {dashboard.data ? (
          <section>
            <SectionTitle
              title={dashboardName(dashboard.data)}
              link={
                <Link
                  to="/project/$projectId/dashboard/$id"
                  params={{ projectId, id: String(dashboard.data.id) }}
                  search={{}}
                  className="text-accent-text hover:underline"
                >
                  Open dashboard
                </Link>
              }
            />
            <Suspense fallback={<Skeleton className="h-80" />}>
              <HomeDashboard dashboard={dashboard.data} />
            </Suspense>
          </section>
        ) : dashboard.isLoading ? (
          <Skeleton className="h-80" />
        ) : (
          <div className="grid items-start gap-x-4 gap-y-6 lg:grid-cols-3">
            <div className="min-w-0 lg:col-span-2">
              <InsightShelves />
            </div>
            <FlagChanges />
          </div>
        )}
        {dashboard.data && <FlagChanges />}
      </div>
    </Page>
  );
}

function SectionTitle({ title, link }: { title: string; link?: ReactNode }) {
  return (
    <div className="mb-2 flex items-baseline justify-between gap-4">
      <h2 className="font-semibold">{title}</h2>
      {link}
    </div>
  );
}

/// The time of the latest event, or null where there is none.
function useLastEvent() {
  const { projectId } = useProject();
  const query = useQuery({
    queryKey: ["last_event", projectId],
    queryFn: async ({ signal }): Promise<string | null> => {
      const answer = await ask(
        projectId,
        { kind: "HogQLQuery", query: "select max(timestamp), count() from events" },
        { signal, refresh: "force_blocking" },
      );
      const [at, total] = answer.results[0] ?? [];
      return Number(total) > 0 ? String(at) : null;
    },
  });
  useLiveRefetch({ projectId, events: null, enabled: true, refetch: query.refetch });
  return query;
}

const QUIET_MS = 60 * 60_000;
const WARNINGS_MAX = 100;

/// Whether events arrive, in words and not by colour alone.
function IngestionLight({ last }: { last: string | null | undefined }) {
  const { projectId, project } = useProject();
  const warnings = useQuery({
    queryKey: ["ingestion_warnings", projectId],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/ingestion_warnings", {
          params: { path: { project_id: projectId }, query: { limit: WARNINGS_MAX } },
          signal,
        }),
      ),
  });
  if (last === undefined) return <span>Times are in {project.timezone}.</span>;
  const refused = warnings.data?.count ?? 0;
  const quiet = last !== null && Date.now() - Date.parse(last) > QUIET_MS;
  const tone = last === null ? "bg-line-strong" : quiet || refused > 0 ? "bg-warn" : "bg-accent";
  const light = (
    <span className={cx("mr-2 inline-block size-2.5 rounded-full", tone)} aria-hidden="true" />
  );
  return (
    <span className="flex flex-wrap items-baseline gap-x-2 gap-y-1">
      {last === null ? (
        <span>
          {light}
          Waiting for the first event.
        </span>
      ) : (
        <span>
          {light}
          {quiet
            ? "No event in the last hour; the latest came "
            : "Events arrive; the latest came "}
          <RelativeTime at={notLaterThanNow(last)} />.
        </span>
      )}
      {refused > 0 && (
        <Link
          to="/project/$projectId/activity/live"
          params={{ projectId }}
          search={{ tab: "refused" }}
          className="text-warn underline underline-offset-2"
        >
          {count(refused, "ingestion warning")}
        </Link>
      )}
      <span>
        {refused > 0 && "· "}Times are in {project.timezone}.
      </span>
    </span>
  );
}

/// An app whose clock is ahead sends events of the future.
function notLaterThanNow(at: string): Date {
  return new Date(Math.min(Date.parse(at), Date.now()));
}

function TodayRow() {
  return (
    <section aria-label="Today beside last week" className="grid gap-4 sm:grid-cols-3">
      <TodayTile title="Persons today" math="dau" event={null} />
      <TodayTile title="Events today" math="total" event={null} />
      <TodayTile title="Page views today" math="total" event="$pageview" />
    </section>
  );
}

interface TodayTileProps {
  title: string;
  math: "total" | "dau";
  event: string | null;
}

/// One number of today, beside the same time of last week.
function TodayTile({ title, math, event }: TodayTileProps) {
  const { projectId, project } = useProject();
  const query = useQuery({
    queryKey: ["today", projectId, math, event],
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const hourly = todayQuery(math, event);
      const options = { signal, refresh: "force_blocking" } as const;
      const [answer, soFar] = await Promise.all([
        ask(projectId, hourly, options),
        ask(projectId, soFarQuery(hourly), options),
      ]);
      return { hourly, answer, sums: todaySums(soFar.results) };
    },
  });
  useLiveRefetch({
    projectId,
    events: event === null ? null : [event],
    enabled: true,
    refetch: query.refetch,
  });
  const sums = query.data?.sums;
  const change = sums && sums.before > 0 ? sums.now / sums.before - 1 : null;
  return (
    <Card title={title} className="min-h-40">
      {query.isError ? (
        <ErrorPanel error={query.error} className="py-1" onRetry={() => query.refetch()} />
      ) : !sums || !query.data ? (
        <Skeleton className="h-24" />
      ) : (
        <div className="flex h-full flex-col gap-1">
          <p className="flex items-baseline gap-2">
            <span className="text-2xl font-semibold tabular-nums">{exact(sums.now)}</span>
            {change !== null && (
              <span className="flex items-center gap-0.5 text-muted">
                {change >= 0 ? (
                  <ArrowUpRight className="size-4" aria-hidden />
                ) : (
                  <ArrowDownRight className="size-4" aria-hidden />
                )}
                {percent(Math.abs(change))} {change >= 0 ? "more" : "fewer"}
              </span>
            )}
          </p>
          <p className="text-xs text-muted">{exact(sums.before)} by this time last week</p>
          <PanelBoundary className="py-1">
            <Suspense fallback={<Skeleton className="h-14" />}>
              <InsightResult
                className="h-14"
                label={`${title} by the hour`}
                query={query.data.hourly}
                answer={query.data.answer}
                timeZone={project.timezone}
                thumbnail
              />
            </Suspense>
          </PanelBoundary>
        </div>
      )}
    </Card>
  );
}

const SHELF_MAX = 6;

function InsightShelves() {
  const { projectId } = useProject();
  const list = (query: { favorited?: string; order: string }) => ({
    queryKey: ["insights", projectId, { home: query }],
    queryFn: ({ signal }: { signal: AbortSignal }) =>
      call(
        api.GET("/api/projects/{project_id}/insights", {
          params: {
            path: { project_id: projectId },
            query: { ...query, saved: "true", limit: SHELF_MAX },
          },
          signal,
        }),
      ),
  });
  const pinned = useQuery(list({ favorited: "true", order: "-last_modified_at" }));
  const recent = useQuery(list({ order: "-last_modified_at" }));
  if (recent.isError) {
    return (
      <Card title="Recent insights">
        <ErrorPanel error={recent.error} className="py-1" onRetry={() => recent.refetch()} />
      </Card>
    );
  }
  if (recent.isPending) return <Skeleton className="h-64" />;
  const pinnedIds = new Set(pinned.data?.results.map(({ short_id: id }) => id));
  const others = recent.data.results.filter(({ short_id: id }) => !pinnedIds.has(id));
  if (recent.data.results.length === 0) {
    return (
      <section>
        <SectionTitle title="Recent insights" />
        <Card>
          <EmptyState
            icon={<ChartNoAxesCombined aria-hidden />}
            title="No insights yet"
            action={
              <Link
                to="/project/$projectId/insights/new"
                params={{ projectId }}
                className={buttonClass("primary")}
              >
                Make your first chart
              </Link>
            }
          >
            An insight is a saved chart that stays current, such as how many people signed up each
            day.
          </EmptyState>
        </Card>
      </section>
    );
  }
  return (
    <div className="flex flex-col gap-6">
      {pinned.data && pinned.data.results.length > 0 && (
        <Shelf title="Pinned insights" insights={pinned.data.results} starred />
      )}
      {others.length > 0 && <Shelf title="Recent insights" insights={others} />}
      <p className="text-muted">
        To see a dashboard here, open it and choose “Show on home” in its menu.
      </p>
    </div>
  );
}

function Shelf({
  title,
  insights,
  starred = false,
}: {
  title: string;
  insights: readonly Schemas["Insight"][];
  starred?: boolean;
}) {
  const { projectId } = useProject();
  return (
    <section>
      <SectionTitle
        title={title}
        link={
          <Link
            to="/project/$projectId/insights"
            params={{ projectId }}
            search={{}}
            className="text-accent-text hover:underline"
          >
            All insights
          </Link>
        }
      />
      <ul className="grid gap-4 *:min-w-0 sm:grid-cols-2">
        {insights.map((insight) => (
          <li key={insight.short_id}>
            <InsightCard insight={insight} starred={starred} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function InsightCard({ insight, starred }: { insight: Schemas["Insight"]; starred: boolean }) {
  const { projectId, project } = useProject();
  const host = useRef<HTMLDivElement>(null);
  const { seen } = useSeen(host);
  const source = useMemo(() => insightSource(insight.query), [insight.query]);
  const query = useQuery({
    queryKey: ["insight_answer", projectId, source],
    enabled: seen && source !== null,
    queryFn: async ({ signal }): Promise<Answered> => {
      if (!source) throw new Error("the insight has no query");
      return { query: source, answer: await ask(projectId, source, { signal }) };
    },
  });
  const name = insight.name || insight.derived_name || "Untitled insight";
  return (
    <div
      ref={host}
      className="relative flex h-44 flex-col rounded-lg border bg-surface p-3 hover:border-line-strong"
    >
      <h3 className="flex items-center gap-1.5 font-medium">
        {starred && <Star className="size-3.5 shrink-0 text-muted" aria-hidden />}
        <Link
          to="/project/$projectId/insights/$shortId"
          params={{ projectId, shortId: insight.short_id }}
          className="truncate after:absolute after:inset-0 hover:underline"
        >
          {name}
        </Link>
      </h3>
      <div className="mt-1 flex min-h-0 flex-1 flex-col overflow-hidden">
        {query.isError ? (
          <p className="my-auto text-center text-xs text-muted">Could not be calculated</p>
        ) : query.data ? (
          <PanelBoundary className="py-1">
            <Suspense fallback={<Skeleton className="h-full" />}>
              <InsightResult
                className="min-h-0 flex-1"
                label={name}
                query={query.data.query}
                stored={insight.query}
                answer={query.data.answer}
                timeZone={project.timezone}
                thumbnail
              />
            </Suspense>
          </PanelBoundary>
        ) : (
          source && <Skeleton className="h-full" />
        )}
      </div>
    </div>
  );
}

const CHANGES_MAX = 8;

function FlagChanges() {
  const { projectId } = useProject();
  const query = useQuery({
    queryKey: ["flag_changes", projectId],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/activity", {
          params: { path: { project_id: projectId }, query: { limit: CHANGES_MAX } },
          signal,
        }),
      ),
  });
  // A reader without access to flags or their history sees no such panel.
  if (query.isError || query.isPending) return null;
  return (
    <section>
      <SectionTitle title="Flag changes" />
      <Card>
        {query.data.results.length === 0 ? (
          <EmptyState icon={<Flag aria-hidden />} title="No flag has changed" className="py-4">
            Who changed which flag, and when, shows here.
          </EmptyState>
        ) : (
          <ul className="-my-2 flex flex-col divide-y">
            {query.data.results.slice(0, CHANGES_MAX).map((entry) => (
              <li key={entry.id} className="flex items-start gap-2.5 py-2">
                <Flag className="mt-0.5 size-4 shrink-0 text-muted" aria-hidden />
                <p className="min-w-0 wrap-anywhere">
                  {actorName(entry)} {describeFlagChange(entry)}{" "}
                  <Link
                    to="/project/$projectId/feature_flags/$id"
                    params={{ projectId, id: entry.item_id }}
                    search={{ tab: "history", entry: entry.id }}
                    className="font-medium hover:underline"
                  >
                    {entry.detail.name}
                  </Link>{" "}
                  <span className="text-xs text-muted">
                    <RelativeTime at={entry.created_at} />
                  </span>
                </p>
              </li>
            ))}
          </ul>
        )}
      </Card>
    </section>
  );
}
