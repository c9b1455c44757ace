import { queryOptions } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queryClient";
import { toast } from "@/ui";

export type Cohort = Schemas["Cohort"];
export type CohortFields = Schemas["CohortFields"];

/// How often a calculation that is under way is asked for.
const POLL_MS = 1_500;

export function cohortName(cohort: { id: number; name?: string | null }): string {
  return cohort.name || `Cohort ${cohort.id}`;
}

/// Whether the number of persons is about to change.
export function isPending(cohort: Cohort): boolean {
  return cohort.is_calculating || (cohort.pending_version ?? 0) > (cohort.version ?? 0);
}

export function cohortQuery(projectId: string, id: number) {
  return queryOptions({
    queryKey: ["cohort", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/cohorts/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
    refetchInterval: ({ state }) => (state.data && isPending(state.data) ? POLL_MS : false),
  });
}

function changed(projectId: string, cohort?: Cohort): void {
  if (cohort) {
    queryClient.setQueryData(cohortQuery(projectId, cohort.id).queryKey, cohort);
    void queryClient.invalidateQueries({ queryKey: ["cohort_members", projectId, cohort.id] });
    void queryClient.invalidateQueries({ queryKey: ["activity", projectId, "cohort", cohort.id] });
  }
  void queryClient.invalidateQueries({ queryKey: ["cohorts", projectId] });
}

export async function createCohort(projectId: string, fields: CohortFields): Promise<Cohort> {
  const cohort = await call(
    api.POST("/api/projects/{project_id}/cohorts", {
      params: { path: { project_id: projectId } },
      body: fields,
    }),
  );
  changed(projectId, cohort);
  return cohort;
}

export async function updateCohort(
  projectId: string,
  id: number,
  fields: CohortFields,
): Promise<Cohort> {
  const cohort = await call(
    api.PATCH("/api/projects/{project_id}/cohorts/{id}", {
      params: { path: { project_id: projectId, id } },
      body: fields,
    }),
  );
  changed(projectId, cohort);
  return cohort;
}

export async function calculateCohort(projectId: string, id: number): Promise<Cohort> {
  const cohort = await call(
    api.POST("/api/projects/{project_id}/cohorts/{id}/calculate", {
      params: { path: { project_id: projectId, id } },
    }),
  );
  changed(projectId, cohort);
  return cohort;
}

export async function duplicateCohort(projectId: string, id: number): Promise<Cohort> {
  const cohort = await call(
    api.POST("/api/projects/{project_id}/cohorts/{id}/duplicate_as_static_cohort", {
      params: { path: { project_id: projectId, id } },
    }),
  );
  changed(projectId);
  return cohort;
}

/// Persons that the API takes in one request.
const PERSONS_SENT_MAX = 10_000;

/// A static cohort of these persons, by their uuids.
export async function createList(
  projectId: string,
  fields: CohortFields,
  persons: readonly string[],
): Promise<Cohort> {
  const first = persons.slice(0, PERSONS_SENT_MAX);
  const cohort = await createCohort(projectId, {
    ...fields,
    is_static: true,
    _create_static_person_ids: first,
  });
  const rest = persons.slice(PERSONS_SENT_MAX);
  return rest.length > 0 ? addToCohort(projectId, cohort.id, rest) : cohort;
}

export async function addToCohort(
  projectId: string,
  id: number,
  persons: readonly string[],
): Promise<Cohort> {
  for (let from = 0; ; from += PERSONS_SENT_MAX) {
    const cohort = await call(
      api.PATCH("/api/projects/{project_id}/cohorts/{id}/add_persons_to_static_cohort", {
        params: { path: { project_id: projectId, id } },
        body: { person_ids: persons.slice(from, from + PERSONS_SENT_MAX) },
      }),
    );
    changed(projectId, cohort);
    if (from + PERSONS_SENT_MAX >= persons.length) return cohort;
  }
}

export async function removeFromCohort(projectId: string, id: number, person: string) {
  await call(
    api.PATCH("/api/projects/{project_id}/cohorts/{id}/remove_person_from_static_cohort", {
      params: { path: { project_id: projectId, id } },
      body: { person_id: person },
    }),
  );
  changed(projectId, await queryClient.fetchQuery({ ...cohortQuery(projectId, id), staleTime: 0 }));
}

/// Deletes a cohort, with ten seconds to take it back. It works on while the page that asked goes.
export async function deleteCohort(projectId: string, cohort: Cohort): Promise<boolean> {
  const set = async (deleted: boolean) => {
    try {
      await updateCohort(projectId, cohort.id, { deleted });
      return true;
    } catch (error) {
      toast.error(error, deleted ? "Could not delete it" : "Could not bring it back");
      return false;
    }
  };
  if (!(await set(true))) return false;
  toast.success(`Deleted “${cohortName(cohort)}”`, {
    description: "Its persons are still there.",
    undo: () => void set(false),
  });
  return true;
}
