import { Popover as Base } from "@base-ui/react/popover";
import type { ReactElement, ReactNode } from "react";
import { cx } from "./cx";

export interface PopoverProps {
  trigger: ReactElement<Record<string, unknown>>;
  /// Read out when the popover opens.
  title: string;
  hideTitle?: boolean;
  children: ReactNode;
  open?: boolean;
  onOpenChange?: (open: boolean) => void;
  align?: "start" | "center" | "end";
  side?: "top" | "bottom" | "left" | "right";
  className?: string;
}

export function Popover({
  trigger,
  title,
  hideTitle = false,
  children,
  open,
  onOpenChange,
  align = "start",
  side = "bottom",
  className,
}: PopoverProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange}>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner sideOffset={4} align={align} side={side} className="z-50">
          <Base.Popup
            className={cx(
              "popup scroll-thin max-h-(--available-height) max-w-[calc(100vw-1rem)] overflow-y-auto p-3",
              className,
            )}
          >
            <Base.Title className={hideTitle ? "sr-only" : "mb-2 font-semibold"}>
              {title}
            </Base.Title>
            {children}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
