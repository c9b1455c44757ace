import { cx } from "@/ui";

export interface JsonViewProps {
  value: unknown;
  /// Names the region for screen readers.
  label: string;
  className?: string;
}

const TOKEN =
  /("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
/// Longer text is shown without colours: each token is an element.
const COLOURED_CHARS_MAX = 50_000;

function coloured(json: string) {
  const parts = [];
  let end = 0;
  for (const match of json.matchAll(TOKEN)) {
    if (match.index > end) parts.push(json.slice(end, match.index));
    const [text, quoted, colon] = match;
    const tone = colon ? "text-accent-text" : quoted ? "text-info" : "text-warn";
    parts.push(
      <span key={match.index} className={tone}>
        {quoted ?? text}
      </span>,
    );
    if (colon) parts.push(colon);
    end = match.index + text.length;
  }
  parts.push(json.slice(end));
  return parts;
}

export function JsonView({ value, label, className }: JsonViewProps) {
  const json = JSON.stringify(value, null, 2) ?? "null";
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
      tabIndex={0}
      className={cx("scroll-thin overflow-auto rounded-md border bg-sunken", className)}
    >
      <pre className="p-3 font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">
        {json.length > COLOURED_CHARS_MAX ? json : coloured(json)}
      </pre>
    </section>
  );
}
