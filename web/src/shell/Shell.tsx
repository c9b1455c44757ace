import { Link, Outlet, useLocation, useParams } from "@tanstack/react-router";
import {
  ChevronsUpDown,
  CircleUserRound,
  Keyboard,
  LogOut,
  Menu as MenuIcon,
  Moon,
  PanelLeftClose,
  PanelLeftOpen,
  Plug,
  Search,
  Server,
  Sun,
  SunMoon,
} from "lucide-react";
import { Suspense, useEffect, useState } from "react";
import { lazy } from "@/api/lazy";
import { useMe } from "@/api/me";
import { sessionExpired } from "@/api/session";
import { useStore } from "@/api/store";
import { conflict } from "@/api/versions";
import { logOut } from "@/session/logOut";
import { cx, IconButton, Kbd, Menu, type MenuEntry, PanelBoundary, Tooltip } from "@/ui";
import { IngestionBanner } from "./IngestionBanner";
import { BAR_DESTINATIONS, DESTINATIONS, type Destination } from "./navigation";
import { setTheme, type Theme, useTheme } from "./theme";
import { useGlobalKeys } from "./useGlobalKeys";

const LATER = {
  toasts: () => import("@/ui/ToastViewport"),
  palette: () => import("./Palette"),
  keySheet: () => import("./KeySheet"),
  drawer: () => import("@/ui/Drawer"),
  session: () => import("@/session/SessionDialog"),
  conflict: () => import("./ConflictDialog"),
};
const Palette = lazy(() => LATER.palette().then((module) => ({ default: module.Palette })));
const KeySheet = lazy(() => LATER.keySheet().then((module) => ({ default: module.KeySheet })));
const Drawer = lazy(() => LATER.drawer().then((module) => ({ default: module.Drawer })));
const SessionDialog = lazy(() =>
  LATER.session().then((module) => ({ default: module.SessionDialog })),
);
const ConflictDialog = lazy(() =>
  LATER.conflict().then((module) => ({ default: module.ConflictDialog })),
);
const PRELOAD_MS = 2_000;

const COLLAPSED = "hedgerow.sidebar";
const THEMES: { value: Theme; label: string; icon: typeof Sun }[] = [
  { value: "system", label: "Same as the system", icon: SunMoon },
  { value: "light", label: "Light", icon: Sun },
  { value: "dark", label: "Dark", icon: Moon },
];

function useProjectId(): string {
  return useParams({ from: "/project/$projectId" }).projectId;
}

function useActive(): (destination: Destination) => boolean {
  const projectId = useProjectId();
  const { pathname } = useLocation();
  const below = pathname.slice(`/project/${projectId}/`.length);
  return ({ prefix }) => below === prefix || below.startsWith(`${prefix}/`);
}

function ProjectSwitcher({ narrow = false }: { narrow?: boolean }) {
  const me = useMe();
  const projectId = useProjectId();
  const projects = me.organization?.teams ?? [];
  const name = projects.find((project) => String(project.id) === projectId)?.name ?? "Project";
  const items: MenuEntry[] = [
    {
      heading: me.organization?.name ?? "Projects",
      items: projects.map((project) => ({
        label: project.name,
        href: `/project/${project.id}/home`,
        checked: String(project.id) === projectId,
      })),
    },
  ];
  return (
    <Menu
      items={items}
      className="w-60"
      trigger={
        <button
          type="button"
          aria-label={`Project: ${name}`}
          className={cx(
            "flex h-9 min-w-0 items-center gap-2 rounded-md px-1.5 text-left hover:bg-hover",
            narrow ? "justify-center" : "w-full",
          )}
        >
          <span
            aria-hidden="true"
            data-initial={name.slice(0, 1).toUpperCase()}
            className="grid size-6 shrink-0 place-items-center rounded bg-accent text-xs font-semibold text-on-accent before:content-[attr(data-initial)]"
          />
          {!narrow && (
            <>
              <span className="min-w-0 flex-1 truncate font-semibold">{name}</span>
              <ChevronsUpDown className="size-4 shrink-0 text-muted" aria-hidden />
            </>
          )}
        </button>
      }
    />
  );
}

