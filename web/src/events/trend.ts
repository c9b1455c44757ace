/// The builder's draft of a trend of one event, as the fragment of its URL.
export function trendOf(event: string): string {
  const query = {
    kind: "InsightVizNode",
    source: {
      kind: "TrendsQuery",
      series: [{ kind: "EventsNode", event, name: event, math: "total" }],
      dateRange: { date_from: "-7d" },
      interval: "day",
    },
  };
  return `q=${encodeURIComponent(JSON.stringify(query))}`;
}
