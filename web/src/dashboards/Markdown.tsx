import type { ReactNode } from "react";

/// A subset of Markdown as React elements: headings, lists, quotes, rules, code, emphasis and links.
/// HTML stays text. Shared pages use it too.

type Block =
  | { kind: "heading"; level: number; text: string }
  | { kind: "paragraph" | "quote" | "code"; text: string }
  | { kind: "list"; ordered: boolean; items: string[] }
  | { kind: "rule" };

const HEADING = /^(#{1,4})\s+(.*)$/;
const BULLET = /^\s*[-*+]\s+(.*)$/;
const NUMBER = /^\s*\d{1,9}[.)]\s+(.*)$/;
const RULE = /^\s*([-*_])(\s*\1){2,}\s*$/;
const FENCE = /^\s*```/;
const QUOTE = /^\s*>\s?(.*)$/;

function startsBlock(line: string): boolean {
  return [HEADING, BULLET, NUMBER, RULE, FENCE, QUOTE].some((start) => start.test(line));
}

export function blocksOf(source: string): Block[] {
  const lines = source.replaceAll("\r\n", "\n").split("\n");
  const blocks: Block[] = [];
  let at = 0;
  /// Takes lines while they match, and returns what is left of each.
  const take = (pattern: RegExp): string[] => {
    const taken: string[] = [];
    for (;;) {
      const match = pattern.exec(lines[at] ?? "");
      if (!match || at >= lines.length) return taken;
      taken.push(match[1] ?? "");
      at += 1;
    }
  };
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const heading = HEADING.exec(line);
    if (line.trim() === "") {
      at += 1;
    } else if (heading) {
      blocks.push({ kind: "heading", level: heading[1]?.length ?? 1, text: heading[2] ?? "" });
      at += 1;
    } else if (RULE.test(line)) {
      blocks.push({ kind: "rule" });
      at += 1;
    } else if (FENCE.test(line)) {
      const end = lines.findIndex((other, index) => index > at && FENCE.test(other));
      const until = end < 0 ? lines.length : end;
      blocks.push({ kind: "code", text: lines.slice(at + 1, until).join("\n") });
      at = until + 1;
    } else if (QUOTE.test(line)) {
      blocks.push({ kind: "quote", text: take(QUOTE).join("\n") });
    } else if (BULLET.test(line)) {
      blocks.push({ kind: "list", ordered: false, items: take(BULLET) });
    } else if (NUMBER.test(line)) {
      blocks.push({ kind: "list", ordered: true, items: take(NUMBER) });
    } else {
      const taken = [line];
      at += 1;
      while (at < lines.length && lines[at]?.trim() && !startsBlock(lines[at] ?? "")) {
        taken.push(lines[at] ?? "");
        at += 1;
      }
      blocks.push({ kind: "paragraph", text: taken.join("\n") });
    }
  }
  return blocks;
}

/// Web and mail addresses, and paths of this site. Anything else, such as `javascript:`, is no link.
export function safeHref(href: string): string | null {
  if (/[\p{Cc}\\]/u.test(href)) return null;
  if (/^(https?:\/\/|mailto:)/i.test(href)) return href;
  return /^\/(?!\/)/.test(href) ? href : null;
}

const INLINE =
  /`([^`]+)`|\*\*([^*]+(?:\*[^*]+)*)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|(?<![\w])_([^_]+)_(?![\w])|\[([^\]]+)\]\(([^()\s]+)\)|(https?:\/\/[^\s<>()]+[^\s<>().,;:!?])/g;

function Anchor({ href, children }: { href: string; children: ReactNode }) {
  return (
    <a
      href={href}
      target="_blank"
      rel="noopener noreferrer nofollow"
      className="text-accent-text underline underline-offset-2 hover:no-underline"
    >
      {children}
    </a>
  );
}

function inline(text: string): ReactNode[] {
  const nodes: ReactNode[] = [];
  let end = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, strong2, em, em2, label, target, bare] = match;
    if (match.index > end) nodes.push(text.slice(end, match.index));
    end = match.index + whole.length;
    const key = match.index;
    const href = safeHref(target ?? bare ?? "");
    if (code !== undefined) {
      nodes.push(
        <code key={key} className="rounded bg-sunken px-1 py-px font-mono text-[0.85em]">
          {code}
        </code>,
      );
    } else if (strong !== undefined || strong2 !== undefined) {
      nodes.push(
        <strong key={key} className="font-semibold">
          {inline(strong ?? strong2 ?? "")}
        </strong>,
      );
    } else if (em !== undefined || em2 !== undefined) {
      nodes.push(<em key={key}>{inline(em ?? em2 ?? "")}</em>);
    } else if (href) {
      nodes.push(
        <Anchor key={key} href={href}>
          {label ?? bare}
        </Anchor>,
      );
    } else {
      nodes.push(whole);
    }
  }
  if (end < text.length) nodes.push(text.slice(end));
  return nodes;
}

/// Keeps line breaks as they were typed.
function lines(text: string): ReactNode[] {
  return text.split("\n").flatMap((line, at) =>
    // biome-ignore lint/suspicious/noArrayIndexKey: a line is its position.
    at === 0 ? inline(line) : [<br key={`break${at}`} />, ...inline(line)],
  );
}

const HEADING_CLASS = ["", "text-lg", "text-base", "text-sm", "text-sm text-muted"];

export function Markdown({ text }: { text: string }) {
  return (
    <div className="flex flex-col gap-2 wrap-anywhere">
      {blocksOf(text).map((block, at) => {
        const key = at;
        switch (block.kind) {
          case "heading":
            return (
              // Below the title of the page and of the tile.
              <h3 key={key} className={`font-semibold ${HEADING_CLASS[block.level] ?? ""}`}>
                {inline(block.text)}
              </h3>
            );
          case "list": {
            const List = block.ordered ? "ol" : "ul";
            return (
              <List
                key={key}
                className={`flex flex-col gap-0.5 pl-5 ${block.ordered ? "list-decimal" : "list-disc"}`}
              >
                {block.items.map((item, index) => (
                  // biome-ignore lint/suspicious/noArrayIndexKey: an item is its position.
                  <li key={index}>{inline(item)}</li>
                ))}
              </List>
            );
          }
          case "code":
            return (
              <pre
                key={key}
                className="scroll-thin overflow-x-auto rounded bg-sunken p-2 font-mono text-xs"
              >
                {block.text}
              </pre>
            );
          case "quote":
            return (
              <blockquote key={key} className="border-l-2 pl-3 text-muted">
                {lines(block.text)}
              </blockquote>
            );
          case "rule":
            return <hr key={key} className="border-line" />;
          case "paragraph":
            return <p key={key}>{lines(block.text)}</p>;
        }
        return null;
      })}
    </div>
  );
}
