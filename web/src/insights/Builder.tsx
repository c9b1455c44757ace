import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import {
  ChevronDown,
  Code,
  Copy,
  CopyPlus,
  Download,
  EllipsisVertical,
  Image as ImageIcon,
  LayoutDashboard,
  Pencil,
  Redo2,
  RotateCw,
  Share2,
  SlidersHorizontal,
  Star,
  StickyNote,
  Trash2,
  Undo2,
} from "lucide-react";
import { type ReactNode, Suspense, useMemo, useRef, useState } from "react";
import { lazy } from "@/api/lazy";
import { useLiveRefetch } from "@/api/live";
import { mayEdit } from "@/api/permissions";
import { ConflictError } from "@/api/versions";
import { draggedRange, isOfDays, rangeLabel, shiftedRange } from "@/ranges/range";
import { useDebounced } from "@/shell/useDebounced";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  copyText,
  cx,
  EmptyState,
  ErrorPanel,
  IconButton,
  Kbd,
  Menu,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  Skeleton,
  Tabs,
  toast,
} from "@/ui";
import { elapsed, intervalLabel } from "@/ui/format";
import { pathItems } from "./builder/pathItems";
import { fieldProblem } from "./builder/problems";
import { comparedAt, withRange } from "./builder/withRange";
import { CodeBlock } from "./CodeBlock";
import { curlOf } from "./curl";
import { InsightResult } from "./InsightResult";
import { type Insight, insightName, saveInsight, updateInsight } from "./insightApi";
import { convertQuery, runnableQuery, whyNotRunnable } from "./kinds";
import { derivedName } from "./names";
import { pointOf, readPoint, writePoint } from "./points";
import {
  type Answered,
  answerQuery,
  editableQuery,
  eventsOf,
  type InsightKind,
  type InsightQuery,
  isTotal,
  KIND_LABELS,
  type Refresh,
  reachesNow,
  vizNode,
} from "./queries";
import { resultModel } from "./results";
import { SqlBlock } from "./SqlBlock";
import { useDraft } from "./useDraft";
import { useMarkers } from "./useMarkers";

// The chart comes first; what edits it, and what is opened from it, after.
const QueryPanel = lazy(() =>
  import("./builder/QueryPanel").then((module) => ({ default: module.QueryPanel })),
);
const AnnotationDialog = lazy(() =>
  import("@/annotations/AnnotationDialog").then((module) => ({ default: module.AnnotationDialog })),
);
const ShareDialog = lazy(() =>
  import("@/dashboards/ShareDialog").then((module) => ({ default: module.ShareDialog })),
);
const Controls = lazy(() =>
  import("./builder/Controls").then((module) => ({ default: module.Controls })),
);
const QueryDrawer = lazy(() =>
  import("./builder/QueryDrawer").then((module) => ({ default: module.QueryDrawer })),
);
const ExplainDrawer = lazy(() =>
  import("./ExplainDrawer").then((module) => ({ default: module.ExplainDrawer })),
);
const SaveDialog = lazy(() =>
  import("./SaveDialog").then((module) => ({ default: module.SaveDialog })),
);

const RUN_MS = 120;
const MAIN_KINDS: readonly InsightKind[] = ["TrendsQuery", "FunnelsQuery", "RetentionQuery"];
const MORE_KINDS: readonly InsightKind[] = ["LifecycleQuery", "StickinessQuery", "PathsQuery"];

type Tab = "chart" | "table" | "sql" | "api";
type SaveMode = "save" | "copy" | "dashboards" | "details";

export interface BuilderProps {
  /// Absent for a new insight.
  insight?: Insight;
  saved: InsightQuery;
  /// Where a new insight shall stand.
  dashboards?: number[];
  onCreated: (insight: Insight) => void;
  onDelete?: () => void;
}

