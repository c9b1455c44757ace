import { useMutation, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChartNoAxesCombined, EllipsisVertical, Plus, Star, Tag, Trash2 } from "lucide-react";
import { Suspense, useEffect, useMemo, useRef, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useMe } from "@/api/me";
import { mayEdit } from "@/api/permissions";
import { queryClient } from "@/api/queryClient";
import { useDebounced } from "@/shell/useDebounced";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  buttonClass,
  Card,
  Checkbox,
  Combobox,
  cx,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  SearchInput,
  Select,
  type SelectOption,
  Skeleton,
  toast,
} from "@/ui";
import { count } from "@/ui/format";
import { createInsight, type Insight, insightName, updateInsight } from "./insightApi";
import { derivedName } from "./names";
import { answerQuery, insightSource, KIND_LABELS } from "./queries";

const InsightResult = lazy(() =>
  import("./InsightResult").then((module) => ({ default: module.InsightResult })),
);
const TagDialog = lazy(() =>
  import("./TagDialog").then((module) => ({ default: module.TagDialog })),
);

const PAGE_SIZE = 24;
const route = getRouteApi("/project/$projectId/insights");

const TYPES: readonly SelectOption<string>[] = [
  { value: "", label: "All kinds" },
  { value: "TRENDS", label: "Trends" },
  { value: "FUNNELS", label: "Funnels" },
  { value: "RETENTION", label: "Retention" },
  { value: "LIFECYCLE", label: "Lifecycle" },
  { value: "STICKINESS", label: "Stickiness" },
  { value: "PATHS", label: "Paths" },
  { value: "SQL", label: "SQL" },
];

