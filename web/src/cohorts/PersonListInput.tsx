import { useId } from "react";
import { Field, Select, Textarea } from "@/ui";
import { count } from "@/ui/format";
import { type IdKind, type PersonList, readList } from "./personList";

export interface ListInput {
  kind: IdKind;
  text: string;
  /// The content of a file, in place of the text.
  file: string | null;
  list: PersonList;
  error?: string;
}

export const EMPTY_INPUT: ListInput = {
  kind: "distinct_id",
  text: "",
  file: null,
  list: { kind: "distinct_id", ids: [] },
};

export function listOf({ list }: ListInput): PersonList {
  return list;
}

/// A file of more bytes is no list of persons.
const FILE_BYTES_MAX = 20_000_000;

function withList(input: ListInput): ListInput {
  const { kind, text, file } = input;
  const found = readList(file ?? text, kind, file !== null);
  return "error" in found
    ? { ...input, list: EMPTY_INPUT.list, error: found.error }
    : { ...input, list: found, error: undefined };
}

const NOUNS: Record<IdKind, [one: string, many: string]> = {
  distinct_id: ["distinct id", "distinct ids"],
  email: ["e-mail address", "e-mail addresses"],
  person_id: ["person id", "person ids"],
};

export interface PersonListInputProps {
  input: ListInput;
  onChange: (input: ListInput) => void;
}

/// Persons by a CSV file, or by ids that one types or pastes.
export function PersonListInput({ input, onChange }: PersonListInputProps) {
  const id = useId();
  const { kind, text, file, list, error } = input;
  const choose = async (chosen: File | undefined) => {
    if (chosen && chosen.size > FILE_BYTES_MAX) {
      onChange({ ...input, file: null, error: "The file is too large for a list of persons." });
    } else onChange(withList({ ...input, file: chosen ? await chosen.text() : null }));
  };
  return (
    <div className="flex flex-col gap-4">
      <div className="flex flex-col gap-1">
        <label htmlFor={id} className="text-[0.8125rem] font-medium">
          CSV file
        </label>
        <input
          id={id}
          type="file"
          accept=".csv,text/csv,text/plain"
          aria-describedby={`${id}-hint`}
          className="field-box h-auto py-1.5 file:mr-3 file:rounded file:border file:border-line-strong/60 file:bg-surface file:px-2 file:py-0.5 file:text-text"
          onChange={(event) => void choose(event.currentTarget.files?.[0])}
        />
        <p id={`${id}-hint`} className="text-xs text-muted">
          With a column distinct_id, email or person_id; or one id a line.
        </p>
      </div>
      {file === null && (
        <div className="flex flex-col gap-2">
          <div className="flex flex-wrap items-end justify-between gap-2">
            <span className="text-[0.8125rem] font-medium">Or a list</span>
            <Select
              label="What the list has"
              size="sm"
              value={kind}
              onChange={(next) => onChange(withList({ ...input, kind: next }))}
              options={[
                { value: "distinct_id", label: "Distinct ids" },
                { value: "email", label: "E-mail addresses" },
                { value: "person_id", label: "Person ids" },
              ]}
            />
          </div>
          <Field label="Persons" hideLabel hint="One a line, or with commas between them.">
            <Textarea
              rows={5}
              className="font-mono text-xs"
              value={text}
              onChange={(event) =>
                onChange(withList({ ...input, text: event.currentTarget.value }))
              }
            />
          </Field>
        </div>
      )}
      <p role="status" className={error ? "text-danger" : "text-muted"}>
        {error ??
          (list.ids.length > 0 &&
            `${count(list.ids.length, ...NOUNS[list.kind])}. Those that nobody has are left out.`)}
      </p>
    </div>
  );
}
