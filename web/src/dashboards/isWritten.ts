import { type insightSource, isTotal } from "@/insights/queries";

/// Whether the result is numbers, bars or a table in the flow of the page, as high as what they say, and
/// no drawing that fills any height.
export function isWritten(query: ReturnType<typeof insightSource>): boolean {
  switch (query?.kind) {
    case "RetentionQuery":
      return true;
    case "FunnelsQuery":
      return (query.funnelsFilter?.funnelVizType ?? "steps") === "steps";
    case "TrendsQuery": {
      const display = query.trendsFilter?.display;
      return isTotal(display) && display !== "ActionsPie";
    }
    default:
      return false;
  }
}
