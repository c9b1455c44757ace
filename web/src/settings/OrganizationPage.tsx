import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useRouter } from "@tanstack/react-router";
import { EllipsisVertical, ExternalLink, Plus, Settings, Trash2 } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { errorMessage, fieldError } from "@/api/errors";
import { meQuery, useMe } from "@/api/me";
import { mayAdministerOrganization, OWNER } from "@/api/permissions";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  Card,
  Dialog,
  ErrorPanel,
  Field,
  IconButton,
  Input,
  Menu,
  Select,
  SkeletonRows,
  Switch,
  toast,
} from "@/ui";
import { ConfirmByName } from "./ConfirmByName";
import { rolesQuery } from "./rolesQuery";
import { ReadOnlyNote, SettingsFrame } from "./SettingsFrame";
import { TextSetting } from "./SimpleSettings";

type Organization = Schemas["Organization"];
type Change = Schemas["OrganizationFields"] & Schemas["OrganizationSettingsChange"];
type ListedProject = Schemas["ProjectItem"];

const NOBODY = "";
const FLAGS_RESTRICTED = 21;
const FLAGS_FREE = 37;

export function OrganizationPage() {
  const { project } = useProject();
  const query = useQuery({
    queryKey: ["organization", project.organization],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/organizations/{organization_id}", {
          params: { path: { organization_id: project.organization } },
          signal,
        }),
      ),
  });
  const organization = query.data;
  return (
    <SettingsFrame title="Organization" description="Members, roles and projects belong to it.">
      {query.isPending ? (
        <Card>
          <SkeletonRows label="Loading the organization" />
        </Card>
      ) : query.isError || !organization ? (
        <Card>
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        </Card>
      ) : (
        <>
          <ReadOnlyNote reason={mayAdministerOrganization(organization).reason} />
          <General organization={organization} />
          <Projects organization={organization} />
          <Others organization={organization} />
          <DeleteOrganization organization={organization} />
        </>
      )}
    </SettingsFrame>
  );
}

function General({ organization }: { organization: Organization }) {
  const client = useQueryClient();
  const { allowed } = mayAdministerOrganization(organization);
  const roles = useQuery(rolesQuery(organization.id));
  const change = useMutation({
    mutationFn: (body: Change) =>
      call(
        api.PATCH("/api/organizations/{organization_id}", {
          params: { path: { organization_id: organization.id } },
          body,
        }),
      ),
    onSuccess: (changed) => {
      client.setQueryData(["organization", changed.id], changed);
      void client.invalidateQueries({ queryKey: meQuery.queryKey });
      toast.success("Saved");
    },
    onError: (error) => !fieldError(error, "name") && toast.error(error),
  });
  const disabled = !allowed || change.isPending;
  return (
    <Card title="General">
      <div className="flex flex-col gap-3.5">
        <TextSetting
          label="Name"
          saved={organization.name}
          busy={change.isPending}
          disabled={!allowed}
          error={fieldError(change.error, "name") ? change.error : null}
          onSave={(name) => change.mutate({ name: name.trim() })}
        />
        <Field label="Role of new members" className="items-start">
          <Select
            className="w-full sm:w-72"
            value={organization.default_role_id ?? NOBODY}
            disabled={disabled}
            options={[
              { value: NOBODY, label: "None" },
              ...(roles.data?.results ?? []).map(({ id, name }) => ({ value: id, label: name })),
            ]}
            onChange={(id) => change.mutate({ default_role_id: id === NOBODY ? null : id })}
          />
        </Field>
        <Switch
          label="Members may use personal API keys"
          checked={organization.members_can_use_personal_api_keys}
          disabled={disabled}
          onChange={(on) => change.mutate({ members_can_use_personal_api_keys: on })}
        />
        <Switch
          label="Dashboards and insights may have public links"
          checked={organization.allow_publicly_shared_resources}
          disabled={disabled}
          onChange={(on) => change.mutate({ allow_publicly_shared_resources: on })}
        />
        <Switch
          label="Only authors, administrators and allowed roles may edit flags"
          checked={organization.feature_flags_access_level === FLAGS_RESTRICTED}
          disabled={disabled}
          onChange={(on) =>
            change.mutate({ feature_flags_access_level: on ? FLAGS_RESTRICTED : FLAGS_FREE })
          }
        />
      </div>
    </Card>
  );
}

