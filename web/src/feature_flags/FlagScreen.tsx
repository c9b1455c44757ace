import { Link, useLocation, useNavigate, useRouter } from "@tanstack/react-router";
import {
  Archive,
  ArchiveRestore,
  Copy,
  EllipsisVertical,
  Folders,
  Redo2,
  Trash2,
  Undo2,
  UsersRound,
} from "lucide-react";
import { type ReactNode, Suspense, useEffect, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { lazy } from "@/api/lazy";
import { mayEdit } from "@/api/permissions";
import { useFragmentDraft } from "@/shell/useFragmentDraft";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  IconButton,
  Menu,
  Page,
  PageHeader,
  PanelBoundary,
  RelativeTime,
  SkeletonRows,
  Tabs,
  toast,
} from "@/ui";
import { copyFragment } from "./copy";
import type { Flag } from "./flagApi";
import {
  baseOf,
  type DraftBase,
  decodeFlagDraft,
  encodeFlagDraft,
  type FlagDraft,
  newDraft,
  sameDraft,
  withoutBlankPayloads,
} from "./model/draft";
import { problemsOf } from "./model/problems";
import type { FLAG_TABS } from "./routes";
import { useFlagChanges } from "./useFlagChanges";

const FlagForm = lazy(async () => ({ default: (await import("./editor/FlagForm")).FlagForm }));
const ReviewDialog = lazy(async () => ({
  default: (await import("./review/ReviewDialog")).ReviewDialog,
}));
const CopyFlagsDialog = lazy(async () => ({
  default: (await import("./CopyFlagsDialog")).CopyFlagsDialog,
}));
const WhyTab = lazy(async () => ({ default: (await import("./tabs/WhyTab")).WhyTab }));
const UsageTab = lazy(async () => ({ default: (await import("./tabs/UsageTab")).UsageTab }));
const HistoryTab = lazy(async () => ({ default: (await import("./tabs/HistoryTab")).HistoryTab }));
const AccessTab = lazy(async () => ({ default: (await import("./tabs/AccessTab")).AccessTab }));
const CodeTab = lazy(async () => ({ default: (await import("./tabs/CodeTab")).CodeTab }));

export interface FlagPlace {
  tab?: (typeof FLAG_TABS)[number];
  entry?: string;
  who?: string;
  groups?: Record<string, string>;
}

export interface FlagScreenProps {
  /// Null for a flag that does not exist yet.
  flag: Flag | null;
  search: FlagPlace;
  onCreated?: (flag: Flag) => void;
}

const NEW: DraftBase = { version: 0, fields: newDraft() };

