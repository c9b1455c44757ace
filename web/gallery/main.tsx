/// Every component and chart on one page, for looking at them: `npm run dev`, then /gallery/. It is no
/// part of the build.
import {
  createMemoryHistory,
  createRootRoute,
  createRouter,
  RouterProvider,
} from "@tanstack/react-router";
import { Plus, Trash2 } from "lucide-react";
import { useRef, useState } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "@/api/errors";
import { BarChart } from "@/charts/BarChart";
import { downloadPng } from "@/charts/export";
import { FunnelChart } from "@/charts/FunnelChart";
import { HistogramChart } from "@/charts/HistogramChart";
import { Legend } from "@/charts/Legend";
import { NumberChart } from "@/charts/NumberChart";
import { PathsChart } from "@/charts/PathsChart";
import { PieChart } from "@/charts/PieChart";
import { RetentionGrid } from "@/charts/RetentionGrid";
import { TimeChart } from "@/charts/TimeChart";
import {
  Badge,
  Button,
  Card,
  Checkbox,
  Chip,
  Combobox,
  Confirm,
  CopyButton,
  Dialog,
  Drawer,
  EmptyState,
  ErrorPanel,
  Field,
  IconButton,
  Input,
  Kbd,
  Menu,
  MultiCombobox,
  NumberField,
  Page,
  PageHeader,
  Popover,
  RelativeTime,
  SearchInput,
  Select,
  SkeletonRows,
  Switch,
  Tabs,
  Textarea,
  Toaster,
  toast,
} from "@/ui";
import { Table } from "@/ui/Table";
import "../src/ui/theme.css";

const theme = new URLSearchParams(window.location.search).get("theme");
if (theme) document.documentElement.dataset.theme = theme;

const DAY = 86_400_000;
const START = Date.UTC(2026, 10, 1);
const times = Array.from({ length: 18 }, (_, day) => START + day * DAY);
const wave = (base: number, swing: number, phase: number) =>
  times.map((_, at) => Math.round(base + swing * Math.sin(at / 2.2 + phase) + at * 3));
const series = [
  { id: "a", label: "Signed up", values: wave(120, 40, 0) },
  { id: "b", label: "Viewed pricing", values: wave(80, 25, 1.5) },
  { id: "c", label: "Opened the editor", values: wave(40, 18, 3) },
];
const compare = {
  id: "a-before",
  label: "Signed up, before",
  values: wave(100, 30, 1),
  compare: true,
  color: "var(--chart-1)",
};
const items = ["Chrome", "Firefox", "Safari", "Edge", "Other"].map((label, at) => ({
  id: label,
  label,
  value: Math.round(4200 / (at + 1)),
}));
const steps = [
  { label: "Visited the shop", count: 8400 },
  { label: "Added to cart", count: 3100, medianSeconds: 340 },
  { label: "Began checkout", count: 1900, medianSeconds: 95 },
  { label: "Paid", count: 1240, medianSeconds: 180 },
];
const cohorts = Array.from({ length: 7 }, (_, week) => ({
  id: String(week),
  label: `Nov ${1 + week}`,
  values: Array.from({ length: 8 - week }, (_, at) =>
    Math.round((420 - week * 20) * (at === 0 ? 1 : 0.95 / (at + 0.6))),
  ),
  unfinishedFrom: 7 - week,
}));
const links = [
  { source: "1_/", target: "2_/pricing", value: 420 },
  { source: "1_/", target: "2_/docs", value: 210 },
  { source: "1_/", target: "2_/blog/how-we-measure-retention-in-small-teams", value: 90 },
  { source: "2_/pricing", target: "3_/signup", value: 260 },
  { source: "2_/pricing", target: "3_/docs", value: 80 },
  { source: "2_/docs", target: "3_/signup", value: 70 },
  { source: "2_/docs", target: "3_/docs/install", value: 110 },
  { source: "3_/signup", target: "4_/welcome", value: 290 },
];
const error = new ApiError(
  504,
  "server_error",
  "timeout",
  "The query took longer than 10 s. Choose a shorter range.",
  null,
  "7d1c9a4e-2f63-4e0e-9d67-0b6a3f0f8b11",
);

