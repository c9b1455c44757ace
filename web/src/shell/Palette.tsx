import { Autocomplete } from "@base-ui/react/autocomplete";
import { Dialog } from "@base-ui/react/dialog";
import { useQuery } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import {
  ChartNoAxesCombined,
  Database,
  Flag,
  Keyboard,
  LayoutDashboard,
  LogOut,
  Moon,
  MousePointerClick,
  Plus,
  Search,
  Server,
  Settings,
  Shapes,
  Sun,
  SunMoon,
  UserRound,
  Zap,
} from "lucide-react";
import { type ReactNode, useMemo, useState } from "react";
import { api, call, type Schemas } from "@/api/client";
import { meQuery } from "@/api/me";
import { queryClient } from "@/api/queryClient";
import { logOut } from "@/session/logOut";
import { Kbd } from "@/ui";
import { DESTINATIONS } from "./navigation";
import { setTheme } from "./theme";
import { useDebounced } from "./useDebounced";

const RECENT = "hedgerow.recent";
const RECENT_MAX = 6;
/// The kinds that have a screen.
const ENTITIES = ["insight", "dashboard", "feature_flag", "cohort", "event_definition", "action"];
const PERSONS_MAX = 5;
const SETTINGS = [
  ["project", "project"],
  ["access", "access"],
  ["organization", "organization"],
  ["members", "members"],
  ["roles", "roles"],
  ["account", "your account"],
  ["keys", "personal API keys"],
] as const;
const LISTS = [
  ["data-management/properties", "properties"],
  ["data-management/actions", "actions"],
  ["data-management/annotations", "annotations"],
  ["data-management/variables", "variables"],
] as const;

interface Command {
  id: string;
  label: string;
  hint?: string;
  icon: ReactNode;
  keys?: string;
  run: () => void;
}

interface CommandGroup {
  value: string;
  items: Command[];
}

interface Recent {
  id: string;
  label: string;
  kind: string;
  path: string;
}

/// Of one person: the next one to use this browser may not see the same.
function recentKey(projectId: string): string {
  return `${RECENT}.${queryClient.getQueryData(meQuery.queryKey)?.uuid}.${projectId}`;
}

function recentOf(projectId: string): Recent[] {
  try {
    const all: unknown = JSON.parse(localStorage.getItem(recentKey(projectId)) ?? "[]");
    return Array.isArray(all) ? (all as Recent[]).slice(0, RECENT_MAX) : [];
  } catch {
    return [];
  }
}

function remember(projectId: string, item: Recent): void {
  const rest = recentOf(projectId).filter(({ id }) => id !== item.id);
  localStorage.setItem(recentKey(projectId), JSON.stringify([item, ...rest].slice(0, RECENT_MAX)));
}

function found(projectId: string, result: Schemas["SearchResult"]): Recent | null {
  const { type, result_id: id, extra_fields: fields } = result;
  const text = (key: string) => (typeof fields[key] === "string" ? fields[key] : "");
  const name = text("name") || text("derived_name") || "Untitled";
  const base = `/project/${projectId}`;
  switch (type) {
    case "insight":
      return { id: `insight ${id}`, label: name, kind: "Insight", path: `${base}/insights/${id}` };
    case "dashboard":
      return {
        id: `dashboard ${id}`,
        label: name,
        kind: "Dashboard",
        path: `${base}/dashboard/${id}`,
      };
    case "cohort":
      return { id: `cohort ${id}`, label: name, kind: "Cohort", path: `${base}/cohorts/${id}` };
    case "feature_flag": {
      const path = `${base}/feature_flags/${id}`;
      return { id: `flag ${id}`, label: text("key") || name, kind: "Flag", path };
    }
    case "event_definition": {
      const path = `${base}/activity/explore?event=${encodeURIComponent(JSON.stringify(name))}`;
      return { id: `event ${id}`, label: name, kind: "Event", path };
    }
    case "action":
      return {
        id: `action ${id}`,
        label: name,
        kind: "Action",
        path: `${base}/data-management/actions/${id}`,
      };
    default:
      return null;
  }
}

