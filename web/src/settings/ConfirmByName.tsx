import { type ReactNode, useState } from "react";
import { Button, Dialog, Field, Input } from "@/ui";

export interface ConfirmByNameProps {
  title: string;
  /// What must be typed.
  name: string;
  action: string;
  busy: boolean;
  children: ReactNode;
  onClose: () => void;
  onConfirm: () => void;
}

/// Asks for the name of what is deleted for good.
export function ConfirmByName({
  title,
  name,
  action,
  busy,
  children,
  onClose,
  onConfirm,
}: ConfirmByNameProps) {
  const [typed, setTyped] = useState("");
  const matches = typed.trim() === name.trim();
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="danger"
            type="submit"
            form="confirm-by-name"
            busy={busy}
            disabled={!matches}
          >
            {action}
          </Button>
        </>
      }
    >
      <form
        id="confirm-by-name"
        className="flex flex-col gap-3"
        onSubmit={(event) => {
          event.preventDefault();
          if (matches) onConfirm();
        }}
      >
        <div>{children}</div>
        <Field label={`Type “${name}” to confirm`}>
          <Input
            autoFocus
            autoComplete="off"
            value={typed}
            onChange={(event) => setTyped(event.currentTarget.value)}
          />
        </Field>
      </form>
    </Dialog>
  );
}
