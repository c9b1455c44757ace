import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, call, type Schemas } from "@/api/client";
import { userName } from "@/api/users";
import { ConflictError, writeVersion } from "@/api/versions";
import { toast } from "@/ui";
import type { Tile } from "./layout";

export type Dashboard = Schemas["Dashboard"];
export type DashboardBasic = Schemas["DashboardBasic"];

/// `restriction_level` of a dashboard.
export const EVERYONE_EDITS = 21;
export const COLLABORATORS_EDIT = 37;

export function dashboardName(dashboard: { name?: string | null }): string {
  return dashboard.name || "Untitled dashboard";
}

/// A dashboard with the results that the server has already; each tile asks for its own.
export function dashboardQuery(projectId: string, id: number) {
  return queryOptions({
    queryKey: ["dashboard", projectId, id],
    placeholderData: undefined,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/dashboards/{id}", {
          params: { path: { project_id: projectId, id } },
          signal,
        }),
      ),
  });
}

export type DashboardChange = Schemas["DashboardFields"] & Schemas["TileListFields"];

export function patchDashboard(projectId: string, id: number, change: DashboardChange) {
  return call(
    api.PATCH("/api/projects/{project_id}/dashboards/{id}", {
      params: { path: { project_id: projectId, id } },
      body: change,
    }),
  );
}

/// A change that depends on what was shown names that version: a number, or what the page shows when the
/// change is sent. Other changes, such as a new tile, go with any version.
export type VersionedChange = Omit<Partial<DashboardChange>, "version"> & {
  version?: number | "shown";
};

/// The functions that change one dashboard. Each answer replaces the cached dashboard. If somebody else
/// changed it meanwhile, the person is asked; `onTheirs` drops what they edited.
export function useDashboardChange(
  projectId: string,
  id: number,
  { onTheirs, failure = "Could not save the dashboard" }: ChangeOptions = {},
) {
  const client = useQueryClient();
  const query = dashboardQuery(projectId, id);
  return useMutation({
    // One at a time: the answer to a change has the version for the next.
    scope: { id: `dashboard ${projectId} ${id}` },
    mutationFn: ({ version, ...change }: VersionedChange) =>
      writeVersion<Dashboard>({
        noun: "dashboard",
        version:
          version === "shown" ? client.getQueryData<Dashboard>(query.queryKey)?.version : version,
        send: (edited) => patchDashboard(projectId, id, { ...change, version: edited }),
        load: () => client.fetchQuery({ ...query, staleTime: 0 }),
        lastChange: () => lastChange(projectId, id),
        onTheirs: () => onTheirs?.(),
      }),
    onSuccess: (dashboard) => {
      client.setQueryData(query.queryKey, dashboard);
      void client.invalidateQueries({ queryKey: ["dashboards", projectId] });
    },
    onError: (error) => {
      if (!(error instanceof ConflictError)) toast.error(error, failure);
    },
  });
}

interface ChangeOptions {
  onTheirs?: () => void;
  /// The title of an error.
  failure?: string;
}

/// Who changed the dashboard last.
async function lastChange(projectId: string, id: number) {
  const log = await call(
    api.GET("/api/projects/{project_id}/dashboards/{id}/activity", {
      params: { path: { project_id: projectId, id }, query: { limit: 1 } },
    }),
  );
  const last = log.results[0];
  return { author: last?.user ? userName(last.user) : null, at: last?.created_at ?? null };
}

/// Deletes a dashboard, with ten seconds to take it back. It works on while the page that asked goes.
export function useDeleteDashboard(projectId: string) {
  const client = useQueryClient();
  const set = async (id: number, deleted: boolean) => {
    try {
      await patchDashboard(projectId, id, { deleted });
      await client.invalidateQueries({ queryKey: ["dashboards", projectId] });
      return true;
    } catch (error) {
      toast.error(error, deleted ? "Could not delete it" : "Could not bring it back");
      return false;
    }
  };
  return async (dashboard: { id: number; name?: string | null }) => {
    if (!(await set(dashboard.id, true))) return;
    toast.success(`Deleted “${dashboardName(dashboard)}”`, {
      description: "Its insights are still there.",
      undo: () => void set(dashboard.id, false),
    });
  };
}

export function tileName(tile: Tile): string {
  const { insight, text, button_tile: button } = tile;
  if (insight) return insight.name || insight.derived_name || "Untitled insight";
  if (button) return button.text;
  const first = text?.body.split("\n").find((line) => line.trim());
  return first?.replace(/^[#>\s*-]+/, "").slice(0, 60) || "Text";
}
