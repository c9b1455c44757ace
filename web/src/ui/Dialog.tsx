import { AlertDialog } from "@base-ui/react/alert-dialog";
import { Dialog as Base } from "@base-ui/react/dialog";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { Button } from "./Button";
import { cx } from "./cx";

export interface DialogProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  description?: ReactNode;
  children?: ReactNode;
  footer?: ReactNode;
  size?: "sm" | "md" | "lg";
}

const WIDTH = { sm: "max-w-sm", md: "max-w-lg", lg: "max-w-3xl" } as const;
const BACKDROP =
  "fixed inset-0 z-40 bg-overlay transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0";
const POPUP =
  "popup fixed top-1/2 left-1/2 z-40 flex max-h-[calc(100dvh-2rem)] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col origin-center!";

export function Dialog({
  open,
  onOpenChange,
  title,
  description,
  children,
  footer,
  size = "md",
}: DialogProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Portal>
        <Base.Backdrop className={BACKDROP} />
        <Base.Popup className={cx(POPUP, WIDTH[size])}>
          <div className="flex items-start gap-4 px-4 pt-3.5">
            <div className="min-w-0 flex-1">
              <Base.Title className="text-base font-semibold">{title}</Base.Title>
              {description && (
                <Base.Description className="mt-0.5 text-muted">{description}</Base.Description>
              )}
            </div>
            <Base.Close
              aria-label="Close"
              className="-mr-1 grid size-7 place-items-center rounded-md text-muted hover:bg-hover hover:text-text"
            >
              <X className="size-4" aria-hidden />
            </Base.Close>
          </div>
          <div className="scroll-thin min-h-0 flex-1 overflow-y-auto px-4 py-3.5">{children}</div>
          {footer && (
            <div className="flex gap-2 border-t px-4 py-3 max-sm:flex-col-reverse sm:flex-wrap-reverse sm:justify-end">
              {footer}
            </div>
          )}
        </Base.Popup>
      </Base.Portal>
    </Base.Root>
  );
}

export interface ConfirmProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: string;
  children?: ReactNode;
  /// What the button does, as in "Delete dashboard".
  action: string;
  danger?: boolean;
  busy?: boolean;
  onConfirm: () => void;
}

/// Asks before what cannot be undone. What can be undone gets a toast with Undo instead.
export function Confirm({
  open,
  onOpenChange,
  title,
  children,
  action,
  danger,
  busy,
  onConfirm,
}: ConfirmProps) {
  return (
    <AlertDialog.Root open={open} onOpenChange={onOpenChange}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={BACKDROP} />
        <AlertDialog.Popup className={cx(POPUP, WIDTH.sm, "gap-1.5 p-4")}>
          <AlertDialog.Title className="text-base font-semibold">{title}</AlertDialog.Title>
          <AlertDialog.Description render={<div />} className="text-muted">
            {children}
          </AlertDialog.Description>
          <div className="mt-3 flex justify-end gap-2">
            <AlertDialog.Close render={<Button>Cancel</Button>} />
            <Button variant={danger ? "danger" : "primary"} busy={busy} onClick={onConfirm}>
              {action}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  );
}
