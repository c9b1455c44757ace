import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { EllipsisVertical, Link2, Plus, UserMinus } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { lazy } from "@/api/lazy";
import { meQuery, useMe } from "@/api/me";
import { membersQuery } from "@/api/members";
import { MEMBER, mayAdministerOrganization, OWNER } from "@/api/permissions";
import { userName } from "@/api/users";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  Card,
  Confirm,
  ErrorPanel,
  IconButton,
  Menu,
  RelativeTime,
  SearchInput,
  Select,
  SkeletonRows,
  toast,
} from "@/ui";
import { count } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { LEVELS, levelName } from "./levels";
import { ReadOnlyNote, SettingsFrame } from "./SettingsFrame";
import type { SetupLink } from "./SetupLinkDialog";

const AddMemberDialog = lazy(() =>
  import("./AddMemberDialog").then((module) => ({ default: module.AddMemberDialog })),
);
const SetupLinkDialog = lazy(() =>
  import("./SetupLinkDialog").then((module) => ({ default: module.SetupLinkDialog })),
);

type Member = Schemas["Member"];

export function MembersPage() {
  const { project } = useProject();
  const me = useMe();
  const client = useQueryClient();
  const organizationId = project.organization;
  const organization = me.organizations.find(({ id }) => id === organizationId);
  const { allowed, reason } = mayAdministerOrganization(organization);
  const own = organization?.membership_level ?? MEMBER;
  const [text, setText] = useState("");
  const [adding, setAdding] = useState(false);
  const [link, setLink] = useState<SetupLink | null>(null);
  const [leaving, setLeaving] = useState<Member | null>(null);
  const query = useQuery(membersQuery(organizationId));
  const reload = () => client.invalidateQueries({ queryKey: ["members", organizationId] });
  const path = (member: Member) => ({
    organization_id: organizationId,
    id: member.user.uuid,
  });
  const setLevel = useMutation({
    mutationFn: ({ member, level }: { member: Member; level: number }) =>
      call(
        api.PATCH("/api/organizations/{organization_id}/members/{id}", {
          params: { path: path(member) },
          body: { level },
        }),
      ),
    onSuccess: (member) => {
      toast.success(`${userName(member.user)} is now ${levelName(member.level).toLowerCase()}`);
      void client.invalidateQueries({ queryKey: meQuery.queryKey });
      void reload();
    },
    onError: (error) => toast.error(error, "Could not change the level"),
  });
  const remove = useMutation({
    mutationFn: (member: Member) =>
      call(
        api.DELETE("/api/organizations/{organization_id}/members/{id}", {
          params: { path: path(member) },
        }),
      ),
    onSuccess: (_, member) => {
      setLeaving(null);
      if (member.user.uuid === me.uuid) return window.location.assign("/");
      toast.success(`Removed ${userName(member.user)}`);
      void reload();
    },
    onError: (error) => toast.error(error, "Could not remove them"),
  });
  const makeLink = useMutation({
    mutationFn: (member: Member) =>
      call(
        api.POST("/api/organizations/{organization_id}/members/{id}/setup_link", {
          params: { path: path(member) },
        }),
      ),
    onSuccess: (made, member) => setLink({ ...made, name: userName(member.user) }),
    onError: (error) => toast.error(error, "Could not make a link"),
  });
  const term = text.trim().toLowerCase();
  const rows = (query.data?.results ?? []).filter(({ user }) =>
    `${userName(user)} ${user.email}`.toLowerCase().includes(term),
  );
  const columns: Column<Member>[] = [
    {
      id: "name",
      header: "Name",
      sortValue: ({ user }) => userName(user).toLowerCase(),
      cell: ({ user }) => (
        <span className="flex min-w-36 flex-col py-1.5">
          <span className="flex items-center gap-2 font-medium">
            <span className="max-w-72 truncate">{userName(user)}</span>
            {user.uuid === me.uuid && <Badge>You</Badge>}
          </span>
          <span className="max-w-72 truncate text-xs text-muted">{user.email}</span>
        </span>
      ),
    },
    {
      id: "level",
      header: "Level",
      sortValue: ({ level }) => -level,
      cell: (member) =>
        // Nobody changes somebody above them.
        allowed && member.level <= own ? (
          <Select
            size="sm"
            label={`Level of ${userName(member.user)}`}
            value={String(member.level)}
            options={LEVELS.filter(({ value }) => Number(value) <= own)}
            onChange={(level) => setLevel.mutate({ member, level: Number(level) })}
          />
        ) : (
          levelName(member.level)
        ),
    },
    {
      id: "seen",
      header: "Last log-in",
      className: "text-muted",
      sortValue: ({ last_login }) => last_login,
      cell: ({ last_login }) => (last_login ? <RelativeTime at={last_login} /> : "Never"),
    },
    {
      id: "joined",
      header: "Joined",
      className: "text-muted",
      sortValue: ({ joined_at }) => joined_at,
      cell: ({ joined_at }) => <RelativeTime at={joined_at} />,
    },
    {
      id: "menu",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (member) => {
        const isSelf = member.user.uuid === me.uuid;
        const disabledReason = allowed ? undefined : reason;
        return (
          <Menu
            align="end"
            trigger={
              <IconButton size="sm" label={`Actions of ${userName(member.user)}`}>
                <EllipsisVertical aria-hidden />
              </IconButton>
            }
            items={[
              {
                label: "New setup link",
                icon: <Link2 />,
                disabledReason,
                onSelect: () => makeLink.mutate(member),
              },
              {
                label: isSelf ? "Leave the organization" : "Remove",
                icon: <UserMinus />,
                danger: true,
                disabledReason: isSelf ? undefined : disabledReason,
                onSelect: () => setLeaving(member),
              },
            ]}
          />
        );
      },
    },
  ];
  const isSelf = leaving?.user.uuid === me.uuid;
  return (
    <SettingsFrame
      title="Members"
      description={organization && `Everybody in ${organization.name}.`}
      actions={
        <Button
          variant="primary"
          icon={<Plus aria-hidden />}
          disabledReason={allowed ? undefined : reason}
          onClick={() => setAdding(true)}
        >
          Add member
        </Button>
      }
    >
      <ReadOnlyNote reason={reason} />
      <SearchInput
        label="Search members"
        className="w-full sm:w-72"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      <Card flush>
        {query.isPending ? (
          <SkeletonRows label="Loading members" />
        ) : query.isError ? (
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        ) : (
          <Table
            label="Members"
            rows={rows}
            columns={columns}
            rowKey={({ id }) => id}
            footer={
              <p className="border-t px-4 py-2 text-xs text-muted">
                {count(query.data.count, "member")}. Owners may do everything, administrators
                everything but delete the organization.
              </p>
            }
          />
        )}
      </Card>
      <Suspense>
        {adding && (
          <AddMemberDialog
            organizationId={organizationId}
            levelMax={own}
            onClose={() => setAdding(false)}
            onAdded={(member, made) => {
              setAdding(false);
              void reload();
              if (made) setLink({ ...made, name: userName(member.user) });
              else toast.success(`${userName(member.user)} is a member now`);
            }}
          />
        )}
        {link && <SetupLinkDialog link={link} onClose={() => setLink(null)} />}
      </Suspense>
      <Confirm
        open={leaving !== null}
        onOpenChange={(open) => !open && setLeaving(null)}
        title={
          isSelf ? "Leave the organization?" : `Remove ${leaving ? userName(leaving.user) : ""}?`
        }
        action={isSelf ? "Leave" : "Remove member"}
        danger
        busy={remove.isPending}
        onConfirm={() => leaving && remove.mutate(leaving)}
      >
        {isSelf
          ? "You lose access to its projects. An administrator can add you again."
          : "They lose access to the organization's projects. What they made stays."}
        {leaving?.level === OWNER && " The organization must keep an owner."}
      </Confirm>
    </SettingsFrame>
  );
}
