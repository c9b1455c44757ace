import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import {
  ChartNoAxesCombined,
  Check,
  CircleAlert,
  CircleCheck,
  CircleX,
  LoaderCircle,
  Send,
} from "lucide-react";
import { type ReactNode, useEffect, useState } from "react";
import { call, publicApi, type Schemas } from "@/api/client";
import { JsonView } from "@/events/JsonView";
import { trendOf } from "@/events/trend";
import { eventLabel } from "@/filters/operators";
import { useProject } from "@/shell/useProject";
import {
  Button,
  buttonClass,
  Card,
  CopyButton,
  cx,
  Page,
  PageHeader,
  RelativeTime,
  Skeleton,
  Tabs,
  toast,
} from "@/ui";
import { DemoButton } from "./DemoButton";
import { SDKS, type Sdk } from "./sdks";
import { SDK_LABELS, type Snippet, snippets } from "./snippets";
import { type Check as CheckResult, useChecks } from "./useChecks";
import { useFirstEvent } from "./useFirstEvent";

type Event = Schemas["Event"];

const route = getRouteApi("/project/$projectId/onboarding");

/// Without an event for this long, the page looks for the reason.
const CHECKS_AFTER_MS = 20_000;

export function OnboardingPage() {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/onboarding" });
  const { sdk = "web" } = route.useSearch();
  const { before, arrived } = useFirstEvent(projectId);
  const connection = { host: window.location.origin, key: project.api_token };
  return (
    <Page>
      <PageHeader
        title="Connect an app"
        description={`Send events to ${project.name}. It takes about two minutes.`}
      />
      <ol className="flex flex-col gap-6">
        <Step number={1} title="Add the code" done={arrived !== null}>
          <Card flush className="px-4 pb-4">
            <Tabs<Sdk>
              label="What your app is made with"
              value={sdk}
              onChange={(next) => navigate({ search: { sdk: next }, replace: true })}
              items={SDKS.map((value) => ({
                value,
                label: SDK_LABELS[value],
                panel: (
                  <div className="flex flex-col gap-4">
                    {snippets(value, connection).map((snippet) => (
                      <SnippetBlock key={snippet.title} snippet={snippet} />
                    ))}
                  </div>
                ),
              }))}
            />
            <dl className="mt-4 grid grid-cols-[auto_1fr] items-center gap-x-4 border-t pt-3">
              <Fact name="Host" value={connection.host} />
              <Fact name="Project key" value={connection.key} />
            </dl>
            <p className="mt-1 text-xs text-muted">
              The project key is public: it can send events and read flags, nothing else.
            </p>
          </Card>
        </Step>
        <Step number={2} title="See it arrive" done={arrived !== null}>
          <Card flush className={cx("p-4", arrived && "border-accent")}>
            {arrived ? (
              <Arrived event={arrived} />
            ) : (
              <Waiting projectId={projectId} apiKey={connection.key} before={before} />
            )}
          </Card>
        </Step>
        <Step number={3} title="Make your first chart" done={false}>
          {arrived ? (
            <FirstChart projectId={projectId} event={arrived.event} />
          ) : (
            <p className="text-muted">
              As soon as an event is here, this opens a chart of it.
              {before && (
                <>
                  {" "}
                  Or start with the newest one:{" "}
                  <Link
                    to="/project/$projectId/insights/new"
                    params={{ projectId }}
                    hash={trendOf(before.event)}
                    className="font-medium text-accent-text underline underline-offset-2"
                  >
                    chart “{eventLabel(before.event)}”
                  </Link>
                  .
                </>
              )}
            </p>
          )}
        </Step>
      </ol>
      {before === null && !arrived && (
        <Card className="mt-6" title="No app at hand?">
          <p className="mb-3 max-w-prose text-muted">
            A demo project has thirty days of made-up visitors of a shop, with a dashboard, flags
            and cohorts. Yours stays as it is, and the demo can be deleted as a whole.
          </p>
          <DemoButton />
        </Card>
      )}
    </Page>
  );
}

interface StepProps {
  number: number;
  title: string;
  done: boolean;
  children: ReactNode;
}

function Step({ number, title, done, children }: StepProps) {
  return (
    <li className="flex min-w-0 flex-col gap-2 sm:grid sm:grid-cols-[2rem_1fr] sm:gap-x-3">
      <div className="flex items-center gap-2 sm:contents">
        <span
          aria-hidden="true"
          className={cx(
            "grid size-7 shrink-0 place-items-center rounded-full text-[0.8125rem] font-semibold",
            done ? "bg-accent text-on-accent" : "bg-accent-soft text-accent-text",
          )}
        >
          {done ? <Check className="size-4" strokeWidth={3} /> : number}
        </span>
        <h2 className="flex min-h-7 items-center text-base font-semibold">
          {title}
          {done && <span className="sr-only"> (done)</span>}
        </h2>
      </div>
      <div className="min-w-0 sm:col-start-2">{children}</div>
    </li>
  );
}

