import { useQuery } from "@tanstack/react-query";
import { Check as CheckIcon, CircleDot, Hash, X } from "lucide-react";
import type { ReactNode } from "react";
import { flagsQuery } from "@/filters/definitions";
import { OPERATORS, propertyLabel, valueText } from "@/filters/operators";
import { useProject } from "@/shell/useProject";
import { Badge, cx, ErrorPanel, Skeleton } from "@/ui";
import { FlagValueText } from "./FlagValueText";
import { explainQuery, type FlagFields, type FlagFilters, type Subject } from "./flagApi";
import type { FlagDraft } from "./model/draft";
import {
  type Check,
  type ConditionNode,
  explanationTree,
  type FlagNode,
  fits,
  hashText,
  isOff,
  reasonText,
  resultLabel,
} from "./model/explanation";
import { filterSentence, type Names } from "./model/sentences";
import { useNames } from "./useNames";

export interface ExplanationProps {
  /// Null for a flag that does not exist yet.
  flagId: number | null;
  subject: Subject;
  /// What is stored.
  base: FlagDraft;
  /// What the draft changes; null shows only what is stored.
  fields: FlagFields | null;
  draft: FlagDraft | null;
}

/// Why somebody gets a flag's value: as it is stored, and as the draft would have it.
export function Explanation({ flagId, subject, base, fields, draft }: ExplanationProps) {
  const both = flagId !== null && fields !== null;
  return (
    <div className={cx("grid gap-4", both && "lg:grid-cols-2")}>
      {flagId !== null && (
        <One
          flagId={flagId}
          subject={subject}
          fields={null}
          filters={base.filters}
          title={both ? "Saved" : null}
        />
      )}
      {fields && draft && (
        <One
          flagId={flagId}
          subject={subject}
          fields={fields}
          filters={draft.filters}
          title={both ? "With the draft" : null}
        />
      )}
    </div>
  );
}

interface OneProps {
  flagId: number | null;
  subject: Subject;
  fields: FlagFields | null;
  filters: FlagFilters;
  title: string | null;
}

function One({ flagId, subject, fields, filters, title }: OneProps) {
  const { projectId } = useProject();
  const names = useNames();
  const flags = useQuery(flagsQuery(projectId));
  const query = useQuery(explainQuery(projectId, flagId, subject, fields));
  return (
    <section aria-label={title ?? "Why"} className="min-w-0">
      {title && <h3 className="mb-2 font-semibold">{title}</h3>}
      {query.isPending ? (
        <Skeleton className="h-40" />
      ) : query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} title="Not explained" />
      ) : (
        <>
          <p className="mb-3 flex flex-wrap items-center gap-2">
            <FlagValueText value={String(query.data.value)} className="text-sm!" />
            <span className="text-muted">{reasonText(query.data.evaluation)}</span>
          </p>
          <Tree
            off={isOff(query.data.evaluation)}
            flags={explanationTree(query.data.steps, (key) =>
              key === query.data.key
                ? filters
                : flags.data?.results.find((flag) => flag.key === key)?.filters,
            )}
            asked={query.data.key}
            names={names}
          />
        </>
      )}
    </section>
  );
}

interface TreeProps {
  off: boolean;
  flags: FlagNode[];
  asked: string;
  names: Names;
}

function Tree({ off, flags, asked, names }: TreeProps) {
  if (off) return <p className="text-muted">Its conditions are not looked at while it is off.</p>;
  if (flags.length === 0) return <p className="text-muted">Nothing was compared.</p>;
  return (
    <ul className="flex flex-col gap-3">
      {flags.map((flag) => (
        <li key={flag.key}>
          {flags.length > 1 && (
            <p className="mb-1 flex items-center gap-2">
              <code className="font-mono text-xs">{flag.key}</code>
              {flag.key !== asked && <Badge>it depends on this</Badge>}
            </p>
          )}
          <ul className={cx("flex flex-col gap-2", flags.length > 1 && "border-l pl-3")}>
            {flag.first.map((check, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: steps are fixed.
              <CheckLine key={at} check={check} names={names} />
            ))}
            {flag.conditions.map((condition) => (
              <Condition key={condition.index} condition={condition} names={names} />
            ))}
            {flag.last.map((check, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: steps are fixed.
              <CheckLine key={at} check={check} names={names} />
            ))}
            {flag.first.length + flag.conditions.length + flag.last.length === 0 && (
              <li className="text-muted">No condition was looked at.</li>
            )}
          </ul>
        </li>
      ))}
    </ul>
  );
}

