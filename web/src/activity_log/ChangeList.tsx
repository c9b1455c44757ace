import type { Schemas } from "@/api/client";
import { cx } from "@/ui";
import { diffLines, foldSame, isShort, linesOf, shortText } from "./diff";
import { fieldLabel } from "./sentences";

const MARK = { same: " ", added: "+", removed: "−", gap: " " } as const;
const SPOKEN = { same: "", added: "added: ", removed: "removed: ", gap: "" } as const;
const TONE = {
  same: "text-muted",
  added: "bg-accent-soft text-accent-text",
  removed: "bg-danger-soft text-danger",
  gap: "text-faint",
} as const;

/// The lines of a value that changed.
export function ValueDiff({
  before,
  after,
  label,
}: {
  before: unknown;
  after: unknown;
  label: string;
}) {
  const lines = foldSame(diffLines(linesOf(before), linesOf(after)));
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
      tabIndex={0}
      className="scroll-thin max-h-80 overflow-auto rounded-md border bg-sunken"
    >
      <pre className="w-max min-w-full py-1 font-mono text-xs leading-5">
        {lines.map(({ kind, text }, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: the lines do not move.
          <div key={at} className={cx("px-2", TONE[kind])}>
            <span aria-hidden="true" className="mr-2 select-none">
              {MARK[kind]}
            </span>
            {SPOKEN[kind] && <span className="sr-only">{SPOKEN[kind]}</span>}
            {text}
          </div>
        ))}
      </pre>
    </section>
  );
}

/// Each changed field with what it was and what it is.
export function ChangeList({ changes }: { changes: readonly Schemas["Change"][] }) {
  return (
    <dl className="flex flex-col gap-2">
      {changes.map(({ field, before, after }, at) => {
        const label = fieldLabel(field);
        const hidden = before == null && after == null;
        return (
          // biome-ignore lint/suspicious/noArrayIndexKey: the changes of an entry are fixed.
          <div key={at} className="flex min-w-0 flex-col gap-0.5">
            <dt className="text-xs font-medium text-muted first-letter:uppercase">{label}</dt>
            <dd className="min-w-0">
              {hidden ? (
                <span className="text-muted">Changed. The value is secret.</span>
              ) : isShort(before) && isShort(after) ? (
                <span className="wrap-anywhere">
                  <del className="text-danger decoration-danger/50">{shortText(before)}</del>
                  <span className="px-1.5 text-muted" aria-hidden="true">
                    →
                  </span>
                  <ins className="text-accent-text no-underline">{shortText(after)}</ins>
                </span>
              ) : (
                <ValueDiff label={`Difference of ${label}`} before={before} after={after} />
              )}
            </dd>
          </div>
        );
      })}
    </dl>
  );
}
