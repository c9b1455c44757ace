import { useQuery } from "@tanstack/react-query";
import { api, call, publicApi } from "@/api/client";
import { ApiError, errorMessage } from "@/api/errors";
import { reasonOf, type Warning } from "@/events/refusals";

const WARNINGS_MAX = 20;
const REFETCH_MS = 5_000;

export interface Check {
  name: string;
  state: "ok" | "warn" | "failed";
  detail: string;
}

/// Whether only this machine can reach the address.
export function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127\./.test(hostname);
}

async function checkKey(key: string, signal: AbortSignal): Promise<Check> {
  const name = "Project key";
  try {
    await call(
      publicApi.POST("/flags", {
        params: { query: { v: "2" } },
        body: { token: key, distinct_id: "onboarding" },
        signal,
      }),
    );
    return {
      name,
      state: "ok",
      detail: `The server accepts ${key}. Compare it with the one in your code.`,
    };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    return { name, state: "failed", detail: errorMessage(error) };
  }
}

/// One check for events that were refused and one for those that were changed, since a time.
export function refusalChecks(warnings: readonly Warning[], since: number): Check[] {
  const recent = warnings.filter(({ timestamp }) => Date.parse(timestamp) >= since);
  const titles = (refused: boolean) => [
    ...new Set(
      recent
        .map(({ type }) => reasonOf(type))
        .filter((reason) => reason.refused === refused)
        .map(({ title, remedy }) => `${title}. ${remedy}`.trim()),
    ),
  ];
  const [refused, changed] = [titles(true), titles(false)];
  return [
    {
      name: "Refused events",
      state: refused.length > 0 ? "failed" : "ok",
      detail:
        refused.length > 0
          ? refused.join(" ")
          : "None since you opened this page: nothing that arrived was turned away.",
    },
    {
      name: "Warnings",
      state: changed.length > 0 ? "warn" : "ok",
      detail: changed.length > 0 ? changed.join(" ") : "None since you opened this page.",
    },
  ];
}

function addressCheck({ hostname, origin }: Pick<Location, "hostname" | "origin">): Check {
  const name = "Address";
  return isLoopback(hostname)
    ? {
        name,
        state: "warn",
        detail: `Only programs on this machine reach ${origin}. Open this page under the address that your app uses.`,
      }
    : {
        name,
        state: "ok",
        detail: `Your app must reach ${origin}: check its console, content blockers and firewalls.`,
      };
}

/// Looks for the reason why no event arrives.
export function useChecks(projectId: string, key: string, since: number, enabled: boolean) {
  return useQuery({
    queryKey: ["onboarding_checks", projectId, key, since],
    enabled,
    refetchInterval: REFETCH_MS,
    gcTime: 0,
    queryFn: async ({ signal }): Promise<Check[]> => {
      const [keyCheck, warnings] = await Promise.all([
        checkKey(key, signal),
        call(
          api.GET("/api/projects/{project_id}/ingestion_warnings", {
            params: { path: { project_id: projectId }, query: { limit: WARNINGS_MAX } },
            signal,
          }),
        ),
      ]);
      return [keyCheck, ...refusalChecks(warnings.results, since), addressCheck(window.location)];
    },
  });
}
