import { Split } from "lucide-react";
import { useState } from "react";
import { Button, Checkbox, CopyButton } from "@/ui";
import { count } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";

/// The API lists no more of one person.
const LISTED_MAX = 2_500;

export interface PersonIdsProps {
  ids: readonly string[];
  onSplit: (ids: readonly string[]) => void;
}

/// The ids with which a person's events arrive; those that belong to somebody else are split off.
export function PersonIds({ ids, onSplit }: PersonIdsProps) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const selected = ids.filter((id) => chosen.has(id));
  const toggle = (id: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const columns: Column<string>[] = [
    {
      id: "id",
      header: "Distinct id",
      cell: (id) => (
        <span className="flex items-center gap-2">
          {ids.length > 1 && (
            <Checkbox
              hideLabel
              label={`Choose ${id}`}
              checked={chosen.has(id)}
              onChange={(on) => toggle(id, on)}
            />
          )}
          <code className="min-w-0 font-mono text-xs wrap-anywhere">{id}</code>
        </span>
      ),
    },
    {
      id: "copy",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      width: 52,
      cell: (id) => <CopyButton size="sm" label={`Copy ${id}`} text={id} />,
    },
  ];
  const all = selected.length === ids.length;
  return (
    <>
      <div className="flex min-h-12 flex-wrap items-center gap-2 border-b px-4 py-2">
        <p className="min-w-0 flex-1 basis-64 text-muted">
          {ids.length >= LISTED_MAX
            ? `The oldest ${count(ids.length, "id")}.`
            : ids.length > 1
              ? "Events with any of these ids belong to this person. Ids of somebody else can be split off."
              : "All events of this person arrive with this id."}
        </p>
        {ids.length > 1 && (
          <Button
            icon={<Split aria-hidden />}
            disabledReason={
              selected.length === 0
                ? "Choose the ids that belong to somebody else."
                : all
                  ? "One id has to stay."
                  : undefined
            }
            onClick={() => onSplit(selected)}
          >
            {selected.length > 0 ? `Split ${count(selected.length, "id")} off` : "Split off"}
          </Button>
        )}
      </div>
      <Table label="Distinct ids" rows={ids} columns={columns} rowKey={(id) => id} />
    </>
  );
}
