import { queryOptions } from "@tanstack/react-query";
import { api, call } from "./client";

/// As many as one page of the API has.
const MEMBERS_MAX = 200;

/// The members of an organization.
export function membersQuery(organizationId: string) {
  return queryOptions({
    queryKey: ["members", organizationId],
    staleTime: 60_000,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/members", {
          params: { path: { organization_id: organizationId }, query: { limit: MEMBERS_MAX } },
          signal,
        }),
      ),
  });
}