function AccountMenu({ narrow = false, openKeys }: { narrow?: boolean; openKeys: () => void }) {
  const me = useMe();
  const projectId = useProjectId();
  const theme = useTheme();
  const name = me.first_name || me.email;
  const items: MenuEntry[] = [
    {
      heading: me.email,
      items: [
        {
          label: "Your account",
          icon: <CircleUserRound />,
          href: `/project/${projectId}/settings/account`,
        },
        ...(me.is_staff
          ? [
              {
                label: "Instance status",
                icon: <Server />,
                href: `/project/${projectId}/instance/status`,
              },
            ]
          : []),
        {
          label: "Keyboard shortcuts",
          icon: <Keyboard />,
          onSelect: openKeys,
          shortcut: <Kbd keys="?" />,
        },
      ],
    },
    {
      heading: "Theme",
      items: THEMES.map(({ value, label, icon: Icon }) => ({
        label,
        icon: <Icon />,
        checked: theme === value,
        onSelect: () => setTheme(value),
      })),
    },
    "separator",
    { label: "Log out", icon: <LogOut />, onSelect: logOut },
  ];
  return (
    <Menu
      items={items}
      side="top"
      className="w-60"
      trigger={
        <button
          type="button"
          aria-label={`Account: ${name}`}
          className={cx(
            "flex h-9 min-w-0 items-center gap-2.5 rounded-md px-2 text-left text-muted hover:bg-hover hover:text-text",
            narrow ? "justify-center" : "w-full",
          )}
        >
          <CircleUserRound className="size-4 shrink-0" aria-hidden />
          {!narrow && <span className="min-w-0 flex-1 truncate">{name}</span>}
        </button>
      }
    />
  );
}

function NavLink({ destination, narrow }: { destination: Destination; narrow: boolean }) {
  const projectId = useProjectId();
  const active = useActive()(destination);
  const { icon: Icon, label, to } = destination;
  const link = (
    <Link
      to={to}
      params={{ projectId }}
      aria-current={active ? "page" : undefined}
      aria-label={narrow ? label : undefined}
      className={cx(
        "flex h-8 items-center gap-2.5 rounded-md px-2 font-medium",
        narrow && "justify-center",
        active ? "bg-accent-soft text-accent-text" : "text-muted hover:bg-hover hover:text-text",
      )}
    >
      <Icon className="size-4 shrink-0" aria-hidden />
      {!narrow && label}
    </Link>
  );
  return narrow ? (
    <Tooltip label={label} side="right">
      {link}
    </Tooltip>
  ) : (
    link
  );
}

function SetUpLink({ narrow }: { narrow: boolean }) {
  const projectId = useProjectId();
  return (
    <Link
      to="/project/$projectId/onboarding"
      params={{ projectId }}
      aria-label={narrow ? "Connect an app" : undefined}
      activeProps={{ className: "bg-accent-soft text-accent-text", "aria-current": "page" }}
      inactiveProps={{ className: "text-muted hover:bg-hover hover:text-text" }}
      className={cx("flex h-8 items-center gap-2.5 rounded-md px-2", narrow && "justify-center")}
    >
      <Plug className="size-4 shrink-0" aria-hidden />
      {!narrow && "Connect an app"}
    </Link>
  );
}

interface Openers {
  openPalette: () => void;
  openKeys: () => void;
}

function SearchButton({ narrow, onClick }: { narrow: boolean; onClick: () => void }) {
  if (narrow) {
    return (
      <IconButton label="Search" onClick={onClick} className="mx-auto">
        <Search aria-hidden />
      </IconButton>
    );
  }
  return (
    <button
      type="button"
      onClick={onClick}
      className="flex h-8 items-center gap-2 rounded-md border bg-surface px-2 text-muted hover:border-line-strong"
    >
      <Search className="size-4" aria-hidden />
      <span className="flex-1 text-left">Search</span>
      <span className="hidden md:block">
        <Kbd keys="mod+k" />
      </span>
    </button>
  );
}

function Sidebar({ openPalette, openKeys }: Openers) {
  const [narrow, setNarrow] = useState(() => localStorage.getItem(COLLAPSED) === "narrow");
  const toggle = () => {
    localStorage.setItem(COLLAPSED, narrow ? "wide" : "narrow");
    setNarrow(!narrow);
  };
  return (
    <aside
      className={cx(
        "sticky top-0 hidden h-dvh shrink-0 flex-col gap-3 border-r bg-bg p-2 md:flex",
        narrow ? "w-13" : "w-56",
      )}
    >
      <ProjectSwitcher narrow={narrow} />
      <SearchButton narrow={narrow} onClick={openPalette} />
      <nav aria-label="Main" className="flex flex-1 flex-col gap-0.5 overflow-y-auto">
        {DESTINATIONS.map((destination) => (
          <NavLink key={destination.to} destination={destination} narrow={narrow} />
        ))}
        <div className="flex-1" />
        <SetUpLink narrow={narrow} />
      </nav>
      <div className={cx("flex gap-1", narrow ? "flex-col" : "items-center")}>
        <div className="min-w-0 flex-1">
          <AccountMenu narrow={narrow} openKeys={openKeys} />
        </div>
        <IconButton
          label={narrow ? "Expand the sidebar" : "Collapse the sidebar"}
          onClick={toggle}
          className="text-muted"
        >
          {narrow ? <PanelLeftOpen aria-hidden /> : <PanelLeftClose aria-hidden />}
        </IconButton>
      </div>
    </aside>
  );
}