function Projects({ organization }: { organization: Organization }) {
  const { projectId } = useProject();
  const router = useRouter();
  const client = useQueryClient();
  const { allowed, reason } = mayAdministerOrganization(organization);
  const [adding, setAdding] = useState(false);
  const [deleting, setDeleting] = useState<ListedProject | null>(null);
  const remove = useMutation({
    mutationFn: ({ id }: ListedProject) =>
      call(
        api.DELETE("/api/projects/{project_id}", { params: { path: { project_id: String(id) } } }),
      ),
    onSuccess: async (_, { id, name }) => {
      setDeleting(null);
      toast.success(`Deleted the project “${name}”`);
      await client.fetchQuery({ ...meQuery, staleTime: 0 });
      if (String(id) === projectId) return router.history.replace("/");
      await client.invalidateQueries({ queryKey: ["organization", organization.id] });
    },
    onError: (error) => toast.error(error, "Could not delete the project"),
  });
  return (
    <Card
      title="Projects"
      actions={
        <Button
          icon={<Plus aria-hidden />}
          disabledReason={allowed ? undefined : reason}
          onClick={() => setAdding(true)}
        >
          New project
        </Button>
      }
    >
      <ul aria-label="Projects" className="divide-y rounded-md border">
        {organization.teams.map((one) => (
          <li key={one.id} className="flex min-h-11 items-center gap-2 px-3">
            <Link
              to="/project/$projectId/home"
              params={{ projectId: String(one.id) }}
              className="min-w-0 truncate font-medium hover:underline"
            >
              {one.name}
            </Link>
            {String(one.id) === projectId && <Badge tone="accent">Current</Badge>}
            {one.is_demo && <Badge>Demo</Badge>}
            {one.access_control && <Badge>Private</Badge>}
            <span className="ml-auto hidden text-xs text-muted sm:inline">{one.timezone}</span>
            <Menu
              align="end"
              trigger={
                <IconButton size="sm" label={`Actions of ${one.name}`} className="max-sm:ml-auto">
                  <EllipsisVertical aria-hidden />
                </IconButton>
              }
              items={[
                { label: "Open", icon: <ExternalLink />, href: `/project/${one.id}/home` },
                {
                  label: "Settings",
                  icon: <Settings />,
                  href: `/project/${one.id}/settings/project`,
                },
                "separator",
                {
                  label: "Delete",
                  icon: <Trash2 />,
                  danger: true,
                  disabledReason: allowed ? undefined : reason,
                  onSelect: () => setDeleting(one),
                },
              ]}
            />
          </li>
        ))}
      </ul>
      {adding && <NewProjectDialog organization={organization} onClose={() => setAdding(false)} />}
      {deleting && (
        <ConfirmByName
          title="Delete this project?"
          name={deleting.name}
          action="Delete project"
          busy={remove.isPending}
          onClose={() => setDeleting(null)}
          onConfirm={() => remove.mutate(deleting)}
        >
          Its events, persons, flags and dashboards are deleted. This cannot be undone.
        </ConfirmByName>
      )}
    </Card>
  );
}

function NewProjectDialog({
  organization,
  onClose,
}: {
  organization: Organization;
  onClose: () => void;
}) {
  const { project } = useProject();
  const router = useRouter();
  const client = useQueryClient();
  const [name, setName] = useState("");
  const create = useMutation({
    mutationFn: () =>
      call(
        api.POST("/api/organizations/{organization_id}/projects", {
          params: { path: { organization_id: organization.id } },
          body: { name: name.trim(), timezone: project.timezone },
        }),
      ),
    onSuccess: async ({ id }) => {
      await client.fetchQuery({ ...meQuery, staleTime: 0 });
      void client.invalidateQueries({ queryKey: ["organization", organization.id] });
      router.history.push(`/project/${id}/onboarding`);
    },
  });
  return (
    <NameDialog
      title="New project"
      hint={`Its time zone is ${project.timezone}; its settings change that.`}
      action="Create project"
      name={name}
      busy={create.isPending}
      error={create.error}
      onName={setName}
      onClose={onClose}
      onSubmit={() => create.mutate()}
    />
  );
}

