/// The script of shared and embedded pages. It reads the JSON in the page and puts charts in the place
/// of the tables; it asks the server for nothing. Without it, or where it fails, the tables stay.

import { createRoot } from "react-dom/client";
import type { Schemas } from "@/api/client";
import { isWritten } from "@/dashboards/isWritten";
import { placesOf } from "@/dashboards/layout";
import { Markdown } from "@/dashboards/Markdown";
import { insightSource } from "@/insights/queries";
import { SharedInsight } from "./SharedInsight";
import "../ui/theme.css";
import "./shared.css";

interface Exported {
  dashboard?: Schemas["Dashboard"];
  insight?: Schemas["Insight"];
}

function read(): Exported {
  const text = document.getElementById("POSTHOG_EXPORTED_DATA")?.textContent;
  return text ? (JSON.parse(text) as Exported) : {};
}

const slot = (name: string | number) =>
  document.querySelector<HTMLElement>(`section[data-tile="${name}"]`);

/// Draws an insight in its section, in the place of the table.
function draw(
  section: HTMLElement,
  insight: Schemas["Insight"],
  filters: Schemas["Dashboard"]["filters"][],
) {
  const table = section.querySelector<HTMLElement>(".answer");
  if (!table) return;
  const host = document.createElement("div");
  host.className = isWritten(insightSource(insight.query)) ? "chart written" : "chart";
  table.before(host);
  table.hidden = true;
  const giveUp = () => {
    table.hidden = false;
    host.remove();
  };
  const label = section.querySelector("h2")?.textContent ?? "Insight";
  createRoot(host, { onUncaughtError: giveUp }).render(
    <SharedInsight label={label} insight={insight} filters={filters} onUnknown={giveUp} />,
  );
}

function drawDashboard(dashboard: Schemas["Dashboard"]) {
  document.querySelector("main")?.classList.add("grid-wide");
  const places = new Map(placesOf(dashboard.tiles).map((place) => [place.id, place]));
  for (const tile of dashboard.tiles) {
    const section = slot(tile.id);
    if (!section) continue;
    const place = places.get(tile.id);
    if (place) {
      // Set one by one: the page's policy forbids style attributes, not this.
      section.style.setProperty("--x", String(place.x + 1));
      section.style.setProperty("--y", String(place.y + 1));
      section.style.setProperty("--w", String(place.w));
      section.style.setProperty("--h", String(place.h));
    }
    if (tile.insight) draw(section, tile.insight, [dashboard.filters, tile.filters_overrides]);
    if (tile.text) createRoot(section).render(<Markdown text={tile.text.body} />);
  }
}

const { dashboard, insight } = read();
if (dashboard) drawDashboard(dashboard);
const single = insight && slot("insight");
if (insight && single) {
  document.querySelector("main")?.classList.add("single");
  draw(single, insight, []);
}
