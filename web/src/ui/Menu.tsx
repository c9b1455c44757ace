import { Menu as Base } from "@base-ui/react/menu";
import { useRouter } from "@tanstack/react-router";
import { Check } from "lucide-react";
import type { MouseEvent, ReactElement, ReactNode } from "react";
import { cx } from "./cx";

export interface MenuItem {
  label: ReactNode;
  icon?: ReactNode;
  onSelect?: () => void;
  /// A path of this site; without it the item is an action.
  href?: string;
  danger?: boolean;
  disabledReason?: string;
  /// Shows a tick: one of several choices.
  checked?: boolean;
  shortcut?: ReactNode;
}

export type MenuEntry = MenuItem | "separator" | { heading: string; items: readonly MenuItem[] };

export interface MenuProps {
  /// The button that opens the menu.
  trigger: ReactElement<Record<string, unknown>>;
  items: readonly MenuEntry[];
  align?: "start" | "end";
  side?: "top" | "bottom" | "right";
  className?: string;
}

function Item({ item }: { item: MenuItem }) {
  const router = useRouter();
  const follow = (event: MouseEvent) => {
    // A modified click opens a tab, as with any link.
    if (!item.href || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0)
      return;
    event.preventDefault();
    router.history.push(item.href);
  };
  const body = (
    <>
      {item.icon && <span className="text-muted [&_svg]:size-4">{item.icon}</span>}
      <span className="min-w-0 flex-1 truncate">{item.label}</span>
      {item.disabledReason && (
        <span className="max-w-48 text-xs text-muted">{item.disabledReason}</span>
      )}
      {item.shortcut}
      {item.checked && <Check className="size-4 text-accent-text" aria-label="chosen" />}
    </>
  );
  const className = cx("popup-item", item.danger && "text-danger");
  if (item.href) {
    return (
      <Base.LinkItem href={item.href} className={className} onClick={follow} closeOnClick>
        {body}
      </Base.LinkItem>
    );
  }
  return (
    <Base.Item
      className={className}
      disabled={Boolean(item.disabledReason)}
      onClick={item.onSelect}
    >
      {body}
    </Base.Item>
  );
}

export function Menu({ trigger, items, align = "start", side = "bottom", className }: MenuProps) {
  return (
    <Base.Root>
      <Base.Trigger render={trigger} />
      <Base.Portal>
        <Base.Positioner sideOffset={4} align={align} side={side} className="z-50">
          <Base.Popup
            className={cx(
              "popup scroll-thin max-h-(--available-height) max-w-80 min-w-44 overflow-y-auto p-1",
              className,
            )}
          >
            {items.map((entry, index) => {
              if (entry === "separator") {
                // biome-ignore lint/suspicious/noArrayIndexKey: the entries of a menu are fixed.
                return <Base.Separator key={index} className="my-1 h-px bg-line" />;
              }
              if ("heading" in entry) {
                return (
                  <Base.Group key={entry.heading}>
                    <Base.GroupLabel className="px-2 pt-1.5 pb-1 text-xs text-muted">
                      {entry.heading}
                    </Base.GroupLabel>
                    {entry.items.map((item, at) => (
                      // biome-ignore lint/suspicious/noArrayIndexKey: the entries of a menu are fixed.
                      <Item key={at} item={item} />
                    ))}
                  </Base.Group>
                );
              }
              // biome-ignore lint/suspicious/noArrayIndexKey: the entries of a menu are fixed.
              return <Item key={index} item={entry} />;
            })}
          </Base.Popup>
        </Base.Positioner>
      </Base.Portal>
    </Base.Root>
  );
}