/// One flag: its settings as a draft, and what is known about it.
export function FlagScreen({ flag, search, onCreated }: FlagScreenProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const router = useRouter();
  useFlagChanges(projectId);
  const fragment = useLocation({ select: () => router.history.location.hash });
  const stored = useMemo(() => (flag ? baseOf(flag) : NEW), [flag]);
  const [base, setBase] = useState<DraftBase>(
    () => decodeFlagDraft(fragment, stored.fields)?.base ?? stored,
  );
  const draft = useFragmentDraft<FlagDraft>(base.fields, {
    encode: (value) => encodeFlagDraft(base, value),
    decode: (text) => decodeFlagDraft(text, base.fields)?.draft ?? null,
    same: sameDraft,
  });
  const { value, isChanged, edit } = draft;
  // Without edits, the screen follows what is stored.
  useEffect(() => {
    if (isChanged || stored.version === base.version) return;
    setBase(stored);
    edit(stored.fields);
  }, [stored, base.version, isChanged, edit]);

  const [review, setReview] = useState<FlagDraft | null>(null);
  const [copying, setCopying] = useState(false);
  const [tried, setTried] = useState(false);
  const problems = useMemo(() => problemsOf(value), [value]);
  const permission = flag ? mayEdit(flag) : { allowed: true, reason: "" };
  const disabledReason = permission.allowed ? undefined : permission.reason;

  const ask = () => {
    if (disabledReason) return toast.info(disabledReason);
    if (flag && !isChanged) return toast.info("There is nothing to save.");
    setTried(true);
    if (problems.length > 0) {
      goTo(undefined);
      toast.info(problems[0]?.text ?? "Something is missing.");
      return;
    }
    const whole = withoutBlankPayloads(value);
    edit(whole);
    setReview(whole);
  };
  useKeys([{ key: "mod+s", run: ask }]);

  const goTo = (tab: FlagPlace["tab"]) =>
    navigate({
      to: ".",
      search: (() => ({ tab })) as never,
      hash: true,
      resetScroll: false,
    });
  const onSaved = (saved: Flag) => {
    setReview(null);
    setTried(false);
    if (!flag) {
      onCreated?.(saved);
      return;
    }
    // Edits that were not part of the review stay a draft.
    if (isChanged && review && !sameDraft(review, value)) return;
    const next = baseOf(saved);
    setBase(next);
    edit(next.fields);
  };
  /// The draft over what somebody else saved meanwhile.
  const onMerged = (theirs: DraftBase, merged: FlagDraft) => {
    setBase(theirs);
    edit(merged);
    setReview(merged);
  };

  const title = flag ? flag.key : "New feature flag";
  const settings = panel(
    <FlagForm
      draft={value}
      flagId={flag?.id ?? null}
      edit={edit}
      problems={problems}
      readOnly={disabledReason}
      showProblems={tried}
    />,
  );
  return (
    <Page>
      <PageHeader
        sticky
        title={title}
        eyebrow={<FlagsLink projectId={projectId} />}
        heading={
          <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1">
            <h1 className="min-w-0 text-xl font-semibold tracking-tight wrap-anywhere">{title}</h1>
            {flag && <States flag={flag} isChanged={isChanged} />}
          </div>
        }
        actions={
          <>
            {isChanged && (
              <>
                <IconButton
                  label="Undo the last edit"
                  disabled={!draft.canUndo}
                  onClick={draft.undo}
                >
                  <Undo2 aria-hidden />
                </IconButton>
                <IconButton label="Redo" disabled={!draft.canRedo} onClick={draft.redo}>
                  <Redo2 aria-hidden />
                </IconButton>
                <Button variant="ghost" onClick={draft.discard}>
                  Discard
                </Button>
              </>
            )}
            {(isChanged || !flag) && (
              <Button
                variant="primary"
                className="max-md:hidden"
                disabledReason={disabledReason}
                onClick={ask}
              >
                Review and save
              </Button>
            )}
            {flag && (
              <FlagMenu
                flag={flag}
                disabledReason={disabledReason}
                base={stored}
                onReview={setReview}
                onCopyToProjects={() => setCopying(true)}
              />
            )}
          </>
        }
      />
      {flag?.deleted && (
        <p className="mb-4 flex flex-wrap items-center gap-3 rounded-md bg-warn-soft px-3 py-2 text-warn">
          This flag is deleted: it does not exist for code.
          <Button
            size="sm"
            disabledReason={disabledReason}
            onClick={() => setReview({ ...stored.fields, deleted: false })}
          >
            Restore
          </Button>
        </p>
      )}
      {flag && stored.version !== base.version && (
        <p role="status" className="mb-4 rounded-md bg-info-soft px-3 py-2 text-info">
          Somebody saved this flag since you began to edit. Saving merges both, and asks where they
          differ.
        </p>
      )}
      {flag ? (
        <Tabs
          label="Feature flag"
          value={search.tab ?? "settings"}
          onChange={(tab) => goTo(tab === "settings" ? undefined : (tab as FlagPlace["tab"]))}
          items={[
            { value: "settings", label: "Settings", panel: settings },
            {
              value: "why",
              label: "Why",
              panel: panel(
                <WhyTab flag={flag} base={base} draft={isChanged ? value : null} search={search} />,
              ),
            },
            { value: "usage", label: "Usage", panel: panel(<UsageTab flag={flag} />) },
            {
              value: "history",
              label: "History",
              panel: panel(
                <HistoryTab
                  flag={flag}
                  openEntry={search.entry}
                  onRestore={(version) => {
                    setBase(stored);
                    edit(version);
                    setReview(version);
                  }}
                />,
              ),
            },
            { value: "access", label: "Access", panel: panel(<AccessTab flag={flag} />) },
            { value: "code", label: "Code", panel: panel(<CodeTab flag={value} />) },
          ]}
        />
      ) : (
        settings
      )}
      {(isChanged || !flag) && (
        // Within reach of the thumb, above the bottom bar.
        <div className="sticky bottom-[calc(3.3125rem+env(safe-area-inset-bottom))] z-10 -mx-4 mt-4 flex flex-col border-t bg-bg px-4 py-2 sm:-mx-6 sm:px-6 md:hidden">
          <Button
            variant="primary"
            size="lg"
            className="w-full"
            disabledReason={disabledReason}
            onClick={ask}
          >
            Review and save
          </Button>
        </div>
      )}
      <Suspense>
        {flag && copying && <CopyFlagsDialog flags={[flag]} onClose={() => setCopying(false)} />}
        {review && (
          <ReviewDialog
            flag={flag}
            base={sameDraft(review, value) ? base : stored}
            draft={review}
            onClose={() => setReview(null)}
            onSaved={onSaved}
            onMerged={onMerged}
          />
        )}
      </Suspense>
    </Page>
  );
}