/// Asks, draws and saves an insight.
export function Builder({ insight, saved, dashboards, onCreated, onDelete }: BuilderProps) {
  const { projectId, project } = useProject();
  const timeZone = project.timezone;
  const navigate = useNavigate();
  const { open } = useSearch({ strict: false }) as { open?: string };
  const draft = useDraft(saved);
  const { query, edit } = draft;
  // The version that the draft began with; the insight may be loaded again meanwhile.
  const [base, setBase] = useState(insight?.version);
  if (!draft.isChanged && base !== insight?.version) setBase(insight?.version);
  const [tab, setTab] = useState<Tab>("chart");
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [dialog, setDialog] = useState<SaveMode | null>(null);
  const [sharing, setSharing] = useState(false);
  const [annotating, setAnnotating] = useState(false);
  const [panelOpen, setPanelOpen] = useState(false);
  const chart = useRef<HTMLDivElement>(null);

  const name = insight ? insightName(insight) : "New insight";
  const derived = derivedName(query);
  const permission = insight ? mayEdit(insight) : { allowed: true, reason: "" };

  const runnable = useMemo(() => runnableQuery(query), [query]);
  const asked = useDebounced(runnable, RUN_MS);
  const blocked = whyNotRunnable(query);
  // What is asked lags behind what is edited.
  const isAskable = blocked === null && whyNotRunnable(asked) === null;
  const refresh = useRef<Refresh>("force_blocking");
  const result = useQuery({
    ...answerQuery(projectId, asked, () => refresh.current),
    enabled: isAskable,
  });
  const { refetch } = result;
  useLiveRefetch({
    projectId,
    events: eventsOf(asked),
    enabled: isAskable && !result.isError && reachesNow(asked),
    refetch,
  });
  const answered = result.data;
  const isStale = result.isPlaceholderData || asked !== runnable;
  const problem = fieldProblem(result.error);
  const marked = useMarkers(projectId, answered?.answer.resolved_date_range, {
    insightId: insight?.id,
    dashboardIds: insight?.dashboards,
  });
  const markers = marked.map((marker) =>
    marker.kind === "flag" && query.kind === "TrendsQuery"
      ? {
          ...marker,
          label: `${marker.label}: compare before and after`,
          onOpen: () => edit(comparedAt(query, marker.at, timeZone)),
        }
      : marker,
  );

  const setOpen = (next: string | undefined) =>
    navigate({
      to: ".",
      search: ((before: Record<string, unknown>) => ({ ...before, open: next })) as never,
      hash: true,
      replace: true,
      resetScroll: false,
    });
  const ref = readPoint(open);
  const point =
    ref && answered && answered.query.kind !== "HogQLQuery"
      ? pointOf(answered.query, answered.answer, ref, timeZone)
      : null;

  // Switching back to a kind finds what was there.
  const kept = useRef(new Map<InsightKind, InsightQuery>());
  const chooseKind = (kind: InsightKind) => {
    if (kind === query.kind) return;
    kept.current.set(query.kind, query);
    setHidden(new Set());
    const next = kept.current.get(kind) ?? convertQuery(query, kind);
    edit(next);
    if (next.kind !== "PathsQuery" || next.pathsFilter?.startPoint) return;
    // Paths begin with the commonest entry.
    pathItems(projectId, next).then(
      (items) => {
        const top = items.sort((a, b) => b.entries - a.entries)[0];
        if (top?.entries) {
          edit({ ...next, pathsFilter: { ...next.pathsFilter, startPoint: top.name } }, "paths");
        }
      },
      () => {},
    );
  };

  const save = async () => {
    if (!insight) return setDialog("save");
    if (!permission.allowed) return toast.info(permission.reason);
    if (!draft.isChanged) return toast.info("There is nothing to save.");
    const before = insight.query;
    const fields = { query: vizNode(query), derived_name: derived };
    const edited = { short_id: insight.short_id, version: base ?? insight.version };
    try {
      const { version } = await saveInsight(projectId, edited, fields, loadTheirs);
      toast.success("Saved", {
        undo: () => {
          updateInsight(projectId, insight.short_id, { query: before, version }).catch((error) =>
            toast.error(error),
          );
        },
      });
    } catch (error) {
      if (!(error instanceof ConflictError)) toast.error(error, "The insight was not saved");
    }
  };
  const loadTheirs = (theirs: Insight) => {
    const stored = editableQuery(theirs.query);
    if (stored) edit(stored);
  };
  /// A change of other fields than the draft's: the draft is as new as before.
  const changed = (stored: Insight) => {
    if (base === insight?.version) setBase(stored.version);
  };
  const patch = async (fields: Parameters<typeof updateInsight>[2]) => {
    if (!insight) return;
    try {
      changed(await updateInsight(projectId, insight.short_id, fields));
    } catch (error) {
      toast.error(error);
    }
  };
  const shift = (direction: -1 | 1) => {
    const resolved = answered?.answer.resolved_date_range;
    if (resolved) edit(withRange(query, shiftedRange(resolved, direction, timeZone)), "shift");
  };
  useKeys([
    { key: "mod+s", run: () => void save() },
    { key: "mod+Enter", run: () => void refetch() },
    { key: "r", run: () => void refetch() },
    { key: "[", run: () => shift(-1) },
    { key: "]", run: () => shift(1) },
    {
      key: "e",
      run: () =>
        permission.allowed
          ? setDialog(insight ? "details" : "save")
          : toast.info(permission.reason),
    },
  ]);

  const title = insight ? name : derived || name;
  const csv = async () => {
    if (!answered) return;
    const [{ downloadCsv }, { resultTable }] = await Promise.all([
      import("@/charts/export"),
      import("./resultTable"),
    ]);
    const model = resultModel(answered.query, answered.answer, { timeZone });
    downloadCsv(title, resultTable(model, timeZone));
  };
  const png = async () => {
    if (!chart.current || !answered) return;
    try {
      const { downloadPng } = await import("@/charts/export");
      await downloadPng(chart.current, { title, subtitle: rangeText(answered, timeZone) });
    } catch (error) {
      toast.error(error, "The picture could not be made");
    }
  };
  const undoRedo = (
    <>
      <IconButton label="Undo" disabled={!draft.canUndo} onClick={draft.undo}>
        <Undo2 aria-hidden />
      </IconButton>
      <IconButton label="Redo" disabled={!draft.canRedo} onClick={draft.redo}>
        <Redo2 aria-hidden />
      </IconButton>
    </>
  );
  const curl = curlOf(window.location.origin, projectId, runnable);

  return (
    <Page wide>
      <PageHeader
        title={name}
        eyebrow={<InsightsLink projectId={projectId} />}
        description={
          <>
            {insight ? insight.description : derived}
            {insight && insight.tags.length > 0 && <Tags tags={insight.tags} />}
          </>
        }
        actions={
          <>
            {insight && (
              <IconButton
                label={insight.favorited ? "Remove from favorites" : "Add to favorites"}
                aria-pressed={insight.favorited}
                disabledReason={permission.allowed ? undefined : permission.reason}
                onClick={() => patch({ favorited: !insight.favorited })}
              >
                <Star
                  aria-hidden
                  className={insight.favorited ? "fill-current text-accent-text" : undefined}
                />
              </IconButton>
            )}
            <Menu
              align="end"
              trigger={
                <IconButton label="More actions" variant="secondary">
                  <EllipsisVertical aria-hidden />
                </IconButton>
              }
              items={[
                ...(insight
                  ? [
                      {
                        label: "Name, description, tags",
                        icon: <Pencil aria-hidden />,
                        onSelect: () => setDialog("details"),
                        disabledReason: permission.allowed ? undefined : permission.reason,
                        shortcut: <Kbd keys="e" />,
                      },
                      {
                        label: "Add to dashboard",
                        icon: <LayoutDashboard aria-hidden />,
                        onSelect: () => setDialog("dashboards"),
                        disabledReason: permission.allowed ? undefined : permission.reason,
                      },
                      {
                        label: "Save as new",
                        icon: <CopyPlus aria-hidden />,
                        onSelect: () => setDialog("copy"),
                      },
                      {
                        label: "Add annotation",
                        icon: <StickyNote aria-hidden />,
                        onSelect: () => setAnnotating(true),
                      },
                      {
                        label: "Share",
                        icon: <Share2 aria-hidden />,
                        onSelect: () => setSharing(true),
                      },
                      "separator" as const,
                    ]
                  : []),
                {
                  label: "Download CSV",
                  icon: <Download aria-hidden />,
                  onSelect: () => void csv(),
                },
                {
                  label: "Download PNG",
                  icon: <ImageIcon aria-hidden />,
                  onSelect: () => void png(),
                },
                {
                  label: "Copy as API call",
                  icon: <Code aria-hidden />,
                  onSelect: () => {
                    copyText(curl).then(
                      () => toast.success("Copied"),
                      (error) => toast.error(error, "Could not copy"),
                    );
                  },
                },
                {
                  label: "Copy link",
                  icon: <Copy aria-hidden />,
                  onSelect: () => {
                    copyText(window.location.href).then(
                      () => toast.success("Copied"),
                      (error) => toast.error(error, "Could not copy"),
                    );
                  },
                },
                ...(insight && onDelete
                  ? [
                      "separator" as const,
                      {
                        label: "Delete",
                        icon: <Trash2 aria-hidden />,
                        danger: true,
                        onSelect: onDelete,
                        disabledReason: permission.allowed ? undefined : permission.reason,
                      },
                    ]
                  : []),
              ]}
            />
            {insight && draft.isChanged && <Button onClick={draft.discard}>Discard changes</Button>}
            <Button
              variant="primary"
              onClick={() => void save()}
              disabled={Boolean(insight) && permission.allowed && !draft.isChanged}
              disabledReason={permission.allowed ? undefined : permission.reason}
            >
              {insight && !draft.isChanged ? "Saved" : "Save"}
            </Button>
          </>
        }
      />
      {!permission.allowed && (
        <p className="mb-3 rounded-md bg-info-soft px-3 py-2 text-info">
          {permission.reason} What you change here stays in the link; save it as new to keep it.
        </p>
      )}
      <KindBar kind={query.kind} onChange={chooseKind} actions={undoRedo} />
      <div className="flex flex-col gap-4 lg:flex-row lg:items-start">
        <section
          aria-label="Query"
          className="hidden w-92 shrink-0 rounded-lg border bg-surface lg:block"
        >
          <Suspense fallback={<Skeleton className="m-4 h-96" />}>
            <QueryPanel query={query} edit={edit} problem={problem} />
          </Suspense>
        </section>
        <section
          aria-label="Result"
          className="flex min-w-0 flex-1 flex-col rounded-lg border bg-surface"
        >
          <div className="flex flex-wrap items-center gap-2 border-b px-4 py-2.5">
            <Suspense fallback={<Skeleton className="h-8 w-96 max-w-full" />}>
              <Controls query={query} edit={edit} timeZone={timeZone} short />
            </Suspense>
            <Button
              className="lg:hidden"
              icon={<SlidersHorizontal aria-hidden />}
              onClick={() => setPanelOpen(true)}
            >
              Edit query
            </Button>
          </div>
          <Tabs<Tab>
            className="px-4 pt-1"
            label="Views of the result"
            value={tab}
            onChange={setTab}
            items={[
              { value: "chart", label: "Chart" },
              { value: "table", label: "Table" },
              { value: "sql", label: "SQL" },
              { value: "api", label: "API" },
            ]}
            actions={
              <Status
                answered={answered}
                busy={result.isFetching}
                timeZone={timeZone}
                onRefresh={() => void refetch()}
              />
            }
          />
          <div
            ref={chart}
            className={cx(
              "flex min-h-80 flex-col p-4 sm:min-h-[26rem] transition-opacity",
              isStale && "opacity-60",
            )}
          >
            {tab === "api" ? (
              <CodeBlock label="curl" code={curl} />
            ) : blocked !== null ? (
              <EmptyState title="Not complete yet" className="my-auto">
                {blocked}
              </EmptyState>
            ) : result.isError ? (
              <ErrorPanel
                error={result.error}
                title="This query cannot be answered"
                onRetry={problem ? undefined : () => void refetch()}
                className="my-auto"
              />
            ) : !answered ? (
              <div role="status" className="h-96">
                <span className="sr-only">Loading</span>
                <Skeleton className="h-full" />
              </div>
            ) : tab === "sql" ? (
              <Sql answered={answered} />
            ) : (
              <PanelBoundary title="This chart failed" resetKey={answered}>
                <InsightResult
                  query={answered.query}
                  answer={answered.answer}
                  label={title}
                  timeZone={timeZone}
                  view={tab}
                  hiddenIds={hidden}
                  markers={markers}
                  onToggleSeries={(id) => {
                    const next = new Set(hidden);
                    if (!next.delete(id)) next.add(id);
                    setHidden(next);
                  }}
                  onOpen={(place) => void setOpen(writePoint(place))}
                  onSelectRange={(from, to) => {
                    const interval = "interval" in asked ? (asked.interval ?? "day") : "day";
                    edit(withRange(query, draggedRange(from, to, interval, timeZone)));
                  }}
                  className={tab === "chart" ? heightOf(answered) : "max-h-[70dvh]"}
                />
              </PanelBoundary>
            )}
          </div>
          {answered && tab !== "api" && (
            <footer className="flex flex-wrap gap-x-4 gap-y-1 border-t px-4 py-2 text-xs text-muted">
              <span>{rangeText(answered, timeZone)}</span>
              {answered.answer.hasMore && (
                <span>There are more values than are shown; raise the breakdown’s limit.</span>
              )}
              {tab === "chart" && hasPoints(answered.query) && (
                <span className="hidden sm:inline">Click a value to see who is behind it.</span>
              )}
            </footer>
          )}
        </section>
      </div>
      <Suspense fallback={null}>
        {panelOpen && (
          <QueryDrawer onClose={() => setPanelOpen(false)}>
            <div className="flex items-start justify-between gap-2 px-4 pb-3 sm:hidden">
              <Controls query={query} edit={edit} timeZone={timeZone} />
              <div className="-mr-2 flex shrink-0">{undoRedo}</div>
            </div>
            <QueryPanel query={query} edit={edit} problem={problem} />
          </QueryDrawer>
        )}
        {answered && answered.query.kind !== "HogQLQuery" && open !== undefined && (
          <ExplainDrawer
            point={point}
            query={answered.query}
            answer={answered.answer}
            onClose={() => void setOpen(undefined)}
          />
        )}
        {annotating && insight && (
          <AnnotationDialog
            insight={{ id: insight.id, name: insightName(insight) }}
            onClose={() => setAnnotating(false)}
          />
        )}
        {sharing && insight && (
          <ShareDialog
            shared={{ kind: "insight", shortId: insight.short_id }}
            name={insightName(insight)}
            reason={permission.reason}
            onClose={() => setSharing(false)}
          />
        )}
        {dialog && (
          <SaveDialog
            title={DIALOG_TITLES[dialog]}
            action={dialog === "copy" ? "Save as new" : "Save"}
            insight={dialog === "copy" ? undefined : insight}
            fields={
              dialog === "save" || dialog === "copy"
                ? { query: vizNode(query), derived_name: derived }
                : {}
            }
            initial={{
              name: dialog === "copy" && insight ? `${name} (copy)` : (insight?.name ?? derived),
              description: insight?.description ?? "",
              tags: insight?.tags,
              dashboards: dialog === "copy" ? [] : (insight?.dashboards ?? dashboards),
            }}
            onClose={() => setDialog(null)}
            onSaved={(stored) => {
              setDialog(null);
              if (insight && dialog !== "copy") changed(stored);
              toast.success("Saved", { description: insightName(stored) });
              if (!insight || dialog === "copy") onCreated(stored);
            }}
          />
        )}
      </Suspense>
    </Page>
  );
}