const KIND_ICON: Record<string, ReactNode> = {
  Insight: <ChartNoAxesCombined aria-hidden />,
  Dashboard: <LayoutDashboard aria-hidden />,
  Event: <Zap aria-hidden />,
  Action: <MousePointerClick aria-hidden />,
  Cohort: <Shapes aria-hidden />,
  Person: <UserRound aria-hidden />,
  Flag: <Flag aria-hidden />,
};

interface PaletteProps {
  projectId: string;
  onClose: () => void;
  openKeys: () => void;
}

/// Search over everything by name, and what one can do from anywhere.
export function Palette({ projectId, onClose, openKeys }: PaletteProps) {
  const router = useRouter();
  const [text, setText] = useState("");
  const term = useDebounced(text.trim(), 120);
  const { data, isFetching, isPlaceholderData } = useQuery({
    queryKey: ["search", projectId, term],
    enabled: term !== "",
    // Both at once: a list that grows by parts moves under the cursor.
    queryFn: async ({ signal }) => {
      const [objects, persons] = await Promise.all([
        call(
          api.GET("/api/projects/{project_id}/search", {
            params: { path: { project_id: projectId }, query: { q: term, entities: ENTITIES } },
            signal,
          }),
        ),
        call(
          api.GET("/api/projects/{project_id}/persons", {
            params: {
              path: { project_id: projectId },
              query: { search: term, limit: PERSONS_MAX },
            },
            signal,
          }),
        ),
      ]);
      return { results: objects.results, persons: persons.results };
    },
  });

  const isOutdated = isPlaceholderData || term !== text.trim();

  const groups = useMemo(() => {
    const go = (path: string) => router.history.push(path);
    const open = (item: Recent): Command => ({
      id: item.id,
      label: item.label,
      hint: item.kind,
      icon: KIND_ICON[item.kind],
      run: () => {
        remember(projectId, item);
        go(item.path);
      },
    });
    const base = `/project/${projectId}`;
    const goTo: Command[] = [
      ...DESTINATIONS.map(({ label, to, icon: Icon, letter }) => ({
        id: to,
        label: `Go to ${label === "SQL" ? label : label.toLowerCase()}`,
        icon: <Icon aria-hidden />,
        keys: `g ${letter}`,
        run: () => go(to.replace("$projectId", projectId)),
      })),
      ...LISTS.map(([page, label]) => ({
        id: page,
        label: `Go to ${label}`,
        icon: <Database aria-hidden />,
        run: () => go(`${base}/${page}`),
      })),
      ...(queryClient.getQueryData(meQuery.queryKey)?.is_staff
        ? [
            {
              id: "instance status",
              label: "Go to instance status",
              icon: <Server aria-hidden />,
              run: () => go(`${base}/instance/status`),
            },
          ]
        : []),
    ];
    const create: Command[] = [
      {
        id: "new insight",
        label: "New insight",
        icon: <Plus aria-hidden />,
        run: () => go(`${base}/insights/new`),
      },
      {
        id: "new dashboard",
        label: "New dashboard",
        icon: <Plus aria-hidden />,
        run: () => go(`${base}/dashboard?new=true`),
      },
      {
        id: "new flag",
        label: "New flag",
        icon: <Plus aria-hidden />,
        run: () => go(`${base}/feature_flags/new`),
      },
      {
        id: "new cohort",
        label: "New cohort",
        icon: <Plus aria-hidden />,
        run: () => go(`${base}/cohorts/new`),
      },
      {
        id: "new action",
        label: "New action",
        icon: <Plus aria-hidden />,
        run: () => go(`${base}/data-management/actions/new`),
      },
    ];
    const settings: Command[] = [
      ...SETTINGS.map(([page, label]) => ({
        id: `settings ${page}`,
        label: `Settings: ${label}`,
        icon: <Settings aria-hidden />,
        run: () => go(`${base}/settings/${page}`),
      })),
    ];
    const here: Command[] = [
      {
        id: "keys",
        label: "Keyboard shortcuts",
        icon: <Keyboard aria-hidden />,
        keys: "?",
        run: openKeys,
      },
      {
        id: "light",
        label: "Light theme",
        icon: <Sun aria-hidden />,
        run: () => setTheme("light"),
      },
      { id: "dark", label: "Dark theme", icon: <Moon aria-hidden />, run: () => setTheme("dark") },
      {
        id: "system",
        label: "System theme",
        icon: <SunMoon aria-hidden />,
        run: () => setTheme("system"),
      },
      { id: "log out", label: "Log out", icon: <LogOut aria-hidden />, run: logOut },
    ];
    const wanted = text.trim().toLowerCase();
    const matching = (commands: readonly Command[]) =>
      commands.filter(({ label }) => label.toLowerCase().includes(wanted));
    const results =
      wanted === ""
        ? recentOf(projectId)
        : [
            ...(data?.results ?? []).map((result) => found(projectId, result)),
            ...(data?.persons ?? []).map(({ uuid, name }) => ({
              id: `person ${uuid}`,
              label: name,
              kind: "Person",
              path: `${base}/persons/${uuid}`,
            })),
          ];
    // Enter opens the first one: of an earlier text's results only those that the new one names too.
    const isNamed = ({ label }: Recent) => !isOutdated || label.toLowerCase().includes(wanted);
    const items = results
      .filter((item) => item !== null)
      .filter(isNamed)
      .map(open);
    const all: CommandGroup[] = [
      { value: wanted === "" ? "Recent" : "Results", items },
      { value: "Create", items: matching(create) },
      { value: "Go to", items: matching(goTo) },
      { value: "Settings", items: matching(settings) },
      { value: "This browser", items: matching(here) },
    ];
    return all.filter((group) => group.items.length > 0);
  }, [data, isOutdated, text, projectId, router, openKeys]);

  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-overlay transition-opacity data-ending-style:opacity-0 data-starting-style:opacity-0" />
        <Dialog.Popup
          aria-label="Search and actions"
          className="popup fixed top-[12dvh] left-1/2 z-40 flex max-h-[min(30rem,76dvh)] w-[calc(100vw-1.5rem)] max-w-xl -translate-x-1/2 flex-col"
        >
          <Autocomplete.Root
            open
            inline
            items={groups}
            filter={null}
            value={text}
            onValueChange={setText}
            autoHighlight="always"
            keepHighlight
            itemToStringValue={(item: Command) => item.label}
          >
            <div className="flex items-center gap-2 border-b px-3">
              <Search className="size-4 shrink-0 text-muted" aria-hidden />
              <Autocomplete.Input
                aria-label="Search and actions"
                placeholder="Search by name, or for an action"
                className="h-11 w-full bg-transparent outline-none"
              />
            </div>
            <Autocomplete.Empty className="px-4 py-8 text-center text-muted empty:hidden">
              {isFetching ? "Searching…" : "Nothing has this name."}
            </Autocomplete.Empty>
            <Autocomplete.List
              aria-label="Results"
              className="scroll-thin min-h-0 flex-1 overflow-y-auto p-1.5 data-empty:p-0"
            >
              {(group: CommandGroup) => (
                <Autocomplete.Group key={group.value} items={group.items}>
                  <Autocomplete.GroupLabel className="px-2 pt-2 pb-1 text-xs text-muted">
                    {group.value}
                  </Autocomplete.GroupLabel>
                  <Autocomplete.Collection>
                    {(item: Command) => (
                      <Autocomplete.Item
                        key={item.id}
                        value={item}
                        className="popup-item min-h-9"
                        onClick={() => {
                          onClose();
                          item.run();
                        }}
                      >
                        <span className="text-muted [&_svg]:size-4">{item.icon}</span>
                        <span className="min-w-0 flex-1 truncate">{item.label}</span>
                        {item.hint && <span className="text-xs text-muted">{item.hint}</span>}
                        {item.keys && <Kbd keys={item.keys} />}
                      </Autocomplete.Item>
                    )}
                  </Autocomplete.Collection>
                </Autocomplete.Group>
              )}
            </Autocomplete.List>
            <Dialog.Close className="sr-only">Close</Dialog.Close>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