function Charts() {
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [table, setTable] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const toggle = (id: string) => {
    const next = new Set(hidden);
    if (!next.delete(id)) next.add(id);
    setHidden(next);
  };
  const common = { times, interval: "day", timeZone: "UTC", unfinishedFrom: 17 } as const;
  return (
    <div className="grid grid-cols-1 gap-4 lg:grid-cols-2">
      <Card
        title="Lines"
        actions={
          <>
            <Switch label="Table" checked={table} onChange={setTable} />
            <Button
              size="sm"
              onClick={() =>
                box.current &&
                downloadPng(box.current, {
                  title: "Sign-ups",
                  subtitle: "Nov 1 – Nov 18, 2026 · UTC",
                })
              }
            >
              PNG
            </Button>
          </>
        }
      >
        <div ref={box} className="flex h-72 flex-col">
          <TimeChart
            {...common}
            label="Sign-ups"
            series={[...series, compare]}
            hiddenIds={hidden}
            view={table ? "table" : "chart"}
            goals={[{ label: "Goal 200", value: 200 }]}
            markers={[
              { at: START + 5 * DAY, kind: "flag", label: "new-checkout to 50 %" },
              { at: START + 11 * DAY, kind: "annotation", label: "Launch" },
            ]}
            onSelectRange={(from, to) =>
              toast.info(`${new Date(from).toISOString()} – ${new Date(to).toISOString()}`)
            }
            onOpenPoint={(item, at) => toast.info(`${item.label} ${at}`)}
            className="flex-1"
          />
          <Legend series={[...series, compare]} hiddenIds={hidden} onToggle={toggle} />
        </div>
      </Card>
      <Card title="Stacked bars">
        <TimeChart {...common} label="Stacked bars" series={series} kind="bar" height={280} />
      </Card>
      <Card title="Stacked areas">
        <TimeChart {...common} label="Stacked areas" series={series} kind="area" height={280} />
      </Card>
      <Card title="Lifecycle">
        <TimeChart
          {...common}
          label="Lifecycle"
          kind="bar"
          height={280}
          series={[
            ...series.slice(0, 2),
            { id: "d", label: "Dormant", values: wave(-60, 20, 2), color: "var(--chart-2)" },
          ]}
        />
      </Card>
      <Card title="Funnel">
        <FunnelChart label="Funnel" series={[{ id: "all", label: "", steps }]} onOpen={() => {}} />
      </Card>
      <Card title="Funnel by browser">
        <FunnelChart
          label="Funnel by browser"
          series={["Chrome", "Firefox", "Safari"].map((label, at) => ({
            id: label,
            label,
            steps: steps.map((step) => ({ ...step, count: Math.round(step.count / (at + 1.5)) })),
          }))}
        />
      </Card>
      <Card title="Retention">
        <RetentionGrid label="Retention" period="Day" cohorts={cohorts} onOpen={() => {}} />
      </Card>
      <Card title="Bars">
        <BarChart
          label="Browsers"
          items={items.map((item) => ({ ...item, compare: Math.round(item.value * 0.8) }))}
          onOpen={() => {}}
        />
      </Card>
      <Card title="Paths" flush className="lg:col-span-2">
        <PathsChart label="Paths" links={links} onOpenLink={() => {}} />
      </Card>
      <Card title="Ring">
        <PieChart label="Browsers" items={items} />
      </Card>
      <Card title="Number">
        <NumberChart label="Sign-ups" value={12_904} compare={11_320} />
      </Card>
      <Card title="Histogram">
        <HistogramChart
          label="Time to convert"
          binLabel="Time"
          bins={["0–1 min", "1–2 min", "2–5 min", "5–10 min", "10–30 min"].map((label, at) => ({
            label,
            from: label.split("–")[0] ?? "",
            value: 320 / (at + 1),
          }))}
        />
      </Card>
      <Card title="Thumbnail">
        <TimeChart {...common} label="Small" series={series} height={64} thumbnail />
      </Card>
    </div>
  );
}

