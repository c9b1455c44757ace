import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { isHidden } from "@/api/errors";
import { RouteNotFound } from "@/shell/routeStates";
import { useProject } from "@/shell/useProject";
import { Card, ErrorPanel, Page, PageHeader, Skeleton } from "@/ui";
import { FlagScreen, FlagsLink } from "./FlagScreen";
import { flagQuery } from "./flagApi";

const route = getRouteApi("/project/$projectId/feature_flags/$id");
const newRoute = getRouteApi("/project/$projectId/feature_flags/new");

export function NewFlagPage() {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const search = newRoute.useSearch();
  return (
    <FlagScreen
      flag={null}
      search={search}
      onCreated={({ id }) =>
        void navigate({
          to: "/project/$projectId/feature_flags/$id",
          params: { projectId, id: String(id) },
          replace: true,
        })
      }
    />
  );
}

export function FlagPage() {
  const { projectId } = useProject();
  const { id } = route.useParams();
  const search = route.useSearch();
  const query = useQuery({ ...flagQuery(projectId, Number(id)), enabled: /^\d+$/.test(id) });
  if (!/^\d+$/.test(id)) return <RouteNotFound />;
  if (query.isPending) {
    return (
      <Page>
        <PageHeader title="Feature flag" eyebrow={<FlagsLink projectId={projectId} />} />
        <div role="status" className="flex flex-col gap-4">
          <span className="sr-only">Loading</span>
          <Skeleton className="h-9" />
          <Skeleton className="h-48" />
          <Skeleton className="h-64" />
        </div>
      </Page>
    );
  }
  if (query.isError) {
    return isHidden(query.error) ? (
      <RouteNotFound />
    ) : (
      <Page>
        <PageHeader title="Feature flag" eyebrow={<FlagsLink projectId={projectId} />} />
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      </Page>
    );
  }
  return <FlagScreen key={id} flag={query.data} search={search} />;
}
