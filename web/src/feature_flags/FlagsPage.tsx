import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Copy, EllipsisVertical, Flag as FlagIcon, Folders, Plus, Tag, Trash2 } from "lucide-react";
import { Suspense, useRef, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { loadedRows, nextOffset } from "@/api/paging";
import { mayEdit } from "@/api/permissions";
import { useProject } from "@/shell/useProject";
import { useSearchText } from "@/shell/useSearchText";
import {
  Badge,
  Button,
  buttonClass,
  Combobox,
  EmptyState,
  IconButton,
  Menu,
  Page,
  PageHeader,
  RelativeTime,
  Select,
  Switch,
  Tooltip,
} from "@/ui";
import { ListPanel, useChoice } from "@/ui/ListPanel";
import type { Column } from "@/ui/Table";
import { copyFragment } from "./copy";
import type { Flag } from "./flagApi";
import { baseOf, type FlagDraft, KIND_LABELS, kindOf } from "./model/draft";
import { ReachCell } from "./ReachCell";
import { RolloutCell } from "./RolloutCell";
import { useFlagChanges } from "./useFlagChanges";

const ReviewDialog = lazy(async () => ({
  default: (await import("./review/ReviewDialog")).ReviewDialog,
}));

const CopyFlagsDialog = lazy(async () => ({
  default: (await import("./CopyFlagsDialog")).CopyFlagsDialog,
}));
const TagFlagsDialog = lazy(async () => ({
  default: (await import("./TagFlagsDialog")).TagFlagsDialog,
}));

const PAGE = 100;
/// Flags whose tags the API changes in one request.
const CHOSEN_MAX = 500;
const route = getRouteApi("/project/$projectId/feature_flags");

const STATUSES = [
  { value: "", label: "Any state" },
  { value: "on", label: "On" },
  { value: "off", label: "Off" },
  { value: "stale", label: "Stale" },
  { value: "archived", label: "Archived" },
] as const;
const TYPES = [
  { value: "", label: "All kinds" },
  { value: "boolean", label: "Boolean" },
  { value: "multivariant", label: "Multivariate" },
  { value: "remote_config", label: "Remote config" },
] as const;
const RUNTIMES = [
  { value: "", label: "Any runtime" },
  { value: "all", label: "Everywhere" },
  { value: "client", label: "Clients only" },
  { value: "server", label: "Servers only" },
] as const;
const ACTIVE = { on: "true", off: "false", stale: "STALE", archived: undefined } as const;

export function FlagsPage() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/feature_flags" });
  useFlagChanges(projectId);
  const filters = route.useSearch();
  const { search, status, type, runtime, tag } = filters;
  const [review, setReview] = useState<{ flag: Flag; draft: FlagDraft } | null>(null);
  const set = (patch: Partial<typeof filters>) =>
    navigate({ search: (before) => ({ ...before, ...patch }), replace: true });
  const [text, setText] = useSearchText(search, (term) => set({ search: term }));
  const query = useInfiniteQuery({
    queryKey: ["feature_flags", projectId, { search, status, type, runtime, tag }],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags", {
          params: {
            path: { project_id: projectId },
            query: {
              search,
              active: status && ACTIVE[status],
              archived: status === "archived" ? "true" : undefined,
              type,
              evaluation_runtime: runtime,
              tags: tag ? JSON.stringify([tag]) : undefined,
              limit: PAGE,
              offset: pageParam,
            },
          },
          signal,
        }),
      ),
    getNextPageParam: nextOffset,
  });
  const flags = loadedRows(query.data);
  const choice = useChoice(flags, flagKey, CHOSEN_MAX);
  const [dialog, setDialog] = useState<"tags" | readonly Flag[] | null>(null);
  const refused = choice.rows.find((flag) => !mayEdit(flag).allowed);
  // Tags that were seen stay on offer when the list is filtered by one.
  const seenTags = useRef(new Set<string>());
  for (const flag of flags) for (const one of flag.tags) seenTags.current.add(one);
  if (tag) seenTags.current.add(tag);
  const filtered = Boolean(search || status || type || runtime || tag);
  const newLink = (
    <Link
      to="/project/$projectId/feature_flags/new"
      params={{ projectId }}
      className={buttonClass("primary")}
    >
      <Plus aria-hidden />
      New flag
    </Link>
  );
  const columns = flagColumns({
    projectId,
    onReview: (flag, draft) => setReview({ flag, draft }),
    onCopyToProjects: (flag) => setDialog([flag]),
    onCopy: (flag) =>
      void navigate({
        to: "/project/$projectId/feature_flags/new",
        params: { projectId },
        search: {},
        hash: copyFragment(flag),
      }),
  });
  return (
    <Page wide>
      <PageHeader
        title="Feature flags"
        description="What is switched on, for whom, and how far."
        actions={newLink}
      />
      <ListPanel
        label="Feature flags"
        nouns={["flag", "flags"]}
        query={query}
        rows={flags}
        columns={columns}
        rowKey={flagKey}
        choice={choice}
        rowName={(flag) => flag.key}
        bulkActions={
          <>
            <Button
              size="sm"
              icon={<Tag aria-hidden />}
              disabledReason={refused && `${refused.key}: ${mayEdit(refused).reason}`}
              onClick={() => setDialog("tags")}
            >
              Tags
            </Button>
            <Button size="sm" icon={<Folders aria-hidden />} onClick={() => setDialog(choice.rows)}>
              Copy to projects
            </Button>
          </>
        }
        search={{ text, onChange: setText }}
        filtered={filtered}
        onClear={() => {
          setText("");
          void navigate({ search: {}, replace: true });
        }}
        filters={
          <>
            <Select
              label="State"
              value={status ?? ""}
              onChange={(next) => void set({ status: next || undefined })}
              options={STATUSES}
            />
            <Select
              label="Kind"
              value={type ?? ""}
              onChange={(next) => void set({ type: next || undefined })}
              options={TYPES}
            />
            <Select
              label="Runtime"
              value={runtime ?? ""}
              onChange={(next) => void set({ runtime: next || undefined })}
              options={RUNTIMES}
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
          </>
        }
        empty={
          <EmptyState icon={<FlagIcon aria-hidden />} title="No feature flags yet" action={newLink}>
            A flag switches a part of your product on for some people: 10% of all, or those on the
            plan pro. Before each save you see who changes.
          </EmptyState>
        }
        total={query.data?.pages[0]?.count}
        onOpen={(flag) =>
          void navigate({
            to: "/project/$projectId/feature_flags/$id",
            params: { projectId, id: String(flag.id) },
            search: {},
          })
        }
      />
      <Suspense>
        {dialog === "tags" && (
          <TagFlagsDialog
            flags={choice.rows}
            onClose={() => setDialog(null)}
            onSaved={() => {
              setDialog(null);
              choice.choose([]);
            }}
          />
        )}
        {dialog && dialog !== "tags" && (
          <CopyFlagsDialog
            flags={dialog}
            onClose={() => setDialog(null)}
            onDone={() => choice.choose([])}
          />
        )}
        {review && (
          <ReviewDialog
            flag={review.flag}
            base={baseOf(review.flag)}
            draft={review.draft}
            onClose={() => setReview(null)}
            onSaved={() => setReview(null)}
            onMerged={(theirs, draft) =>
              setReview({
                flag: { ...review.flag, ...theirs.fields, version: theirs.version },
                draft,
              })
            }
          />
        )}
      </Suspense>
    </Page>
  );
}

