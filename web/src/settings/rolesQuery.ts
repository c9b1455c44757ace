import { queryOptions } from "@tanstack/react-query";
import { api, call } from "@/api/client";

const ROLES_MAX = 200;

export function rolesQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["roles", organizationId],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/roles", {
          params: { path: { organization_id: organizationId }, query: { limit: ROLES_MAX } },
          signal,
        }),
      ),
  });
}
