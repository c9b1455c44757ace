import { CopyButton, cx } from "@/ui";

export interface CodeBlockProps {
  label: string;
  code: string;
  className?: string;
}

/// Text to read and to copy, such as SQL or a curl call.
export function CodeBlock({ label, code, className }: CodeBlockProps) {
  return (
    <div className={cx("relative min-h-0 rounded-md border bg-sunken", className)}>
      <section
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin h-full max-h-[28rem] overflow-auto rounded-md p-3 pr-12 -outline-offset-2"
      >
        <pre className="font-mono text-xs leading-5 whitespace-pre-wrap wrap-anywhere">{code}</pre>
      </section>
      <div className="absolute top-1.5 right-2.5 rounded-md bg-sunken">
        <CopyButton text={code} label={`Copy ${label}`} size="sm" />
      </div>
    </div>
  );
}