function panel(content: ReactNode) {
  return (
    <PanelBoundary>
      <Suspense fallback={<SkeletonRows />}>{content}</Suspense>
    </PanelBoundary>
  );
}

function States({ flag, isChanged }: { flag: Flag; isChanged: boolean }) {
  return (
    <span className="flex flex-wrap items-center gap-1.5">
      <Badge tone={flag.active ? "accent" : "neutral"}>{flag.active ? "On" : "Off"}</Badge>
      {flag.status === "STALE" && <Badge tone="warn">Stale</Badge>}
      {flag.archived && <Badge>Archived</Badge>}
      {flag.deleted && <Badge tone="danger">Deleted</Badge>}
      {isChanged && <Badge tone="info">Unsaved draft</Badge>}
      <span className="text-xs text-muted">
        {flag.last_called_at ? (
          <>
            last called <RelativeTime at={flag.last_called_at} />
          </>
        ) : (
          "never called"
        )}
      </span>
    </span>
  );
}

interface FlagMenuProps {
  flag: Flag;
  base: DraftBase;
  disabledReason?: string;
  onReview: (draft: FlagDraft) => void;
  onCopyToProjects: () => void;
}

function FlagMenu({ flag, base, disabledReason, onReview, onCopyToProjects }: FlagMenuProps) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const fields = base.fields;
  const makeCohort = async () => {
    try {
      const { cohort } = await call(
        api.POST("/api/projects/{project_id}/feature_flags/{id}/create_static_cohort_for_flag", {
          params: { path: { project_id: projectId, id: flag.id } },
        }),
      );
      toast.success("Cohort created", {
        description: `${cohort.name}. It fills in the background.`,
      });
    } catch (error) {
      toast.error(error, "No cohort was created");
    }
  };
  return (
    <Menu
      align="end"
      trigger={
        <IconButton label="More actions" variant="secondary">
          <EllipsisVertical aria-hidden />
        </IconButton>
      }
      items={[
        {
          label: "Copy",
          icon: <Copy />,
          onSelect: () =>
            void navigate({
              to: "/project/$projectId/feature_flags/new",
              params: { projectId },
              hash: copyFragment(flag),
            }),
        },
        {
          label: "Copy to other projects",
          icon: <Folders />,
          disabledReason: flag.deleted ? "It is deleted." : undefined,
          onSelect: onCopyToProjects,
        },
        {
          label: "Cohort of who has it on",
          icon: <UsersRound />,
          disabledReason,
          onSelect: () => void makeCohort(),
        },
        "separator",
        flag.archived
          ? {
              label: "Take from the archive",
              icon: <ArchiveRestore />,
              disabledReason,
              onSelect: () => onReview({ ...fields, archived: false }),
            }
          : {
              label: "Archive",
              icon: <Archive />,
              disabledReason,
              onSelect: () => onReview({ ...fields, archived: true, active: false }),
            },
        {
          label: "Delete",
          icon: <Trash2 />,
          danger: true,
          disabledReason: flag.deleted ? "It is deleted." : disabledReason,
          onSelect: () => onReview({ ...fields, deleted: true }),
        },
      ]}
    />
  );
}

/// Back to the list.
export function FlagsLink({ projectId }: { projectId: string }) {
  return (
    <Link
      to="/project/$projectId/feature_flags"
      params={{ projectId }}
      className="inline-flex min-h-6 items-center hover:underline"
    >
      Feature flags
    </Link>
  );
}
