import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { ChartNoAxesCombined, History, Plus, Trash2 } from "lucide-react";
import { Suspense, useEffect, useState } from "react";
import { ApiError, fieldError, isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { mayEdit } from "@/api/permissions";
import { TagsInput } from "@/insights/TagsInput";
import { RouteNotFound } from "@/shell/routeStates";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Button,
  buttonClass,
  Card,
  ErrorPanel,
  Field,
  Input,
  Page,
  PageHeader,
  PanelBoundary,
  Skeleton,
  SkeletonRows,
  Textarea,
  toast,
} from "@/ui";
import { type Action, actionQuery, saveAction, trendOfAction, useDeleteAction } from "./actionApi";
import { StepEditor } from "./StepEditor";
import { cleanSteps, type Step } from "./steps";

const MatchingEvents = lazy(() =>
  import("./MatchingEvents").then((module) => ({ default: module.MatchingEvents })),
);

interface Draft {
  name: string;
  description: string;
  tags: string[];
  steps: Step[];
}

const STEPS_MAX = 100;
const newRoute = getRouteApi("/project/$projectId/data-management/actions/new");
const route = getRouteApi("/project/$projectId/data-management/actions/$actionId");

export function NewActionPage() {
  const { event } = newRoute.useSearch();
  return <ActionEditor action={null} initialEvent={event} />;
}

export function ActionPage() {
  const { projectId } = useProject();
  const { actionId } = route.useParams();
  const query = useQuery(actionQuery(projectId, Number(actionId)));
  if (query.isError) {
    if (isHidden(query.error)) return <RouteNotFound />;
    return (
      <Page>
        <PageHeader title="Action" />
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      </Page>
    );
  }
  if (!query.data) {
    return (
      <Page>
        <PageHeader title="Action" />
        <SkeletonRows label="Loading the action" />
      </Page>
    );
  }
  return <ActionEditor key={query.data.id} action={query.data} />;
}

function draftOf(action: Action | null, event?: string): Draft {
  return action
    ? {
        name: action.name,
        description: action.description,
        tags: action.tags,
        steps: action.steps.length > 0 ? action.steps : [{}],
      }
    : { name: "", description: "", tags: [], steps: [event ? { event } : {}] };
}

function sent({ name, description, tags, steps }: Draft) {
  return { name: name.trim(), description, tags, steps: cleanSteps(steps) };
}

/// What is typed survives a reload and an expired session.
function useDraft(key: string, saved: Draft): [Draft, (draft: Draft | null) => void] {
  const [draft, setDraft] = useState<Draft | null>(() => {
    try {
      return JSON.parse(sessionStorage.getItem(key) ?? "null") as Draft | null;
    } catch {
      return null;
    }
  });
  useEffect(() => {
    if (draft) sessionStorage.setItem(key, JSON.stringify(draft));
    else sessionStorage.removeItem(key);
  }, [key, draft]);
  return [draft ?? saved, setDraft];
}