const DIALOG_TITLES: Record<SaveMode, string> = {
  save: "Save insight",
  copy: "Save as new insight",
  dashboards: "Add to dashboard",
  details: "Edit insight",
};

/// Charts that scroll in themselves get a height; tables of cohorts and bars take what they need.
function heightOf({ query }: Answered): string {
  switch (query.kind) {
    case "RetentionQuery":
    case "PathsQuery":
      return "";
    case "FunnelsQuery":
      if (query.funnelsFilter?.funnelVizType !== "trends") return "sm:min-h-96";
      break;
    case "TrendsQuery": {
      const display = query.trendsFilter?.display;
      if (isTotal(display) && display !== "BoldNumber") return "sm:min-h-96";
    }
  }
  return "h-72 sm:h-[max(24rem,calc(100dvh-27rem))]";
}

/// Whether a value of the chart opens its persons.
function hasPoints(query: Answered["query"]): boolean {
  return query.kind !== "FunnelsQuery" || query.funnelsFilter?.funnelVizType !== "time_to_convert";
}

function rangeText({ query, answer }: Answered, timeZone: string): string {
  const range = answer.resolved_date_range;
  if (!range) return timeZone;
  const isSaid =
    query.kind === "HogQLQuery" ||
    query.kind === "RetentionQuery" ||
    isOfDays(query.dateRange ?? {});
  const day = (text: string) => intervalLabel(new Date(text), "day", timeZone);
  const [from, to] = [day(range.date_from), day(range.date_to)];
  const dates = from === to ? from : `${from} – ${to}`;
  return [...(isSaid ? [] : [rangeLabel(query.dateRange, timeZone)]), dates, timeZone].join(" · ");
}

