import { Eye, EyeOff } from "lucide-react";
import { useState } from "react";
import { CopyButton, IconButton } from "@/ui";

/// A value to copy; a secret is hidden until it is asked for.
export function SecretText({
  label,
  value,
  secret = false,
}: {
  label: string;
  value: string;
  secret?: boolean;
}) {
  const [shown, setShown] = useState(!secret);
  return (
    <div className="flex max-w-full items-center gap-1">
      <code className="min-w-0 truncate rounded bg-sunken px-2 py-1 font-mono text-xs">
        {shown ? value : `${value.slice(0, 4)}${"•".repeat(12)}`}
      </code>
      {secret && (
        <IconButton
          size="sm"
          label={shown ? `Hide the ${label}` : `Show the ${label}`}
          onClick={() => setShown(!shown)}
        >
          {shown ? <EyeOff aria-hidden /> : <Eye aria-hidden />}
        </IconButton>
      )}
      <CopyButton size="sm" text={value} label={`Copy the ${label}`} />
    </div>
  );
}
