import { Plus, Settings2, X } from "lucide-react";
import { PropertyPicker, type PropertySource } from "@/filters/PropertyPicker";
import { Typed } from "@/filters/ValueInput";
import { Button, Checkbox, Field, IconButton, NumberField, Popover } from "@/ui";
import type { Breakdown, BreakdownFilter } from "../queries";
import { breakdownOf, choiceOf, readBreakdowns, writeBreakdowns } from "./breakdowns";

const SOURCES: readonly PropertySource[] = [
  "event",
  "person",
  "cohort",
  "group",
  "session",
  "event_metadata",
  "hogql",
];
const LIMIT_DEFAULT = 25;
const LIMIT_MAX = 1_000;
const COHORTS_MAX = 25;

export interface BreakdownEditorProps {
  value: BreakdownFilter | undefined;
  onChange: (filter: BreakdownFilter | undefined) => void;
  events?: readonly string[];
  /// How many properties at once: three in trends, one elsewhere.
  max: number;
  disabled?: boolean;
}

/// Splits every series by the values of properties, or by cohorts.
export function BreakdownEditor({ value, onChange, events, max, disabled }: BreakdownEditorProps) {
  const breakdowns = readBreakdowns(value);
  const write = (next: Breakdown[]) => onChange(writeBreakdowns(value, next));
  const set = (at: number, next: Breakdown) =>
    write(
      next.type === "cohort" && breakdowns[at]?.type !== "cohort"
        ? [next]
        : breakdowns.map((item, index) => (index === at ? next : item)),
    );
  const cohorts = breakdowns[0]?.type === "cohort";
  const room = breakdowns.length < (cohorts ? COHORTS_MAX : max);
  return (
    <div className="flex flex-col items-start gap-1.5">
      {breakdowns.map((breakdown, at) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: a breakdown is its position.
          key={at}
          className="flex w-full flex-wrap items-center gap-1.5"
        >
          {breakdown.property === "all" ? (
            <span className="px-2 text-[0.8125rem]">All persons</span>
          ) : (
            <PropertyPicker
              label="Breakdown"
              size="sm"
              className="max-w-56"
              sources={cohorts ? ["cohort"] : SOURCES}
              events={events}
              value={choiceOf(breakdown)}
              onChange={(choice) => set(at, breakdownOf(choice))}
              disabled={disabled}
            />
          )}
          {breakdown.type === "hogql" && (
            <Typed
              label="SQL expression"
              placeholder="properties.plan"
              value={String(breakdown.property)}
              onCommit={(property) => set(at, { ...breakdown, property })}
              disabled={disabled}
              className="w-44 font-mono"
            />
          )}
          {!disabled && (
            <span className="ml-auto flex">
              <Settings
                breakdown={breakdown}
                filter={value ?? {}}
                onBreakdown={(next) => set(at, next)}
                onFilter={onChange}
              />
              <IconButton
                label="Remove breakdown"
                size="sm"
                onClick={() => write(breakdowns.filter((_, index) => index !== at))}
              >
                <X aria-hidden />
              </IconButton>
            </span>
          )}
        </div>
      ))}
      {!disabled && room && (
        <PropertyPicker
          label="Breakdown"
          value={null}
          sources={cohorts ? ["cohort"] : SOURCES}
          events={events}
          onChange={(choice) => {
            const next = breakdownOf(choice);
            write(next.type === "cohort" && !cohorts ? [next] : [...breakdowns, next]);
          }}
          trigger={
            <Button
              aria-label={
                breakdowns.length === 0
                  ? "Add breakdown"
                  : cohorts
                    ? "Another cohort"
                    : "And by another property"
              }
              size="sm"
              variant="ghost"
              className="-ml-2"
              icon={<Plus aria-hidden />}
            >
              {breakdowns.length === 0 ? "Breakdown" : cohorts ? "Another cohort" : "And by"}
            </Button>
          }
        />
      )}
      {!disabled && cohorts && !breakdowns.some(({ property }) => property === "all") && (
        <Button
          size="sm"
          variant="ghost"
          className="-ml-2"
          icon={<Plus aria-hidden />}
          onClick={() => write([...breakdowns, { type: "cohort", property: "all" }])}
        >
          All persons beside them
        </Button>
      )}
    </div>
  );
}

interface SettingsProps {
  breakdown: Breakdown;
  filter: BreakdownFilter;
  onBreakdown: (breakdown: Breakdown) => void;
  onFilter: (filter: BreakdownFilter) => void;
}

function Settings({ breakdown, filter, onBreakdown, onFilter }: SettingsProps) {
  const bins = breakdown.histogram_bin_count ?? null;
  return (
    <Popover
      title="Breakdown settings"
      align="end"
      className="w-72"
      trigger={
        <IconButton label="Breakdown settings" size="sm">
          <Settings2 aria-hidden />
        </IconButton>
      }
    >
      <div className="flex flex-col gap-3">
        <Field label="Show at most" hint="Further values are added up as “Other”.">
          <NumberField
            value={filter.breakdown_limit ?? LIMIT_DEFAULT}
            min={1}
            max={LIMIT_MAX}
            onChange={(limit) => onFilter({ ...filter, breakdown_limit: limit ?? undefined })}
          />
        </Field>
        <Checkbox
          label="Leave “Other” out"
          checked={filter.breakdown_hide_other_aggregation ?? false}
          onChange={(on) =>
            onFilter({ ...filter, breakdown_hide_other_aggregation: on || undefined })
          }
        />
        {breakdown.type !== "cohort" && (
          <>
            <Checkbox
              label="Group numbers into ranges"
              checked={bins !== null}
              onChange={(on) =>
                onBreakdown({ ...breakdown, histogram_bin_count: on ? 10 : undefined })
              }
            />
            {bins !== null && (
              <Field label="Ranges">
                <NumberField
                  value={bins}
                  min={2}
                  max={90}
                  onChange={(count) =>
                    onBreakdown({ ...breakdown, histogram_bin_count: count ?? undefined })
                  }
                />
              </Field>
            )}
            <Checkbox
              label="Drop query and fragment of URLs"
              checked={breakdown.normalize_url ?? false}
              onChange={(on) => onBreakdown({ ...breakdown, normalize_url: on || undefined })}
            />
          </>
        )}
      </div>
    </Popover>
  );
}
