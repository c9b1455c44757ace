import { Filter, Split, X } from "lucide-react";
import { Suspense } from "react";
import { lazy } from "@/api/lazy";
import { propertyLabel } from "@/filters/operators";
import type { PropertySource } from "@/filters/PropertyPicker";
import { countFilters, type Filters as PropertyFilters } from "@/filters/types";
import { RangePicker } from "@/ranges/RangePicker";
import { useProject } from "@/shell/useProject";
import { Badge, Button, IconButton, Popover, Select, Skeleton } from "@/ui";
import { type DashboardSearch, INTERVALS, readBreakdown, writeBreakdown } from "./filters";

const FilterEditor = lazy(async () => ({
  default: (await import("@/filters/FilterEditor")).FilterEditor,
}));
const PropertyPicker = lazy(async () => ({
  default: (await import("@/filters/PropertyPicker")).PropertyPicker,
}));

const INTERVAL_OPTIONS = [
  { value: "own", label: "Own intervals" },
  ...INTERVALS.map((interval) => ({ value: interval, label: `By ${interval}` })),
] as const;
const BREAKDOWN_SOURCES: readonly PropertySource[] = ["event", "person"];

export interface FilterControlsProps {
  /// What is in effect.
  value: DashboardSearch;
  onChange: (changes: Partial<DashboardSearch>) => void;
}

/// The controls of a dashboard's or a tile's filters.
export function FilterControls({ value, onChange }: FilterControlsProps) {
  const { project } = useProject();
  const properties = value.properties as PropertyFilters | undefined;
  const breakdown = readBreakdown(value.breakdown);
  const breakdownLabel = breakdown ? `By ${propertyLabel(breakdown.property)}` : "Breakdown";
  const total = countFilters(properties);
  return (
    <>
      <RangePicker
        value={value}
        emptyLabel="Own ranges"
        timeZone={project.timezone}
        onChange={({ date_from, date_to }) =>
          onChange({ date_from: date_from ?? "", date_to: date_to ?? undefined })
        }
      />
      <Select
        label="Interval"
        value={value.interval ?? "own"}
        options={INTERVAL_OPTIONS}
        onChange={(interval) => onChange({ interval: interval === "own" ? undefined : interval })}
      />
      <Popover
        title="Filters of all insights here"
        className="w-lg"
        trigger={
          <Button icon={<Filter aria-hidden />}>
            Filters
            {total > 0 && <Badge tone="accent">{total}</Badge>}
          </Button>
        }
      >
        <Suspense fallback={<Skeleton className="h-8" />}>
          <FilterEditor
            groups
            value={properties}
            onChange={(next) =>
              onChange({ properties: (next ?? []) as DashboardSearch["properties"] })
            }
          />
        </Suspense>
      </Popover>
      <span className="flex items-center">
        <Suspense fallback={<Button icon={<Split aria-hidden />}>{breakdownLabel}</Button>}>
          <PropertyPicker
            label="Breakdown"
            sources={BREAKDOWN_SOURCES}
            value={breakdown && { type: breakdown.type, key: breakdown.property }}
            onChange={({ type, key }) =>
              onChange({
                breakdown: writeBreakdown({
                  type: type === "person" ? "person" : "event",
                  property: key,
                }),
              })
            }
            trigger={
              // A combobox does not take its name from its content.
              <Button icon={<Split aria-hidden />} aria-label={breakdownLabel}>
                {breakdownLabel}
              </Button>
            }
          />
        </Suspense>
        {breakdown && (
          <IconButton label="Remove breakdown" onClick={() => onChange({ breakdown: "" })}>
            <X aria-hidden />
          </IconButton>
        )}
      </span>
    </>
  );
}
