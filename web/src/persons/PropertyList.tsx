import { useMutation } from "@tanstack/react-query";
import { Pencil, Plus, Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { JsonView } from "@/events/JsonView";
import { propertyLabel } from "@/filters/operators";
import {
  Badge,
  Button,
  EmptyState,
  Field,
  IconButton,
  Input,
  SearchInput,
  Select,
  Textarea,
  toast,
} from "@/ui";
import {
  editText,
  parseValue,
  textFor,
  VALUE_TYPES,
  type ValueType,
  valueType,
} from "./propertyValue";

export interface PropertyListProps {
  properties: Record<string, unknown>;
  /// Whose properties they are, as in "person".
  noun: string;
  onSet: (key: string, value: unknown) => Promise<unknown>;
  onRemove: (key: string) => Promise<unknown>;
}

const NEW = Symbol("new");
const SEARCHED_MIN = 8;
const NAME_CHARS_MAX = 400;

/// Properties that are added, changed and removed in place: the app's own first, then the SDK's.
export function PropertyList({ properties, noun, onSet, onRemove }: PropertyListProps) {
  const [edited, setEdited] = useState<string | typeof NEW | null>(null);
  const [search, setSearch] = useState("");
  const all = Object.entries(properties).sort(
    ([a], [b]) => Number(a.startsWith("$")) - Number(b.startsWith("$")) || (a < b ? -1 : 1),
  );
  const needle = search.trim().toLowerCase();
  const rows = all.filter(
    ([name, value]) =>
      needle === "" ||
      `${name} ${propertyLabel(name)} ${editText(value)}`.toLowerCase().includes(needle),
  );
  const set = useMutation({
    mutationFn: ({ key, value }: { key: string; value: unknown }) => onSet(key, value),
    onSuccess: () => setEdited(null),
    onError: (error) => toast.error(error, "Could not save the property"),
  });
  const remove = useMutation({
    mutationFn: ([key]: [string, unknown]) => onRemove(key),
    onSuccess: (_, [key, value]) =>
      toast.success(`Removed ${propertyLabel(key)}`, { undo: () => set.mutate({ key, value }) }),
    onError: (error) => toast.error(error, "Could not remove the property"),
  });
  const save = (key: string, value: unknown) => set.mutate({ key, value });
  const addButton = (
    <Button icon={<Plus aria-hidden />} onClick={() => setEdited(NEW)} disabled={edited === NEW}>
      Add property
    </Button>
  );
  return (
    <div>
      <div className="flex flex-wrap items-center gap-2 pb-2">
        {all.length >= SEARCHED_MIN && (
          <SearchInput
            label="Search properties"
            className="w-full max-w-xs"
            value={search}
            onChange={(event) => setSearch(event.currentTarget.value)}
          />
        )}
        <div className="ml-auto">{all.length > 0 && addButton}</div>
      </div>
      {edited === NEW && (
        <div className="border-t py-2">
          <PropertyForm
            taken={Object.keys(properties)}
            busy={set.isPending}
            onCancel={() => setEdited(null)}
            onSave={save}
          />
        </div>
      )}
      {all.length === 0 && edited !== NEW && (
        <EmptyState className="py-8" title="No properties" action={addButton}>
          Nothing is known about this {noun} yet. Apps set properties such as a plan or a name; you
          can add some here as well.
        </EmptyState>
      )}
      <ul className="border-t">
        {rows.map(([name, value]) => (
          <li key={name} className="border-b py-1 last:border-b-0">
            {edited === name ? (
              <PropertyForm
                name={name}
                value={value}
                busy={set.isPending}
                onCancel={() => setEdited(null)}
                onSave={save}
              />
            ) : (
              <div className="flex min-h-8 flex-wrap items-start gap-x-3 sm:flex-nowrap">
                <span
                  className="w-full shrink-0 py-1 text-muted wrap-anywhere sm:w-64"
                  title={name}
                >
                  {propertyLabel(name)}
                </span>
                <span className="min-w-0 flex-1 py-1 wrap-anywhere">
                  <Value value={value} name={name} />
                </span>
                <span className="flex gap-0.5">
                  <IconButton
                    size="sm"
                    className="text-muted"
                    label={`Edit ${propertyLabel(name)}`}
                    onClick={() => setEdited(name)}
                  >
                    <Pencil aria-hidden />
                  </IconButton>
                  <IconButton
                    size="sm"
                    className="text-muted"
                    label={`Remove ${propertyLabel(name)}`}
                    onClick={() => remove.mutate([name, value])}
                  >
                    <Trash2 aria-hidden />
                  </IconButton>
                </span>
              </div>
            )}
          </li>
        ))}
      </ul>
      {all.length > 0 && rows.length === 0 && (
        <p className="py-6 text-center text-muted">No property matches.</p>
      )}
    </div>
  );
}

function Value({ value, name }: { value: unknown; name: string }) {
  const type = valueType(value);
  if (type === "null") return <Badge>null</Badge>;
  if (type === "json") return <JsonView value={value} label={name} className="max-h-48" />;
  if (value === "") return <span className="text-faint">(empty text)</span>;
  return (
    <>
      {editText(value)}
      {type !== "text" && <span className="sr-only"> ({type})</span>}
    </>
  );
}

interface PropertyFormProps {
  /// The property that is changed; a new one without it.
  name?: string;
  value?: unknown;
  /// Names that a new one cannot have.
  taken?: readonly string[];
  busy: boolean;
  onSave: (name: string, value: unknown) => void;
  onCancel: () => void;
}

function PropertyForm({ name, value, taken = [], busy, onSave, onCancel }: PropertyFormProps) {
  const isNew = name === undefined;
  const [key, setKey] = useState(name ?? "");
  const [type, setType] = useState<ValueType>(isNew ? "text" : valueType(value));
  const [text, setText] = useState(editText(value));
  const [tried, setTried] = useState(false);
  const parsed = parseValue(type, text);
  const keyError =
    key.trim() === ""
      ? "A property needs a name."
      : isNew && taken.includes(key.trim())
        ? "There is already one of this name: change that."
        : null;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (keyError === null && "value" in parsed) onSave(key.trim(), parsed.value);
  };
  const valueError = tried && "error" in parsed ? parsed.error : null;
  return (
    <form
      className="flex flex-wrap items-start gap-2"
      onSubmit={submit}
      onKeyDown={(event) => {
        if (event.key === "Escape") onCancel();
      }}
    >
      {isNew ? (
        <Field label="Name" hideLabel error={tried ? keyError : null} className="w-full sm:w-62">
          <Input
            autoFocus
            placeholder="Name, such as plan"
            maxLength={NAME_CHARS_MAX}
            value={key}
            onChange={(event) => setKey(event.currentTarget.value)}
          />
        </Field>
      ) : (
        <span className="w-full shrink-0 py-1.5 text-muted wrap-anywhere sm:w-62">
          {propertyLabel(name)}
        </span>
      )}
      <Select
        label="Type"
        value={type}
        onChange={(next) => {
          setType(next);
          setText(textFor(next, text));
        }}
        options={VALUE_TYPES}
      />
      {type === "boolean" ? (
        <Select
          label="Value"
          value={text}
          onChange={setText}
          options={[
            { value: "true", label: "true" },
            { value: "false", label: "false" },
          ]}
        />
      ) : (
        type !== "null" && (
          <Field label="Value" hideLabel error={valueError} className="min-w-48 flex-1">
            {type === "json" ? (
              <Textarea
                autoFocus={!isNew}
                rows={4}
                className="font-mono text-xs"
                value={text}
                onChange={(event) => setText(event.currentTarget.value)}
              />
            ) : (
              <Input
                autoFocus={!isNew}
                inputMode={type === "number" ? "decimal" : undefined}
                placeholder="Value"
                value={text}
                onChange={(event) => setText(event.currentTarget.value)}
              />
            )}
          </Field>
        )
      )}
      <span className="ml-auto flex gap-2">
        <Button onClick={onCancel}>Cancel</Button>
        <Button variant="primary" type="submit" busy={busy}>
          Save
        </Button>
      </span>
    </form>
  );
}
