import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ArrowDown, ArrowLeft, ArrowRight, ArrowUp, Check, Plus } from "lucide-react";
import { useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { ApiError } from "@/api/errors";
import { useDebounced } from "@/shell/useDebounced";
import { useProject } from "@/shell/useProject";
import {
  Button,
  Combobox,
  Dialog,
  EmptyState,
  ErrorPanel,
  Field,
  IconButton,
  Input,
  NumberField,
  SearchInput,
  Select,
  SkeletonRows,
  Tabs,
  Textarea,
  toast,
} from "@/ui";
import { type Dashboard, dashboardName, dashboardQuery, tileName, useDashboardChange } from "./api";
import {
  COLUMNS,
  type Move,
  moveTile,
  type Place,
  placeForNew,
  placesOf,
  resizeTile,
  type Tile,
} from "./layout";
import { Markdown } from "./Markdown";

/// The upstream limits, which the server checks too.
const TEXT_CHARS_MAX = 4_000;
const URL_CHARS_MAX = 2_000;
const LABEL_CHARS_MAX = 200;

interface TileDialogProps {
  dashboard: Dashboard;
  /// The tile that is edited; without it a new one is made.
  tile?: Tile;
  onClose: () => void;
}

/// The message of a field of the first tile that was sent.
function tileError(error: unknown, attr: string): string | undefined {
  return error instanceof ApiError && error.attr === `tiles__0__${attr}` ? error.detail : undefined;
}

export function TextTileDialog({ dashboard, tile, onClose }: TileDialogProps) {
  const { projectId } = useProject();
  const change = useDashboardChange(projectId, dashboard.id, { onTheirs: onClose });
  const [version] = useState(tile && dashboard.version);
  const [body, setBody] = useState(tile?.text?.body ?? "");
  const [tab, setTab] = useState<"write" | "preview">("write");
  const save = () =>
    change.mutate(
      {
        tiles: [
          tile
            ? { id: tile.id, text: { id: tile.text?.id, body } }
            : { text: { body }, layouts: { sm: placeForNew("text", placesOf(dashboard.tiles)) } },
        ],
        version,
      },
      { onSuccess: onClose },
    );
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={tile ? "Edit text" : "Add text"}
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            busy={change.isPending}
            disabled={body.trim() === ""}
            onClick={save}
          >
            {tile ? "Save" : "Add"}
          </Button>
        </>
      }
    >
      <Tabs
        label="Text"
        value={tab}
        onChange={setTab}
        items={[
          {
            value: "write",
            label: "Write",
            panel: (
              <Field
                label="Text"
                hideLabel
                hint="Markdown: # heading, **bold**, *italic*, `code`, [link](https://…), - list"
                error={tileError(change.error, "text__body")}
              >
                <Textarea
                  rows={10}
                  maxLength={TEXT_CHARS_MAX}
                  value={body}
                  onChange={(event) => setBody(event.currentTarget.value)}
                  onKeyDown={(event) => {
                    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
                  }}
                />
              </Field>
            ),
          },
          {
            value: "preview",
            label: "Preview",
            panel: (
              <div className="min-h-40 rounded-md border p-3">
                {body.trim() ? (
                  <Markdown text={body} />
                ) : (
                  <p className="text-muted">Nothing to show yet.</p>
                )}
              </div>
            ),
          },
        ]}
      />
    </Dialog>
  );
}

const STYLES = [
  { value: "primary", label: "Filled" },
  { value: "secondary", label: "Outlined" },
] as const;
const PLACEMENTS = [
  { value: "left", label: "Left" },
  { value: "right", label: "Right" },
] as const;

export function LinkTileDialog({ dashboard, tile, onClose }: TileDialogProps) {
  const { projectId } = useProject();
  const change = useDashboardChange(projectId, dashboard.id, { onTheirs: onClose });
  const [version] = useState(tile && dashboard.version);
  const [text, setText] = useState(tile?.button_tile?.text ?? "");
  const [url, setUrl] = useState(tile?.button_tile?.url ?? "");
  const [style, setStyle] = useState(tile?.button_tile?.style ?? "primary");
  const [placement, setPlacement] = useState(tile?.button_tile?.placement ?? "left");
  const save = () => {
    const link = { text, url, style, placement };
    change.mutate(
      {
        tiles: [
          tile
            ? { id: tile.id, button_tile: link }
            : {
                button_tile: link,
                layouts: { sm: placeForNew("link", placesOf(dashboard.tiles)) },
              },
        ],
        version,
      },
      { onSuccess: onClose },
    );
  };
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={tile ? "Edit link" : "Add link"}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            busy={change.isPending}
            disabled={text.trim() === "" || url.trim() === ""}
            onClick={save}
          >
            {tile ? "Save" : "Add"}
          </Button>
        </>
      }
    >
      <div className="flex flex-col gap-3">
        <Field label="Label" error={tileError(change.error, "button_tile__text")}>
          <Input
            maxLength={LABEL_CHARS_MAX}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
          />
        </Field>
        <Field
          label="Address"
          hint="Begins with https:// or, for a page of this site, with a slash."
          error={tileError(change.error, "button_tile__url")}
        >
          <Input
            type="url"
            maxLength={URL_CHARS_MAX}
            placeholder="https://"
            value={url}
            onChange={(event) => setUrl(event.currentTarget.value)}
          />
        </Field>
        <div className="flex gap-3">
          <Field label="Look" className="flex-1">
            <Select value={style} options={STYLES} onChange={setStyle} />
          </Field>
          <Field label="Side" className="flex-1">
            <Select value={placement} options={PLACEMENTS} onChange={setPlacement} />
          </Field>
        </div>
      </div>
    </Dialog>
  );
}

