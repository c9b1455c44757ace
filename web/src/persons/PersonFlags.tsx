import { useQuery } from "@tanstack/react-query";
import { Flag } from "lucide-react";
import { useState } from "react";
import { api, call } from "@/api/client";
import { useLiveRefetch } from "@/api/live";
import { ask } from "@/insights/queries";
import {
  Badge,
  EmptyState,
  ErrorPanel,
  PathLink,
  RelativeTime,
  SearchInput,
  SkeletonRows,
} from "@/ui";
import { type Column, Table } from "@/ui/Table";
import { type FlagRow, flagRows, servedFlags, servedQuery } from "./flagRows";
import type { Person } from "./personApi";

const FLAGS_MAX = 1_000;
const SEARCHED_MIN = 8;

export interface PersonFlagsProps {
  projectId: string;
  person: Person;
}

function FlagValue({ value }: { value: string | boolean | undefined }) {
  if (value === undefined) return <span className="text-faint">–</span>;
  return (
    <Badge tone={value === false ? "neutral" : "accent"}>
      <span className="max-w-40 truncate">{String(value)}</span>
    </Badge>
  );
}

/// Each flag as an app last got it, beside what it would get now.
export function PersonFlags({ projectId, person }: PersonFlagsProps) {
  const [search, setSearch] = useState("");
  const distinctId = person.distinct_ids[0] ?? "";
  const served = useQuery({
    queryKey: ["persons_flags", projectId, person.uuid, "served"],
    placeholderData: undefined,
    queryFn: async ({ signal }) =>
      servedFlags((await ask(projectId, servedQuery(person.uuid), { signal })).results),
  });
  const groups = served.data?.groups;
  const now = useQuery({
    queryKey: ["persons_flags", projectId, person.uuid, "now", groups],
    enabled: !served.isPending,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/evaluation_reasons", {
          params: {
            path: { project_id: projectId },
            query: { distinct_id: distinctId, groups: groups && JSON.stringify(groups) },
          },
          signal,
        }),
      ),
  });
  const flags = useQuery({
    queryKey: ["feature_flags", projectId, { limit: FLAGS_MAX }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags", {
          params: { path: { project_id: projectId }, query: { limit: FLAGS_MAX } },
          signal,
        }),
      ),
  });
  useLiveRefetch({
    projectId,
    events: ["$feature_flag_called"],
    enabled: served.isSuccess,
    refetch: () => Promise.all([served.refetch(), now.refetch()]),
  });
  if (served.isPending || now.isPending || flags.isPending) {
    return <SkeletonRows rows={6} label="Loading flags" />;
  }
  const failed = [served, now, flags].find((query) => query.isError);
  if (failed) {
    return (
      <ErrorPanel
        title="Could not load the flags"
        error={failed.error}
        onRetry={() => failed.refetch()}
      />
    );
  }
  const all = flagRows(flags.data?.results ?? [], served.data?.rows ?? [], now.data ?? {});
  const rows = all.filter(({ key }) => key.toLowerCase().includes(search.trim().toLowerCase()));
  if (all.length === 0) {
    return (
      <EmptyState icon={<Flag aria-hidden />} title="No feature flags">
        The project has no flags, so there is nothing to serve to this person.
      </EmptyState>
    );
  }
  const columns: Column<FlagRow>[] = [
    {
      id: "flag",
      header: "Flag",
      sortValue: ({ key }) => key,
      cell: ({ key, id }) =>
        id === null ? (
          <span className="text-muted">{key} (deleted)</span>
        ) : (
          <PathLink
            href={`/project/${projectId}/feature_flags/${id}`}
            className="block max-w-56 truncate font-medium hover:underline"
          >
            {key}
          </PathLink>
        ),
    },
    {
      id: "served",
      header: "As served",
      cell: ({ served: value, at }) => (
        <span className="flex items-center gap-2 whitespace-nowrap">
          <FlagValue value={value} />
          {at ? (
            <span className="text-xs text-muted">
              <RelativeTime at={at} />
            </span>
          ) : (
            <span className="text-xs text-muted">never called</span>
          )}
        </span>
      ),
    },
    {
      id: "now",
      header: "Now",
      cell: ({ now: value, differs }) => (
        <span className="flex items-center gap-2">
          <FlagValue value={value} />
          {differs && <Badge tone="warn">Differs</Badge>}
        </span>
      ),
    },
    {
      id: "why",
      header: "Why",
      cell: ({ key, id, reason }) => (
        <span className="flex items-center gap-2">
          {reason && <span className="min-w-40 text-muted">{reason}</span>}
          {id !== null && (
            <PathLink
              href={whyPath(projectId, id, distinctId, groups)}
              aria-label={`Every step of ${key}`}
              className="inline-flex h-6 items-center whitespace-nowrap text-accent-text underline-offset-2 hover:underline"
            >
              Every step
            </PathLink>
          )}
        </span>
      ),
    },
  ];
  return (
    <>
      <div className="flex flex-wrap items-center gap-3 border-b px-4 py-2">
        {all.length >= SEARCHED_MIN && (
          <SearchInput
            label="Search flags"
            className="w-full max-w-xs"
            value={search}
            onChange={(event) => setSearch(event.currentTarget.value)}
          />
        )}
        <p className="min-w-0 flex-1 basis-64 text-xs text-muted">
          “As served” is what an app last reported with $feature_flag_called; “now” is what{" "}
          <code className="font-mono">{distinctId}</code> would get
          {groups ? " with the groups of the last call" : ""}.
        </p>
      </div>
      {rows.length === 0 ? (
        <p className="py-6 text-center text-muted">No flag matches.</p>
      ) : (
        <Table label="Feature flags" rows={rows} columns={columns} rowKey={({ key }) => key} />
      )}
    </>
  );
}

/// The explanation on the flag's own page.
function whyPath(
  projectId: string,
  id: number,
  distinctId: string,
  groups: Record<string, string> | undefined,
): string {
  const search = new URLSearchParams({ tab: "why", who: JSON.stringify(distinctId) });
  if (groups) search.set("groups", JSON.stringify(groups));
  return `/project/${projectId}/feature_flags/${id}?${search}`;
}