function SnippetBlock({ snippet }: { snippet: Snippet }) {
  return (
    <section aria-label={snippet.title}>
      <div className="mb-1.5 flex items-end justify-between gap-3">
        <p className="min-w-0 text-pretty text-muted">{snippet.title}</p>
        <CopyButton withLabel size="sm" text={snippet.code} />
      </div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin overflow-x-auto rounded-md border bg-sunken p-3 font-mono text-xs leading-5"
      >
        <code>{snippet.code}</code>
      </pre>
    </section>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="flex min-w-0 items-center gap-1">
        <code className="truncate font-mono text-xs">{value}</code>
        <CopyButton size="sm" label={`Copy ${name.toLowerCase()}`} text={value} />
      </dd>
    </>
  );
}

interface WaitingProps {
  projectId: string;
  apiKey: string;
  before: Event | null | undefined;
}

function Waiting({ projectId, apiKey, before }: WaitingProps) {
  const [since] = useState(() => Date.now());
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), CHECKS_AFTER_MS);
    return () => clearTimeout(timer);
  }, []);
  const checks = useChecks(projectId, apiKey, since, late);
  const test = useMutation({
    mutationFn: () =>
      call(
        publicApi.POST("/capture", {
          body: {
            api_key: apiKey,
            event: "test event",
            distinct_id: "onboarding",
            properties: { sent_from: "Connect an app", $process_person_profile: false },
          },
        }),
      ),
    onError: (error) => toast.error(error, "The test event was refused"),
  });
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <span role="status" className="flex items-center gap-2 font-medium">
          <LoaderCircle className="size-4 animate-spin text-accent-text" aria-hidden />
          Waiting for an event
        </span>
        <span className="text-muted">
          {before ? (
            <>
              The newest so far is “{eventLabel(before.event)}”,{" "}
              <RelativeTime at={before.timestamp} />.
            </>
          ) : (
            "Run your app with the code above; this page notices by itself."
          )}
        </span>
        <Button
          className="sm:ml-auto"
          icon={<Send aria-hidden />}
          busy={test.isPending}
          onClick={() => test.mutate()}
        >
          Send a test event
        </Button>
      </div>
      {late && (
        <section aria-label="Checks" className="mt-4 border-t pt-3">
          <h3 className="mb-1 font-semibold">Nothing yet. What can be checked from here:</h3>
          {checks.data ? (
            <ul>
              {checks.data.map((check) => (
                <CheckRow key={check.name} check={check} projectId={projectId} />
              ))}
            </ul>
          ) : (
            <Skeleton className="h-24" />
          )}
        </section>
      )}
    </>
  );
}

const CHECK_ICONS = {
  ok: <CircleCheck className="size-4 text-accent-text" aria-label="Fine" />,
  warn: <CircleAlert className="size-4 text-warn" aria-label="Look at this" />,
  failed: <CircleX className="size-4 text-danger" aria-label="Failed" />,
};

function CheckRow({ check, projectId }: { check: CheckResult; projectId: string }) {
  const warned =
    check.state !== "ok" && (check.name === "Refused events" || check.name === "Warnings");
  return (
    <li className="grid grid-cols-[1.25rem_1fr] gap-x-2 py-1.5 sm:grid-cols-[1.25rem_8rem_1fr]">
      <span className="mt-0.5">{CHECK_ICONS[check.state]}</span>
      <span className="font-medium">{check.name}</span>
      <span className="col-start-2 min-w-0 text-muted wrap-anywhere sm:col-start-3">
        {check.detail}{" "}
        {warned && (
          <Link
            to="/project/$projectId/activity/live"
            params={{ projectId }}
            search={{ tab: "refused" }}
            className="text-accent-text underline underline-offset-2"
          >
            See what was sent
          </Link>
        )}
      </span>
    </li>
  );
}

function Arrived({ event }: { event: Event }) {
  return (
    <>
      <p role="status" className="mb-3 flex items-center gap-2 font-medium text-accent-text">
        <CircleCheck className="size-5" aria-hidden />
        <span>
          “{eventLabel(event.event)}” from {event.distinct_id} is here.
        </span>
      </p>
      <JsonView
        label="The event as JSON"
        className="max-h-72"
        value={{
          event: event.event,
          distinct_id: event.distinct_id,
          timestamp: event.timestamp,
          properties: event.properties,
        }}
      />
    </>
  );
}

function FirstChart({ projectId, event }: { projectId: string; event: string }) {
  return (
    <div className="flex flex-wrap items-center gap-3">
      <Link
        to="/project/$projectId/insights/new"
        params={{ projectId }}
        hash={trendOf(event)}
        className={buttonClass("primary", "lg")}
      >
        <ChartNoAxesCombined aria-hidden />
        Chart “{eventLabel(event)}”
      </Link>
      <Link
        to="/project/$projectId/activity/explore"
        params={{ projectId }}
        className={buttonClass("secondary", "lg")}
      >
        See all events
      </Link>
    </div>
  );
}