function Condition({ condition, names }: { condition: ConditionNode; names: Names }) {
  const { index, result, checks } = condition;
  const matches = result === "condition_match";
  return (
    <li>
      <p className="flex items-center gap-1.5">
        <Mark fits={matches} />
        <span className="font-medium">Condition {index + 1}</span>
        <span className="text-muted">{resultLabel(result)}</span>
      </p>
      {checks.length > 0 && (
        <ul className="mt-1 ml-2 flex flex-col gap-1 border-l pl-4">
          {checks.map((check, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: steps are fixed.
            <CheckLine key={at} check={check} names={names} />
          ))}
        </ul>
      )}
    </li>
  );
}

function Mark({ fits: yes }: { fits: boolean | null }) {
  if (yes === null) return <CircleDot className="size-4 shrink-0 text-muted" aria-hidden />;
  return yes ? (
    <CheckIcon className="size-4 shrink-0 text-accent-text" role="img" aria-label="fits" />
  ) : (
    <X className="size-4 shrink-0 text-danger" role="img" aria-label="does not fit" />
  );
}

function CheckLine({ check, names }: { check: Check; names: Names }) {
  return (
    <li className="flex items-start gap-1.5 text-[0.8125rem]">
      <span className="mt-0.5">
        {check.step === "hash" && fits(check) === null ? (
          <Hash className="size-4 text-muted" aria-hidden />
        ) : (
          <Mark fits={fits(check)} />
        )}
      </span>
      <span className="min-w-0 wrap-anywhere">{sentence(check, names)}</span>
    </li>
  );
}

function found(value: unknown): ReactNode {
  if (value === undefined || value === null) return <em className="text-muted">nothing</em>;
  return (
    <code className="font-mono text-xs">
      {typeof value === "string" ? value : JSON.stringify(value)}
    </code>
  );
}

/// Found against wanted, the hash against its bound.
function sentence(check: Check, names: Names): ReactNode {
  switch (check.step) {
    case "property": {
      const { wanted } = check;
      const operator = wanted?.operator ?? check.operator;
      const label = OPERATORS[operator as keyof typeof OPERATORS]?.label ?? operator;
      return (
        <>
          {propertyLabel(check.key)} is {found(check.found)}
          <span className="text-muted">
            , wanted: {label} {wanted && valueText(wanted.value)}
          </span>
        </>
      );
    }
    case "cohort": {
      const isIn = check.member ? "in" : "not in";
      const wanted = check.wanted?.operator === "not_in" ? "not in" : "in";
      return (
        <>
          {isIn} {names.cohort(String(check.id))}
          <span className="text-muted">, wanted: {wanted}</span>
        </>
      );
    }
    case "dependency":
      return (
        <>
          {check.wanted ? filterSentence(check.wanted, names) : names.flag(String(check.id))}
          <span className="text-muted">: {check.fits ? "it does" : "it does not"}</span>
        </>
      );
    case "hash": {
      const { purpose, identifier, value, bound } = check;
      const verdict =
        purpose === "variant"
          ? `below ${hashText(bound)}: this variant’s part`
          : value <= bound
            ? `within ${hashText(bound)}`
            : `beyond ${hashText(bound)}`;
      return (
        <>
          {purpose === "rollout" ? "Rollout" : purpose === "variant" ? "Variant" : "Holdout"}: the
          hash of <code className="font-mono text-xs">{identifier}</code> is {hashText(value)}
          <span className="text-muted">, {verdict}</span>
        </>
      );
    }
  }
}