export function InsightsPage() {
  const { projectId, project } = useProject();
  const me = useMe();
  const navigate = useNavigate({ from: "/project/$projectId/insights" });
  const filters = route.useSearch();
  const { search, type, tag, created_by: author, favorited, page = 1 } = filters;
  const [text, setText] = useState(search ?? "");
  const term = useDebounced(text.trim(), 200);
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, page: undefined, ...patch }), replace: true });
  useEffect(() => {
    void navigate({
      search: (before) =>
        (before.search ?? "") === term
          ? before
          : { ...before, search: term || undefined, page: undefined },
      replace: true,
    });
  }, [term, navigate]);
  const query = useQuery({
    queryKey: ["insights", projectId, filters],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/insights", {
          params: {
            path: { project_id: projectId },
            query: {
              search,
              insight: type,
              tags: tag ? JSON.stringify([tag]) : undefined,
              created_by: author === undefined ? undefined : String(author),
              favorited: favorited ? "true" : undefined,
              limit: PAGE_SIZE,
              offset: (page - 1) * PAGE_SIZE,
              saved: "true",
              basic: "true",
              order: "-last_modified_at",
            },
          },
          signal,
        }),
      ),
  });
  const members = useQuery({
    queryKey: ["members", project.organization],
    staleTime: 60_000,
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}/members", {
          params: { path: { organization_id: project.organization }, query: { limit: 200 } },
          signal,
        }),
      ),
  });
  const insights = query.data?.results ?? [];
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const selected = insights.filter(({ short_id }) => chosen.has(short_id));
  const toggle = (id: string, on: boolean) => {
    const next = new Set(chosen);
    if (on) next.add(id);
    else next.delete(id);
    setChosen(next);
  };
  const list = useRef<HTMLUListElement>(null);
  const focusNext = (step: 1 | -1) => {
    const links = [...(list.current?.querySelectorAll<HTMLElement>("a[data-insight]") ?? [])];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[Math.max(0, Math.min(links.length - 1, at + step))]?.focus();
  };
  useKeys([
    { key: "j", run: () => focusNext(1) },
    { key: "k", run: () => focusNext(-1) },
  ]);
  // Tags that were seen stay on offer when the list is filtered by one.
  const seenTags = useRef(new Set<string>());
  for (const insight of insights) for (const one of insight.tags) seenTags.current.add(one);
  if (tag) seenTags.current.add(tag);

  const filtered = Boolean(search || type || tag || author !== undefined || favorited);
  const newLink = (
    <Link
      to="/project/$projectId/insights/new"
      params={{ projectId }}
      className={buttonClass("primary")}
    >
      <Plus aria-hidden />
      New insight
    </Link>
  );
  const authors: SelectOption<string>[] = [
    { value: "", label: "Anyone" },
    { value: String(me.id), label: "Mine" },
    ...(members.data?.results ?? [])
      .filter(({ user }) => user.id !== me.id)
      .map(({ user }) => ({
        value: String(user.id),
        label: [user.first_name, user.last_name].filter(Boolean).join(" ") || user.email,
      })),
  ];
  const pages = Math.max(1, Math.ceil((query.data?.count ?? 0) / PAGE_SIZE));
  return (
    <Page>
      <PageHeader
        title="Insights"
        description="Charts and numbers of your events."
        actions={newLink}
      />
      <div className="mb-3 flex flex-wrap items-center gap-2">
        <SearchInput
          label="Search insights"
          className="w-full sm:w-60"
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Select
          label="Kind"
          value={type ?? ""}
          onChange={(next) => void set({ type: next || undefined })}
          options={TYPES}
        />
        <Select
          label="Created by"
          value={author === undefined ? "" : String(author)}
          onChange={(next) => void set({ created_by: next ? Number(next) : undefined })}
          options={authors}
        />
        {seenTags.current.size > 0 && (
          <Combobox
            label="Tag"
            value={tag ?? ""}
            options={[
              { value: "", label: "Any tag" },
              ...[...seenTags.current].sort().map((one) => ({ value: one, label: one })),
            ]}
            onChange={(next) => void set({ tag: next || undefined })}
          />
        )}
        <Button
          aria-pressed={favorited ?? false}
          icon={
            <Star aria-hidden className={favorited ? "fill-current text-accent-text" : undefined} />
          }
          onClick={() => void set({ favorited: favorited ? undefined : true })}
        >
          Favorites
        </Button>
        {filtered && (
          <Button
            variant="ghost"
            onClick={() => {
              setText("");
              void navigate({ search: {}, replace: true });
            }}
          >
            Clear filters
          </Button>
        )}
      </div>
      {selected.length > 0 && (
        <BulkBar
          insights={selected}
          onDone={() => setChosen(new Set())}
          onAll={() => setChosen(new Set(insights.map(({ short_id }) => short_id)))}
        />
      )}
      {query.isPending ? (
        <Grid>
          {Array.from({ length: 6 }, (_, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: the cards are alike.
            <li key={at}>
              <Skeleton className="h-64" />
            </li>
          ))}
        </Grid>
      ) : query.isError ? (
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      ) : insights.length === 0 ? (
        <Card>
          {filtered ? (
            <EmptyState title="No insight matches">
              Try another word of its name, or take a filter away.
            </EmptyState>
          ) : (
            <EmptyState
              icon={<ChartNoAxesCombined aria-hidden />}
              title="No insights yet"
              action={newLink}
            >
              An insight is a saved chart that stays current, such as how many people signed up each
              day.
            </EmptyState>
          )}
        </Card>
      ) : (
        <>
          <Grid ref={list} stale={query.isPlaceholderData}>
            {insights.map((insight) => (
              <InsightCard
                key={insight.short_id}
                insight={insight}
                selected={chosen.has(insight.short_id)}
                onSelect={(on) => toggle(insight.short_id, on)}
              />
            ))}
          </Grid>
          {pages > 1 && (
            <nav aria-label="Pages" className="mt-4 flex items-center justify-center gap-3">
              <Button
                disabled={page <= 1}
                onClick={() =>
                  void navigate({
                    search: (before) => ({ ...before, page: page > 2 ? page - 1 : undefined }),
                  })
                }
              >
                Earlier
              </Button>
              <span className="text-muted">
                Page {page} of {pages}
              </span>
              <Button
                disabled={page >= pages}
                onClick={() =>
                  void navigate({ search: (before) => ({ ...before, page: page + 1 }) })
                }
              >
                Later
              </Button>
            </nav>
          )}
        </>
      )}
    </Page>
  );
}