const MOVES: { move: Move; label: string; icon: typeof ArrowUp }[] = [
  { move: "left", label: "Move left", icon: ArrowLeft },
  { move: "up", label: "Move up", icon: ArrowUp },
  { move: "down", label: "Move down", icon: ArrowDown },
  { move: "right", label: "Move right", icon: ArrowRight },
];
const WIDTHS = [
  { value: "3", label: "A quarter" },
  { value: "4", label: "A third" },
  { value: "6", label: "Half" },
  { value: "8", label: "Two thirds" },
  { value: "12", label: "Full" },
];

/// What dragging does, by buttons. Each change is saved at once.
export function PlaceDialog({
  tile,
  places,
  onChange,
  onClose,
}: {
  tile: Tile;
  places: readonly Place[];
  onChange: (places: readonly Place[]) => void;
  onClose: () => void;
}) {
  const place = places.find(({ id }) => id === tile.id);
  if (!place) return null;
  const widths = WIDTHS.some(({ value }) => value === String(place.w))
    ? WIDTHS
    : [...WIDTHS, { value: String(place.w), label: `${place.w} of ${COLUMNS} columns` }];
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Position and size"
      description={tileName(tile)}
      size="sm"
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <div className="flex flex-col gap-4">
        <fieldset>
          <legend className="mb-1 text-[0.8125rem] font-medium">Position</legend>
          <div className="flex gap-1">
            {MOVES.map(({ move, label, icon: Icon }) => {
              const moved = moveTile(places, tile.id, move);
              return (
                <IconButton
                  key={move}
                  label={label}
                  variant="secondary"
                  disabled={moved === places}
                  onClick={() => onChange(moved)}
                >
                  <Icon aria-hidden />
                </IconButton>
              );
            })}
          </div>
          <p className="mt-1 text-xs text-muted" role="status">
            Row {place.y + 1}, column {place.x + 1} of {COLUMNS}
          </p>
        </fieldset>
        <Field label="Width">
          <Select
            value={String(place.w)}
            options={widths}
            onChange={(w) => onChange(resizeTile(places, tile.id, { w: Number(w) }))}
          />
        </Field>
        <Field label="Height in rows">
          <NumberField
            min={1}
            max={20}
            value={place.h}
            onChange={(h) => h !== null && onChange(resizeTile(places, tile.id, { h }))}
          />
        </Field>
      </div>
    </Dialog>
  );
}

/// Puts a tile on another dashboard, as a copy or for good.
export function SendTileDialog({
  dashboard,
  tile,
  move,
  onClose,
}: {
  dashboard: Dashboard;
  tile: Tile;
  move: boolean;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [target, setTarget] = useState<string | null>(null);
  const [search, setSearch] = useState("");
  const term = useDebounced(search.trim(), 200);
  const others = useQuery({
    queryKey: ["dashboards", projectId, { search: term, pick: true }],
    queryFn: ({ signal }) =>
      call(
        api.GET("/api/projects/{project_id}/dashboards", {
          params: {
            path: { project_id: projectId },
            query: { search: term || undefined, limit: 50 },
          },
          signal,
        }),
      ),
  });
  const options = (others.data?.results ?? [])
    .filter(({ id }) => id !== dashboard.id)
    .map((other) => ({ value: String(other.id), label: dashboardName(other) }));
  const send = useMutation({
    mutationFn: (to: number) =>
      move
        ? call(
            api.PATCH("/api/projects/{project_id}/dashboards/{id}/move_tile", {
              params: { path: { project_id: projectId, id: dashboard.id } },
              body: { tile: { id: tile.id }, toDashboard: to },
            }),
          )
        : call(
            api.POST("/api/projects/{project_id}/dashboards/{id}/copy_tile", {
              params: { path: { project_id: projectId, id: to } },
              body: { fromDashboardId: dashboard.id, tileId: tile.id },
            }),
          ),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: ["dashboard", projectId] });
      toast.success(move ? "Moved to the other dashboard" : "Copied to the other dashboard");
      onClose();
    },
    onError: (error) => toast.error(error, move ? "Could not move it" : "Could not copy it"),
  });
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title={move ? "Move to another dashboard" : "Copy to another dashboard"}
      description={tileName(tile)}
      size="sm"
      footer={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            variant="primary"
            disabled={target === null}
            busy={send.isPending}
            onClick={() => target !== null && send.mutate(Number(target))}
          >
            {move ? "Move" : "Copy"}
          </Button>
        </>
      }
    >
      <Combobox
        label="Dashboard"
        className="w-full"
        value={target}
        options={options}
        loading={others.isFetching}
        empty="No other dashboard matches."
        onSearch={setSearch}
        onChange={setTarget}
      />
    </Dialog>
  );
}

