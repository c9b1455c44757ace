import { type KeyboardEvent, useState } from "react";
import { Chip, Input } from "@/ui";

export interface TagsInputProps {
  value: readonly string[];
  onChange: (tags: string[]) => void;
  label?: string;
  placeholder?: string;
}

/// Tags: Enter or a comma adds one, Backspace in the empty box takes the last away.
export function TagsInput({ value, onChange, label, placeholder = "Add a tag" }: TagsInputProps) {
  const [text, setText] = useState("");
  const add = (typed = text) => {
    const tags = typed.split(",").map((tag) => tag.trim().toLowerCase());
    const next = [...new Set([...value, ...tags.filter(Boolean)])];
    if (next.length !== value.length) onChange(next);
    setText("");
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" && text.trim()) {
      event.preventDefault();
      add();
    } else if (event.key === "Backspace" && text === "" && value.length > 0) {
      onChange(value.slice(0, -1));
    }
  };
  return (
    <div className="flex flex-col gap-1.5">
      {value.length > 0 && (
        <span className="flex flex-wrap gap-1">
          {value.map((tag) => (
            <Chip
              key={tag}
              removeLabel={`Remove tag ${tag}`}
              onRemove={() => onChange(value.filter((other) => other !== tag))}
            >
              {tag}
            </Chip>
          ))}
        </span>
      )}
      <Input
        aria-label={label}
        value={text}
        placeholder={placeholder}
        onChange={(event) => {
          const typed = event.currentTarget.value;
          if (typed.includes(",")) add(typed);
          else setText(typed);
        }}
        onKeyDown={onKeyDown}
        onBlur={() => add()}
      />
    </div>
  );
}
