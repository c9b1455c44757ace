import { type ReactNode, useState } from "react";
import { Button } from "./Button";
import { Card } from "./Card";
import { Checkbox } from "./Checkbox";
import { SearchInput } from "./Field";
import { count, exact } from "./format";
import { EmptyState, ErrorPanel, SkeletonRows } from "./states";
import { type Column, Table, type TableProps } from "./Table";

/// What a list needs of its query, whether it comes whole or by pages.
export interface ListQuery {
  isPending: boolean;
  isError: boolean;
  error: unknown;
  isPlaceholderData: boolean;
  isFetching: boolean;
  refetch: () => unknown;
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  fetchNextPage?: () => unknown;
}

/// Rows chosen for an action on several at once.
export interface Choice<Row> {
  keys: ReadonlySet<string>;
  rows: readonly Row[];
  /// What the API takes in one request.
  max: number;
  choose: (keys: Iterable<string>) => void;
}

/// Rows that leave the list, such as by another filter, are not chosen any more.
export function useChoice<Row>(
  rows: readonly Row[],
  rowKey: (row: Row) => string,
  max: number,
): Choice<Row> {
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  const chosen = keys.size > 0 ? rows.filter((row) => keys.has(rowKey(row))) : [];
  return {
    keys: new Set(chosen.map(rowKey)),
    rows: chosen,
    max,
    choose: (next) => setKeys(new Set([...next].slice(0, max))),
  };
}

export interface ListPanelProps<Row>
  extends Pick<TableProps<Row>, "columns" | "rowKey" | "onOpen" | "selectedKey" | "className"> {
  /// The name of the table.
  label: string;
  /// What a row and the rows are called in sentences.
  nouns: readonly [one: string, many: string];
  query: ListQuery;
  rows: readonly Row[];
  search: { text: string; onChange: (text: string) => void; placeholder?: string };
  /// Controls beside the search box.
  filters?: ReactNode;
  /// Whether a search or a filter may hide rows.
  filtered: boolean;
  /// Takes all filters away.
  onClear?: () => void;
  /// What the list is for, while it has no rows at all.
  empty: ReactNode;
  /// Rows that there are, where the API says so.
  total?: number | null;
  /// A line below the rows.
  note?: ReactNode;
  choice?: Choice<Row>;
  /// Names a row's checkbox.
  rowName?: (row: Row) => string;
  /// What can be done with the chosen rows.
  bulkActions?: ReactNode;
}

/// A list of the API: search and filters, its states, the table, and the next pages.
export function ListPanel<Row>(props: ListPanelProps<Row>) {
  const { nouns, query, rows, search, filters, filtered, onClear, total, note } = props;
  const more = query.hasNextPage ? query.fetchNextPage : undefined;
  const counted =
    total === undefined || total === null || total <= rows.length
      ? more
        ? `${count(rows.length, ...nouns)} loaded.`
        : `${count(rows.length, ...nouns)}.`
      : `${exact(rows.length)} of ${count(total, ...nouns)} loaded.`;
  return (
    <>
      <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-2">
        <SearchInput
          label={`Search ${nouns[1]}`}
          className="w-full sm:w-72"
          placeholder={search.placeholder}
          value={search.text}
          onChange={(event) => search.onChange(event.currentTarget.value)}
        />
        {filters}
        {filtered && onClear && (
          <Button variant="ghost" onClick={onClear}>
            Clear filters
          </Button>
        )}
      </div>
      {props.choice && props.choice.rows.length > 0 && (
        <BulkBar choice={props.choice} rows={rows} nouns={nouns} rowKey={props.rowKey}>
          {props.bulkActions}
        </BulkBar>
      )}
      <Card flush className="overflow-hidden">
        <ListRows {...props} onEnd={more && !query.isFetching ? more : undefined} />
      </Card>
      {rows.length > 0 && (
        <div className="mt-2 flex min-h-7 flex-wrap items-center gap-2 text-xs text-muted">
          <p role="status">
            {counted} {note}
          </p>
          {more && (
            <Button size="sm" busy={query.isFetchingNextPage} onClick={() => void more()}>
              Show more
            </Button>
          )}
        </div>
      )}
    </>
  );
}

function ListRows<Row>({
  label,
  nouns: [one, many],
  query,
  rows,
  columns,
  rowKey,
  filtered,
  empty,
  choice,
  rowName,
  onEnd,
  ...table
}: ListPanelProps<Row> & { onEnd?: () => unknown }) {
  if (query.isPending) return <SkeletonRows rows={10} label={`Loading ${many}`} />;
  if (query.isError && rows.length === 0) {
    return (
      <ErrorPanel
        title={`Could not load the ${many}`}
        error={query.error}
        onRetry={() => void query.refetch()}
      />
    );
  }
  if (rows.length === 0) {
    return filtered ? (
      <EmptyState title={`No ${one} matches`}>
        Try another word of its name, or take a filter away.
      </EmptyState>
    ) : (
      empty
    );
  }
  return (
    <Table
      label={label}
      className={table.className}
      rows={rows}
      columns={choice && rowName ? withCheckboxes(columns, choice, rowKey, rowName) : columns}
      rowKey={rowKey}
      onOpen={table.onOpen}
      selectedKey={table.selectedKey}
      stale={query.isPlaceholderData}
      onEnd={onEnd}
    />
  );
}

/// A checkbox in the first column, which stays in view while the others scroll.
function withCheckboxes<Row>(
  columns: readonly Column<Row>[],
  { keys, max, choose }: Choice<Row>,
  rowKey: (row: Row) => string,
  rowName: (row: Row) => string,
): Column<Row>[] {
  const toggle = (key: string, on: boolean) =>
    choose(on ? [...keys, key] : [...keys].filter((other) => other !== key));
  return columns.map((column, at) => {
    if (at > 0) return column;
    const cell = (row: Row) => (
      <span className="flex items-center gap-3">
        <Checkbox
          label={`Choose ${rowName(row)}`}
          hideLabel
          className="shrink-0"
          checked={keys.has(rowKey(row))}
          disabled={keys.size >= max && !keys.has(rowKey(row))}
          onChange={(on) => toggle(rowKey(row), on)}
        />
        {column.cell(row)}
      </span>
    );
    return { ...column, cell };
  });
}

interface BulkBarProps<Row> extends Pick<ListPanelProps<Row>, "rows" | "nouns" | "rowKey"> {
  choice: Choice<Row>;
  children: ReactNode;
}

function BulkBar<Row>({ choice, rows, nouns, rowKey, children }: BulkBarProps<Row>) {
  const most = Math.min(rows.length, choice.max);
  return (
    <div
      role="toolbar"
      aria-label={`Chosen ${nouns[1]}`}
      className="mb-3 flex flex-wrap items-center gap-2 rounded-md bg-accent-soft px-3 py-1.5 text-accent-text"
    >
      <span className="font-medium">{count(choice.rows.length, ...nouns)} chosen</span>
      {children}
      {choice.rows.length < most && (
        <Button size="sm" variant="ghost" onClick={() => choice.choose(rows.map(rowKey))}>
          Choose {most === rows.length ? `all ${exact(most)}` : `the first ${exact(most)}`}
        </Button>
      )}
      <Button size="sm" variant="ghost" onClick={() => choice.choose([])}>
        Choose none
      </Button>
    </div>
  );
}
