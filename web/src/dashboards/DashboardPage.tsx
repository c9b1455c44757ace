import { useIsFetching, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import {
  ChartNoAxesCombined,
  Copy,
  EllipsisVertical,
  Expand,
  House,
  LayoutDashboard,
  Link2,
  Lock,
  Minimize,
  Pencil,
  Pin,
  PinOff,
  Plus,
  RefreshCw,
  Share2,
  SquarePen,
  Text,
  Trash2,
  Undo2,
  UserRoundPen,
} from "lucide-react";
import { type ReactNode, Suspense, useCallback, useMemo, useState } from "react";
import { api, call } from "@/api/client";
import { isHidden } from "@/api/errors";
import { lazy } from "@/api/lazy";
import { mayEdit } from "@/api/permissions";
import { ConflictError } from "@/api/versions";
import { RouteNotFound } from "@/shell/routeStates";
import { useKeys } from "@/shell/useGlobalKeys";
import { useProject } from "@/shell/useProject";
import {
  Badge,
  Button,
  buttonClass,
  Card,
  cx,
  EmptyState,
  ErrorPanel,
  IconButton,
  Menu,
  type MenuEntry,
  Page,
  PageHeader,
  RelativeTime,
  Skeleton,
  toast,
} from "@/ui";
import {
  COLLABORATORS_EDIT,
  type Dashboard,
  dashboardName,
  dashboardQuery,
  useDashboardChange,
  useDeleteDashboard,
} from "./api";
import { DashboardTiles } from "./DashboardTiles";
import { FilterBar } from "./FilterBar";
import { filtersOf, hasFilters } from "./filters";
import { layoutChanges, type Place, placesOf } from "./layout";
import {
  AccessDialog,
  AddInsightDialog,
  CopyDashboardDialog,
  DetailsDialog,
  LinkTileDialog,
  ShareDialog,
  TextTileDialog,
} from "./lazyDialogs";
import { useFullScreen } from "./useFullScreen";
import { namedVariables, valuesOf, variablesOf } from "./variables";

const VariableControls = lazy(() =>
  import("./VariableControls").then((module) => ({ default: module.VariableControls })),
);

const route = getRouteApi("/project/$projectId/dashboard/$id");

export function DashboardPage() {
  const { projectId } = useProject();
  const { id } = route.useParams();
  const query = useQuery(dashboardQuery(projectId, Number(id)));
  if (query.isPending) {
    return (
      <Page wide>
        <PageHeader title="Dashboard" eyebrow={<BackLink projectId={projectId} />} />
        <div role="status" className="grid gap-4 sm:grid-cols-2">
          <span className="sr-only">Loading</span>
          <Skeleton className="h-80" />
          <Skeleton className="h-80" />
        </div>
      </Page>
    );
  }
  if (query.isError) {
    return isHidden(query.error) ? (
      <RouteNotFound />
    ) : (
      <Page>
        <PageHeader title="Dashboard" eyebrow={<BackLink projectId={projectId} />} />
        <Card>
          <ErrorPanel
            error={query.error}
            title="Could not open this dashboard"
            onRetry={() => query.refetch()}
          />
        </Card>
      </Page>
    );
  }
  return <Loaded key={query.data.id} dashboard={query.data} />;
}

type OpenDialog = "insight" | "text" | "link" | "share" | "access" | "details" | "copy" | null;

function Loaded({ dashboard }: { dashboard: Dashboard }) {
  const { projectId, project } = useProject();
  const navigate = useNavigate({ from: "/project/$projectId/dashboard/$id" });
  const client = useQueryClient();
  const search = route.useSearch();
  const change = useDashboardChange(projectId, dashboard.id);
  const deleteDashboard = useDeleteDashboard(projectId);
  const { allowed, reason } = mayEdit(dashboard);
  const [dialog, setDialog] = useState<OpenDialog>(null);
  const [editing, setEditing] = useState(false);
  const [refreshes, setRefreshes] = useState(0);
  const [full, setFull] = useFullScreen();
  const { oldest, onAge } = useAges();
  const fetching = useIsFetching({ queryKey: ["tile", projectId, dashboard.id] });

  const saved = useMemo(() => dashboard.persisted_filters ?? {}, [dashboard.persisted_filters]);
  const overridden = hasFilters(search);
  const filters = useMemo(() => filtersOf(search, saved), [search, saved]);
  const savedVariables = dashboard.persisted_variables;
  const variables = useMemo(() => variablesOf(search, savedVariables), [search, savedVariables]);
  const named = useMemo(() => namedVariables(dashboard.tiles), [dashboard.tiles]);
  const layout = useLayout(dashboard);
  const canEdit = allowed && layout.wide;
  const isEditing = editing && canEdit;
  const refresh = () => setRefreshes((count) => count + 1);
  useKeys([
    { key: "r", run: refresh },
    { key: "e", run: () => canEdit && setEditing(!editing) },
    { key: "f", run: () => setFull(!full) },
    ...(isEditing ? [{ key: "mod+z", run: layout.undo }] : []),
  ]);

  const isHome = project.primary_dashboard === dashboard.id;
  const setHome = async () => {
    try {
      await call(
        api.PATCH("/api/projects/{project_id}", {
          params: { path: { project_id: projectId } },
          body: { primary_dashboard: isHome ? null : dashboard.id },
        }),
      );
      await client.invalidateQueries({ queryKey: ["project", projectId] });
      toast.success(isHome ? "Home shows no dashboard now" : "Home shows this dashboard now");
    } catch (error) {
      toast.error(error, "Could not change the home page");
    }
  };
  const remove = () => {
    void deleteDashboard(dashboard);
    void navigate({ to: "/project/$projectId/dashboard", params: { projectId } });
  };
  const denied = allowed ? undefined : reason;
  const more: MenuEntry[] = [
    {
      label: "Name and description",
      icon: <Pencil />,
      disabledReason: denied,
      onSelect: () => setDialog("details"),
    },
    {
      label: dashboard.pinned ? "Unpin" : "Pin",
      icon: dashboard.pinned ? <PinOff /> : <Pin />,
      disabledReason: denied,
      onSelect: () => change.mutate({ pinned: !dashboard.pinned }),
    },
    { label: isHome ? "Remove from home" : "Show on home", icon: <House />, onSelect: setHome },
    { label: "Copy dashboard", icon: <Copy />, onSelect: () => setDialog("copy") },
    { label: "Who can edit", icon: <UserRoundPen />, onSelect: () => setDialog("access") },
    "separator",
    {
      label: "Delete dashboard",
      icon: <Trash2 />,
      danger: true,
      disabledReason: denied,
      onSelect: remove,
    },
  ];
  const add: MenuEntry[] = [
    {
      label: "New insight",
      icon: <Plus />,
      onSelect: () =>
        void navigate({
          to: "/project/$projectId/insights/new",
          params: { projectId },
          search: { dashboard: dashboard.id },
        }),
    },
    {
      label: "Saved insight",
      icon: <ChartNoAxesCombined />,
      onSelect: () => setDialog("insight"),
    },
    { label: "Text", icon: <Text />, onSelect: () => setDialog("text") },
    { label: "Link", icon: <Link2 />, onSelect: () => setDialog("link") },
  ];
  const addMenu = (variant: "primary" | "secondary") => (
    <Menu
      align="end"
      items={add}
      trigger={
        <Button variant={variant} icon={<Plus aria-hidden />}>
          Add
        </Button>
      }
    />
  );
  const close = () => setDialog(null);
  return (
    <div className={cx(full && "fixed inset-0 z-30 overflow-y-auto bg-bg")}>
      <Page wide>
        <PageHeader
          title={dashboardName(dashboard)}
          eyebrow={full ? undefined : <BackLink projectId={projectId} />}
          description={
            <>
              {dashboard.description}
              {(dashboard.tags.length > 0 ||
                dashboard.is_shared ||
                dashboard.restriction_level === COLLABORATORS_EDIT) && (
                <span className="mt-1 flex flex-wrap items-center gap-1.5">
                  {dashboard.tags.map((tag) => (
                    <Badge key={tag}>{tag}</Badge>
                  ))}
                  {dashboard.is_shared && <Badge tone="info">Shared</Badge>}
                  {dashboard.restriction_level === COLLABORATORS_EDIT && (
                    <Badge>
                      <Lock aria-hidden /> Restricted
                    </Badge>
                  )}
                </span>
              )}
            </>
          }
          actions={
            <>
              {/* On phones each tile says it, and the buttons need the room. */}
              <span className="hidden text-xs text-muted sm:inline">
                {oldest && (
                  <>
                    Updated <RelativeTime at={oldest} />
                  </>
                )}
              </span>
              <IconButton label="Refresh all" variant="secondary" onClick={refresh}>
                <RefreshCw aria-hidden className={cx(fetching > 0 && "animate-spin")} />
              </IconButton>
              <IconButton
                label={full ? "Leave full screen" : "Full screen"}
                variant="secondary"
                className={cx(!full && "max-sm:hidden")}
                onClick={() => setFull(!full)}
              >
                {full ? <Minimize aria-hidden /> : <Expand aria-hidden />}
              </IconButton>
              {!full && (
                <>
                  <Button icon={<Share2 aria-hidden />} onClick={() => setDialog("share")}>
                    Share
                  </Button>
                  {canEdit && (
                    <Button
                      icon={<SquarePen aria-hidden />}
                      aria-pressed={isEditing}
                      className={cx(isEditing && "border-accent! bg-accent-soft! text-accent-text")}
                      onClick={() => setEditing(!editing)}
                    >
                      Edit layout
                    </Button>
                  )}
                  {allowed && addMenu("primary")}
                  <Menu
                    align="end"
                    items={more}
                    trigger={
                      <IconButton label="More actions" variant="secondary">
                        <EllipsisVertical aria-hidden />
                      </IconButton>
                    }
                  />
                </>
              )}
            </>
          }
        />
        {!allowed && (
          <Note icon={<Lock aria-hidden />}>
            {reason} Filters and ranges that you choose stay in your address bar.
          </Note>
        )}
        {allowed && !layout.wide && (
          <Note icon={<LayoutDashboard aria-hidden />}>
            On narrow screens tiles stand in one column. Arrange them on a wider one.
          </Note>
        )}
        <FilterBar
          search={search}
          saved={saved}
          onChange={(next) =>
            navigate({ search: next, params: (params) => params, replace: true, hash: true })
          }
          saveReason={allowed ? undefined : reason}
          onSave={() =>
            change.mutate(
              { filters, variables, version: "shown" },
              {
                onSuccess: () => {
                  void navigate({ search: {}, replace: true });
                  toast.success("Saved as the default of this dashboard", {
                    undo: () =>
                      change.mutate({
                        filters: saved,
                        variables: savedVariables ?? {},
                        version: "shown",
                      }),
                  });
                },
              },
            )
          }
        >
          {named.length > 0 && (
            <Suspense>
              <VariableControls
                names={named}
                saved={valuesOf(savedVariables)}
                given={search.variables ?? {}}
                onChange={(given) =>
                  navigate({
                    search: { ...search, variables: given },
                    params: (params) => params,
                    replace: true,
                    hash: true,
                  })
                }
              />
            </Suspense>
          )}
        </FilterBar>
        {isEditing && (
          <div className="sticky top-2 z-20 mb-3 flex flex-wrap items-center gap-2 rounded-lg border border-accent bg-accent-soft px-3 py-2">
            <p className="min-w-0 flex-1">
              Drag a tile by its handle, or its lower right corner. Each change is saved.
            </p>
            <Button
              size="sm"
              icon={<Undo2 aria-hidden />}
              disabled={!layout.canUndo}
              onClick={layout.undo}
            >
              Undo
            </Button>
            <Button size="sm" variant="primary" onClick={() => setEditing(false)}>
              Done
            </Button>
          </div>
        )}
        {dashboard.tiles.length === 0 ? (
          <Card>
            <EmptyState
              icon={<LayoutDashboard aria-hidden />}
              title="This dashboard is empty"
              action={
                allowed && (
                  <>
                    {addMenu("primary")}
                    <Link
                      to="/project/$projectId/insights/new"
                      params={{ projectId }}
                      search={{ dashboard: dashboard.id }}
                      className={buttonClass()}
                    >
                      New insight
                    </Link>
                  </>
                )
              }
            >
              Put saved insights beside one another, with texts and links between them.
            </EmptyState>
          </Card>
        ) : (
          <DashboardTiles
            dashboard={dashboard}
            filters={filters}
            variables={variables}
            overridden={overridden}
            refreshes={refreshes}
            places={layout.places}
            editing={isEditing}
            readOnly={!allowed || full}
            onPlaces={layout.save}
            onAge={onAge}
            onWide={layout.setWide}
          />
        )}
      </Page>
      <Suspense>
        {dialog === "insight" && <AddInsightDialog dashboard={dashboard} onClose={close} />}
        {dialog === "text" && <TextTileDialog dashboard={dashboard} onClose={close} />}
        {dialog === "link" && <LinkTileDialog dashboard={dashboard} onClose={close} />}
        {dialog === "access" && <AccessDialog dashboard={dashboard} onClose={close} />}
        {dialog === "details" && <DetailsDialog dashboard={dashboard} onClose={close} />}
        {dialog === "copy" && <CopyDashboardDialog dashboard={dashboard} onClose={close} />}
        {dialog === "share" && (
          <ShareDialog
            shared={{ kind: "dashboard", id: dashboard.id }}
            name={dashboardName(dashboard)}
            reason={allowed ? "" : reason}
            onClose={close}
          />
        )}
      </Suspense>
    </div>
  );
}

function Note({ icon, children }: { icon: ReactNode; children: ReactNode }) {
  return (
    <p className="mb-3 flex items-start gap-2 rounded-md bg-sunken px-3 py-2 text-muted [&_svg]:mt-0.5 [&_svg]:size-4 [&_svg]:shrink-0">
      {icon}
      <span>{children}</span>
    </p>
  );
}

/// The time of the oldest result that is shown.
function useAges() {
  const [ages, setAges] = useState<Readonly<Record<number, string>>>({});
  const onAge = useCallback((tileId: number, at: string | null) => {
    setAges(({ [tileId]: before, ...others }) => (at ? { ...others, [tileId]: at } : others));
  }, []);
  const oldest = Object.values(ages).sort()[0] ?? null;
  return { oldest, onAge };
}

const UNDO_MAX = 50;

/// The places of tiles, shown at once and saved after; each can be taken back.
function useLayout(dashboard: Dashboard) {
  const { projectId } = useProject();
  const stored = useMemo(() => placesOf(dashboard.tiles), [dashboard.tiles]);
  const [draft, setDraft] = useState<readonly Place[] | null>(null);
  const [undos, setUndos] = useState<readonly (readonly Place[])[]>([]);
  const [wide, setWide] = useState(true);
  const places = useMemo(() => {
    const known = new Set(draft?.map(({ id }) => id));
    const same = draft?.length === stored.length && stored.every(({ id }) => known.has(id));
    return same && draft ? draft : stored;
  }, [draft, stored]);
  const change = useDashboardChange(projectId, dashboard.id, {
    onTheirs: () => setDraft(null),
    failure: "Could not save the layout",
  });
  const send = (next: readonly Place[]) => {
    const tiles = layoutChanges(dashboard.tiles, next);
    setDraft(next);
    if (tiles.length === 0) return;
    change.mutate(
      { tiles, version: "shown" },
      { onError: (error) => error instanceof ConflictError || setDraft(null) },
    );
  };
  const save = (next: readonly Place[]) => {
    if (layoutChanges(dashboard.tiles, next).length === 0) return;
    setUndos((before) => [...before.slice(1 - UNDO_MAX), places]);
    send(next);
  };
  const undo = () => {
    const last = undos.at(-1);
    if (!last) return;
    setUndos(undos.slice(0, -1));
    send(last);
  };
  return { places, save, undo, canUndo: undos.length > 0, wide, setWide };
}

function BackLink({ projectId }: { projectId: string }) {
  return (
    <Link
      to="/project/$projectId/dashboard"
      params={{ projectId }}
      className="inline-flex min-h-6 items-center hover:underline"
    >
      Dashboards
    </Link>
  );
}
