import { type ReactNode, useEffect } from "react";
import { cx } from "./cx";

export interface PageHeaderProps {
  title: string;
  /// In place of the title, such as a name that can be edited; it contains the `h1`.
  heading?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
  /// Above the title, such as a link back to the list.
  eyebrow?: ReactNode;
  /// Stays in view where there is room, for actions on a long form.
  sticky?: boolean;
}

/// The head of a screen. It also names the browser's tab.
export function PageHeader(props: PageHeaderProps) {
  const { title, heading, description, actions, eyebrow, sticky } = props;
  useEffect(() => {
    document.title = `${title} · Hedgerow`;
  }, [title]);
  const text = description && <p className="mt-0.5 text-muted wrap-anywhere">{description}</p>;
  return (
    <header
      className={cx(
        "flex flex-wrap items-start gap-x-4 gap-y-2 pb-4",
        sticky && "md:sticky md:top-0 md:z-20 md:-mt-5 md:bg-bg md:pt-5",
      )}
    >
      <div className={cx("min-w-0 flex-1", eyebrow ? "basis-40" : "basis-24")}>
        {eyebrow && <div className="mb-0.5 text-xs text-muted">{eyebrow}</div>}
        {heading ?? (
          <h1 className="text-xl font-semibold tracking-tight text-balance wrap-anywhere">
            {title}
          </h1>
        )}
        {eyebrow && text}
      </div>
      {actions && <div className="flex flex-wrap items-center gap-2">{actions}</div>}
      {/* Below both: a phone has no room for a sentence beside the actions. */}
      {!eyebrow && description && <div className="-mt-2 w-full">{text}</div>}
    </header>
  );
}

/// The width and padding of a screen.
export function Page({ children, wide = false }: { children: ReactNode; wide?: boolean }) {
  return (
    <div className={wide ? "px-4 py-5 sm:px-6" : "mx-auto max-w-6xl px-4 py-5 sm:px-6"}>
      {children}
    </div>
  );
}
