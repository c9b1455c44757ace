import { RotateCcw, Save } from "lucide-react";
import type { ReactNode } from "react";
import { shiftedDays } from "@/ranges/range";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import { Button } from "@/ui";
import { FilterControls } from "./FilterControls";
import {
  type DashboardSearch,
  effectiveSearch,
  type Filters,
  hasFilters,
  searchOf,
} from "./filters";

export interface FilterBarProps {
  search: DashboardSearch;
  saved: Filters;
  onChange: (search: DashboardSearch) => void;
  onSave: () => void;
  /// Why the reader cannot save.
  saveReason?: string;
  /// More controls.
  children?: ReactNode;
}

/// The filters of a dashboard. They live in the URL; saving them is a step of its own.
export function FilterBar(props: FilterBarProps) {
  const { search, saved, onChange, onSave, saveReason, children } = props;
  const { project } = useProject();
  const shown = effectiveSearch(search, saved);
  const changed = hasFilters(search);
  const change = (changes: Partial<DashboardSearch>) => {
    const next: Record<string, unknown> = { ...search, ...changes };
    const stored: Record<string, unknown> = searchOf(saved);
    // An empty value hides a saved one; where nothing is saved it says nothing.
    for (const name of ["date_from", "breakdown"]) {
      if (next[name] === "" && !stored[name]) next[name] = undefined;
    }
    if (Array.isArray(next.properties) && next.properties.length === 0 && !stored.properties) {
      next.properties = undefined;
    }
    onChange(next as DashboardSearch);
  };
  const shift = (direction: -1 | 1) => {
    const today = new Intl.DateTimeFormat("en-CA", { timeZone: project.timezone }).format();
    const range = shiftedDays(shown, direction, today);
    if (range) change(range);
  };
  useKeys([
    { key: "[", run: () => shift(-1) },
    { key: "]", run: () => shift(1) },
  ]);
  return (
    <section
      aria-label="Filters"
      className="scroll-thin mb-4 flex items-center gap-2 max-sm:-mx-4 max-sm:overflow-x-auto max-sm:px-4 max-sm:py-1 sm:flex-wrap"
    >
      <FilterControls value={shown} onChange={change} />
      {children}
      {changed && (
        <>
          <Button variant="ghost" icon={<RotateCcw aria-hidden />} onClick={() => onChange({})}>
            Reset
          </Button>
          <Button
            variant="ghost"
            icon={<Save aria-hidden />}
            disabledReason={saveReason}
            onClick={onSave}
          >
            Save as default
          </Button>
        </>
      )}
    </section>
  );
}
