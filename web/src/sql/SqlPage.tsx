import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Download, History, LoaderCircle, PanelLeft, Play, Save, Square, X } from "lucide-react";
import { Suspense, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { ApiError, isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { mayEdit } from "@/api/permissions";
import { ConflictError } from "@/api/versions";
import { type InsightVariable, variablesQuery } from "@/insight_variables/variableApi";
import { type Insight, insightName, insightQuery, saveInsight } from "@/insights/insightApi";
import { type SqlChart, suggestedChart } from "@/insights/sqlChart";
import { RouteNotFound } from "@/shell/routeStates";
import { useFragmentDraft } from "@/shell/useFragmentDraft";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Card,
  Drawer,
  EmptyState,
  ErrorPanel,
  IconButton,
  Kbd,
  Page,
  PageHeader,
  PanelBoundary,
  Skeleton,
  SkeletonRows,
  Tabs,
  toast,
} from "@/ui";
import { count, exact } from "@/ui/format";
import {
  leaveDraft,
  type RunEntry,
  readLeftDraft,
  readRuns,
  readTablesOpen,
  withRun,
  writeRuns,
  writeTablesOpen,
} from "./localHistory";
import { problemOf } from "./positions";
import type { SqlEditorHandle } from "./SqlEditor";
import { checkStatement, definedNamesQuery, NO_NAMES, schemaQuery } from "./schema";
import {
  draftOf,
  EMPTY_DRAFT,
  SQL_CODEC,
  type SqlDraft,
  sqlQuery,
  storedQuery,
  withBlanks,
  wrongVariables,
} from "./sqlDraft";
import { type RunState, useRun } from "./useRun";
import { Variables } from "./Variables";

const SqlEditor = lazy(() => import("./SqlEditor").then((m) => ({ default: m.SqlEditor })));
const SqlTable = lazy(() => import("./SqlTable").then((m) => ({ default: m.SqlTable })));
const SqlChartPanel = lazy(() =>
  import("./SqlChartPanel").then((m) => ({ default: m.SqlChartPanel })),
);
const TableBrowser = lazy(() =>
  import("./TableBrowser").then((m) => ({ default: m.TableBrowser })),
);
const HistoryDrawer = lazy(() =>
  import("./HistoryDrawer").then((m) => ({ default: m.HistoryDrawer })),
);
const SaveDialog = lazy(() =>
  import("@/insights/SaveDialog").then((m) => ({ default: m.SaveDialog })),
);

const route = getRouteApi("/project/$projectId/sql");

/// The editor by itself, or with the query of an insight.
export function SqlPage() {
  const { projectId } = useProject();
  const { insight: shortId, open_query: opened } = route.useSearch();
  const query = useQuery({
    ...insightQuery(projectId, shortId ?? ""),
    enabled: shortId !== undefined,
  });
  const stored = query.data?.query;
  const saved = useMemo(() => {
    if (shortId !== undefined) return draftOf(stored) ?? EMPTY_DRAFT;
    return opened === undefined ? EMPTY_DRAFT : { ...EMPTY_DRAFT, text: opened };
  }, [shortId, stored, opened]);
  if (shortId !== undefined && !query.data) {
    if (query.isError && isHidden(query.error)) return <RouteNotFound />;
    return (
      <Page wide>
        <PageHeader title="SQL" />
        <Card>
          {query.isError ? (
            <ErrorPanel
              title="Could not load the insight"
              error={query.error}
              onRetry={() => query.refetch()}
            />
          ) : (
            <Skeleton className="h-72" />
          )}
        </Card>
      </Page>
    );
  }
  return (
    <Workbench
      key={`${projectId} ${shortId ?? ""}`}
      projectId={projectId}
      saved={saved}
      insight={query.data}
    />
  );
}

interface WorkbenchProps {
  projectId: string;
  saved: SqlDraft;
  insight?: Insight;
}

type Tab = "table" | "chart";

function Workbench({ projectId, saved, insight }: WorkbenchProps) {
  const { project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/sql" });
  const draft = useFragmentDraft(saved, SQL_CODEC);
  const { value, edit, isChanged } = draft;
  const editor = useRef<SqlEditorHandle>(null);
  const [selected, setSelected] = useState(false);
  const [tab, setTab] = useState<Tab>(
    value.chart && value.chart.display !== "ActionsTable" ? "chart" : "table",
  );
  const [runs, setRuns] = useState<readonly RunEntry[]>(() => readRuns(projectId));
  const [open, setOpen] = useState<"history" | "save" | "tables" | null>(null);
  const [tablesBeside, setTablesBeside] = useState(readTablesOpen);
  const showTables = (shown: boolean) => {
    writeTablesOpen(shown);
    setTablesBeside(shown);
  };

  // What was left comes back, unless the address names something else.
  const latestEdit = useRef(edit);
  latestEdit.current = edit;
  useEffect(() => {
    if (insight || saved.text !== "" || window.location.hash.startsWith("#q=")) return;
    const left = SQL_CODEC.decode(readLeftDraft(projectId));
    if (left) latestEdit.current(left);
  }, [insight, saved.text, projectId]);
  const fragment = isChanged && !insight ? SQL_CODEC.encode(value) : null;
  useEffect(() => {
    if (fragment !== null) leaveDraft(projectId, fragment);
  }, [fragment, projectId]);

  const schema = useQuery(schemaQuery(projectId));
  const defined = useQuery(definedNamesQuery(projectId));
  const projectVariables = useQuery(variablesQuery(projectId)).data;
  const known = useMemo(
    () => new Set((projectVariables ?? NO_VARIABLES).map(({ code_name: name }) => name)),
    [projectVariables],
  );
  const names = useMemo(
    () => ({ ...NO_NAMES, ...schema.data, ...defined.data, variables: [...known] }),
    [schema.data, defined.data, known],
  );
  const filled = withBlanks(value, known);

  // Where the running part begins in the statement.
  const offset = useRef(0);
  // The whole statement with its variables: of the latest run, and of the result on the screen.
  const statement = JSON.stringify(sqlQuery(filled));
  const ran = useRef(statement);
  const [shown, setShown] = useState(statement);
  const onEnd = (state: RunState) => {
    if (state.kind === "done") {
      const { query, answer, ms } = state.finished;
      const rows = Array.isArray(answer.results) ? answer.results.length : null;
      const next = withRun(readRuns(projectId), { text: query.query, at: Date.now(), rows, ms });
      writeRuns(projectId, next);
      setRuns(next);
      editor.current?.show([]);
      setShown(ran.current);
    } else if (state.kind === "failed" && state.error instanceof ApiError) {
      const problem = problemOf(state.query.query, state.error.detail);
      if (!problem) return;
      const [from, to] = [problem.from + offset.current, problem.to + offset.current];
      editor.current?.show([{ ...problem, from, to }]);
    }
  };
  const { state, run, cancel } = useRun(projectId, onEnd);
  const wrong = wrongVariables(value);
  const reason =
    value.text.trim() === ""
      ? "Write a statement first."
      : wrong.length > 0
        ? `The value of ${wrong[0]} does not fit its type.`
        : undefined;
  const start = () => {
    if (reason) return;
    const part = editor.current?.selection();
    offset.current = part?.from ?? 0;
    ran.current = statement;
    void run(sqlQuery(filled, part?.text));
  };

  const { variables } = value;
  // A server that knows no schema checks nothing either.
  const checks = Object.keys(names.tables).length > 0;
  const check = useCallback(
    async (text: string, signal: AbortSignal) =>
      checks
        ? checkStatement(
            projectId,
            sqlQuery(withBlanks({ ...EMPTY_DRAFT, text, variables }, known)),
            signal,
          )
        : null,
    [projectId, variables, known, checks],
  );

  const finished =
    state.kind === "done" ? state.finished : state.kind === "running" ? state.before : null;
  const suggested = useMemo(() => finished && suggestedChart(finished.answer), [finished]);
  const chart = value.chart ?? suggested;
  const setChart = (next: SqlChart) => edit({ ...value, chart: next }, "chart");

  const permission = insight ? mayEdit(insight) : { allowed: true, reason: "" };
  const fields = {
    query: storedQuery(filled, value.chart ?? (tab === "chart" ? chart : null) ?? TABLE),
    derived_name: "SQL query",
  };
  const save = useMutation({
    mutationFn: (edited: Insight) => saveInsight(projectId, edited, fields, draft.discard),
    onSuccess: () => toast.success("Saved"),
    onError: (error) => {
      if (!(error instanceof ConflictError)) toast.error(error, "Could not save the insight");
    },
  });
  const saveReason = reason ?? (permission.allowed ? undefined : permission.reason);
  const onSave = () => {
    if (saveReason) return;
    if (insight) save.mutate(insight);
    else setOpen("save");
  };
  useKeys([
    { key: "mod+Enter", run: start },
    { key: "mod+s", run: onSave },
  ]);

  const download = async () => {
    if (!finished) return;
    const { downloadRows } = await import("./downloadRows");
    downloadRows(insight ? insightName(insight) : "query", finished.answer);
  };
  const running = state.kind === "running";
  const browser = schema.isError ? (
    <ErrorPanel
      title="Could not load the tables"
      error={schema.error}
      onRetry={() => schema.refetch()}
    />
  ) : (
    <Suspense fallback={<SkeletonRows />}>
      <TableBrowser
        tables={names.tables}
        isPending={schema.isPending}
        onInsert={(name, kind, byPointer) => {
          editor.current?.insert(name, kind);
          if (open === "tables") setOpen(null);
          else if (byPointer) editor.current?.focus();
        }}
      />
    </Suspense>
  );
  return (
    <Page wide>
      <PageHeader
        title={insight ? insightName(insight) : "SQL"}
        eyebrow={
          insight && (
            <Link
              to="/project/$projectId/insights/$shortId"
              params={{ projectId, shortId: insight.short_id }}
              className="inline-flex min-h-6 items-center hover:underline"
            >
              Back to the insight
            </Link>
          )
        }
        actions={
          <>
            <Button
              icon={<PanelLeft aria-hidden />}
              aria-pressed={tablesBeside}
              className="max-lg:hidden"
              onClick={() => showTables(!tablesBeside)}
            >
              Tables
            </Button>
            <Button
              icon={<PanelLeft aria-hidden />}
              className="lg:hidden"
              onClick={() => setOpen("tables")}
            >
              <span className="max-sm:sr-only">Tables</span>
            </Button>
            <Button icon={<History aria-hidden />} onClick={() => setOpen("history")}>
              <span className="max-sm:sr-only">History</span>
            </Button>
            {insight && isChanged && <Button onClick={draft.discard}>Discard</Button>}
            <Button
              icon={<Save aria-hidden />}
              busy={save.isPending}
              disabledReason={saveReason}
              onClick={onSave}
            >
              {insight ? "Save" : "Save as insight"}
            </Button>
          </>
        }
      />
      <div className="flex items-start gap-4">
        {tablesBeside && (
          <section
            aria-label="Table browser"
            className="sticky top-4 flex max-h-[calc(100dvh-6rem)] w-64 shrink-0 flex-col rounded-lg border bg-surface p-3 max-lg:hidden"
          >
            <div className="mb-1 flex items-center">
              <h2 className="flex-1 font-semibold">Tables</h2>
              <IconButton size="sm" label="Hide tables" onClick={() => showTables(false)}>
                <X aria-hidden />
              </IconButton>
            </div>
            {browser}
          </section>
        )}
        <div className="min-w-0 flex-1">
          <Card flush className="mb-4 overflow-hidden">
            <div className="h-64 min-h-32 resize-y overflow-hidden">
              <Suspense fallback={<Skeleton className="m-3 h-56" />}>
                <SqlEditor
                  ref={editor}
                  value={value.text}
                  onChange={(text) => edit({ ...value, text }, "text")}
                  onRun={start}
                  onSelect={setSelected}
                  names={names}
                  check={check}
                />
              </Suspense>
            </div>
            <Variables draft={value} known={projectVariables ?? NO_VARIABLES} onChange={edit} />
            <div className="flex flex-wrap items-center gap-2 border-t px-3 py-2">
              {running ? (
                <Button icon={<Square aria-hidden />} onClick={cancel}>
                  Cancel
                </Button>
              ) : (
                <Button
                  variant="primary"
                  icon={<Play aria-hidden />}
                  disabledReason={reason}
                  onClick={start}
                >
                  {selected ? "Run selection" : "Run"}
                </Button>
              )}
              <span className="text-muted max-sm:hidden">
                <Kbd keys="mod+enter" />
              </span>
              <p role="status" className="min-w-0 flex-1 text-xs text-muted">
                <Status state={state} changed={statement !== shown} />
              </p>
            </div>
          </Card>
          {state.kind === "failed" ? (
            <Card>
              <ErrorPanel error={state.error} title="The statement failed" onRetry={start} />
            </Card>
          ) : finished && chart ? (
            <PanelBoundary resetKey={finished}>
              <Card flush className="overflow-hidden px-0">
                <Tabs<Tab>
                  label="Result"
                  value={tab}
                  onChange={setTab}
                  className="[&>div:first-child]:px-4 [&>[role=tabpanel]]:pt-0"
                  actions={
                    <Button
                      size="sm"
                      variant="ghost"
                      icon={<Download aria-hidden />}
                      onClick={() => void download()}
                    >
                      CSV
                    </Button>
                  }
                  items={[
                    {
                      value: "table",
                      label: "Table",
                      panel: (
                        <Suspense fallback={<SkeletonRows />}>
                          <SqlTable finished={finished} stale={running} />
                        </Suspense>
                      ),
                    },
                    {
                      value: "chart",
                      label: "Chart",
                      panel: (
                        <Suspense fallback={<Skeleton className="m-4 h-80" />}>
                          <SqlChartPanel
                            finished={finished}
                            chart={chart}
                            timeZone={project.timezone}
                            onChange={setChart}
                          />
                        </Suspense>
                      ),
                    },
                  ]}
                />
              </Card>
            </PanelBoundary>
          ) : (
            !running && (
              <Card>
                <EmptyState icon={<Play aria-hidden />} title="Ask anything of the events">
                  HogQL reads events, persons, groups and sessions. Names complete as you type; a
                  selected part runs by itself. Values such as {"{variables.country}"} get an input
                  below the statement.
                </EmptyState>
              </Card>
            )
          )}
        </div>
      </div>
      <Suspense>
        {open === "tables" && (
          <Drawer open onOpenChange={() => setOpen(null)} title="Tables">
            {browser}
          </Drawer>
        )}
        {open === "history" && (
          <HistoryDrawer
            runs={runs}
            onOpen={(run) => {
              edit({ ...value, text: run.text });
              setOpen(null);
            }}
            onClear={() => {
              writeRuns(projectId, []);
              setRuns([]);
            }}
            onClose={() => setOpen(null)}
          />
        )}
        {open === "save" && (
          <SaveDialog
            title="Save as insight"
            action="Save"
            fields={fields}
            initial={{ name: "" }}
            onClose={() => setOpen(null)}
            onSaved={(created) => {
              setOpen(null);
              leaveDraft(projectId, "");
              toast.success("Saved", {
                description: insightName(created),
                action: {
                  label: "Open",
                  onClick: () =>
                    void navigate({
                      to: "/project/$projectId/insights/$shortId",
                      params: { projectId, shortId: created.short_id },
                    }),
                },
              });
            }}
          />
        )}
      </Suspense>
    </Page>
  );
}

const NO_VARIABLES: readonly InsightVariable[] = [];
const TABLE: SqlChart = { display: "ActionsTable", x: null, y: [], series: null };

function Status({ state, changed }: { state: RunState; changed: boolean }) {
  if (state.kind === "running") {
    return (
      <span className="inline-flex items-center gap-1.5">
        <LoaderCircle className="size-3.5 animate-spin" aria-hidden /> Running
      </span>
    );
  }
  if (state.kind !== "done") return null;
  const { answer, ms } = state.finished;
  const rows = Array.isArray(answer.results) ? answer.results.length : 0;
  const scanned = answer.query_metadata?.rows_scanned;
  return (
    <>
      {count(rows, "row")} in {exact(Math.round(ms))} ms
      {scanned !== null && scanned !== undefined && `, ${exact(scanned)} rows read`}
      {answer.hasMore && "; there are more: add a LIMIT"}
      {changed && <span className="text-warn"> · Changed since this run</span>}
    </>
  );
}
