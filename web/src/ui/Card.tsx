import type { ReactNode } from "react";
import { cx } from "./cx";

export interface CardProps {
  title?: ReactNode;
  /// Heading level of the title.
  level?: 2 | 3;
  description?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  className?: string;
  /// Without padding around the children, for tables and charts.
  flush?: boolean;
}

export function Card({
  title,
  level = 2,
  description,
  actions,
  children,
  className,
  flush,
}: CardProps) {
  const Heading = level === 2 ? "h2" : "h3";
  return (
    <section className={cx("flex min-w-0 flex-col rounded-lg border bg-surface", className)}>
      {(title || actions) && (
        <header className="flex min-h-11 items-center gap-2 px-4 pt-2.5 pb-1.5">
          <div className="min-w-0 flex-1">
            {title && <Heading className="truncate font-semibold">{title}</Heading>}
            {description && <p className="text-xs text-muted">{description}</p>}
          </div>
          {actions}
        </header>
      )}
      <div className={cx("min-h-0 flex-1", !flush && "p-4", !flush && Boolean(title) && "pt-1.5")}>
        {children}
      </div>
    </section>
  );
}
