import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { type Project, projectQuery } from "@/api/me";

const route = getRouteApi("/project/$projectId");

/// The project of the URL, on every screen below `/project/$projectId`.
export function useProject(): { projectId: string; project: Project } {
  const { projectId } = route.useParams();
  const { project } = route.useLoaderData();
  const { data } = useQuery(projectQuery(projectId));
  return { projectId, project: data ?? project };
}
