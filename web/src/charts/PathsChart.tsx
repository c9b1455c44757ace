import { sankey, sankeyLinkHorizontal } from "d3-sankey";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { cx } from "@/ui/cx";
import { compact, duration, exact } from "@/ui/format";
import { ChartFrame } from "./ChartFrame";
import { seriesColor } from "./palette";
import type { ChartData, ChartProps } from "./types";

export interface PathLink {
  /// The step and the name, as the API gives them: "1_/pricing".
  source: string;
  target: string;
  value: number;
  averageSeconds?: number | null;
}

export interface PathsChartProps extends ChartProps {
  links: readonly PathLink[];
  onOpenLink?: (link: PathLink) => void;
  onOpenNode?: (node: string) => void;
  /// Without names, in the width there is, for lists.
  thumbnail?: boolean;
}

interface Node {
  id: string;
}

const STEP_PX = 210;
const NODE_PX = 6;
const MARGIN_PX = 16;
/// Beside the last nodes.
const LABEL_PX = 190;
const NAME_CHARS_MAX = 26;
const HEIGHT_PX = 420;
/// Between two nodes of a step stands the name of the lower one.
const NODE_GAP_PX = 22;
/// What the bands of a step share, besides the gaps.
const BANDS_PX = 200;
const THUMBNAIL = { height: 124, gap: 6 };

function nameOf(node: string): string {
  return node.replace(/^\d+_/, "");
}

function stepOf(node: string): number {
  return Number(/^(\d+)_/.exec(node)?.[1] ?? 1);
}

/// Paths say most at their end: a long URL keeps it.
function short(name: string): string {
  return name.length <= NAME_CHARS_MAX ? name : `…${name.slice(1 - NAME_CHARS_MAX)}`;
}

export function pathsTable({ links }: Pick<PathsChartProps, "links">): ChartData {
  return {
    columns: ["From", "To", "Step", "Persons", "Average time"],
    rows: links.map(({ source, target, value, averageSeconds }) => [
      nameOf(source),
      nameOf(target),
      stepOf(source),
      value,
      averageSeconds ? duration(averageSeconds) : null,
    ]),
  };
}

