import { ArrowDown, ArrowUp, Plus, Trash2 } from "lucide-react";
import { useState } from "react";
import type { Schemas } from "@/api/client";
import { fieldError } from "@/api/errors";
import { useProject } from "@/shell/useProject";
import { Button, Card, Field, IconButton, Input } from "@/ui";
import { useProjectChange } from "./useProjectChange";

type Rule = Schemas["PathCleaningFilter"];

const RULES_MAX = 100;

function inOrder(rules: readonly Rule[] | null): Rule[] {
  return [...(rules ?? [])].sort((a, b) => (a.order ?? 0) - (b.order ?? 0));
}

/// Regular expressions that make one path of many, such as `/order/17` and `/order/18`.
export function PathCleaning() {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const saved = inOrder(project.path_cleaning_filters);
  const [draft, setDraft] = useState<Rule[] | null>(null);
  const rules = draft ?? saved;
  const set = (at: number, part: Partial<Rule>) =>
    setDraft(rules.map((rule, index) => (index === at ? { ...rule, ...part } : rule)));
  const move = (at: number, by: -1 | 1) => {
    const next = [...rules];
    const [rule] = next.splice(at, 1);
    if (rule) next.splice(at + by, 0, rule);
    setDraft(next);
  };
  const save = () =>
    change.mutate(
      {
        path_cleaning_filters: rules
          .filter(({ regex }) => regex)
          .map(({ alias, regex }, order) => ({ alias: alias ?? "", regex, order })),
      },
      { onSuccess: () => setDraft(null) },
    );
  return (
    <Card
      title="Path cleaning"
      description="Applied from the top to paths and URLs of charts that clean them."
    >
      <div className="flex flex-col items-start gap-3">
        {rules.length > 0 && (
          <ol className="flex w-full flex-col gap-3">
            {rules.map((rule, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: a rule has no id.
              <li key={at} className="flex flex-wrap items-end gap-2">
                <Field label={`Pattern ${at + 1}`} className="min-w-0 flex-1 basis-48">
                  <Input
                    className="font-mono"
                    value={rule.regex ?? ""}
                    placeholder="/order/\d+"
                    onChange={(event) => set(at, { regex: event.currentTarget.value })}
                  />
                </Field>
                <Field label={`Becomes ${at + 1}`} className="min-w-0 flex-1 basis-48">
                  <Input
                    className="font-mono"
                    value={rule.alias ?? ""}
                    placeholder="/order/<id>"
                    onChange={(event) => set(at, { alias: event.currentTarget.value })}
                  />
                </Field>
                <div className="flex">
                  <IconButton
                    label={`Move pattern ${at + 1} up`}
                    disabled={at === 0}
                    onClick={() => move(at, -1)}
                  >
                    <ArrowUp aria-hidden />
                  </IconButton>
                  <IconButton
                    label={`Move pattern ${at + 1} down`}
                    disabled={at === rules.length - 1}
                    onClick={() => move(at, 1)}
                  >
                    <ArrowDown aria-hidden />
                  </IconButton>
                  <IconButton
                    label={`Remove pattern ${at + 1}`}
                    onClick={() => setDraft(rules.filter((_, index) => index !== at))}
                  >
                    <Trash2 aria-hidden />
                  </IconButton>
                </div>
              </li>
            ))}
          </ol>
        )}
        {fieldError(change.error, "path_cleaning_filters") && (
          <p role="alert" className="text-xs text-danger">
            {fieldError(change.error, "path_cleaning_filters")}
          </p>
        )}
        <div className="flex flex-wrap gap-2">
          {rules.length < RULES_MAX && (
            <Button
              icon={<Plus aria-hidden />}
              onClick={() => setDraft([...rules, { regex: "", alias: "" }])}
            >
              Add pattern
            </Button>
          )}
          {draft && (
            <>
              <Button variant="primary" busy={change.isPending} onClick={save}>
                Save patterns
              </Button>
              <Button onClick={() => setDraft(null)}>Discard</Button>
            </>
          )}
        </div>
      </div>
    </Card>
  );
}
