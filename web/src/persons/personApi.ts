import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { ApiError } from "@/api/errors";
import { queryClient } from "@/api/queryClient";
import { completeFilters } from "@/filters/operators";
import type { PersonsSearch } from "./search";

export type Person = Schemas["Person"];
export type PersonItem = Schemas["PersonItem"];

const PAGE_ROWS = 100;
/// More rows than these are for the CSV.
export const ROWS_MAX = 10_000;

/// The filter of a list as the API takes it.
export function personParameters(filter: PersonsSearch) {
  const properties = completeFilters(filter.properties);
  return {
    search: filter.search,
    cohort: filter.cohort,
    properties: properties ? JSON.stringify(properties) : undefined,
  };
}

export function personsQuery(projectId: string, filter: PersonsSearch) {
  const parameters = personParameters(filter);
  return infiniteQueryOptions({
    queryKey: ["persons", projectId, parameters],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/persons", {
          params: {
            path: { project_id: projectId },
            query: {
              ...parameters,
              limit: PAGE_ROWS,
              offset: pageParam,
              include_total: pageParam === 0 ? "true" : undefined,
            },
          },
          signal,
        }),
      ),
    getNextPageParam: (last, pages) =>
      last.next && pages.length * PAGE_ROWS < ROWS_MAX ? pages.length * PAGE_ROWS : undefined,
  });
}

/// Persons by a word of their name or e-mail address, or by a distinct id.
export function personSearchQuery(projectId: string, search: string, limit = 20) {
  return queryOptions({
    queryKey: ["persons", projectId, { search, limit }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons", {
          params: {
            path: { project_id: projectId },
            query: { search: search || undefined, limit },
          },
          signal,
        }),
      ),
  });
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/// A person by uuid, or by a distinct id: links name either.
export function personQuery(projectId: string, id: string) {
  return queryOptions({
    queryKey: ["person", projectId, id],
    placeholderData: undefined,
    queryFn: async ({ signal }): Promise<Person> => {
      const path = { project_id: projectId };
      if (UUID.test(id)) {
        try {
          return await call(
            api.GET("/api/projects/{project_id}/persons/{id}", {
              params: { path: { ...path, id } },
              signal,
            }),
          );
        } catch (error) {
          // Anonymous distinct ids are uuids as well.
          if (!(error instanceof ApiError && error.isNotFound)) throw error;
        }
      }
      const found = await call(
        api.GET("/api/projects/{project_id}/persons", {
          params: { path, query: { distinct_id: id, limit: 1 } },
          signal,
        }),
      );
      const uuid = found.results[0]?.uuid;
      if (!uuid) throw new ApiError(404, "invalid_request", "not_found", "Not found.", null, null);
      return call(
        api.GET("/api/projects/{project_id}/persons/{id}", {
          params: { path: { ...path, id: uuid } },
          signal,
        }),
      );
    },
  });
}

/// What a profile shows.
const PROFILE_KEYS = ["person", "persons_cohorts", "persons_flags", "activity"];

/// After a change: the person, the lists that show it, and what depends on it.
export async function personChanged(projectId: string): Promise<void> {
  await Promise.all(
    ["persons", ...PROFILE_KEYS].map((key) =>
      queryClient.invalidateQueries({ queryKey: [key, projectId] }),
    ),
  );
}

/// After a deletion: lists are read again, but not the profile, which is still on the screen.
export async function personsDeleted(projectId: string): Promise<void> {
  for (const key of PROFILE_KEYS) {
    void queryClient.invalidateQueries({ queryKey: [key, projectId], refetchType: "none" });
  }
  await queryClient.invalidateQueries({ queryKey: ["persons", projectId] });
}

export function setPersonProperty(projectId: string, id: string, key: string, value: unknown) {
  return call(
    api.POST("/api/projects/{project_id}/persons/{id}/update_property", {
      params: { path: { project_id: projectId, id } },
      body: { key, value },
    }),
  );
}

export function removePersonProperty(projectId: string, id: string, key: string) {
  return call(
    api.POST("/api/projects/{project_id}/persons/{id}/delete_property", {
      params: { path: { project_id: projectId, id } },
      body: { $unset: key },
    }),
  );
}

export function cohortsOfPersonQuery(projectId: string, personId: string) {
  return queryOptions({
    queryKey: ["persons_cohorts", projectId, personId],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons/cohorts", {
          params: { path: { project_id: projectId }, query: { person_id: personId } },
          signal,
        }),
      ),
  });
}
