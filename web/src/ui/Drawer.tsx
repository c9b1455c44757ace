import { Drawer as Base } from "@base-ui/react/drawer";
import { X } from "lucide-react";
import type { ReactNode } from "react";
import { cx } from "./cx";

export interface DrawerProps {
  open: boolean;
  onOpenChange: (open: boolean) => void;
  title: ReactNode;
  hideTitle?: boolean;
  children: ReactNode;
  footer?: ReactNode;
  side?: "left" | "right" | "bottom";
  size?: "md" | "lg";
}

const SWIPE = { left: "left", right: "right", bottom: "down" } as const;
const VIEWPORT = {
  left: "items-stretch justify-start",
  right: "items-stretch justify-end",
  bottom: "items-end justify-center",
} as const;
const POPUP = {
  left: "h-full w-72 border-r transform-[translateX(var(--drawer-swipe-movement-x))] data-starting-style:transform-[translateX(-100%)] data-ending-style:transform-[translateX(-100%)]",
  right:
    "h-full w-full border-l transform-[translateX(var(--drawer-swipe-movement-x))] data-starting-style:transform-[translateX(100%)] data-ending-style:transform-[translateX(100%)]",
  bottom:
    "max-h-[85dvh] w-full rounded-t-xl border-t transform-[translateY(var(--drawer-swipe-movement-y))] data-starting-style:transform-[translateY(100%)] data-ending-style:transform-[translateY(100%)]",
} as const;
const WIDTH = { md: "sm:max-w-md", lg: "sm:max-w-2xl" } as const;

export function Drawer({
  open,
  onOpenChange,
  title,
  hideTitle,
  children,
  footer,
  side = "right",
  size = "md",
}: DrawerProps) {
  return (
    <Base.Root open={open} onOpenChange={onOpenChange} swipeDirection={SWIPE[side]}>
      <Base.Portal>
        <Base.Backdrop className="fixed inset-0 z-40 bg-overlay transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Base.Viewport className={cx("fixed inset-0 z-40 flex", VIEWPORT[side])}>
          <Base.Popup
            className={cx(
              "flex flex-col bg-surface shadow-popup outline-none transition-transform duration-200 ease-out data-swiping:transition-none",
              POPUP[side],
              side === "right" && WIDTH[size],
            )}
          >
            <div className="flex items-center gap-2 px-4 pt-3">
              <Base.Title
                className={cx("min-w-0 flex-1 text-base font-semibold", hideTitle && "sr-only")}
              >
                {title}
              </Base.Title>
              <Base.Close
                aria-label="Close"
                className="-mr-1 ml-auto grid size-7 place-items-center rounded-md text-muted hover:bg-hover hover:text-text"
              >
                <X className="size-4" aria-hidden />
              </Base.Close>
            </div>
            <Base.Content className="scroll-thin min-h-0 flex-1 overflow-y-auto px-4 py-3">
              {children}
            </Base.Content>
            {footer && (
              <div className="flex gap-2 border-t px-4 py-3 max-sm:flex-col-reverse sm:flex-wrap-reverse sm:justify-end">
                {footer}
              </div>
            )}
          </Base.Popup>
        </Base.Viewport>
      </Base.Portal>
    </Base.Root>
  );
}