function flagKey(flag: Flag): string {
  return String(flag.id);
}

interface ColumnsOf {
  projectId: string;
  onReview: (flag: Flag, draft: FlagDraft) => void;
  onCopy: (flag: Flag) => void;
  onCopyToProjects: (flag: Flag) => void;
}

function flagColumns({ projectId, onReview, onCopy, onCopyToProjects }: ColumnsOf): Column<Flag>[] {
  return [
    {
      id: "key",
      header: "Flag",
      sortValue: (flag) => flag.key.toLowerCase(),
      cell: (flag) => (
        <span className="flex min-w-40 items-center gap-3 py-1.5 max-sm:max-w-48">
          <FlagSwitch flag={flag} onReview={onReview} />
          <span className="min-w-0">
            <Link
              to="/project/$projectId/feature_flags/$id"
              params={{ projectId, id: String(flag.id) }}
              className="line-clamp-3 font-medium wrap-anywhere hover:underline"
            >
              {flag.key}
            </Link>
            {flag.name && (
              <span className="block max-w-38 truncate 2xl:max-w-80 text-xs text-muted max-sm:hidden">
                {flag.name}
              </span>
            )}
          </span>
          {flag.status === "STALE" && <Badge tone="warn">Stale</Badge>}
          {flag.archived && <Badge>Archived</Badge>}
        </span>
      ),
    },
    {
      id: "type",
      header: "Kind",
      className: "whitespace-nowrap",
      sortValue: (flag) => KIND_LABELS[kindOf(flag)],
      cell: (flag) => KIND_LABELS[kindOf(flag)],
    },
    { id: "rollout", header: "Rollout", cell: (flag) => <RolloutCell flag={flag} /> },
    { id: "reach", header: "Reach", align: "right", cell: (flag) => <ReachCell flag={flag} /> },
    {
      id: "called",
      header: "Last called",
      className: "text-muted whitespace-nowrap",
      sortValue: (flag) => flag.last_called_at,
      cell: (flag) => (flag.last_called_at ? <RelativeTime at={flag.last_called_at} /> : "Never"),
    },
    {
      id: "tags",
      header: "Tags",
      cell: (flag) => (
        <span className="flex gap-1">
          {flag.tags.map((name) => (
            <Link
              key={name}
              from="/project/$projectId/feature_flags"
              search={(before) => ({ ...before, tag: name })}
              className="inline-flex h-6 items-center rounded hover:underline"
              aria-label={`Only flags with the tag ${name}`}
            >
              <Badge>{name}</Badge>
            </Link>
          ))}
        </span>
      ),
    },
    {
      id: "actions",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      width: 52,
      cell: (flag) => {
        const { allowed, reason } = mayEdit(flag);
        const { fields } = baseOf(flag);
        return (
          <Menu
            align="end"
            trigger={
              <IconButton size="sm" label={`Actions of ${flag.key}`}>
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              { label: "Copy", icon: <Copy />, onSelect: () => onCopy(flag) },
              {
                label: "Copy to other projects",
                icon: <Folders />,
                onSelect: () => onCopyToProjects(flag),
              },
              "separator",
              {
                label: "Delete",
                icon: <Trash2 />,
                danger: true,
                disabledReason: allowed ? undefined : reason,
                onSelect: () => onReview(flag, { ...fields, deleted: true }),
              },
            ]}
          />
        );
      },
    },
  ];
}

/// Switches nothing by itself: it opens the review.
function FlagSwitch({ flag, onReview }: { flag: Flag; onReview: ColumnsOf["onReview"] }) {
  const { allowed, reason } = mayEdit(flag);
  const control = (
    <Switch
      label={`${flag.key} is on`}
      hideLabel
      checked={flag.active}
      disabled={!allowed}
      onChange={(active) => {
        const { fields } = baseOf(flag);
        onReview(flag, { ...fields, active, archived: active ? false : fields.archived });
      }}
    />
  );
  return allowed ? (
    control
  ) : (
    <Tooltip label={reason}>
      <span>{control}</span>
    </Tooltip>
  );
}