/// Where people went from where, as bands whose width is how many.
export function PathsChart({
  label,
  view,
  format = exact,
  className,
  links,
  onOpenLink,
  onOpenNode,
  thumbnail = false,
}: PathsChartProps) {
  const [active, setActive] = useState<string | null>(null);
  const [room, setRoom] = useState(0);
  const scroller = useRef<HTMLElement>(null);
  useEffect(() => {
    const element = scroller.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setRoom(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  const layout = useMemo(() => {
    const names = [...new Set(links.flatMap(({ source, target }) => [source, target]))];
    if (links.length === 0) return { nodes: [], links: [], width: room, height: 0 };
    const first = Math.min(...names.map(stepOf));
    const steps = Math.max(...names.map(stepOf)) - first + 1;
    const width = thumbnail ? Math.max(room, NODE_PX * 4) : Math.max(room, steps * STEP_PX);
    const crowd = Math.max(
      ...Array.from({ length: steps }, (_, at) =>
        names.filter((id) => stepOf(id) - first === at),
      ).map(({ length }) => length),
    );
    const height = thumbnail
      ? THUMBNAIL.height
      : Math.max(HEIGHT_PX, crowd * NODE_GAP_PX + BANDS_PX);
    const graph = sankey<Node, PathLink>()
      .nodeId(({ id }) => id)
      .nodeAlign(({ id }) => stepOf(id) - first)
      .nodeWidth(NODE_PX)
      .nodePadding(thumbnail ? THUMBNAIL.gap : NODE_GAP_PX)
      .extent(
        thumbnail
          ? [
              [0, 2],
              [width, height - 2],
            ]
          : [
              [MARGIN_PX, 24],
              [width - LABEL_PX, height - MARGIN_PX],
            ],
      )({ nodes: names.map((id) => ({ id })), links: links.map((link) => ({ ...link })) });
    return { ...graph, width, height };
  }, [links, thumbnail, room]);
  const top = links.reduce<PathLink | null>(
    (best, link) => (best && best.value >= link.value ? best : link),
    null,
  );
  const path = sankeyLinkHorizontal();
  const press = (event: KeyboardEvent, run: () => void) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    run();
  };
  return (
    <ChartFrame
      label={label}
      summary={
        top
          ? `${links.length} connections. The commonest leads from ${nameOf(top.source)} to ${nameOf(top.target)}, taken by ${format(top.value)}.`
          : "No paths."
      }
      data={pathsTable({ links })}
      view={view}
      format={format}
      className={className}
    >
      <section
        ref={scroller}
        aria-label={label}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must take the focus.
        tabIndex={0}
        className="scroll-thin overflow-auto -outline-offset-2"
      >
        {/* biome-ignore lint/a11y/noSvgWithoutTitle: the figure has a caption. */}
        <svg width={layout.width} height={layout.height} className="max-w-none text-xs">
          <g fill="none">
            {layout.links.map((link) => {
              const source = link.source as Node;
              const target = link.target as Node;
              const id = `${source.id} ${target.id}`;
              const lit =
                active === null || active === source.id || active === target.id || active === id;
              const title = `${nameOf(source.id)} → ${nameOf(target.id)}: ${format(link.value)}`;
              const original = links.find(
                (one) => one.source === source.id && one.target === target.id,
              );
              const interactive = onOpenLink && original;
              return (
                // biome-ignore lint/a11y/noStaticElementInteractions: the pointer only lights it up.
                <path
                  key={id}
                  d={path(link) ?? ""}
                  stroke="var(--accent)"
                  strokeWidth={Math.max(1.5, link.width ?? 0)}
                  strokeOpacity={lit ? 0.28 : 0.08}
                  onMouseEnter={() => setActive(id)}
                  onMouseLeave={() => setActive(null)}
                  {...(interactive
                    ? {
                        role: "button",
                        tabIndex: 0,
                        "aria-label": title,
                        className: "cursor-pointer hover:[stroke-opacity:0.5]",
                        onFocus: () => setActive(id),
                        onBlur: () => setActive(null),
                        onClick: () => onOpenLink(original),
                        onKeyDown: (event: KeyboardEvent) =>
                          press(event, () => onOpenLink(original)),
                      }
                    : {})}
                >
                  <title>{title}</title>
                </path>
              );
            })}
          </g>
          {layout.nodes.map((node) => {
            const { x0 = 0, x1 = 0, y0 = 0, y1 = 0, value = 0 } = node;
            const title = `${nameOf(node.id)}: ${format(value)}`;
            // The name of a control contains what is written on it.
            const written = `${short(nameOf(node.id))} ${compact(value)}`;
            const name =
              written === `${nameOf(node.id)} ${format(value)}` ? written : `${written}, ${title}`;
            return (
              // biome-ignore lint/a11y/noStaticElementInteractions: the pointer only lights it up.
              <g
                key={node.id}
                onMouseEnter={() => setActive(node.id)}
                onMouseLeave={() => setActive(null)}
                className={cx(onOpenNode && "cursor-pointer")}
                {...(onOpenNode
                  ? {
                      role: "button",
                      tabIndex: 0,
                      "aria-label": name,
                      onClick: () => onOpenNode(node.id),
                      onKeyDown: (event: KeyboardEvent) => press(event, () => onOpenNode(node.id)),
                    }
                  : {})}
              >
                <title>{title}</title>
                <rect
                  x={x0}
                  y={y0}
                  width={x1 - x0}
                  height={Math.max(2, y1 - y0)}
                  rx="2"
                  fill={seriesColor(0)}
                />
                {!thumbnail && (
                  <text
                    x={x1 + 6}
                    y={y0 - 5}
                    fill="var(--text)"
                    // Keeps the name readable over a band.
                    stroke="var(--surface)"
                    strokeWidth="3"
                    strokeLinejoin="round"
                    paintOrder="stroke"
                  >
                    {`${short(nameOf(node.id))} `}
                    <tspan fill="var(--muted)">{compact(value)}</tspan>
                  </text>
                )}
              </g>
            );
          })}
        </svg>
      </section>
    </ChartFrame>
  );
}
