import { queryOptions, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import { api, call, publicApi, type Schemas } from "./client";
import { ApiError } from "./errors";
import { cookie } from "./ids";

export type Me = Schemas["Me"];
export type Project = Schemas["Project"];

/// The logged-in person, or null.
export const meQuery = queryOptions({
  queryKey: ["me"],
  staleTime: 60_000,
  queryFn: async ({ signal }): Promise<Me | null> => {
    // The cookie lives as long as the session: without it there is nothing to ask.
    if (!cookie("hedgerow_csrf")) return null;
    try {
      return await call(
        publicApi.GET("/api/users/{id}", { params: { path: { id: "@me" } }, signal }),
      );
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
});

export function projectQuery(projectId: string) {
  return queryOptions({
    queryKey: ["project", projectId],
    staleTime: 60_000,
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}", {
          params: { path: { project_id: projectId } },
          signal,
        }),
      ),
  });
}

export const projectsQuery = queryOptions({
  queryKey: ["projects"],
  queryFn: ({ signal }) =>
    call(api.GET("/api/projects", { params: { query: { limit: 100 } }, signal })),
});

/// The logged-in person, on pages below `/project`, which need one.
export function useMe(): Me {
  const { data } = useSuspenseQuery(meQuery);
  if (!data) throw new Error("nobody is logged in");
  return data;
}

export function useProjects() {
  return useQuery(projectsQuery);
}
