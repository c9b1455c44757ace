import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChartNoAxesCombined } from "lucide-react";
import { useEffect, useMemo } from "react";
import { isHidden } from "@/api/errors";
import { eventDefinitionsQuery } from "@/filters/definitions";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import { buttonClass, Card, EmptyState, ErrorPanel, Page, PageHeader, Skeleton, toast } from "@/ui";
import { Builder, InsightsLink } from "./Builder";
import { CodeBlock } from "./CodeBlock";
import { decodeDraft } from "./draft";
import { InsightResult } from "./InsightResult";
import { type Insight, insightName, insightQuery, markViewed, updateInsight } from "./insightApi";
import { newQuery } from "./kinds";
import { answerQuery, editableQuery, insightSource, type SqlQuery } from "./queries";

const route = getRouteApi("/project/$projectId/insights/$shortId");
const newRoute = getRouteApi("/project/$projectId/insights/new");

function useOpenInsight() {
  const { projectId } = useProject();
  const navigate = useNavigate();
  return (insight: Insight) =>
    navigate({
      to: "/project/$projectId/insights/$shortId",
      params: { projectId, shortId: insight.short_id },
    });
}

function Loading({ title }: { title: string }) {
  const { projectId } = useProject();
  return (
    <Page wide>
      <PageHeader title={title} eyebrow={<InsightsLink projectId={projectId} />} />
      <div role="status" className="flex gap-4">
        <span className="sr-only">Loading</span>
        <Skeleton className="hidden h-96 w-92 lg:block" />
        <Skeleton className="h-[32rem] flex-1" />
      </div>
    </Page>
  );
}

/// The event to begin with: page views where there are any, else the commonest of the project's own.
function commonest(names: readonly string[]): string | null {
  if (names.includes("$pageview")) return "$pageview";
  return names.find((name) => !name.startsWith("$")) ?? names[0] ?? null;
}

export function NewInsightPage() {
  const { projectId } = useProject();
  const { dashboard } = newRoute.useSearch();
  const navigate = useNavigate();
  const open = useOpenInsight();
  const events = useQuery({
    ...eventDefinitionsQuery(projectId, ""),
    placeholderData: undefined,
  });
  const top = commonest(events.data?.results.map(({ name }) => name) ?? []);
  const saved = useMemo(() => newQuery("TrendsQuery", top), [top]);
  if (events.isPending) return <Loading title="New insight" />;
  if (events.data?.results.length === 0 && !decodeDraft(window.location.hash)) {
    return (
      <Page>
        <PageHeader title="New insight" />
        <Card>
          <EmptyState
            icon={<ChartNoAxesCombined aria-hidden />}
            title="There is nothing to ask about yet"
            action={
              <Link
                to="/project/$projectId/onboarding"
                params={{ projectId }}
                className={buttonClass("primary")}
              >
                Send your first event
              </Link>
            }
          >
            An insight counts events. As soon as the first one arrives, it can be drawn here.
          </EmptyState>
        </Card>
      </Page>
    );
  }
  return (
    <Builder
      saved={saved}
      dashboards={dashboard === undefined ? [] : [dashboard]}
      onCreated={(insight) => {
        // Who came from a dashboard goes back to it, where the insight is now.
        if (dashboard === undefined || !insight.dashboards?.includes(dashboard)) {
          return void open(insight);
        }
        void navigate({
          to: "/project/$projectId/dashboard/$id",
          params: { projectId, id: String(dashboard) },
        });
      }}
    />
  );
}

export function InsightPage() {
  const { projectId } = useProject();
  const { shortId } = route.useParams();
  const navigate = useNavigate();
  const open = useOpenInsight();
  const query = useQuery(insightQuery(projectId, shortId));
  const insight = query.data;
  const id = insight?.id;
  useEffect(() => {
    if (id !== undefined) markViewed(projectId, id).catch(() => {});
  }, [projectId, id]);
  const saved = useMemo(() => editableQuery(insight?.query), [insight?.query]);
  if (query.isPending) return <Loading title="Insight" />;
  if (query.isError) {
    return isHidden(query.error) ? (
      <RouteNotFound />
    ) : (
      <Page>
        <PageHeader title="Insight" eyebrow={<InsightsLink projectId={projectId} />} />
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      </Page>
    );
  }
  if (!insight || !saved) return insight ? <OtherInsight insight={insight} /> : null;

  const remove = async () => {
    try {
      await updateInsight(projectId, shortId, { deleted: true });
    } catch (error) {
      toast.error(error, "The insight was not deleted");
      return;
    }
    toast.success("Deleted", {
      description: insightName(insight),
      undo: () => {
        updateInsight(projectId, shortId, { deleted: false }).catch((error) => toast.error(error));
      },
    });
    await navigate({ to: "/project/$projectId/insights", params: { projectId } });
  };
  return (
    <Builder
      key={shortId}
      insight={insight}
      saved={saved}
      onCreated={(created) => void open(created)}
      onDelete={() => void remove()}
    />
  );
}

/// An insight that the builder does not edit: SQL, or a kind of another program.
function OtherInsight({ insight }: { insight: Insight }) {
  const { projectId } = useProject();
  const source = insightSource(insight.query);
  return (
    <Page>
      <PageHeader
        title={insightName(insight)}
        description={insight.description || undefined}
        actions={
          source?.kind === "HogQLQuery" && (
            <Link
              to="/project/$projectId/sql"
              params={{ projectId }}
              search={{ insight: insight.short_id }}
              className={buttonClass()}
            >
              Edit SQL
            </Link>
          )
        }
      />
      <Card>
        {source?.kind === "HogQLQuery" ? (
          <SqlInsight source={source} insight={insight} />
        ) : (
          <>
            <p className="mb-3 text-muted">
              This insight has a query that Hedgerow’s builder does not draw. Its JSON:
            </p>
            <CodeBlock
              label="query"
              code={JSON.stringify(insight.query ?? insight.filters, null, 2)}
            />
          </>
        )}
      </Card>
    </Page>
  );
}

function SqlInsight({ source, insight }: { source: SqlQuery; insight: Insight }) {
  const { projectId, project } = useProject();
  const result = useQuery(answerQuery(projectId, source));
  return (
    <div className="flex flex-col gap-3">
      <CodeBlock label="SQL" code={source.query} />
      {result.isPending ? (
        <Skeleton className="h-64" />
      ) : result.isError ? (
        <ErrorPanel error={result.error} onRetry={() => result.refetch()} />
      ) : (
        <InsightResult
          query={result.data.query}
          stored={insight.query}
          answer={result.data.answer}
          label={insightName(insight)}
          timeZone={project.timezone}
          className="h-[60dvh]"
        />
      )}
    </div>
  );
}
