import { useState } from "react";
import { useProject } from "@/shell/useProject";
import { Button, Dialog } from "@/ui";
import { type Dashboard, tileName, useDashboardChange } from "./api";
import { FilterControls } from "./FilterControls";
import { filtersOf, searchOf } from "./filters";
import type { Tile } from "./layout";

/// Filters of one tile, on top of those of its dashboard.
export function OverridesDialog({
  dashboard,
  tile,
  onClose,
}: {
  dashboard: Dashboard;
  tile: Tile;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const change = useDashboardChange(projectId, dashboard.id, { onTheirs: onClose });
  const [version] = useState(dashboard.version);
  const [filters, setFilters] = useState(tile.filters_overrides);
  const save = () =>
    change.mutate(
      { tiles: [{ id: tile.id, filters_overrides: filters }], version },
      { onSuccess: onClose },
    );
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Filters of this tile"
      description={`“${tileName(tile)}” keeps them, whatever the dashboard's range is.`}
      footer={
        <>
          <Button
            variant="ghost"
            className="sm:mr-auto"
            disabled={Object.keys(filters).length === 0}
            onClick={() => setFilters({})}
          >
            Clear
          </Button>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" busy={change.isPending} onClick={save}>
            Save
          </Button>
        </>
      }
    >
      <div className="flex flex-wrap items-center gap-2">
        <FilterControls
          value={searchOf(filters)}
          onChange={(changes) => setFilters(filtersOf({ ...searchOf(filters), ...changes }, {}))}
        />
      </div>
    </Dialog>
  );
}
