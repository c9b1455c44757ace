import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";
import { errorMessage } from "@/api/errors";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { useProject } from "@/shell/useProject";
import { Button } from "@/ui";
import { exact } from "@/ui/format";
import type { FlagCondition } from "../flagApi";
import { conditionsOf, type FlagDraft, newCondition, variantsOf } from "../model/draft";
import type { DraftProblem } from "../model/problems";
import { ConditionCard } from "./ConditionCard";
import { type ReachState, useReach } from "./useReach";

export interface ConditionsProps {
  draft: FlagDraft;
  flagId: number | null;
  edit: (draft: FlagDraft, topic?: string) => void;
  problems: readonly DraftProblem[];
  disabled: boolean;
}

/// More in one flag are hard to read.
const CONDITIONS_MAX = 100;

export function Conditions({ draft, flagId, edit, problems, disabled }: ConditionsProps) {
  const { filters } = draft;
  const conditions = conditionsOf(filters);
  const reach = useReach(conditions);
  const [dragged, setDragged] = useState<number | null>(null);
  const [target, setTarget] = useState<number | null>(null);
  const set = (groups: FlagCondition[], topic?: string) =>
    edit({ ...draft, filters: { ...filters, groups } }, topic);
  const [moved, setMoved] = useState("");
  const move = (from: number, to: number) => {
    setMoved(`Condition ${from + 1} is now condition ${to + 1}.`);
    const next = [...conditions];
    next.splice(to, 0, ...next.splice(from, 1));
    set(next);
  };
  const last = conditions.at(-1)?.aggregation_group_type_index ?? null;
  return (
    <section aria-label="Conditions" className="flex flex-col gap-2">
      <div className="flex flex-wrap items-baseline gap-x-3">
        <h2 className="font-semibold">Who gets it</h2>
        <p className="text-xs text-muted">The first condition that matches decides.</p>
      </div>
      {filters.holdout && (
        <p className="rounded-md bg-sunken px-3 py-2 text-muted">
          Before the conditions, {exact(filters.holdout.exclusion_percentage)}% of persons are held
          out (holdout {filters.holdout.id}).
        </p>
      )}
      {filters.feature_enrollment && (
        <p className="rounded-md bg-sunken px-3 py-2 text-muted">
          Who enrolled gets it whatever the conditions say; who opted out does not.
        </p>
      )}
      <ol aria-label="Conditions" className="flex flex-col gap-3">
        {conditions.map((condition, at) => (
          <ConditionCard
            // biome-ignore lint/suspicious/noArrayIndexKey: conditions have no identity.
            key={at}
            condition={condition}
            at={at}
            count={conditions.length}
            variants={variantsOf(filters)}
            flagId={flagId}
            reach={reach.conditions[at] ?? null}
            isStale={reach.isStale}
            disabled={disabled}
            problem={problems.find((problem) => problem.at === `condition.${at}`)?.text}
            onChange={(next, topic) => set(conditions.with(at, next), topic)}
            onMove={(to) => move(at, to)}
            onCopy={() => set(conditions.toSpliced(at + 1, 0, condition))}
            onRemove={() => set(conditions.toSpliced(at, 1))}
            isTarget={target === at && dragged !== null && dragged !== at}
            onDragStart={() => setDragged(at)}
            onDragOver={() => setTarget(at)}
            onDragEnd={() => {
              setDragged(null);
              setTarget(null);
            }}
            onDrop={() => {
              if (dragged !== null && dragged !== at) move(dragged, at);
              setDragged(null);
              setTarget(null);
            }}
          />
        ))}
      </ol>
      <div className="flex flex-wrap items-center justify-between gap-2">
        {!disabled && conditions.length < CONDITIONS_MAX && (
          <Button
            icon={<Plus aria-hidden />}
            onClick={() => set([...conditions, newCondition(last)])}
          >
            Add condition
          </Button>
        )}
        <p role="status" className="sr-only">
          {moved}
        </p>
        <Together reach={reach} conditions={conditions.length} />
      </div>
    </section>
  );
}

function Together({ reach, conditions }: { reach: ReachState; conditions: number }) {
  const { projectId } = useProject();
  const groupTypes = useQuery(groupTypesQuery(projectId));
  if (reach.error) {
    return <p className="text-xs text-danger">Not counted: {errorMessage(reach.error)}</p>;
  }
  if (conditions < 2) return null;
  const noun = (index: number | null) => {
    if (index === null) return "persons";
    const type = groupTypes.data?.find((one) => one.group_type_index === index);
    return type ? groupTypeName(type, true) : "groups";
  };
  return (
    <p role="status" className="text-[0.8125rem] text-muted">
      Together they match{" "}
      {reach.together
        .map(
          ({ groupTypeIndex, reach: { affected, total } }) =>
            `${exact(affected)} of ${exact(total)} ${noun(groupTypeIndex)}`,
        )
        .join(" and ") || "…"}
    </p>
  );
}
