import { useMutation, useQueries } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleAlert, CircleCheck, Folders } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { errorMessage } from "@/api/errors";
import { useProjects } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { useProject } from "@/shell/useProject";
import { Badge, Button, Checkbox, Dialog, EmptyState, ErrorPanel, SkeletonRows } from "@/ui";
import { count, exact } from "@/ui/format";
import { type CopyOutcome, copyOutcome, TARGETS_MAX } from "./model/severalFlags";

/// More flags than these are copied without looking up first where they exist.
const LOOKED_UP_MAX = 20;

export interface CopyFlagsDialogProps {
  flags: readonly { key: string }[];
  onClose: () => void;
  /// All were copied to every project chosen.
  onDone?: () => void;
}

/// Copies flags to other projects of the organization, and says what could not be copied.
export function CopyFlagsDialog({ flags, onClose, onDone }: CopyFlagsDialogProps) {
  const { projectId, project } = useProject();
  const projects = useProjects();
  const [targets, setTargets] = useState<readonly number[]>([]);
  const [switchedOff, setSwitchedOff] = useState(true);
  const [done, setDone] = useState(0);
  const others = (projects.data?.results ?? []).filter(
    ({ id, organization }) => organization === project.organization && String(id) !== projectId,
  );
  const there = useQueries({
    queries: (flags.length <= LOOKED_UP_MAX ? flags : []).map(({ key }) => ({
      queryKey: ["flag_in_projects", project.organization, key],
      staleTime: 0,
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        call(
          api.GET("/api/organizations/{organization_id}/feature_flags/{key}", {
            params: { path: { organization_id: project.organization, key } },
            signal,
          }),
        ),
    })),
  });
  const existing = there.flatMap(({ data }) => data ?? []);
  const copy = useMutation({
    mutationFn: async () => {
      const answers: [string, Schemas["CopiedFlags"] | string][] = [];
      for (const { key } of flags) {
        setDone(answers.length);
        answers.push([key, await copyOne(project.organization, projectId, key)]);
      }
      return copyOutcome(answers, targets);
    },
    onSuccess: ({ failed }) => {
      void queryClient.invalidateQueries({ queryKey: ["feature_flags"] });
      void queryClient.invalidateQueries({ queryKey: ["flag_in_projects"] });
      if (failed.length === 0) onDone?.();
    },
  });
  const copyOne = async (organization: string, from: string, key: string) => {
    try {
      return await call(
        api.POST("/api/organizations/{organization_id}/feature_flags/copy_flags", {
          params: { path: { organization_id: organization } },
          body: {
            feature_flag_key: key,
            from_project: Number(from),
            target_project_ids: [...targets],
            disable_copied_flag: switchedOff,
          },
        }),
      );
    } catch (error) {
      // The others go on.
      return errorMessage(error);
    }
  };
  const what = flags.length === 1 ? flags[0]?.key : count(flags.length, "flag");
  const nameOf = (id: number) =>
    others.find((other) => other.id === id)?.name ?? `Project ${exact(id)}`;
  const toggle = (id: number, on: boolean) =>
    setTargets(on ? [...targets, id] : targets.filter((other) => other !== id));
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && !copy.isPending && onClose()}
      title={copy.data ? `Copy of ${what}` : `Copy ${what} to other projects`}
      description={
        copy.data
          ? undefined
          : "Conditions, variants, payloads and tags go along. Cohorts and flags that conditions name are looked for there, by name and key."
      }
      footer={
        copy.data || others.length === 0 ? (
          <Button variant="primary" onClick={onClose}>
            Close
          </Button>
        ) : (
          <>
            <Button disabled={copy.isPending} onClick={onClose}>
              Cancel
            </Button>
            <Button
              variant="primary"
              busy={copy.isPending}
              disabledReason={targets.length === 0 ? "Choose a project first." : undefined}
              onClick={() => copy.mutate()}
            >
              {copy.isPending && flags.length > 1
                ? `Copying ${exact(done + 1)} of ${exact(flags.length)}`
                : targets.length > 0
                  ? `Copy to ${count(targets.length, "project")}`
                  : "Copy"}
            </Button>
          </>
        )
      }
    >
      {copy.data ? (
        <Outcome outcome={copy.data} nameOf={nameOf} single={flags.length === 1} />
      ) : projects.isPending ? (
        <SkeletonRows rows={3} label="Loading projects" />
      ) : projects.isError ? (
        <ErrorPanel error={projects.error} onRetry={() => projects.refetch()} />
      ) : others.length === 0 ? (
        <EmptyState
          icon={<Folders aria-hidden />}
          title="There is no other project"
          className="py-4"
        >
          Flags are copied between the projects of one organization.
        </EmptyState>
      ) : (
        <div className="flex flex-col gap-4">
          <fieldset className="flex flex-col gap-1">
            <legend className="mb-1 font-medium">Projects</legend>
            {others.map(({ id, name }) => {
              const found = existing.filter(({ team_id }) => team_id === id);
              return (
                <div key={id} className="flex min-h-7 items-center gap-2">
                  <Checkbox
                    label={<span className="wrap-anywhere">{name}</span>}
                    className="min-w-0 flex-1"
                    checked={targets.includes(id)}
                    disabled={targets.length >= TARGETS_MAX && !targets.includes(id)}
                    onChange={(on) => toggle(id, on)}
                  />
                  {found.length > 0 && (
                    <Badge tone={found.some(({ active }) => active) ? "warn" : "neutral"}>
                      {flags.length === 1
                        ? `exists, ${found[0]?.active ? "on" : "off"}`
                        : `${exact(found.length)} ${found.length === 1 ? "exists" : "exist"}`}
                    </Badge>
                  )}
                </div>
              );
            })}
          </fieldset>
          <div className="flex flex-col gap-1">
            <Checkbox
              label={
                flags.length === 1 ? "Leave it switched off there" : "Leave them switched off there"
              }
              checked={switchedOff}
              onChange={setSwitchedOff}
            />
            <p className="pl-6.5 text-muted">
              {switchedOff
                ? "Nobody gets a copy before somebody switches it on there, through the review."
                : "Copies are on or off as here, at once."}{" "}
              A flag that has the same key there is replaced{switchedOff && ", and switched off"}.
            </p>
          </div>
        </div>
      )}
    </Dialog>
  );
}

