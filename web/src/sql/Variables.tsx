import { BookmarkPlus } from "lucide-react";
import { Suspense, useState } from "react";
import { lazy } from "@/api/lazy";
import { VariableValue } from "@/insight_variables/VariableValue";
import {
  codeNameOf,
  defaultText,
  type InsightVariable,
  type VariableType,
  valueTypeOf,
} from "@/insight_variables/variableApi";
import { parseValue, textFor, VALUE_TYPES, type ValueType } from "@/persons/propertyValue";
import { Field, IconButton, Input, Select } from "@/ui";
import { variableNames } from "./names";
import type { SqlDraft, VariableDraft } from "./sqlDraft";

const VariableDialog = lazy(() =>
  import("@/insight_variables/VariableDialog").then((m) => ({ default: m.VariableDialog })),
);

export interface VariablesProps {
  draft: SqlDraft;
  /// The project's variables.
  known: readonly InsightVariable[];
  onChange: (draft: SqlDraft, topic?: string) => void;
}

/// A value for each `{variables.name}` of the statement.
export function Variables({ draft, known, onChange }: VariablesProps) {
  const [kept, setKept] = useState<string | null>(null);
  const names = variableNames(draft.text);
  if (names.length === 0) return null;
  /// Without a value, the default of the project's variable counts.
  const set = (name: string, value: VariableDraft | null) => {
    const { [name]: _, ...others } = draft.variables;
    const variables = value ? { ...others, [name]: value } : others;
    onChange({ ...draft, variables }, `variable ${name}`);
  };
  return (
    <section
      aria-label="Variables"
      className="flex flex-wrap items-start gap-x-4 gap-y-2 border-t px-4 py-2"
    >
      {names.map((name) => {
        const variable = known.find(({ code_name: codeName }) => codeName === name);
        const given = draft.variables[name];
        return (
          <div key={name} className="flex min-w-0 flex-wrap items-start gap-1.5">
            <code className="pt-1.5 font-mono text-xs text-muted">{name}</code>
            {variable ? (
              <VariableValue
                name={name}
                variable={variable}
                text={given?.text ?? ""}
                fallback={given?.type === "null" ? "null" : defaultText(variable)}
                onChange={(text) =>
                  set(name, text === "" ? null : { type: valueTypeOf(variable.type), text })
                }
              />
            ) : (
              <>
                <OwnValue
                  name={name}
                  value={given ?? { type: "text", text: "" }}
                  onChange={(next) => set(name, next)}
                />
                {codeNameOf(name) === name && (
                  <IconButton
                    size="sm"
                    label={`Keep ${name} as a variable of the project`}
                    onClick={() => setKept(name)}
                  >
                    <BookmarkPlus aria-hidden />
                  </IconButton>
                )}
              </>
            )}
          </div>
        );
      })}
      <Suspense>
        {kept !== null && (
          <VariableDialog
            initial={initialOf(kept, draft.variables[kept])}
            onClose={() => setKept(null)}
            onSaved={() => set(kept, null)}
          />
        )}
      </Suspense>
    </section>
  );
}

interface OwnValueProps {
  name: string;
  value: VariableDraft;
  onChange: (value: VariableDraft) => void;
}

/// The value and the type of a variable that only this statement has.
function OwnValue({ name, value: { type, text }, onChange }: OwnValueProps) {
  const parsed = parseValue(type, text);
  return (
    <>
      {type === "boolean" ? (
        <Select
          label={`Value of ${name}`}
          size="sm"
          value={text}
          onChange={(next) => onChange({ type, text: next })}
          options={[
            { value: "true", label: "true" },
            { value: "false", label: "false" },
          ]}
        />
      ) : (
        type !== "null" && (
          <Field
            label={`Value of ${name}`}
            hideLabel
            error={text !== "" && "error" in parsed ? parsed.error : null}
            className="w-40 max-sm:w-28"
          >
            <Input
              className="h-7! min-h-7! text-[0.8125rem]"
              value={text}
              onChange={(event) => onChange({ type, text: event.currentTarget.value })}
            />
          </Field>
        )
      )}
      <Select
        label={`Type of ${name}`}
        size="sm"
        value={type}
        onChange={(next) => onChange({ type: next, text: textFor(next, text) })}
        options={VALUE_TYPES.filter(({ value }) => value !== "json")}
      />
    </>
  );
}

const STORED_TYPES: Partial<Record<ValueType, VariableType>> = {
  number: "Number",
  boolean: "Boolean",
};

function initialOf(name: string, given: VariableDraft | undefined) {
  const { type = "text", text = "" } = given ?? {};
  return { name, type: STORED_TYPES[type] ?? ("String" as const), text };
}
