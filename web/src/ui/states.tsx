import { CircleAlert, Lock, RotateCw } from "lucide-react";
import { Component, type ErrorInfo, type ReactNode } from "react";
import { ApiError, errorMessage } from "@/api/errors";
import { Button } from "./Button";
import { CopyButton } from "./CopyButton";
import { cx } from "./cx";

export interface EmptyStateProps {
  icon?: ReactNode;
  title: string;
  /// 1 where it is the whole screen.
  level?: 1 | 2;
  /// What this is, in a sentence or two.
  children?: ReactNode;
  /// One filled example.
  example?: ReactNode;
  /// One action.
  action?: ReactNode;
  className?: string;
}

export function EmptyState({
  icon,
  title,
  level = 2,
  children,
  example,
  action,
  className,
}: EmptyStateProps) {
  const Heading = level === 1 ? "h1" : "h2";
  return (
    <div className={cx("flex flex-col items-center gap-2 px-4 py-12 text-center", className)}>
      {icon && (
        <div className="mb-1 grid size-10 place-items-center rounded-lg bg-accent-soft text-accent-text [&_svg]:size-5">
          {icon}
        </div>
      )}
      <Heading className="text-base font-semibold">{title}</Heading>
      {children && <div className="max-w-md text-pretty text-muted">{children}</div>}
      {example && <div className="mt-2 w-full max-w-md text-left">{example}</div>}
      {action && <div className="mt-3 flex flex-wrap justify-center gap-2">{action}</div>}
    </div>
  );
}

export interface ErrorPanelProps {
  error: unknown;
  onRetry?: () => void;
  /// What could not be done, as in "Could not load this insight".
  title?: string;
  className?: string;
}

/// What went wrong, what to quote when asking for help, and another try. A hidden object is "not
/// found": the API does not say whether it exists.
export function ErrorPanel({
  error,
  onRetry,
  title = "Could not load this",
  className,
}: ErrorPanelProps) {
  const api = error instanceof ApiError ? error : null;
  const forbidden = api?.isForbidden ?? false;
  return (
    <div
      role="alert"
      className={cx("flex flex-col items-center gap-1.5 px-4 py-8 text-center", className)}
    >
      <span className={forbidden ? "text-muted" : "text-danger"}>
        {forbidden ? (
          <Lock className="size-5" aria-hidden />
        ) : (
          <CircleAlert className="size-5" aria-hidden />
        )}
      </span>
      <p className="font-semibold">{forbidden ? "You have no access to this" : title}</p>
      <p className="max-w-prose text-muted wrap-break-word">{errorMessage(error)}</p>
      {api?.requestId && (
        <p className="flex max-w-full items-center gap-1 text-xs text-faint">
          <span className="truncate">
            Request <code className="font-mono">{api.requestId}</code>
          </span>
          <CopyButton text={api.requestId} label="Copy request id" size="sm" />
        </p>
      )}
      {onRetry && !forbidden && (
        <Button className="mt-1.5" icon={<RotateCw aria-hidden />} onClick={onRetry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/// A grey shape of the final size. It appears only if loading takes longer than 150 ms.
export function Skeleton({ className }: { className?: string }) {
  return <div aria-hidden="true" className={cx("skeleton", className)} />;
}

/// Rows of a list that is being loaded.
export function SkeletonRows({ rows = 6, label = "Loading" }: { rows?: number; label?: string }) {
  return (
    <div role="status" className="flex flex-col gap-2 p-4">
      <span className="sr-only">{label}</span>
      {Array.from({ length: rows }, (_, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the rows are alike.
        <Skeleton key={row} className="h-7" />
      ))}
    </div>
  );
}

interface BoundaryProps {
  children: ReactNode;
  title?: string;
  className?: string;
  /// A change of it clears the error, such as the id of what is shown.
  resetKey?: unknown;
}

/// Keeps an error of a tile, panel or route from taking the page along.
export class PanelBoundary extends Component<BoundaryProps, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override componentDidUpdate(previous: BoundaryProps) {
    if (this.state.error !== null && previous.resetKey !== this.props.resetKey) {
      this.setState({ error: null });
    }
  }

  override componentDidCatch(error: Error, info: ErrorInfo) {
    reportError(new Error(`${error.message}\n${info.componentStack ?? ""}`, { cause: error }));
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return (
      <ErrorPanel
        error={this.state.error}
        title={this.props.title ?? "This part failed"}
        className={this.props.className}
        onRetry={() => this.setState({ error: null })}
      />
    );
  }
}
