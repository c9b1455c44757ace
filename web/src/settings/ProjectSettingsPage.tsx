import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { Suspense, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { fieldError } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { meQuery } from "@/api/me";
import { mayAdminister } from "@/api/permissions";
import { dashboardsQuery } from "@/insights/insightApi";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Card,
  Combobox,
  Field,
  NumberField,
  PanelBoundary,
  Select,
  Skeleton,
  toast,
} from "@/ui";
import { ConfirmByName } from "./ConfirmByName";
import { PathCleaning } from "./PathCleaning";
import { ProjectKeys } from "./ProjectKeys";
import { GROUPS, linesValue, readLines } from "./projectSettings";
import { SettingsFrame } from "./SettingsFrame";
import { SettingsCard, TextSetting } from "./SimpleSettings";
import { useProjectChange } from "./useProjectChange";

/// With the filter editor, which few visits need.
const TestAccounts = lazy(() =>
  import("./TestAccounts").then((module) => ({ default: module.TestAccounts })),
);

const NOT_SET = "";
const DAY_SECONDS = 86_400;
const WEEK_STARTS = [
  { value: NOT_SET, label: "Sunday (default)" },
  { value: "0", label: "Sunday" },
  { value: "1", label: "Monday" },
];

export function ProjectSettingsPage() {
  return (
    <SettingsFrame title="Project settings">
      <General />
      <ProjectKeys />
      <PanelBoundary>
        <Suspense fallback={<Skeleton className="h-40" />}>
          <TestAccounts />
        </Suspense>
      </PanelBoundary>
      <PathCleaning />
      <Persons />
      {GROUPS.map((group) => (
        <SettingsCard key={group.title} group={group} />
      ))}
      <DeleteProject />
    </SettingsFrame>
  );
}

function General() {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const zones = useMemo(
    () =>
      ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")].map(
        (zone) => ({ value: zone, label: zone }),
      ),
    [],
  );
  const dashboards = useQuery(dashboardsQuery(projectId));
  const failed = (error: Error) => toast.error(error, "Could not change the setting");
  return (
    <Card title="General">
      <div className="flex flex-col gap-3.5">
        <TextSetting
          label="Name"
          saved={project.name}
          busy={change.isPending}
          error={fieldError(change.error, "name") ? change.error : null}
          onSave={(name) => change.mutate({ name: name.trim() })}
        />
        <Field
          label="Time zone"
          hint="Days of charts begin at midnight there."
          className="items-start"
        >
          <Combobox
            label="Time zone"
            className="w-full sm:w-72"
            value={project.timezone}
            options={zones}
            onChange={(timezone) => change.mutate({ timezone }, { onError: failed })}
          />
        </Field>
        <Field label="Weeks start on">
          <Select
            className="w-full sm:w-72"
            value={project.week_start_day === null ? NOT_SET : String(project.week_start_day)}
            options={WEEK_STARTS}
            onChange={(next) =>
              change.mutate(
                { week_start_day: next === "1" ? 1 : next === "0" ? 0 : null },
                { onError: failed },
              )
            }
          />
        </Field>
        <Field label="Dashboard on the home page" className="items-start">
          <Combobox
            label="Dashboard on the home page"
            className="w-full sm:w-72"
            value={String(project.primary_dashboard ?? NOT_SET)}
            options={[
              { value: NOT_SET, label: "None" },
              ...(dashboards.data?.results ?? []).map(({ id, name }) => ({
                value: String(id),
                label: name || `Dashboard ${id}`,
              })),
            ]}
            onChange={(next) =>
              change.mutate(
                { primary_dashboard: next === NOT_SET ? null : Number(next) },
                { onError: failed },
              )
            }
          />
        </Field>
        <TextSetting
          label="Product description"
          rows={2}
          saved={project.product_description ?? ""}
          busy={change.isPending}
          onSave={(text) => change.mutate({ product_description: text.trim() || null })}
        />
      </div>
    </Card>
  );
}

function Persons() {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const seconds = project.drop_events_older_than_seconds;
  const [days, setDays] = useState<number | null>(null);
  const saved = seconds === null ? null : seconds / DAY_SECONDS;
  const shown = days ?? saved;
  return (
    <Card title="Person names and old events">
      <div className="flex flex-col gap-3.5">
        <TextSetting
          label="Properties shown as a person’s name"
          hint="One per line, the preferred one first. Empty: e-mail, then name, then username."
          rows={3}
          placeholder="email"
          saved={linesValue(project.person_display_name_properties)}
          busy={change.isPending}
          error={change.error}
          onSave={(text) => {
            const names = readLines(text);
            change.mutate({ person_display_name_properties: names.length > 0 ? names : null });
          }}
        />
        <div className="flex flex-wrap items-end gap-2">
          <Field
            label="Refuse events older than (days)"
            hint="Empty: events of any age are stored."
            error={fieldError(change.error, "drop_events_older_than_seconds")}
          >
            <NumberField value={shown} min={0} onChange={setDays} className="w-36" />
          </Field>
          {days !== null && days !== saved && (
            <Button
              variant="primary"
              busy={change.isPending}
              onClick={() =>
                change.mutate(
                  {
                    drop_events_older_than_seconds:
                      days > 0 ? Math.round(days * DAY_SECONDS) : null,
                  },
                  { onSuccess: () => setDays(null) },
                )
              }
            >
              Save
            </Button>
          )}
          {saved !== null && (
            <Button
              onClick={() =>
                change.mutate(
                  { drop_events_older_than_seconds: null },
                  { onSuccess: () => setDays(null) },
                )
              }
            >
              Any age
            </Button>
          )}
        </div>
      </div>
    </Card>
  );
}

function DeleteProject() {
  const { projectId, project } = useProject();
  const router = useRouter();
  const client = useQueryClient();
  const [asking, setAsking] = useState(false);
  const { allowed, reason } = mayAdminister(project);
  const remove = useMutation({
    mutationFn: () =>
      call(
        api.DELETE("/api/projects/{project_id}", {
          params: { path: { project_id: projectId } },
        }),
      ),
    onSuccess: async () => {
      toast.success(`Deleted the project “${project.name}”`);
      await client.fetchQuery({ ...meQuery, staleTime: 0 });
      router.history.replace("/");
    },
    onError: (error) => toast.error(error, "Could not delete the project"),
  });
  return (
    <Card title="Delete this project">
      <p className="mb-3 text-muted">
        Its events, persons, flags and dashboards go with it. SDKs that use its key are refused.
      </p>
      <Button
        variant="danger"
        disabledReason={allowed ? undefined : reason}
        onClick={() => setAsking(true)}
      >
        Delete project
      </Button>
      {asking && (
        <ConfirmByName
          title="Delete this project?"
          name={project.name}
          action="Delete project"
          busy={remove.isPending}
          onClose={() => setAsking(false)}
          onConfirm={() => remove.mutate()}
        >
          All of its data is deleted. This cannot be undone.
        </ConfirmByName>
      )}
    </Card>
  );
}
