import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { EllipsisVertical, KeyRound, Pencil, Plus, RotateCw, Trash2 } from "lucide-react";
import { Suspense, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { lazy } from "@/api/lazy";
import { useMe } from "@/api/me";
import {
  Button,
  Card,
  Confirm,
  Dialog,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  RelativeTime,
  SkeletonRows,
  toast,
} from "@/ui";
import { count } from "@/ui/format";
import { type Column, Table } from "@/ui/Table";
import { SecretText } from "./SecretText";
import { SettingsFrame } from "./SettingsFrame";
import { describeScopes, keysKey } from "./scopes";

const KeyDialog = lazy(() =>
  import("./KeyDialog").then((module) => ({ default: module.KeyDialog })),
);

type Key = Schemas["PersonalKey"];

/// The keys of one's own account, for programs that use the API.
export function KeysPage() {
  const me = useMe();
  const client = useQueryClient();
  const [dialog, setDialog] = useState<"new" | Key | null>(null);
  const [question, setQuestion] = useState<{ kind: "roll" | "delete"; key: Key } | null>(null);
  /// A key with its value, which is answered once.
  const [shown, setShown] = useState<Key | null>(null);
  const query = useQuery({
    queryKey: keysKey,
    queryFn: ({ signal }) => call(api.GET("/api/personal_api_keys", { signal })),
  });
  const reload = () => client.invalidateQueries({ queryKey: keysKey });
  const roll = useMutation({
    mutationFn: ({ id }: Key) =>
      call(api.POST("/api/personal_api_keys/{id}/roll", { params: { path: { id } } })),
    onSuccess: (key) => {
      setQuestion(null);
      setShown(key);
      void reload();
    },
    onError: (error) => toast.error(error, "Could not roll the key"),
  });
  const remove = useMutation({
    mutationFn: ({ id }: Key) =>
      call(api.DELETE("/api/personal_api_keys/{id}", { params: { path: { id } } })),
    onSuccess: () => {
      setQuestion(null);
      toast.success("The key is deleted");
      void reload();
    },
    onError: (error) => toast.error(error, "Could not delete the key"),
  });
  const projects = me.organization?.teams ?? [];
  const restriction = ({ scoped_teams, scoped_organizations }: Key) => {
    const names = [
      ...scoped_teams.map((id) => projects.find((one) => one.id === id)?.name ?? `Project ${id}`),
      ...scoped_organizations.map(
        (id) => me.organizations.find((one) => one.id === id)?.name ?? "An organization",
      ),
    ];
    return names.length > 0 ? names.join(", ") : "All your projects";
  };
  const columns: Column<Key>[] = [
    {
      id: "label",
      header: "Name",
      cell: (key) => (
        <span className="flex min-w-32 flex-col py-1.5">
          <span className="font-medium">{key.label}</span>
          <code className="font-mono text-xs text-muted">{key.mask_value}</code>
        </span>
      ),
    },
    {
      id: "scopes",
      header: "Access",
      cell: ({ scopes }) => (
        <span className="line-clamp-2 max-w-72 min-w-40">{describeScopes(scopes)}</span>
      ),
    },
    {
      id: "restriction",
      header: "Projects",
      cell: (key) => <span className="line-clamp-2 max-w-56 min-w-32">{restriction(key)}</span>,
    },
    {
      id: "used",
      header: "Last used",
      className: "text-muted",
      cell: ({ last_used_at }) => (last_used_at ? <RelativeTime at={last_used_at} /> : "Never"),
    },
    {
      id: "created",
      header: "Created",
      className: "text-muted",
      cell: ({ created_at, last_rolled_at }) => <RelativeTime at={last_rolled_at ?? created_at} />,
    },
    {
      id: "menu",
      header: <span className="sr-only">Actions</span>,
      align: "right",
      cell: (key) => (
        <Menu
          align="end"
          trigger={
            <IconButton size="sm" label={`Actions of ${key.label}`}>
              <EllipsisVertical aria-hidden />
            </IconButton>
          }
          items={[
            { label: "Edit", icon: <Pencil />, onSelect: () => setDialog(key) },
            {
              label: "Roll (replace its value)",
              icon: <RotateCw />,
              onSelect: () => setQuestion({ kind: "roll", key }),
            },
            "separator",
            {
              label: "Delete",
              icon: <Trash2 />,
              danger: true,
              onSelect: () => setQuestion({ kind: "delete", key }),
            },
          ]}
        />
      ),
    },
  ];
  const add = (
    <Button variant="primary" icon={<Plus aria-hidden />} onClick={() => setDialog("new")}>
      New key
    </Button>
  );
  return (
    <SettingsFrame
      title="Personal API keys"
      description="Programs use them to call the API in your name. A key can never do more than you."
      actions={add}
    >
      <Card flush>
        {query.isPending ? (
          <SkeletonRows label="Loading keys" />
        ) : query.isError ? (
          <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
        ) : query.data.length === 0 ? (
          <EmptyState icon={<KeyRound aria-hidden />} title="No keys yet" action={add}>
            A key lets a script read insights or change flags. Give each program its own, with only
            the rights that it needs.
          </EmptyState>
        ) : (
          <Table
            label="Personal API keys"
            rows={query.data}
            columns={columns}
            rowKey={({ id }) => id}
            footer={
              <p className="border-t px-4 py-2 text-xs text-muted">
                {count(query.data.length, "key")}.
              </p>
            }
          />
        )}
      </Card>
      <Suspense>
        {dialog && (
          <KeyDialog
            edited={dialog === "new" ? undefined : dialog}
            onClose={() => setDialog(null)}
            onCreated={(key) => {
              setDialog(null);
              setShown(key);
            }}
          />
        )}
      </Suspense>
      <Confirm
        open={question?.kind === "roll"}
        onOpenChange={(open) => !open && setQuestion(null)}
        title={`Roll “${question?.key.label ?? ""}”?`}
        action="Roll key"
        danger
        busy={roll.isPending}
        onConfirm={() => question && roll.mutate(question.key)}
      >
        Programs with its present value are refused at once.
      </Confirm>
      <Confirm
        open={question?.kind === "delete"}
        onOpenChange={(open) => !open && setQuestion(null)}
        title={`Delete “${question?.key.label ?? ""}”?`}
        action="Delete key"
        danger
        busy={remove.isPending}
        onConfirm={() => question && remove.mutate(question.key)}
      >
        Programs that use it are refused at once. This cannot be undone.
      </Confirm>
      {shown?.value && (
        <Dialog
          open
          onOpenChange={(open) => !open && setShown(null)}
          title={`The value of “${shown.label}”`}
          description="It is shown only now. Keep it where your program reads its secrets."
          footer={
            <Button variant="primary" onClick={() => setShown(null)}>
              I have copied it
            </Button>
          }
        >
          <SecretText label="key" value={shown.value} />
        </Dialog>
      )}
    </SettingsFrame>
  );
}
