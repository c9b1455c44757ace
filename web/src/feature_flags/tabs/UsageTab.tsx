import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ChartNoAxesCombined, LayoutDashboard, Plus } from "lucide-react";
import { useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { useLiveRefetch } from "@/api/live";
import { mayEdit } from "@/api/permissions";
import { queryClient } from "@/api/queryClient";
import { InsightResult } from "@/insights/InsightResult";
import { answerQuery, resultsOf, type TrendsQuery } from "@/insights/queries";
import { useMarkers } from "@/insights/useMarkers";
import { RangePicker } from "@/ranges/RangePicker";
import { type DateRange, suggestedInterval } from "@/ranges/range";
import { useProject } from "@/shell/useProject";
import { Button, buttonClass, Card, EmptyState, ErrorPanel, Skeleton, toast } from "@/ui";
import { count } from "@/ui/format";
import { type Flag, flagQuery, remember } from "../flagApi";

const CALLED = "$feature_flag_called";

function callsQuery(key: string, range: DateRange): TrendsQuery {
  return {
    kind: "TrendsQuery",
    series: [{ kind: "EventsNode", event: CALLED, name: "Calls", math: "total" }],
    properties: [{ key: "$feature_flag", type: "event", operator: "exact", value: [key] }],
    breakdownFilter: { breakdown: "$feature_flag_response", breakdown_type: "event" },
    dateRange: range,
    interval: suggestedInterval(range),
  };
}

/// How often code asks for the flag, by what it answers.
export function UsageTab({ flag }: { flag: Flag }) {
  const { projectId, project } = useProject();
  const [range, setRange] = useState<DateRange>({ date_from: "-7d" });
  const query = useMemo(() => callsQuery(flag.key, range), [flag.key, range]);
  const result = useQuery(answerQuery(projectId, query));
  const { refetch } = result;
  useLiveRefetch({ projectId, events: [CALLED], enabled: !result.isError, refetch });
  const markers = useMarkers(projectId, result.data?.answer.resolved_date_range).filter(
    ({ kind, label }) => kind === "flag" && label.startsWith(`Flag ${flag.key} `),
  );
  const calls = result.data
    ? resultsOf(query, result.data.answer).reduce((sum, series) => sum + (series.count ?? 0), 0)
    : 0;
  return (
    <div className="flex flex-col gap-4">
      <Card
        title="Calls by value"
        description={result.data ? count(calls, "call") : undefined}
        actions={
          <RangePicker size="sm" value={range} timeZone={project.timezone} onChange={setRange} />
        }
      >
        {result.isPending ? (
          <Skeleton className="h-72" />
        ) : result.isError ? (
          <ErrorPanel error={result.error} onRetry={() => result.refetch()} />
        ) : calls === 0 ? (
          <EmptyState
            icon={<ChartNoAxesCombined aria-hidden />}
            title="No calls in this range"
            className="py-8"
          >
            SDKs send an event the first time a person’s code asks for the flag. It shows here
            within a second.
          </EmptyState>
        ) : (
          <div className="h-72">
            <InsightResult
              query={result.data.query}
              answer={result.data.answer}
              label={`Calls of ${flag.key} by value`}
              timeZone={project.timezone}
              markers={markers}
              className="h-full"
            />
          </div>
        )}
      </Card>
      <UsageDashboard flag={flag} />
    </div>
  );
}

function UsageDashboard({ flag }: { flag: Flag }) {
  const { projectId } = useProject();
  const { allowed, reason } = mayEdit(flag);
  const disabledReason = allowed ? undefined : reason;
  const params = { path: { project_id: projectId, id: flag.id } };
  const done = () => {
    void queryClient.invalidateQueries({ queryKey: flagQuery(projectId, flag.id).queryKey });
    void queryClient.invalidateQueries({ queryKey: ["dashboards", projectId] });
  };
  const create = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/projects/{project_id}/feature_flags/{id}/dashboard", { params, body: {} }),
      ),
    onSuccess: ({ success: _, ...made }) => {
      remember(projectId, made);
      done();
    },
    onError: (error) => toast.error(error, "No dashboard was made"),
  });
  const enrich = useMutation({
    mutationFn: async () => {
      await call(
        api.PATCH("/api/projects/{project_id}/feature_flags/{id}", {
          params,
          body: { has_enriched_analytics: true },
        }),
      );
      return call(
        api.POST("/api/projects/{project_id}/feature_flags/{id}/enrich_usage_dashboard", {
          params,
          body: {},
        }),
      );
    },
    onSuccess: () => {
      done();
      toast.success("Views and interactions added");
    },
    onError: (error) => toast.error(error, "Nothing was added"),
  });
  return (
    <Card title="Usage dashboard">
      {flag.usage_dashboard ? (
        <div className="flex flex-wrap items-center gap-2">
          <Link
            to="/project/$projectId/dashboard/$id"
            params={{ projectId, id: String(flag.usage_dashboard) }}
            search={{}}
            className={buttonClass()}
          >
            <LayoutDashboard aria-hidden />
            Open the dashboard
          </Link>
          {!flag.has_enriched_analytics && (
            <Button
              icon={<Plus aria-hidden />}
              busy={enrich.isPending}
              disabledReason={disabledReason}
              onClick={() => enrich.mutate()}
            >
              Add views and interactions
            </Button>
          )}
        </div>
      ) : (
        <div className="flex flex-wrap items-center gap-3">
          <Button
            icon={<Plus aria-hidden />}
            busy={create.isPending}
            disabledReason={disabledReason}
            onClick={() => create.mutate()}
          >
            Make a usage dashboard
          </Button>
          <p className="text-muted">Calls over time and by variant, as a dashboard of its own.</p>
        </div>
      )}
    </Card>
  );
}
