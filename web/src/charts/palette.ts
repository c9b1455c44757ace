import { createStore, useStore } from "@/api/store";

const COLORS = 10;

/// The CSS colour of a series; after ten they repeat.
export function seriesColor(index: number): string {
  return `var(--chart-${(index % COLORS) + 1})`;
}

/// A colour as canvases need it: `var(--x)` resolved in the theme in use.
export function resolveColor(color: string): string {
  const name = /^var\((--[\w-]+)\)$/.exec(color)?.[1];
  if (!name) return color;
  return longHex(getComputedStyle(document.documentElement).getPropertyValue(name).trim());
}

/// A built stylesheet has #fff for #ffffff.
export function longHex(color: string): string {
  return color.replace(/^#([0-9a-f])([0-9a-f])([0-9a-f])$/i, "#$1$1$2$2$3$3") || "#888888";
}

export function withAlpha(hex: string, alpha: number): string {
  if (!/^#[0-9a-f]{6}$/i.test(hex)) return hex;
  return (
    hex +
    Math.round(alpha * 255)
      .toString(16)
      .padStart(2, "0")
  );
}

/// Two `#rrggbb` colours mixed: `share` of the first.
export function mix(first: string, second: string, share: number): string {
  const channel = (color: string, at: number) => Number.parseInt(color.slice(at, at + 2), 16);
  if (!/^#[0-9a-f]{6}$/i.test(first) || !/^#[0-9a-f]{6}$/i.test(second)) return first;
  return [1, 3, 5].reduce((hex, at) => {
    const value = Math.round(channel(first, at) * share + channel(second, at) * (1 - share));
    return hex + value.toString(16).padStart(2, "0");
  }, "#");
}

const themeChanges = createStore(0);
const changed = () => themeChanges.set(themeChanges.get() + 1);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
new MutationObserver(changed).observe(document.documentElement, {
  attributes: true,
  attributeFilter: ["data-theme"],
});

/// Changes with the theme: canvases are drawn again.
export function useThemeChanges(): number {
  return useStore(themeChanges);
}
