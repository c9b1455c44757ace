import { Card, Field, Input, Textarea } from "@/ui";
import type { CohortDraft } from "./conditions";

export interface NameCardProps {
  draft: CohortDraft;
  onChange: (draft: CohortDraft, topic?: string) => void;
  nameError?: string;
}

/// Name and description of a cohort that is being edited.
export function NameCard({ draft, onChange, nameError }: NameCardProps) {
  return (
    <Card>
      <div className="flex flex-col gap-3">
        <Field label="Name" error={nameError}>
          <Input
            maxLength={400}
            value={draft.name}
            placeholder="Such as Paying customers"
            onChange={(event) => onChange({ ...draft, name: event.currentTarget.value }, "name")}
          />
        </Field>
        <Field label="Description">
          <Textarea
            rows={2}
            maxLength={1_000}
            value={draft.description}
            onChange={(event) =>
              onChange({ ...draft, description: event.currentTarget.value }, "description")
            }
          />
        </Field>
      </div>
    </Card>
  );
}
