import { ExternalLink } from "lucide-react";
import { buttonClass, cx, type MenuEntry } from "@/ui";
import { tileName } from "./api";
import type { Tile } from "./layout";
import { Markdown, safeHref } from "./Markdown";
import { TileFrame } from "./TileFrame";

interface ContentTileProps {
  tile: Tile;
  menu: readonly MenuEntry[];
  draggable: boolean;
}

export function TextTile({ tile, menu, draggable }: ContentTileProps) {
  const name = tileName(tile);
  return (
    <TileFrame
      name={name}
      title={name}
      hideTitle
      menu={menu}
      draggable={draggable}
      transparent={tile.transparent_background ?? false}
    >
      <section
        aria-label={name}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className={cx(
          "scroll-thin min-h-0 flex-1 overflow-y-auto py-3 pr-8 pl-4 -outline-offset-2",
          draggable && "pt-9",
        )}
      >
        <Markdown text={tile.text?.body ?? ""} />
      </section>
    </TileFrame>
  );
}

export function LinkTile({ tile, menu, draggable }: ContentTileProps) {
  const button = tile.button_tile;
  const href = safeHref(button?.url ?? "");
  const label = button?.text || "Link";
  return (
    <TileFrame name={label} title={label} hideTitle menu={menu} draggable={draggable} transparent>
      <div
        className={cx(
          "flex h-full items-center px-2 pr-9",
          button?.placement === "right" && "justify-end",
          draggable && "pl-9",
        )}
      >
        {href ? (
          <a
            href={href}
            target="_blank"
            rel="noopener noreferrer nofollow"
            className={cx(
              buttonClass(button?.style === "secondary" ? "secondary" : "primary"),
              "min-w-0",
            )}
          >
            <span className="truncate">{label}</span>
            <ExternalLink aria-hidden />
          </a>
        ) : (
          <span>{label}</span>
        )}
      </div>
    </TileFrame>
  );
}