interface OutcomeProps {
  outcome: CopyOutcome;
  nameOf: (projectId: number) => string;
  single: boolean;
}

function Outcome({ outcome: { copied, failed }, nameOf, single }: OutcomeProps) {
  return (
    <div className="flex flex-col gap-4" role="status">
      {failed.length > 0 && (
        <section className="flex flex-col gap-1.5">
          <h3 className="flex items-center gap-1.5 font-medium text-danger">
            <CircleAlert className="size-4" aria-hidden />
            Not copied
          </h3>
          <ul className="flex flex-col gap-1.5">
            {failed.map(({ key, projectId, reason }) => (
              <li key={`${key} ${projectId}`} className="rounded-md bg-sunken px-3 py-2">
                <span className="font-medium wrap-anywhere">
                  {single ? nameOf(projectId) : `${key} → ${nameOf(projectId)}`}
                </span>
                <span className="block text-muted">{reason}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      {copied.length > 0 && (
        <section className="flex flex-col gap-1.5">
          <h3 className="flex items-center gap-1.5 font-medium">
            <CircleCheck className="size-4 text-accent-text" aria-hidden />
            Copied
          </h3>
          <ul className="flex flex-col">
            {copied.map(({ id, key, team_id: target, active }) => (
              <li key={id} className="flex min-h-7 items-center gap-2">
                <Link
                  to="/project/$projectId/feature_flags/$id"
                  params={{ projectId: String(target), id: String(id) }}
                  search={{}}
                  className="inline-flex min-h-6 items-center wrap-anywhere hover:underline"
                >
                  {single ? nameOf(target) : `${key} → ${nameOf(target)}`}
                </Link>
                <Badge tone={active ? "accent" : "neutral"}>{active ? "On" : "Off"}</Badge>
              </li>
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}