function Tags({ tags }: { tags: readonly string[] }): ReactNode {
  return (
    <span className="mt-1 flex flex-wrap gap-1.5">
      {tags.map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
    </span>
  );
}

interface KindBarProps {
  kind: InsightKind;
  onChange: (kind: InsightKind) => void;
  actions: ReactNode;
}

function KindBar({ kind, onChange, actions }: KindBarProps) {
  const more = MORE_KINDS.includes(kind);
  const item = (chosen: boolean) =>
    cx(
      "h-7 rounded px-2 font-medium whitespace-nowrap sm:px-3",
      chosen ? "bg-surface text-text shadow-card" : "text-muted hover:text-text",
    );
  return (
    <div className="mb-3 flex items-center justify-between gap-2">
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be laid out in a row everywhere. */}
      <div
        role="group"
        aria-label="Kind of insight"
        className="scroll-thin flex min-w-0 gap-0.5 overflow-x-auto rounded-md bg-sunken p-0.5"
      >
        {MAIN_KINDS.map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === kind}
            onClick={() => onChange(one)}
            className={item(one === kind)}
          >
            {KIND_LABELS[one]}
          </button>
        ))}
        <Menu
          trigger={
            <button type="button" className={cx(item(more), "flex items-center gap-1 pr-1.5")}>
              {more ? KIND_LABELS[kind] : "More"}
              <ChevronDown className="size-4" aria-hidden />
            </button>
          }
          items={MORE_KINDS.map((one) => ({
            label: KIND_LABELS[one],
            checked: one === kind,
            onSelect: () => onChange(one),
          }))}
        />
      </div>
      {/* On phones in the drawer, where the query is edited. */}
      <div className="hidden shrink-0 sm:flex">{actions}</div>
    </div>
  );
}