function Grid({
  ref,
  stale,
  children,
}: {
  ref?: React.Ref<HTMLUListElement>;
  stale?: boolean;
  children: React.ReactNode;
}) {
  return (
    <ul
      ref={ref}
      aria-label="Insights"
      aria-busy={stale || undefined}
      className={cx("grid gap-4 sm:grid-cols-2 xl:grid-cols-3", stale && "opacity-60")}
    >
      {children}
    </ul>
  );
}

async function removeAll(projectId: string, insights: readonly Insight[]): Promise<void> {
  const ids = insights.map(({ short_id }) => short_id);
  const setDeleted = async (deleted: boolean) => {
    for (const id of ids) await updateInsight(projectId, id, { deleted });
  };
  try {
    await setDeleted(true);
    toast.success(insights.length === 1 ? "Deleted" : `Deleted ${count(ids.length, "insight")}`, {
      description: insights.length === 1 && insights[0] ? insightName(insights[0]) : undefined,
      undo: () => {
        setDeleted(false).catch((error) => toast.error(error, "Not all came back"));
      },
    });
  } catch (error) {
    toast.error(error, "Not everything was deleted");
  }
  void queryClient.invalidateQueries({ queryKey: ["insights", projectId] });
}

interface CardProps {
  insight: Insight;
  selected: boolean;
  onSelect: (on: boolean) => void;
}

function InsightCard({ insight, selected, onSelect }: CardProps) {
  const { projectId } = useProject();
  const name = insightName(insight);
  const source = useMemo(() => insightSource(insight.query), [insight.query]);
  const permission = mayEdit(insight);
  const kind = source ? (source.kind === "HogQLQuery" ? "SQL" : KIND_LABELS[source.kind]) : "Other";
  const favorite = useMutation({
    mutationFn: () => updateInsight(projectId, insight.short_id, { favorited: !insight.favorited }),
    onError: (error) => toast.error(error),
  });
  return (
    <li
      className={cx(
        "group relative flex min-w-0 flex-col rounded-lg border bg-surface",
        selected && "border-accent",
      )}
    >
      <div className="flex items-start gap-2 px-3 pt-2.5">
        <Checkbox
          label={`Choose ${name}`}
          hideLabel
          checked={selected}
          onChange={onSelect}
          className="mt-0.5"
        />
        <div className="min-w-0 flex-1">
          <h2 className="flex min-w-0 leading-6 font-semibold">
            <Link
              data-insight=""
              to="/project/$projectId/insights/$shortId"
              params={{ projectId, shortId: insight.short_id }}
              className="truncate rounded hover:underline"
              title={name}
            >
              {name}
            </Link>
          </h2>
        </div>
        <IconButton
          size="sm"
          label={insight.favorited ? `${name}: remove from favorites` : `${name}: add to favorites`}
          aria-pressed={insight.favorited}
          disabledReason={permission.allowed ? undefined : permission.reason}
          onClick={() => favorite.mutate()}
        >
          <Star
            aria-hidden
            className={insight.favorited ? "fill-current text-accent-text" : "text-muted"}
          />
        </IconButton>
        <Menu
          align="end"
          trigger={
            <IconButton size="sm" label={`More for ${name}`}>
              <EllipsisVertical aria-hidden />
            </IconButton>
          }
          items={[
            {
              label: "Duplicate",
              icon: <Plus aria-hidden />,
              onSelect: () => {
                createInsight(projectId, {
                  name: `${name} (copy)`,
                  description: insight.description,
                  tags: insight.tags,
                  query: insight.query,
                }).then(
                  () => toast.success("Duplicated", { description: `${name} (copy)` }),
                  (error) => toast.error(error),
                );
              },
            },
            "separator",
            {
              label: "Delete",
              icon: <Trash2 aria-hidden />,
              danger: true,
              disabledReason: permission.allowed ? undefined : permission.reason,
              onSelect: () => void removeAll(projectId, [insight]),
            },
          ]}
        />
      </div>
      <div className="h-36 px-3 py-2">
        <PanelBoundary title="No preview" resetKey={insight.query} className="p-2">
          <Thumbnail insight={insight} />
        </PanelBoundary>
      </div>
      <div className="mt-auto flex min-h-9 flex-wrap items-center gap-x-2 gap-y-1 border-t px-3 py-1.5 text-xs text-muted">
        <Badge>{kind}</Badge>
        {insight.tags.map((one) => (
          <Badge key={one} tone="accent">
            {one}
          </Badge>
        ))}
        <span className="ml-auto truncate">
          {insight.created_by?.first_name && `${insight.created_by.first_name} · `}
          <RelativeTime at={insight.last_modified_at} />
        </span>
      </div>
    </li>
  );
}

