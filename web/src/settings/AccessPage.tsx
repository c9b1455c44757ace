import { useQuery } from "@tanstack/react-query";
import { getRouteApi, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { api, call } from "@/api/client";
import { mayAdminister } from "@/api/permissions";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import { Card, Combobox, ErrorPanel, Select, SkeletonRows, Switch, toast } from "@/ui";
import { AccessRules } from "./AccessRules";
import { KINDS, type Kind, type Target, useAccessRules } from "./accessApi";
import { ReadOnlyNote, SettingsFrame } from "./SettingsFrame";
import { useProjectChange } from "./useProjectChange";

const route = getRouteApi("/project/$projectId/settings/access");

export function AccessPage() {
  const { project } = useProject();
  const { allowed, reason } = mayAdminister(project);
  return (
    <SettingsFrame
      title="Access"
      description="Who may enter this project, and what they may see and change."
    >
      <ReadOnlyNote reason={allowed ? "" : reason} />
      <ProjectAccess />
      <AccessByKind />
      <AccessOfObject />
    </SettingsFrame>
  );
}

function ProjectAccess() {
  const { projectId, project } = useProject();
  const change = useProjectChange(projectId);
  const { allowed } = mayAdminister(project);
  return (
    <Card
      title="This project"
      description="Administrators and owners of the organization always enter it."
    >
      <div className="flex flex-col gap-3">
        <Switch
          label="Private: only members and roles with a rule may enter"
          checked={project.access_control}
          disabled={!allowed || change.isPending}
          onChange={(access_control) =>
            change.mutate(
              { access_control },
              { onError: (error) => toast.error(error, "Could not change who enters") },
            )
          }
        />
        <Rules target={{ kind: "project" }} about="this project" />
      </div>
    </Card>
  );
}

function Rules({ target, about }: { target: Target; about: string }) {
  const { projectId } = useProject();
  const { query, change } = useAccessRules(projectId, target);
  if (query.isPending) return <SkeletonRows rows={2} label="Loading access rules" />;
  if (query.isError) return <ErrorPanel error={query.error} onRetry={() => query.refetch()} />;
  const { access_controls, available_access_levels, default_access_level } = query.data;
  return (
    <AccessRules
      about={about}
      rules={access_controls}
      levels={available_access_levels}
      defaultLevel={default_access_level}
      disabled={!query.data.user_can_edit_access_levels || change.isPending}
      onSet={(subject, level) => change.mutate({ subject, level })}
    />
  );
}

function AccessByKind() {
  const { projectId } = useProject();
  const { query, change } = useAccessRules(projectId, { kind: "kinds" });
  return (
    <Card
      title="By kind"
      description="Defaults for every object of a kind; a rule on one object overrides them. A rule for a member or role overrides the one for everybody. Of several, the highest counts."
    >
      {query.isPending ? (
        <SkeletonRows rows={4} label="Loading access rules" />
      ) : query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : (
        <div className="grid gap-5 xl:grid-cols-2">
          {KINDS.map(({ value, label }) => (
            <section key={value} className="min-w-0">
              <h3 className="mb-1.5 font-medium">{label}</h3>
              <AccessRules
                about={label.toLowerCase()}
                rules={query.data.access_controls.filter(({ resource }) => resource === value)}
                levels={query.data.available_access_levels}
                defaultLevel={query.data.default_access_level}
                disabled={!query.data.user_can_edit_access_levels || change.isPending}
                onSet={(subject, level) => change.mutate({ subject, level, resource: value })}
              />
            </section>
          ))}
        </div>
      )}
    </Card>
  );
}

function AccessOfObject() {
  const { projectId } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/settings/access" });
  const { kind = "dashboard", id } = route.useSearch();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string>();
  const term = useDebounced(text.trim(), 150);
  const found = useQuery({
    queryKey: ["search", projectId, term, kind],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/search", {
          params: {
            path: { project_id: projectId },
            query: { q: term || undefined, entities: [kind] },
          },
          signal,
        }),
      ),
  });
  const options = (found.data?.results ?? [])
    .filter(({ type }) => type === kind)
    .map(({ result_id, extra_fields: fields }) => ({
      value: result_id,
      label: fields.key || fields.name || fields.derived_name || `No. ${result_id}`,
    }));
  const one = KINDS.find(({ value }) => value === kind)?.one ?? kind;
  return (
    <Card title="One object" description="Rules of a single dashboard, insight, flag or action.">
      <div className="flex flex-col gap-3">
        <div className="flex flex-wrap items-center gap-2">
          <Select
            label="Kind of object"
            value={kind}
            options={KINDS}
            onChange={(next: Kind) => {
              setChosen(undefined);
              void navigate({ search: { kind: next }, replace: true });
            }}
          />
          <Combobox
            label={`The ${one}`}
            className="w-full sm:w-72"
            value={id ?? null}
            valueLabel={chosen ?? options.find(({ value }) => value === id)?.label}
            options={options}
            loading={found.isFetching}
            onSearch={setText}
            onChange={(next) => {
              setChosen(options.find(({ value }) => value === next)?.label);
              void navigate({ search: { kind, id: next }, replace: true });
            }}
          />
        </div>
        {id && (
          <Rules
            key={`${kind} ${id}`}
            target={{ kind: "object", object: kind, id }}
            about={`the ${one}`}
          />
        )}
      </div>
    </Card>
  );
}
