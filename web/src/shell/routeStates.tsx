import { type ErrorComponentProps, Link, useRouter } from "@tanstack/react-router";
import { Compass } from "lucide-react";
import { isHidden } from "@/api/errors";
import { buttonClass, EmptyState, ErrorPanel, Page, SkeletonRows } from "@/ui";

export function RoutePending() {
  return (
    <Page>
      <SkeletonRows />
    </Page>
  );
}

export function RouteError({ error, reset }: ErrorComponentProps) {
  const router = useRouter();
  if (isHidden(error)) return <RouteNotFound />;
  return (
    <Page>
      <ErrorPanel
        error={error}
        title="This page failed"
        className="py-24"
        onRetry={() => {
          reset();
          void router.invalidate();
        }}
      />
    </Page>
  );
}

export function RouteNotFound() {
  return (
    <div className="grid min-h-[60dvh] place-items-center">
      <EmptyState
        level={1}
        icon={<Compass aria-hidden />}
        title="Not found"
        action={
          <Link to="/" className={buttonClass("primary")}>
            Go home
          </Link>
        }
      >
        There is nothing at this address, or you have no access to it.
      </EmptyState>
    </div>
  );
}

/// Outside of a project there is no shell with a main landmark.
export function RootNotFound() {
  return (
    <main>
      <RouteNotFound />
    </main>
  );
}

export function RootError(props: ErrorComponentProps) {
  return (
    <main>
      <RouteError {...props} />
    </main>
  );
}