/// The chart in small. It is asked for once it comes into view.
function Thumbnail({ insight }: { insight: Insight }) {
  const { projectId, project } = useProject();
  const host = useRef<HTMLDivElement>(null);
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    const element = host.current;
    if (!element || seen) return;
    const observer = new IntersectionObserver(
      (entries) => entries.some(({ isIntersecting }) => isIntersecting) && setSeen(true),
      { rootMargin: "200px" },
    );
    observer.observe(element);
    return () => observer.disconnect();
  }, [seen]);
  const source = useMemo(() => insightSource(insight.query), [insight.query]);
  const result = useQuery({
    ...answerQuery(projectId, source ?? { kind: "HogQLQuery", query: "select 1" }),
    enabled: seen && source !== null,
    staleTime: 60_000,
  });
  return (
    <div ref={host} inert className="h-full overflow-hidden">
      {source === null ? (
        <p className="grid h-full place-items-center text-xs text-muted">No preview</p>
      ) : result.isError ? (
        <p className="grid h-full place-items-center px-2 text-center text-xs text-muted">
          {result.error.message}
        </p>
      ) : result.data ? (
        <Suspense fallback={<Skeleton className="h-full" />}>
          <InsightResult
            query={result.data.query}
            stored={insight.query}
            answer={result.data.answer}
            label={insight.name || derivedName(source)}
            timeZone={project.timezone}
            thumbnail
            className="h-full"
          />
        </Suspense>
      ) : (
        <Skeleton className="h-full" />
      )}
    </div>
  );
}

interface BulkBarProps {
  insights: readonly Insight[];
  onDone: () => void;
  onAll: () => void;
}

function BulkBar({ insights, onDone, onAll }: BulkBarProps) {
  const { projectId } = useProject();
  const [tagging, setTagging] = useState(false);
  const refused = insights.find((insight) => !mayEdit(insight).allowed);
  const reason = refused ? `${insightName(refused)}: ${mayEdit(refused).reason}` : undefined;
  return (
    <div
      role="toolbar"
      aria-label="Chosen insights"
      className="mb-3 flex flex-wrap items-center gap-2 rounded-md bg-accent-soft px-3 py-1.5 text-accent-text"
    >
      <span className="font-medium">{count(insights.length, "insight")} chosen</span>
      <Button
        size="sm"
        icon={<Tag aria-hidden />}
        disabledReason={reason}
        onClick={() => setTagging(true)}
      >
        Tag
      </Button>
      <Button
        size="sm"
        icon={<Trash2 aria-hidden />}
        disabledReason={reason}
        onClick={() => {
          onDone();
          void removeAll(projectId, insights);
        }}
      >
        Delete
      </Button>
      <Button size="sm" variant="ghost" onClick={onAll}>
        Choose all on this page
      </Button>
      <Button size="sm" variant="ghost" onClick={onDone}>
        Choose none
      </Button>
      {tagging && (
        <Suspense fallback={null}>
          <TagDialog
            insights={insights}
            onClose={() => setTagging(false)}
            onSaved={() => {
              setTagging(false);
              onDone();
            }}
          />
        </Suspense>
      )}
    </div>
  );
}
