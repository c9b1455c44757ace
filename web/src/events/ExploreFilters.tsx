import { FilterEditor } from "@/filters/FilterEditor";
import { RangePicker } from "@/ranges/RangePicker";
import { Button } from "@/ui";
import { boundsOf, rangeOf } from "./bounds";
import { EventChoice, PersonChoice } from "./choices";
import type { EventFilter } from "./eventList";

export interface ExploreFiltersProps {
  projectId: string;
  timeZone: string;
  filter: EventFilter;
  onChange: (part: Partial<EventFilter>) => void;
  /// Takes all filters away; undefined while there are none.
  onClear?: () => void;
}

/// Everything that narrows the list down.
export function ExploreFilters({
  projectId,
  timeZone,
  filter,
  onChange,
  onClear,
}: ExploreFiltersProps) {
  const clear = onClear && (
    <Button variant="ghost" onClick={onClear}>
      Clear filters
    </Button>
  );
  return (
    <div className="mb-3 flex flex-wrap items-start gap-2">
      <EventChoice projectId={projectId} value={filter} onChange={onChange} />
      <RangePicker
        value={rangeOf(filter)}
        timeZone={timeZone}
        onChange={(range) => onChange(boundsOf(range))}
      />
      <PersonChoice value={filter} onChange={onChange} />
      {filter.properties && clear}
      <FilterEditor
        className={filter.properties ? "w-full" : "min-h-8 justify-center"}
        value={filter.properties}
        events={filter.event ? [filter.event] : undefined}
        onChange={(properties) => onChange({ properties })}
      />
      {!filter.properties && clear}
    </div>
  );
}
