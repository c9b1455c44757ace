import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { cohortsQuery, flagsQuery, groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { dashboardsQuery } from "@/insights/insightApi";
import { useProject } from "@/shell/useProject";
import { type Names, PLAIN_NAMES } from "./model/sentences";

/// The names of what flags refer to, once they are loaded.
export function useNames(): Names {
  const { projectId } = useProject();
  const cohorts = useQuery(cohortsQuery(projectId)).data?.results;
  const flags = useQuery(flagsQuery(projectId)).data?.results;
  const groupTypes = useQuery(groupTypesQuery(projectId)).data;
  const dashboards = useQuery(dashboardsQuery(projectId)).data?.results;
  return useMemo(
    () => ({
      cohort: (id) =>
        cohorts?.find((cohort) => String(cohort.id) === id)?.name ?? PLAIN_NAMES.cohort(id),
      flag: (id) => flags?.find((flag) => String(flag.id) === id)?.key ?? PLAIN_NAMES.flag(id),
      groups: (index) => {
        const type = groupTypes?.find((one) => one.group_type_index === index);
        return type ? groupTypeName(type, true) : PLAIN_NAMES.groups(index);
      },
      dashboard: (id) =>
        dashboards?.find((dashboard) => dashboard.id === id)?.name ?? PLAIN_NAMES.dashboard(id),
    }),
    [cohorts, flags, groupTypes, dashboards],
  );
}
