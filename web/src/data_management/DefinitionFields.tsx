import { BadgeCheck, EyeOff } from "lucide-react";
import { useState } from "react";
import { TagsInput } from "@/insights/TagsInput";
import { Badge, Button, Field, Switch, Textarea } from "@/ui";
import type { SharedFields } from "./definitionApi";

const DESCRIPTION_CHARS_MAX = 16_384;

interface Described {
  description?: string | null;
  tags: readonly string[];
  verified: boolean;
  hidden: boolean;
}

/// What events and properties have alike: each is saved as it is changed.
export function DefinitionFields({
  definition,
  busy,
  onChange,
}: {
  definition: Described;
  busy: boolean;
  onChange: (fields: SharedFields) => void;
}) {
  return (
    <>
      <DescriptionField
        value={definition.description ?? ""}
        busy={busy}
        onSave={(description) => onChange({ description })}
      />
      <Field label="Tags">
        <TagsInput value={definition.tags} onChange={(tags) => onChange({ tags })} />
      </Field>
      <div className="flex flex-col gap-1.5">
        <Switch
          label="Verified: its meaning is agreed on"
          checked={definition.verified}
          disabled={busy}
          onChange={(verified) => onChange({ verified })}
        />
        <Switch
          label="Hidden: not offered when filters and charts are made"
          checked={definition.hidden}
          disabled={busy}
          onChange={(hidden) => onChange({ hidden })}
        />
      </div>
    </>
  );
}

/// A text that is saved by a button, which appears once it differs.
function DescriptionField({
  value,
  busy,
  onSave,
}: {
  value: string;
  busy: boolean;
  onSave: (text: string) => void;
}) {
  const [draft, setDraft] = useState<string | null>(null);
  const text = draft ?? value;
  return (
    <div className="flex flex-col items-start gap-2">
      <Field label="Description" className="w-full">
        <Textarea
          rows={2}
          maxLength={DESCRIPTION_CHARS_MAX}
          value={text}
          placeholder="What it means, and when it is sent"
          onChange={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
              onSave(text.trim());
              setDraft(null);
            }
          }}
        />
      </Field>
      {draft !== null && draft !== value && (
        <div className="flex gap-2">
          <Button
            size="sm"
            variant="primary"
            busy={busy}
            onClick={() => {
              onSave(text.trim());
              setDraft(null);
            }}
          >
            Save description
          </Button>
          <Button size="sm" onClick={() => setDraft(null)}>
            Discard
          </Button>
        </div>
      )}
    </div>
  );
}

/// A name in a list with its marks and the beginning of its description.
export function DefinitionName({
  name,
  definition,
  onOpen,
}: {
  name: string;
  definition: Described;
  onOpen: () => void;
}) {
  return (
    <span className="flex min-w-40 flex-col py-1.5">
      <span className="flex items-center gap-2">
        <button
          type="button"
          onClick={onOpen}
          className="block max-w-44 min-h-6 truncate text-left font-medium hover:underline sm:max-w-80"
        >
          {name}
        </button>
        {definition.verified && (
          <BadgeCheck
            className="size-4 shrink-0 text-accent-text"
            role="img"
            aria-label="Verified"
          />
        )}
        {definition.hidden && (
          <Badge>
            <EyeOff aria-hidden />
            Hidden
          </Badge>
        )}
      </span>
      {definition.description && (
        <span className="block max-w-96 truncate text-xs text-muted max-sm:hidden">
          {definition.description}
        </span>
      )}
    </span>
  );
}

export function TagList({ tags }: { tags: readonly string[] }) {
  return (
    <span className="flex gap-1">
      {tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </span>
  );
}
