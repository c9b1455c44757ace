import { useMemo } from "react";
import type { Dashboard } from "@/dashboards/api";
import { DashboardTiles } from "@/dashboards/DashboardTiles";
import { placesOf } from "@/dashboards/layout";

const noAge = () => {};

/// The project's primary dashboard, to look at.
export function HomeDashboard({ dashboard }: { dashboard: Dashboard }) {
  const places = useMemo(() => placesOf(dashboard.tiles), [dashboard.tiles]);
  return (
    <DashboardTiles
      dashboard={dashboard}
      filters={dashboard.filters}
      variables={dashboard.variables ?? {}}
      overridden={false}
      refreshes={0}
      places={places}
      readOnly
      onAge={noAge}
    />
  );
}