function Components() {
  const [text, setText] = useState("");
  const [choice, setChoice] = useState("day");
  const [browser, setBrowser] = useState<string | null>(null);
  const [many, setMany] = useState<string[]>(["Chrome"]);
  const [on, setOn] = useState(true);
  const [number, setNumber] = useState<number | null>(14);
  const [tab, setTab] = useState("one");
  const [open, setOpen] = useState<"dialog" | "drawer" | "confirm" | null>(null);
  const options = items.map(({ label, value }) => ({ value: label, label, hint: value }));
  return (
    <div className="flex flex-col gap-4">
      <Card title="Buttons and toasts">
        <div className="flex flex-wrap items-center gap-2">
          <Button
            variant="primary"
            icon={<Plus aria-hidden />}
            onClick={() => toast.success("Saved")}
          >
            Primary
          </Button>
          <Button
            onClick={() =>
              toast.success("Dashboard deleted", { undo: () => toast.info("Restored") })
            }
          >
            Undo toast
          </Button>
          <Button variant="ghost" onClick={() => toast.error(error)}>
            Ghost
          </Button>
          <Button variant="danger">Danger</Button>
          <Button busy>Busy</Button>
          <Button disabled>Disabled</Button>
          <Button disabledReason="You can view this but not edit it.">With a reason</Button>
          <Button size="sm">Small</Button>
          <IconButton label="Delete">
            <Trash2 aria-hidden />
          </IconButton>
          <CopyButton text="copied" />
          <Kbd keys="mod+k" />
          <Badge>Neutral</Badge>
          <Badge tone="accent">Live</Badge>
          <Badge tone="warn">Stale</Badge>
          <Badge tone="danger">Failed</Badge>
          <Badge tone="info">Shared</Badge>
          <Chip onRemove={() => {}} removeLabel="Remove filter">
            browser = Chrome
          </Chip>
          <RelativeTime at={new Date(Date.now() - 3 * 3_600_000)} />
        </div>
      </Card>
      <Card title="Fields">
        <div className="grid gap-4 sm:grid-cols-3">
          <Field label="Name" hint="Shown in lists.">
            <Input value={text} onChange={(event) => setText(event.currentTarget.value)} />
          </Field>
          <Field label="Key" error="This key is taken.">
            <Input defaultValue="new-checkout" />
          </Field>
          <Field label="Interval">
            <Select
              label="Interval"
              value={choice}
              onChange={setChoice}
              options={["hour", "day", "week"].map((value) => ({ value, label: value }))}
            />
          </Field>
          <Field label="Browser">
            <Combobox label="Browser" options={options} value={browser} onChange={setBrowser} />
          </Field>
          <Field label="Browsers">
            <MultiCombobox
              label="Browsers"
              options={[{ heading: "Common", items: options }]}
              value={many}
              onChange={setMany}
            />
          </Field>
          <Field label="Days">
            <NumberField value={number} onChange={setNumber} min={1} max={90} />
          </Field>
          <Field label="Description">
            <Textarea />
          </Field>
          <div className="flex flex-col gap-2">
            <Checkbox label="Without test accounts" checked={on} onChange={setOn} />
            <Switch label="Live" checked={on} onChange={setOn} />
          </div>
          <SearchInput label="Search events" />
        </div>
      </Card>
      <Card title="Popups">
        <div className="flex flex-wrap gap-2">
          <Menu
            trigger={<Button>Menu</Button>}
            items={[
              { label: "Rename" },
              { label: "Copy" },
              "separator",
              { label: "Delete", danger: true, icon: <Trash2 /> },
            ]}
          />
          <Popover trigger={<Button>Popover</Button>} title="Range">
            Some content
          </Popover>
          <Button onClick={() => setOpen("dialog")}>Dialog</Button>
          <Button onClick={() => setOpen("drawer")}>Drawer</Button>
          <Button onClick={() => setOpen("confirm")}>Confirm</Button>
        </div>
        <Dialog
          open={open === "dialog"}
          onOpenChange={() => setOpen(null)}
          title="Save insight"
          description="It can be changed later."
          footer={<Button variant="primary">Save</Button>}
        >
          <Field label="Name">
            <Input />
          </Field>
        </Dialog>
        <Drawer open={open === "drawer"} onOpenChange={() => setOpen(null)} title="Event">
          Content
        </Drawer>
        <Confirm
          open={open === "confirm"}
          onOpenChange={() => setOpen(null)}
          title="Delete 3 events?"
          action="Delete events"
          danger
          onConfirm={() => setOpen(null)}
        >
          This cannot be undone.
        </Confirm>
      </Card>
      <Card title="Tabs">
        <Tabs
          label="Views"
          value={tab}
          onChange={setTab}
          items={[
            { value: "one", label: "Chart", panel: "First" },
            { value: "two", label: "Table", panel: "Second" },
          ]}
        />
      </Card>
      <Card title="Table" flush>
        <Table
          label="Many rows"
          className="max-h-64"
          rows={Array.from({ length: 10_000 }, (_, at) => ({
            id: String(at),
            name: `Event ${at}`,
            value: (at * 7919) % 1000,
          }))}
          rowKey={({ id }) => id}
          onOpen={({ name }) => toast.info(name)}
          columns={[
            { id: "name", header: "Name", sortValue: ({ name }) => name, cell: ({ name }) => name },
            {
              id: "value",
              header: "Count",
              align: "right",
              sortValue: ({ value }) => value,
              cell: ({ value }) => value,
            },
          ]}
        />
      </Card>
      <div className="grid gap-4 sm:grid-cols-3">
        <Card flush>
          <EmptyState
            title="No dashboards yet"
            action={<Button variant="primary">New dashboard</Button>}
          >
            A dashboard shows several insights.
          </EmptyState>
        </Card>
        <Card flush>
          <ErrorPanel error={error} onRetry={() => {}} />
        </Card>
        <Card flush>
          <SkeletonRows />
        </Card>
      </div>
    </div>
  );
}

const onlyCharts = new URLSearchParams(window.location.search).get("show");
const router = createRouter({
  history: createMemoryHistory(),
  routeTree: createRootRoute({
    component: () => (
      <main>
        <Page>
          <PageHeader title="Components and charts" />
          {onlyCharts !== "charts" && <Components />}
          <div className="h-4" />
          {onlyCharts !== "components" && <Charts />}
        </Page>
        <Toaster />
      </main>
    ),
  }),
});
const root = document.getElementById("root");
if (root) createRoot(root).render(<RouterProvider router={router as never} />);
