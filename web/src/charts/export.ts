import type { ChartData } from "./types";

/// RFC 4180. A cell that a spreadsheet would run as a formula gets an apostrophe in front.
export function toCsv({ columns, rows }: ChartData): string {
  const cell = (value: string | number | null): string => {
    if (value === null) return "";
    if (typeof value === "number") return String(value);
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${[columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/// A name that every file system takes.
export function fileName(title: string, extension: string): string {
  const base = title
    .normalize("NFKD")
    .replace(/[^\w\s-]/g, "")
    .trim()
    .replace(/\s+/g, "-")
    .toLowerCase()
    .slice(0, 80);
  return `${base || "chart"}.${extension}`;
}

export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function downloadCsv(title: string, data: ChartData): void {
  download(fileName(title, "csv"), new Blob([toCsv(data)], { type: "text/csv;charset=utf-8" }));
}

export interface PngOptions {
  title: string;
  /// The range and the zone, as in "Nov 1 – Nov 14, 2026 · Europe/Berlin".
  subtitle: string;
}

const SCALE = 2;
const MARGIN = 24;
const HEAD = 64;

/// Paints what a chart's element shows (canvas, SVG, text and boxes) below its title and range.
export async function toPng(element: HTMLElement, { title, subtitle }: PngOptions): Promise<Blob> {
  const bounds = element.getBoundingClientRect();
  const canvas = document.createElement("canvas");
  canvas.width = (bounds.width + 2 * MARGIN) * SCALE;
  canvas.height = (bounds.height + HEAD + 2 * MARGIN) * SCALE;
  const ctx = canvas.getContext("2d");
  if (!ctx) throw new Error("The browser cannot draw a picture of this size.");
  const root = getComputedStyle(document.documentElement);
  const token = (name: string) => root.getPropertyValue(name).trim();
  const font = getComputedStyle(document.body).fontFamily;
  ctx.scale(SCALE, SCALE);
  ctx.fillStyle = token("--surface");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.textBaseline = "top";
  ctx.fillStyle = token("--text");
  ctx.font = `600 18px ${font}`;
  ctx.fillText(title, MARGIN, MARGIN, bounds.width);
  ctx.fillStyle = token("--muted");
  ctx.font = `13px ${font}`;
  ctx.fillText(subtitle, MARGIN, MARGIN + 26, bounds.width);
  ctx.translate(MARGIN - bounds.left, MARGIN + HEAD - bounds.top);
  await paint(ctx, element);
  return new Promise((resolve, reject) => {
    canvas.toBlob(
      (blob) => (blob ? resolve(blob) : reject(new Error("The picture could not be made."))),
      "image/png",
    );
  });
}

export async function downloadPng(element: HTMLElement, options: PngOptions): Promise<void> {
  download(fileName(options.title, "png"), await toPng(element, options));
}

async function paint(ctx: CanvasRenderingContext2D, element: Element): Promise<void> {
  if (element.classList.contains("sr-only") || element.closest("[hidden]")) return;
  const box = element.getBoundingClientRect();
  if (element instanceof HTMLCanvasElement) {
    ctx.drawImage(element, box.left, box.top, box.width, box.height);
    return;
  }
  if (element instanceof SVGSVGElement) {
    ctx.drawImage(await svgImage(element, box), box.left, box.top, box.width, box.height);
    return;
  }
  const style = getComputedStyle(element);
  if (style.display === "none" || style.visibility === "hidden") return;
  if (box.width > 0 && box.height > 0 && style.backgroundColor !== "rgba(0, 0, 0, 0)") {
    ctx.globalAlpha = Number(style.opacity);
    ctx.fillStyle = style.backgroundColor;
    ctx.beginPath();
    ctx.roundRect(
      box.left,
      box.top,
      box.width,
      box.height,
      Number.parseFloat(style.borderRadius) || 0,
    );
    ctx.fill();
    ctx.globalAlpha = 1;
  }
  for (const node of element.childNodes) {
    if (node instanceof Element) await paint(ctx, node);
    else if (node.nodeType === Node.TEXT_NODE && node.textContent?.trim()) {
      const range = document.createRange();
      range.selectNodeContents(node);
      const at = range.getBoundingClientRect();
      ctx.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
      ctx.fillStyle = style.color;
      ctx.textBaseline = "middle";
      ctx.fillText(node.textContent.trim(), at.left, at.top + at.height / 2, box.width);
    }
  }
}

const SVG_STYLES = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "font-size",
  "font-weight",
  "font-family",
];

/// An SVG outside of the page knows none of its styles: they are written into it.
async function svgImage(svg: SVGSVGElement, box: DOMRect): Promise<HTMLImageElement> {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const originals = [svg, ...svg.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((target, at) => {
    const original = originals[at];
    if (!original) return;
    const style = getComputedStyle(original);
    for (const name of SVG_STYLES) target.setAttribute(name, style.getPropertyValue(name));
    target.removeAttribute("class");
  });
  copy.setAttribute("width", String(box.width));
  copy.setAttribute("height", String(box.height));
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const source = new XMLSerializer().serializeToString(copy);
  const url = URL.createObjectURL(new Blob([source], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    return image;
  } finally {
    URL.revokeObjectURL(url);
  }
}
