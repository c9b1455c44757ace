import { useQuery } from "@tanstack/react-query";
import { ArrowDown, ArrowUp, Copy, GripVertical, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { FilterEditor } from "@/filters/FilterEditor";
import type { PropertyFilter } from "@/filters/types";
import { useProject } from "@/shell/useProject";
import { cx, IconButton, Input, Menu, Select } from "@/ui";
import { compact, exact, percent } from "@/ui/format";
import type { FlagCondition, FlagVariant } from "../flagApi";
import { rolloutOf } from "../model/draft";
import { Rollout } from "./Rollout";
import type { Reach } from "./useReach";

export interface ConditionCardProps {
  condition: FlagCondition;
  at: number;
  count: number;
  variants: readonly FlagVariant[];
  flagId: number | null;
  reach: Reach | null;
  isStale: boolean;
  disabled: boolean;
  problem?: string;
  onChange: (condition: FlagCondition, topic?: string) => void;
  onMove: (to: number) => void;
  onCopy: () => void;
  onRemove: () => void;
  /// Marks where a dragged card would land.
  isTarget: boolean;
  onDragStart: () => void;
  onDragOver: () => void;
  onDragEnd: () => void;
  onDrop: () => void;
}

const PERSONS = "persons";

/// Who a condition is about, in words: "1,204 of 38,402 match, about 301 get it".
function ReachText({
  reach,
  share,
  isStale,
}: {
  reach: Reach | null;
  share: number;
  isStale: boolean;
}) {
  if (!reach) return <span className="text-muted">Counting…</span>;
  const { affected, total } = reach;
  const got = Math.round((affected * share) / 100);
  return (
    <span className={cx("tabular-nums", isStale && "opacity-60")}>
      <strong>{exact(affected)}</strong>
      <span className="text-muted">
        {" "}
        of {exact(total)} match
        {total > 0 && ` (${percent(affected / total)})`}
        {share === 0
          ? ", nobody gets it yet"
          : share < 100 && affected > 0 && `, about ${compact(got)} get it`}
      </span>
    </span>
  );
}

export function ConditionCard(props: ConditionCardProps) {
  const { condition, at, count, variants, flagId, reach, isStale, disabled, problem } = props;
  const { onChange, onMove, onCopy, onRemove } = props;
  const { projectId } = useProject();
  const groupTypes = useQuery(groupTypesQuery(projectId));
  const index = condition.aggregation_group_type_index ?? null;
  const name = `condition ${at + 1}`;
  const share = rolloutOf(condition);
  const chosen = condition.variant ?? "";
  const [isDescribed, setDescribed] = useState(Boolean(condition.description));
  const described = isDescribed || Boolean(condition.description);
  const about = (type: string) => {
    const next = type === PERSONS ? null : Number(type);
    // Persons have other properties than groups.
    onChange({ ...condition, aggregation_group_type_index: next, properties: [] });
  };
  return (
    <li
      aria-label={`Condition ${at + 1}`}
      onDragOver={(event) => {
        event.preventDefault();
        props.onDragOver();
      }}
      onDrop={(event) => {
        event.preventDefault();
        props.onDrop();
      }}
      className={cx(
        "rounded-lg border bg-surface",
        props.isTarget && "border-accent ring-2 ring-accent",
      )}
    >
      <div className="flex min-h-10 items-center gap-1.5 border-b px-2 py-1">
        {/* biome-ignore lint/a11y/noStaticElementInteractions: its menu moves the card without dragging. */}
        <span
          draggable={!disabled && count > 1}
          onDragStart={(event) => {
            event.dataTransfer.effectAllowed = "move";
            event.dataTransfer.setData("text/plain", name);
            props.onDragStart();
          }}
          onDragEnd={props.onDragEnd}
          className={cx(!disabled && count > 1 && "cursor-grab")}
        >
          <Menu
            trigger={
              <IconButton size="sm" label={`Move, copy or remove ${name}`} disabled={disabled}>
                <GripVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: "Move up",
                icon: <ArrowUp />,
                disabledReason: at === 0 ? "It is the first." : undefined,
                onSelect: () => onMove(at - 1),
              },
              {
                label: "Move down",
                icon: <ArrowDown />,
                disabledReason: at === count - 1 ? "It is the last." : undefined,
                onSelect: () => onMove(at + 1),
              },
              { label: "Duplicate", icon: <Copy />, onSelect: onCopy },
              {
                label: "Describe",
                icon: <Pencil />,
                disabledReason: described ? "It has a description." : undefined,
                onSelect: () => setDescribed(true),
              },
              "separator",
              {
                label: "Remove",
                icon: <Trash2 />,
                danger: true,
                disabledReason: count === 1 ? "A flag needs a condition." : undefined,
                onSelect: onRemove,
              },
            ]}
          />
        </span>
        <h3 className="font-semibold whitespace-nowrap">Condition {at + 1}</h3>
        <p className="ml-auto text-right text-[0.8125rem]">
          <ReachText reach={reach} share={share} isStale={isStale} />
        </p>
      </div>
      <div className="flex flex-col gap-3 p-3">
        {described && (
          <Input
            aria-label={`Description of ${name}`}
            placeholder="Whom it is for"
            value={condition.description ?? ""}
            disabled={disabled}
            onChange={(event) =>
              onChange(
                { ...condition, description: event.currentTarget.value || null },
                `description ${at}`,
              )
            }
          />
        )}
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
          <span className="text-muted">Match</span>
          {(groupTypes.data ?? []).length > 0 ? (
            <Select
              label={`Whom ${name} is about`}
              size="sm"
              value={index === null ? PERSONS : String(index)}
              disabled={disabled}
              onChange={about}
              options={[
                { value: PERSONS, label: "persons" },
                ...(groupTypes.data ?? []).map((type) => ({
                  value: String(type.group_type_index),
                  label: groupTypeName(type, true),
                })),
              ]}
            />
          ) : (
            <span className="font-medium">persons</span>
          )}
          <span className="text-muted">
            {(condition.properties ?? []).length > 0
              ? "where all of this holds:"
              : "without further conditions"}
          </span>
        </div>
        <FilterEditor
          value={condition.properties as PropertyFilter[]}
          onChange={(filters) =>
            onChange({ ...condition, properties: (filters ?? []) as PropertyFilter[] })
          }
          sources={index === null ? ["person", "cohort", "flag"] : ["group"]}
          groupIndex={index ?? undefined}
          exceptFlag={flagId ?? undefined}
          groups={false}
          disabled={disabled}
          of={name}
        />
        {problem && <p className="text-xs text-danger">{problem}</p>}
        <div className="flex flex-wrap items-center gap-x-4 gap-y-2 border-t pt-3">
          <span className="text-[0.8125rem] font-medium">Rollout</span>
          <div className="min-w-56 flex-1">
            <Rollout
              label={`Rollout of ${name}`}
              value={share}
              disabled={disabled}
              onChange={(next) =>
                onChange({ ...condition, rollout_percentage: next }, `rollout ${at}`)
              }
            />
          </div>
          {variants.length > 0 && (
            <Select
              label={`Variant of ${name}`}
              size="sm"
              value={chosen}
              disabled={disabled}
              onChange={(next) => onChange({ ...condition, variant: next || null })}
              options={[
                { value: "", label: "Variant by its share" },
                ...variants.map(({ key }) => ({ value: key, label: `Always ${key}` })),
              ]}
            />
          )}
        </div>
      </div>
    </li>
  );
}