function BottomBar({ openPalette, openKeys }: Openers) {
  const projectId = useProjectId();
  const isActive = useActive();
  const [open, setOpen] = useState(false);
  const [opened, setOpened] = useState(false);
  const item =
    "flex min-h-13 flex-1 flex-col items-center justify-center gap-0.5 text-[0.6875rem] font-medium -outline-offset-2";
  return (
    <>
      <nav
        aria-label="Main"
        className="fixed inset-x-0 bottom-0 z-20 flex border-t bg-surface pb-[env(safe-area-inset-bottom)] md:hidden"
      >
        {DESTINATIONS.slice(0, BAR_DESTINATIONS).map((destination) => {
          const active = isActive(destination);
          return (
            <Link
              key={destination.to}
              to={destination.to}
              params={{ projectId }}
              aria-current={active ? "page" : undefined}
              className={cx(item, active ? "text-accent-text" : "text-muted")}
            >
              <destination.icon className="size-5" aria-hidden />
              {destination.label}
            </Link>
          );
        })}
        <button
          type="button"
          onClick={() => {
            setOpened(true);
            setOpen(true);
          }}
          className={cx(item, "text-muted")}
        >
          <MenuIcon className="size-5" aria-hidden />
          More
        </button>
      </nav>
      <Suspense>
        {opened && (
          <Drawer open={open} onOpenChange={setOpen} title="Menu" side="bottom">
            <div className="flex flex-col gap-2 pb-4">
              <ProjectSwitcher />
              <SearchButton
                narrow={false}
                onClick={() => {
                  setOpen(false);
                  openPalette();
                }}
              />
              {/* biome-ignore lint/a11y/noStaticElementInteractions: a followed link closes the drawer. */}
              {/* biome-ignore lint/a11y/useKeyWithClickEvents: Enter on a link is a click. */}
              <div onClick={() => setOpen(false)} className="flex flex-col gap-0.5">
                {DESTINATIONS.slice(BAR_DESTINATIONS).map((destination) => (
                  <NavLink key={destination.to} destination={destination} narrow={false} />
                ))}
                <SetUpLink narrow={false} />
              </div>
              <AccountMenu
                openKeys={() => {
                  setOpen(false);
                  openKeys();
                }}
              />
            </div>
          </Drawer>
        )}
      </Suspense>
    </>
  );
}

/// The frame of every screen of a project.
export function Shell() {
  const [palette, setPalette] = useState(false);
  const [keys, setKeys] = useState(false);
  const expired = useStore(sessionExpired);
  const conflicting = useStore(conflict) !== null;
  const { pathname } = useLocation();
  const projectId = useProjectId();
  // What must also open while the server is away.
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const load of Object.values(LATER)) load().catch(() => {});
    }, PRELOAD_MS);
    return () => clearTimeout(timer);
  }, []);
  useGlobalKeys({ projectId, openPalette: () => setPalette(true), openKeys: () => setKeys(true) });
  const openers = { openPalette: () => setPalette(true), openKeys: () => setKeys(true) };
  return (
    <div className="flex min-h-dvh">
      <a
        href="#main"
        className="sr-only z-50 rounded-md bg-accent px-3 py-2 text-on-accent focus:not-sr-only focus:fixed focus:top-2 focus:left-2"
      >
        Skip to content
      </a>
      <Sidebar {...openers} />
      <main id="main" tabIndex={-1} className="min-w-0 flex-1 pb-16 outline-none md:pb-0">
        <IngestionBanner projectId={projectId} />
        <PanelBoundary resetKey={pathname}>
          <Outlet />
        </PanelBoundary>
      </main>
      <BottomBar {...openers} />
      <Suspense>
        {expired && <SessionDialog />}
        {conflicting && <ConflictDialog />}
        {palette && (
          <Palette
            projectId={projectId}
            onClose={() => setPalette(false)}
            openKeys={openers.openKeys}
          />
        )}
        {keys && <KeySheet onClose={() => setKeys(false)} />}
      </Suspense>
    </div>
  );
}
