import { useQuery } from "@tanstack/react-query";
import { ArrowRight, TriangleAlert } from "lucide-react";
import { useState } from "react";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { Button, cx, ErrorPanel, Skeleton } from "@/ui";
import { exact, percent } from "@/ui/format";
import { FlagValueText } from "../FlagValueText";
import { dryRunQuery, type FlagFields, type Subject } from "../flagApi";
import { type MatrixRow, matrixRows, rowSentence, summary } from "../model/matrix";

export interface MatrixProps {
  projectId: string;
  flagId: number | null;
  fields: FlagFields;
  /// The type of group that the flag is about; null for persons.
  groupTypeIndex: number | null;
  onWhy: (subject: Subject) => void;
}

/// Examples of a row that are shown before one asks for more.
const EXAMPLES_SHOWN = 3;
const EXAMPLES_SHOWN_SAME = 1;

/// Who would get another value: every value before against every value after, over everybody.
export function Matrix({ projectId, flagId, fields, groupTypeIndex, onWhy }: MatrixProps) {
  const quick = useQuery(dryRunQuery(projectId, flagId, fields, "quick"));
  const whole = useQuery({
    ...dryRunQuery(projectId, flagId, fields, "whole"),
    // The first figures are enough where they are of everybody.
    enabled: !quick.isPending && quick.data?.complete !== true,
  });
  const groupTypes = useQuery(groupTypesQuery(projectId));
  const type = groupTypes.data?.find((one) => one.group_type_index === groupTypeIndex);
  const noun = groupTypeIndex === null ? "persons" : type ? groupTypeName(type, true) : "groups";
  const run = whole.data ?? quick.data;
  const failed = whole.error ?? quick.error;
  if (!run) {
    return failed && !whole.isFetching ? (
      <ErrorPanel
        title="It could not be computed"
        error={failed}
        onRetry={() => void (whole.isError ? whole.refetch() : quick.refetch())}
        className="py-4"
      />
    ) : (
      <div role="status">
        <span className="sr-only">Computing who changes</span>
        <Skeleton className="h-24" />
      </div>
    );
  }
  const { changed, same } = matrixRows(run);
  const isRunning = !run.complete && whole.isFetching;
  const subject = (example: string): Subject =>
    groupTypeIndex === null
      ? { distinctId: example, groups: {} }
      : // A flag about groups looks at nobody in particular.
        { distinctId: example, groups: { [type?.group_type ?? ""]: example } };
  return (
    <div className="flex flex-col gap-2">
      <p aria-live="polite" className="font-medium">
        {summary(run, noun)}
      </p>
      {isRunning ? (
        <p role="status" className="text-xs text-muted">
          First figures; the others are being computed…
        </p>
      ) : (
        !run.complete && (
          <p className="flex items-start gap-1.5 text-[0.8125rem] text-warn">
            <TriangleAlert className="mt-0.5 size-4 shrink-0" aria-hidden />
            The run is incomplete: time ran out before everybody was evaluated. Shares are of those
            evaluated.
          </p>
        )
      )}
      {changed.length + same.length > 0 && (
        <table
          className={cx(
            "w-full border-separate border-spacing-0 text-left",
            isRunning && "opacity-70",
          )}
        >
          <caption className="sr-only">Values before and after the change</caption>
          <thead>
            <tr className="text-xs text-muted">
              <th scope="col" className="border-b py-1 pr-3 font-medium">
                Now → then
              </th>
              <th scope="col" className="border-b px-3 py-1 text-right font-medium">
                {noun[0]?.toUpperCase()}
                {noun.slice(1)}
              </th>
              <th scope="col" className="border-b px-3 py-1 text-right font-medium max-sm:hidden">
                Share
              </th>
              <th scope="col" className="border-b py-1 pl-3 font-medium max-sm:hidden">
                Examples: why?
              </th>
            </tr>
          </thead>
          <tbody>
            {[...changed, ...same].map((row) => (
              <Row
                key={`${row.from} ${row.to}`}
                row={row}
                subjects={run.subjects}
                onWhy={(example) => onWhy(subject(example))}
              />
            ))}
          </tbody>
        </table>
      )}
    </div>
  );
}

interface RowProps {
  row: MatrixRow;
  subjects: number;
  onWhy: (example: string) => void;
}

function Row({ row, subjects, onWhy }: RowProps) {
  const { from, to, count, share, examples } = row;
  const [all, setAll] = useState(false);
  const changes = from !== to;
  const shown = all ? examples : examples.slice(0, changes ? EXAMPLES_SHOWN : EXAMPLES_SHOWN_SAME);
  const list = (
    <span className="flex flex-wrap items-center gap-1">
      {shown.map((example) => (
        <Button
          key={example}
          size="sm"
          className="h-6! max-w-44 px-1.5!"
          aria-label={`Why ${example}`}
          title={example}
          onClick={() => onWhy(example)}
        >
          <span className="truncate font-mono text-xs font-normal">{example}</span>
        </Button>
      ))}
      {examples.length > shown.length && (
        <Button size="sm" variant="ghost" className="h-6!" onClick={() => setAll(true)}>
          {examples.length - shown.length} more
        </Button>
      )}
    </span>
  );
  return (
    <tr aria-label={rowSentence(row, subjects)} className={changes ? undefined : "text-muted"}>
      <td className="border-b py-1.5 pr-3 align-top">
        <span className="flex items-center gap-1.5 sm:whitespace-nowrap">
          <FlagValueText value={from} />
          <ArrowRight className="size-3.5 shrink-0 text-muted" aria-label="to" />
          <FlagValueText value={to} />
          {!changes && <span className="text-xs">as before</span>}
        </span>
        <span className="mt-1 block sm:hidden">{list}</span>
      </td>
      <td className="border-b px-3 py-1.5 text-right align-top tabular-nums">
        <span className={changes ? "font-semibold" : undefined}>{exact(count)}</span>
      </td>
      <td className="border-b px-3 py-1.5 text-right align-top tabular-nums max-sm:hidden">
        {percent(share)}
      </td>
      <td className="border-b py-1.5 pl-3 align-top max-sm:hidden">{list}</td>
    </tr>
  );
}
