const MAC = /mac|iphone|ipad/i.test(navigator.userAgent);
const NAMES: Record<string, string> = {
  mod: MAC ? "⌘" : "Ctrl",
  enter: "↵",
  up: "↑",
  down: "↓",
  esc: "Esc",
};

/// A key or a sequence of keys, as in `keys="mod+k"` or `keys="g i"`.
export function Kbd({ keys }: { keys: string }) {
  return (
    <span className="inline-flex shrink-0 gap-1">
      {keys.split(/[+ ]/).map((key) => (
        <kbd
          key={key}
          className="inline-grid h-5 min-w-5 place-items-center rounded border bg-sunken px-1 font-sans text-[0.6875rem] font-medium text-muted"
        >
          {NAMES[key] ?? key.toUpperCase()}
        </kbd>
      ))}
    </span>
  );
}
