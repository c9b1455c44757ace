import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleHelp } from "lucide-react";
import { useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { groupTypeName, groupTypesQuery } from "@/filters/definitions";
import { Typed } from "@/filters/ValueInput";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Card, Combobox, EmptyState } from "@/ui";
import { Explanation } from "../Explanation";
import type { FlagPlace } from "../FlagScreen";
import type { Flag } from "../flagApi";
import { changeFields, conditionsOf, type DraftBase, type FlagDraft } from "../model/draft";

const PERSONS_SHOWN = 10;

export interface WhyTabProps {
  flag: Flag;
  base: DraftBase;
  /// Null where nothing is edited.
  draft: FlagDraft | null;
  search: FlagPlace;
}

/// Why a person, with their groups, gets the value they get.
export function WhyTab({ flag, base, draft, search }: WhyTabProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const groupTypes = useQuery(groupTypesQuery(projectId));
  const { who = "", groups = {} } = search;
  const set = (next: Pick<FlagPlace, "who" | "groups">) =>
    navigate({
      to: ".",
      search: (() => ({ ...search, ...next })) as never,
      hash: true,
      replace: true,
      resetScroll: false,
    });
  const fields = useMemo(() => (draft ? changeFields(base, draft) : null), [base, draft]);
  const asked = (draft ?? base.fields).filters;
  const types = (groupTypes.data ?? []).filter(({ group_type_index: index }) =>
    conditionsOf(asked).some((condition) => condition.aggregation_group_type_index === index),
  );
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <span className="flex min-w-0 items-center gap-2">
          <span className="text-[0.8125rem] font-medium">Person</span>
          <PersonPicker value={who} onChange={(id) => void set({ who: id })} />
        </span>
        {types.map((type) => (
          <span key={type.group_type} className="flex items-center gap-2">
            <span className="text-[0.8125rem] font-medium first-letter:uppercase">
              {groupTypeName(type)}
            </span>
            <Typed
              label={`Key of the ${groupTypeName(type)}`}
              placeholder="key"
              className="w-40"
              value={groups[type.group_type] ?? ""}
              onCommit={(key) => void set({ groups: { ...groups, [type.group_type]: key } })}
            />
          </span>
        ))}
      </div>
      <Card>
        {who === "" ? (
          <EmptyState
            icon={<CircleHelp aria-hidden />}
            title="Why does somebody get this value?"
            className="py-8"
          >
            Choose a person, or type a distinct id. Every comparison and every hash is shown, in
            their order{draft ? ", for what is saved and for your draft" : ""}.
          </EmptyState>
        ) : (
          <Explanation
            flagId={flag.id}
            subject={{ distinctId: who, groups }}
            base={base.fields}
            fields={fields}
            draft={draft}
          />
        )}
      </Card>
    </div>
  );
}

function PersonPicker({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const { projectId } = useProject();
  const [text, setText] = useState("");
  const typed = text.trim();
  const search = useDebounced(typed, 200);
  const persons = useQuery({
    queryKey: ["persons", projectId, { search, limit: PERSONS_SHOWN }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/persons", {
          params: {
            path: { project_id: projectId },
            query: { search: search || undefined, limit: PERSONS_SHOWN },
          },
          signal,
        }),
      ),
  });
  const options = (persons.data?.results ?? []).flatMap(({ name, distinct_ids: [id] }) =>
    id === undefined ? [] : [{ value: id, label: name || id, hint: name === id ? undefined : id }],
  );
  if (typed && !options.some((option) => option.value === typed)) {
    options.unshift({ value: typed, label: typed, hint: "as typed" });
  }
  return (
    <Combobox
      label="Person"
      className="w-64 max-w-full"
      placeholder="Choose person"
      value={value === "" ? null : value}
      valueLabel={value === "" ? undefined : value}
      options={options}
      onSearch={setText}
      loading={persons.isFetching}
      empty="Type a distinct id."
      onChange={onChange}
    />
  );
}