const INSIGHTS_PAGE = 30;

/// Puts saved insights on a dashboard.
export function AddInsightDialog({
  dashboard,
  onClose,
}: {
  dashboard: Dashboard;
  onClose: () => void;
}) {
  const { projectId } = useProject();
  const client = useQueryClient();
  const [text, setText] = useState("");
  const search = useDebounced(text.trim(), 200);
  const query = useInfiniteQuery({
    queryKey: ["insights", projectId, { search, pick: true }],
    initialPageParam: 0,
    queryFn: ({ signal, pageParam }) =>
      call(
        api.GET("/api/projects/{project_id}/insights", {
          params: {
            path: { project_id: projectId },
            query: {
              search: search || undefined,
              limit: INSIGHTS_PAGE,
              offset: pageParam,
              saved: "true",
              basic: "true",
              order: "-last_modified_at",
            },
          },
          signal,
        }),
      ),
    getNextPageParam: (last, pages) =>
      last.next ? pages.reduce((sum, page) => sum + page.results.length, 0) : undefined,
  });
  const onIt = new Set(dashboard.tiles.map((tile) => tile.insight?.short_id));
  const add = useMutation({
    mutationFn: (insight: Schemas["Insight"]) =>
      call(
        api.PATCH("/api/projects/{project_id}/insights/{id}", {
          params: { path: { project_id: projectId, id: insight.short_id } },
          body: { dashboards: [...insight.dashboards, dashboard.id] },
        }),
      ),
    onSuccess: () =>
      client.invalidateQueries({ queryKey: dashboardQuery(projectId, dashboard.id).queryKey }),
    onError: (error) => toast.error(error, "Could not add the insight"),
  });
  const insights = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Dialog
      open
      onOpenChange={(open) => !open && onClose()}
      title="Add insights"
      footer={
        <Button variant="primary" onClick={onClose}>
          Done
        </Button>
      }
    >
      <SearchInput
        label="Search insights"
        className="mb-2"
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {query.isError ? (
        <ErrorPanel error={query.error} onRetry={() => query.refetch()} />
      ) : query.isPending ? (
        <SkeletonRows />
      ) : insights.length === 0 ? (
        <EmptyState title={search ? "No insight matches" : "No insights yet"}>
          {search ? "Try another word of its name." : "Make one first: it then stands here."}
        </EmptyState>
      ) : (
        <ul className="flex flex-col divide-y">
          {insights.map((insight) => {
            const name = insight.name || insight.derived_name || "Untitled insight";
            const added = onIt.has(insight.short_id);
            return (
              <li key={insight.short_id} className="flex min-h-11 items-center gap-2">
                <span className="min-w-0 flex-1">
                  <span className="block truncate">{name}</span>
                  {insight.description && (
                    <span className="block truncate text-xs text-muted">{insight.description}</span>
                  )}
                </span>
                <Button
                  size="sm"
                  icon={added ? <Check aria-hidden /> : <Plus aria-hidden />}
                  disabled={added}
                  busy={add.isPending && add.variables.short_id === insight.short_id}
                  aria-label={added ? `${name} is on this dashboard` : `Add ${name}`}
                  onClick={() => add.mutate(insight)}
                >
                  {added ? "Added" : "Add"}
                </Button>
              </li>
            );
          })}
        </ul>
      )}
      {query.hasNextPage && (
        <Button
          className="mt-2 w-full"
          busy={query.isFetchingNextPage}
          onClick={() => query.fetchNextPage()}
        >
          Show more
        </Button>
      )}
    </Dialog>
  );
}