interface NameDialogProps {
  title: string;
  hint?: string;
  action: string;
  name: string;
  busy: boolean;
  error: unknown;
  onName: (name: string) => void;
  onClose: () => void;
  onSubmit: () => void;
}

function NameDialog(props: NameDialogProps) {
  const { title, hint, action, name, busy, error, onName, onClose, onSubmit } = props;
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={title}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button variant="primary" type="submit" form="new-name" busy={busy}>
            {action}
          </Button>
        </>
      }
    >
      <form
        id="new-name"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        <Field label="Name" hint={hint} error={error ? errorMessage(error) : null}>
          <Input
            autoFocus
            required
            maxLength={200}
            value={name}
            onChange={(event) => onName(event.currentTarget.value)}
          />
        </Field>
      </form>
    </Dialog>
  );
}

/// Other organizations of the person, and a new one for staff of the instance.
function Others({ organization }: { organization: Organization }) {
  const me = useMe();
  const client = useQueryClient();
  const [adding, setAdding] = useState(false);
  const [name, setName] = useState("");
  const enter = useMutation({
    mutationFn: (id: string) =>
      call(
        api.PATCH("/api/users/{id}", {
          params: { path: { id: "@me" } },
          body: { set_current_organization: id },
        }),
      ),
    onSuccess: (changed) => {
      client.setQueryData(meQuery.queryKey, changed);
      const [first] = changed.organization?.teams ?? [];
      window.location.assign(first ? `/project/${first.id}/home` : "/");
    },
    onError: (error) => toast.error(error, "Could not switch"),
  });
  const create = useMutation({
    mutationFn: () => call(api.POST("/api/organizations", { body: { name: name.trim() } })),
    onSuccess: (made) => {
      setAdding(false);
      toast.success(`Created the organization “${made.name}”`);
      void client.invalidateQueries({ queryKey: meQuery.queryKey });
    },
  });
  const others = me.organizations.filter(({ id }) => id !== organization.id);
  if (others.length === 0 && !me.is_staff) return null;
  return (
    <Card
      title="Other organizations"
      actions={
        me.is_staff && (
          <Button icon={<Plus aria-hidden />} onClick={() => setAdding(true)}>
            New organization
          </Button>
        )
      }
    >
      {others.length === 0 ? (
        <p className="text-muted">None.</p>
      ) : (
        <ul aria-label="Other organizations" className="divide-y rounded-md border">
          {others.map(({ id, name: other }) => (
            <li key={id} className="flex min-h-11 items-center justify-between gap-2 px-3">
              <span className="min-w-0 truncate">{other}</span>
              <Button size="sm" busy={enter.isPending} onClick={() => enter.mutate(id)}>
                Switch to it
              </Button>
            </li>
          ))}
        </ul>
      )}
      {adding && (
        <NameDialog
          title="New organization"
          hint="With members, roles and projects of its own."
          action="Create organization"
          name={name}
          busy={create.isPending}
          error={create.error}
          onName={setName}
          onClose={() => setAdding(false)}
          onSubmit={() => create.mutate()}
        />
      )}
    </Card>
  );
}

function DeleteOrganization({ organization }: { organization: Organization }) {
  const [asking, setAsking] = useState(false);
  const { allowed, reason } = mayAdministerOrganization(organization, OWNER);
  const remove = useMutation({
    mutationFn: () =>
      call(
        api.DELETE("/api/organizations/{organization_id}", {
          params: { path: { organization_id: organization.id } },
        }),
      ),
    onSuccess: () => window.location.assign("/"),
    onError: (error) => toast.error(error, "Could not delete the organization"),
  });
  return (
    <Card title="Delete this organization">
      <p className="mb-3 text-muted">
        All of its projects go with it, and its members lose access.
      </p>
      <Button
        variant="danger"
        disabledReason={allowed ? undefined : reason}
        onClick={() => setAsking(true)}
      >
        Delete organization
      </Button>
      {asking && (
        <ConfirmByName
          title="Delete this organization?"
          name={organization.name}
          action="Delete organization"
          busy={remove.isPending}
          onClose={() => setAsking(false)}
          onConfirm={() => remove.mutate()}
        >
          Every project and everything in it is deleted. This cannot be undone.
        </ConfirmByName>
      )}
    </Card>
  );
}
