import { EllipsisVertical, GripVertical } from "lucide-react";
import { type ReactNode, useId } from "react";
import { cx, IconButton, Menu, type MenuEntry } from "@/ui";

export interface TileFrameProps {
  title: ReactNode;
  /// The title for people who do not see it.
  name: string;
  hideTitle?: boolean;
  description?: string | null;
  /// Beside the title, such as the age.
  status?: ReactNode;
  menu: readonly MenuEntry[];
  /// Shows the handle that drags the tile.
  draggable: boolean;
  transparent?: boolean;
  children: ReactNode;
}

/// The class of the element that drags a tile, for the grid.
export const DRAG_HANDLE = "tile-drag-handle";

export function TileFrame({
  title,
  name,
  hideTitle,
  description,
  status,
  menu,
  draggable,
  transparent,
  children,
}: TileFrameProps) {
  const id = useId();
  return (
    <article
      aria-labelledby={id}
      className={cx(
        "group/tile @container relative flex h-full min-w-0 flex-col overflow-hidden rounded-lg",
        transparent && !draggable ? "" : "border bg-surface",
        draggable && "border-dashed border-line-strong",
      )}
    >
      <header
        className={cx(
          "flex shrink-0 items-start gap-1 pt-2 pr-1.5 pl-4",
          hideTitle ? "absolute inset-x-0 top-0 z-10 justify-end" : "pb-1",
        )}
      >
        {draggable && (
          <span
            className={cx(
              DRAG_HANDLE,
              "-ml-3 grid size-7 shrink-0 cursor-grab touch-none place-items-center rounded text-muted hover:bg-hover active:cursor-grabbing",
              hideTitle && "mr-auto ml-0",
            )}
          >
            <GripVertical className="size-4" aria-hidden />
          </span>
        )}
        <div className={cx("min-w-0 flex-1 pt-1", hideTitle && "sr-only")}>
          <h2 id={id} className="truncate font-semibold" title={name}>
            {title}
          </h2>
        </div>
        {status && <div className="pt-1.5 text-xs text-muted">{status}</div>}
        {menu.length > 0 && (
          <Menu
            align="end"
            items={menu}
            trigger={
              <IconButton
                size="sm"
                label={`Actions of ${name}`}
                className={cx(
                  "text-muted",
                  hideTitle &&
                    "bg-surface opacity-0 group-focus-within/tile:opacity-100 group-hover/tile:opacity-100 data-popup-open:opacity-100 pointer-coarse:opacity-100",
                )}
              >
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
          />
        )}
      </header>
      {description && (
        <p className="-mt-1 line-clamp-2 shrink-0 px-4 pb-1 text-xs wrap-anywhere text-muted">
          {description}
        </p>
      )}
      {children}
    </article>
  );
}
