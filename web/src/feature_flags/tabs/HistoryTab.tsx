import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { ChevronRight, History, RotateCcw } from "lucide-react";
import { useMemo } from "react";
import { api, call } from "@/api/client";
import { mayEdit } from "@/api/permissions";
import { actorName } from "@/home/flagChanges";
import { sameJson } from "@/shell/fragment";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Card,
  CopyButton,
  cx,
  EmptyState,
  ErrorPanel,
  RelativeTime,
  SkeletonRows,
} from "@/ui";
import type { Flag } from "../flagApi";
import { changedFields, draftOf, type FlagDraft } from "../model/draft";
import { partLabel } from "../model/merge";
import { type Entry, versionAfter } from "../model/restore";
import { changeSentences } from "../model/sentences";
import { useNames } from "../useNames";

const PAGE = 30;

export interface HistoryTabProps {
  flag: Flag;
  /// The entry that the URL names.
  openEntry?: string;
  onRestore: (version: FlagDraft) => void;
}

interface Version {
  entry: Entry;
  before: FlagDraft;
  after: FlagDraft;
}

/// Every entry with the flag before and after it. The newest comes first.
function versions(now: FlagDraft, entries: readonly Entry[]): Version[] {
  let after = now;
  return entries.map((entry) => {
    const before = versionAfter(after, [entry]);
    const version = { entry, before, after };
    after = before;
    return version;
  });
}

export function HistoryTab({ flag, openEntry, onRestore }: HistoryTabProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const query = useInfiniteQuery({
    queryKey: ["flag_history", projectId, flag.id],
    initialPageParam: 1,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/feature_flags/{id}/activity", {
          params: {
            path: { project_id: projectId, id: flag.id },
            query: { limit: PAGE, page: pageParam },
          },
          signal,
        }),
      ),
    getNextPageParam: (last, pages) => (last.next ? pages.length + 1 : undefined),
  });
  const all = useMemo(
    () =>
      versions(
        draftOf(flag),
        (query.data?.pages ?? []).flatMap(({ results }) => results),
      ),
    [flag, query.data],
  );
  if (query.isPending) return <SkeletonRows />;
  if (query.isError) return <ErrorPanel error={query.error} onRetry={() => query.refetch()} />;
  if (all.length === 0) {
    return (
      <Card>
        <EmptyState icon={<History aria-hidden />} title="No history yet">
          Who changed this flag, what and when, shows here.
        </EmptyState>
      </Card>
    );
  }
  const open = (entry: string | undefined) =>
    navigate({
      to: ".",
      search: (() => ({ tab: "history", entry })) as never,
      hash: true,
      replace: true,
      resetScroll: false,
    });
  return (
    <Card flush>
      <ol aria-label="History" className="flex flex-col divide-y">
        {all.map((version, at) => (
          <Item
            key={version.entry.id}
            version={version}
            flag={flag}
            isNewest={at === 0}
            isOpen={openEntry === version.entry.id}
            onToggle={(isOpen) => void open(isOpen ? version.entry.id : undefined)}
            onRestore={() => onRestore(version.after)}
          />
        ))}
      </ol>
      {query.hasNextPage && (
        <div className="border-t p-2 text-center">
          <Button busy={query.isFetchingNextPage} onClick={() => query.fetchNextPage()}>
            Show more
          </Button>
        </div>
      )}
    </Card>
  );
}

interface ItemProps {
  version: Version;
  flag: Flag;
  isNewest: boolean;
  isOpen: boolean;
  onToggle: (open: boolean) => void;
  onRestore: () => void;
}

const VERBS: Record<string, string> = {
  created: "created it",
  deleted: "deleted it",
  restored: "restored it",
};

function Item({ version, flag, isNewest, isOpen, onToggle, onRestore }: ItemProps) {
  const { projectId } = useProject();
  const names = useNames();
  const { entry, before, after } = version;
  const created = entry.activity === "created";
  const sentences = created ? [] : changeSentences(before, after, names);
  const { allowed, reason } = mayEdit(flag);
  const link = `${window.location.origin}/project/${projectId}/feature_flags/${flag.id}?tab=history&entry=${entry.id}`;
  const isSame = sameJson(after, draftOf(flag));
  return (
    <li className="px-3 py-2.5">
      <div className="flex items-start gap-2">
        <button
          type="button"
          aria-expanded={isOpen}
          aria-label={`Details of the change by ${actorName(entry)}`}
          disabled={created}
          onClick={() => onToggle(!isOpen)}
          className="grid size-6 shrink-0 place-items-center rounded text-muted hover:bg-hover disabled:opacity-40"
        >
          <ChevronRight
            className={cx("size-4 transition-transform", isOpen && "rotate-90")}
            aria-hidden
          />
        </button>
        <div className="min-w-0 flex-1">
          <p>
            <strong>{actorName(entry)}</strong>{" "}
            {VERBS[entry.activity] ?? (sentences.length === 0 ? "saved it" : "changed it")}{" "}
            <span className="text-xs text-muted">
              <RelativeTime at={entry.created_at} />
            </span>
          </p>
          {sentences.length > 0 && (
            <ul className="mt-0.5 text-muted">
              {sentences.slice(0, isOpen ? undefined : 3).map((sentence) => (
                <li key={sentence} className="wrap-anywhere">
                  {sentence}
                </li>
              ))}
              {!isOpen && sentences.length > 3 && <li>and {sentences.length - 3} more</li>}
            </ul>
          )}
        </div>
        {!isNewest && !isSame && (
          <Button
            size="sm"
            icon={<RotateCcw aria-hidden />}
            disabledReason={allowed ? undefined : reason}
            aria-label="Restore this version"
            onClick={onRestore}
          >
            <span className="max-sm:hidden">Restore</span>
          </Button>
        )}
      </div>
      {isOpen && !created && (
        <div className="mt-2 ml-8 flex flex-col gap-3">
          {changedFields(before, after).map((field) => (
            <div key={field}>
              <p className="mb-1 text-xs font-medium text-muted">
                {field === "filters" ? "Conditions, variants and payloads" : partLabel(field)}
              </p>
              <div className="grid gap-2 md:grid-cols-2">
                <Side label="Before" value={before[field]} />
                <Side label="After" value={after[field]} />
              </div>
            </div>
          ))}
          <div>
            <CopyButton withLabel label="Copy link to this change" text={link} />
          </div>
        </div>
      )}
    </li>
  );
}

function Side({ label, value }: { label: string; value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value ?? null, null, 2);
  return (
    <section
      aria-label={label}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
      tabIndex={0}
      className="scroll-thin max-h-72 overflow-auto rounded-md border bg-sunken p-2"
    >
      <p className="mb-1 text-xs text-muted">{label}</p>
      <pre className="font-mono text-xs whitespace-pre-wrap wrap-anywhere">{text || "(empty)"}</pre>
    </section>
  );
}