interface StatusProps {
  answered: Answered | undefined;
  busy: boolean;
  timeZone: string;
  onRefresh: () => void;
}

/// How old the answer is and what it cost.
function Status({ answered, busy, onRefresh }: StatusProps) {
  const answer = answered?.answer;
  const seconds = (answer?.timings ?? []).reduce((sum, { t }) => sum + t, 0);
  return (
    <div className="flex items-center gap-1.5 text-xs text-muted">
      {answer?.last_refresh && (
        <span className="hidden sm:inline">
          {elapsed(seconds)} · <RelativeTime at={answer.last_refresh} />
        </span>
      )}
      <IconButton label="Refresh" size="sm" aria-busy={busy} onClick={onRefresh}>
        <RotateCw aria-hidden />
      </IconButton>
    </div>
  );
}

function Sql({ answered }: { answered: Answered }) {
  const { hogql } = answered.answer;
  return hogql ? (
    <SqlBlock label="SQL" sql={hogql} />
  ) : (
    <EmptyState title="No SQL for this insight" className="my-auto">
      The server gave none with its answer.
    </EmptyState>
  );
}

/// Back to the list.
export function InsightsLink({ projectId }: { projectId: string }) {
  return (
    <Link
      to="/project/$projectId/insights"
      params={{ projectId }}
      search={{}}
      className="inline-flex min-h-6 items-center hover:underline"
    >
      Insights
    </Link>
  );
}