function ActionEditor({ action, initialEvent }: { action: Action | null; initialEvent?: string }) {
  const { projectId } = useProject();
  const navigate = useNavigate();
  const client = useQueryClient();
  const saved = draftOf(action, initialEvent);
  const [draft, setDraft] = useDraft(
    `hedgerow.action.${projectId}.${action?.id ?? `new.${initialEvent ?? ""}`}`,
    saved,
  );
  const { allowed, reason } = action ? mayEdit(action) : { allowed: true, reason: "" };
  const isChanged = JSON.stringify(sent(draft)) !== JSON.stringify(sent(saved));
  const stepsChanged =
    JSON.stringify(cleanSteps(draft.steps)) !== JSON.stringify(cleanSteps(saved.steps));
  const save = useMutation({
    mutationFn: () => saveAction(projectId, action?.id ?? null, sent(draft)),
    onSuccess: (stored) => {
      client.setQueryData(actionQuery(projectId, stored.id).queryKey, stored);
      void client.invalidateQueries({ queryKey: ["actions", projectId] });
      setDraft(null);
      toast.success(action ? "Saved" : "Action created");
      if (!action) {
        void navigate({
          to: "/project/$projectId/data-management/actions/$actionId",
          params: { projectId, actionId: String(stored.id) },
          replace: true,
        });
      }
    },
  });
  const remove = useDeleteAction(projectId);
  const edit = (part: Partial<Draft>) => setDraft({ ...draft, ...part });
  const setStep = (at: number, step: Step) =>
    edit({ steps: draft.steps.map((one, index) => (index === at ? step : one)) });
  const maySave = allowed && (isChanged || !action);
  useKeys([{ key: "mod+s", run: () => maySave && !save.isPending && save.mutate() }]);
  const { error } = save;
  const attr = error instanceof ApiError ? (error.attr ?? "") : "";
  const isFieldError = attr === "name" || attr === "description" || attr.startsWith("steps__");
  return (
    <Page>
      <PageHeader
        title={action ? action.name || "Untitled action" : "New action"}
        eyebrow={
          <Link
            to="/project/$projectId/data-management/actions"
            params={{ projectId }}
            className="hover:underline"
          >
            Actions
          </Link>
        }
        actions={
          <>
            {action && (
              <>
                <Link
                  to="/project/$projectId/insights/new"
                  params={{ projectId }}
                  hash={trendOfAction(action)}
                  className={buttonClass()}
                >
                  <ChartNoAxesCombined aria-hidden />
                  New insight
                </Link>
                <Link
                  to="/project/$projectId/activity-log"
                  params={{ projectId }}
                  search={{ scope: "Action", item: String(action.id) }}
                  className={buttonClass()}
                >
                  <History aria-hidden />
                  History
                </Link>
                <Button
                  icon={<Trash2 aria-hidden />}
                  disabledReason={allowed ? undefined : reason}
                  onClick={async () => {
                    if (!(await remove(action))) return;
                    void navigate({
                      to: "/project/$projectId/data-management/actions",
                      params: { projectId },
                    });
                  }}
                >
                  Delete
                </Button>
              </>
            )}
            {action && isChanged && <Button onClick={() => setDraft(null)}>Discard</Button>}
            <Button
              variant="primary"
              busy={save.isPending}
              disabled={allowed && !maySave}
              disabledReason={allowed ? undefined : reason}
              onClick={() => save.mutate()}
            >
              {action ? (isChanged ? "Save" : "Saved") : "Create action"}
            </Button>
          </>
        }
      />
      <div className="flex flex-col gap-4">
        {!allowed && <p className="rounded-md bg-sunken px-3 py-2 text-muted">{reason}</p>}
        {error && !isFieldError && (
          <Card>
            <ErrorPanel error={error} title="Could not save" className="py-2" />
          </Card>
        )}
        <Card>
          <div className="grid gap-3 sm:grid-cols-2">
            <Field label="Name" error={fieldError(error, "name")}>
              <Input
                required
                maxLength={400}
                value={draft.name}
                readOnly={!allowed}
                placeholder="Clicked “Buy now”"
                onChange={(event) => edit({ name: event.currentTarget.value })}
              />
            </Field>
            <Field label="Tags">
              {allowed ? (
                <TagsInput value={draft.tags} onChange={(tags) => edit({ tags })} />
              ) : (
                <p>{draft.tags.join(", ") || "None"}</p>
              )}
            </Field>
            <Field
              label="Description"
              error={fieldError(error, "description")}
              className="sm:col-span-2"
            >
              <Textarea
                rows={2}
                value={draft.description}
                readOnly={!allowed}
                onChange={(event) => edit({ description: event.currentTarget.value })}
              />
            </Field>
          </div>
        </Card>
        <section className="flex flex-col gap-3" aria-label="Steps">
          <h2 className="font-semibold">An event matches if it fits any of these steps</h2>
          {draft.steps.map((step, at) => (
            <StepEditor
              // biome-ignore lint/suspicious/noArrayIndexKey: a step has no id.
              key={at}
              step={step}
              number={at + 1}
              disabled={!allowed}
              errorOf={(field) =>
                attr.startsWith(`steps__${at}__${field}`) && error instanceof ApiError
                  ? error.detail
                  : undefined
              }
              onChange={(next) => setStep(at, next)}
              onRemove={
                draft.steps.length > 1
                  ? () => edit({ steps: draft.steps.filter((_, index) => index !== at) })
                  : undefined
              }
            />
          ))}
          {allowed && draft.steps.length < STEPS_MAX && (
            <div>
              <Button
                icon={<Plus aria-hidden />}
                onClick={() => edit({ steps: [...draft.steps, {}] })}
              >
                Add step
              </Button>
            </div>
          )}
        </section>
        <PanelBoundary>
          <Suspense fallback={<Skeleton className="h-60" />}>
            <MatchingEvents
              steps={cleanSteps(draft.steps)}
              actionId={action && !stepsChanged ? action.id : null}
            />
          </Suspense>
        </PanelBoundary>
      </div>
    </Page>
  );
}
