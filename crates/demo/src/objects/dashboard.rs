//! The dashboard and its insights, in the format of dashboard templates.

use serde_json::{Value, json};

use super::{CHECKOUT, ObjectIds};
use crate::Demo;

/// The name of the dashboard.
const NAME: &str = "Shop overview";
const INTRODUCTION: &str = "## A made-up plant shop\n\nThirty days of visits, sign-ups and orders. \
    The flags, cohorts and annotations of this project refer to the same events. Delete the \
    project in its settings, and all of it is gone.";

/// Position and size on the grid of twelve columns: x, y, width, height.
type Place = [u32; 4];

struct Tile {
    name: &'static str,
    description: &'static str,
    place: Place,
    query: Value,
}

impl Demo {
    /// A dashboard template of insights of all six kinds and a text.
    pub fn dashboard(&self, ids: ObjectIds) -> Value {
        let mut tiles = vec![json!({
            "type": "TEXT", "body": INTRODUCTION, "layouts": layouts(&[0, 0, 12, 2], 0),
        })];
        for (nth, tile) in self.insights(ids).into_iter().enumerate() {
            let query = json!({ "kind": "InsightVizNode", "source": tile.query });
            tiles.push(json!({
                "type": "INSIGHT", "name": tile.name, "description": tile.description,
                "layouts": layouts(&tile.place, nth as u32 + 1), "query": query,
            }));
        }
        json!({
            "template_name": NAME,
            "dashboard_description": "Visitors, orders and what leads from one to the other.",
            "dashboard_filters": {}, "tags": ["demo"], "variables": [], "tiles": tiles,
        })
    }

    fn insights(&self, ids: ObjectIds) -> Vec<Tile> {
        let groups = [self.numbers(ids), self.trends(ids), self.funnels(), self.habits()];
        groups.into_iter().flatten().collect()
    }

    fn numbers(&self, ids: ObjectIds) -> Vec<Tile> {
        let number = |series: Value, more: Value| {
            let filter = with(json!({ "display": "BoldNumber" }), more);
            json!({
                "kind": "TrendsQuery", "series": series, "dateRange": self.range(14),
                "trendsFilter": filter, "compareFilter": { "compare": true },
                "filterTestAccounts": true,
            })
        };
        let orders = json!({ "kind": "ActionsNode", "id": ids.order_action,
            "name": "Completed an order", "math": "total" });
        let visitors = unique("$pageview");
        vec![
            Tile {
                name: "Orders, two weeks",
                description: "Paid orders beside the two weeks before.",
                place: [0, 2, 4, 3],
                query: number(json!([orders]), json!({})),
            },
            Tile {
                name: "Revenue, two weeks",
                description: "The sum of all paid orders.",
                place: [4, 2, 4, 3],
                query: number(json!([revenue()]), json!({ "aggregationAxisPrefix": "$" })),
            },
            Tile {
                name: "Visitors who buy, two weeks",
                description: "Buyers in percent of visitors, by a formula.",
                place: [8, 2, 4, 3],
                query: number(
                    json!([visitors, unique("order paid")]),
                    json!({ "formula": "B / A * 100", "aggregationAxisPostfix": "%",
                        "decimalPlaces": 1 }),
                ),
            },
        ]
    }

    fn trends(&self, ids: ObjectIds) -> Vec<Tile> {
        let trend = |series: Value, days: usize, filter: Value| {
            json!({ "kind": "TrendsQuery", "series": series, "interval": "day",
                "dateRange": self.range(days), "trendsFilter": filter })
        };
        let by = |kind: &str, property: &str| json!({ "breakdownFilter": { "breakdown": property, "breakdown_type": kind } });
        let line = json!({ "display": "ActionsLineGraph" });
        let business = json!([{ "key": "id", "type": "cohort", "operator": "in",
            "value": ids.business_cohort }]);
        vec![
            Tile {
                name: "Visitors a day",
                description: "Different people, beside the two weeks before.",
                place: [0, 5, 8, 5],
                query: with(
                    trend(json!([unique("$pageview")]), 14, line.clone()),
                    json!({ "compareFilter": { "compare": true } }),
                ),
            },
            Tile {
                name: "Where visitors come from",
                description: "Different people by referring domain.",
                place: [8, 5, 4, 5],
                query: with(
                    trend(
                        json!([unique("$pageview")]),
                        30,
                        json!({ "display": "ActionsBarValue" }),
                    ),
                    by("event", "$referring_domain"),
                ),
            },
            Tile {
                name: "Revenue by plan",
                description: "Paid orders, stacked by the buyer's plan.",
                place: [0, 10, 6, 5],
                query: with(
                    trend(
                        json!([revenue()]),
                        30,
                        json!({ "display": "ActionsBar", "aggregationAxisPrefix": "$" }),
                    ),
                    by("person", "plan"),
                ),
            },
            Tile {
                name: "Abandoned carts",
                description: "Carts that were not paid, in percent, smoothed over a week.",
                place: [6, 10, 6, 5],
                query: trend(
                    json!([total("added to cart"), total("order paid")]),
                    30,
                    json!({ "display": "ActionsLineGraph", "formula": "(A - B) / A * 100",
                        "aggregationAxisPostfix": "%", "smoothingIntervals": 7 }),
                ),
            },
            Tile {
                name: "Companies at work",
                description: "Different companies whose members used a feature, by week.",
                place: [0, 15, 4, 5],
                query: with(
                    trend(
                        json!([{ "kind": "EventsNode", "event": "feature used",
                            "math": "unique_group", "math_group_type_index": 0 }]),
                        30,
                        json!({ "display": "ActionsBar" }),
                    ),
                    json!({ "interval": "week" }),
                ),
            },
            Tile {
                name: "Features that business customers use",
                description: "Uses by members of the cohort Business customers.",
                place: [4, 15, 8, 5],
                query: with(
                    trend(
                        json!([total("feature used")]),
                        30,
                        json!({ "display": "ActionsAreaGraph" }),
                    ),
                    with(by("event", "feature"), json!({ "properties": business })),
                ),
            },
        ]
    }

    fn funnels(&self) -> Vec<Tile> {
        let funnel = |steps: &[&str], days: usize| {
            let series: Vec<Value> = steps.iter().map(|event| node(event)).collect();
            json!({ "kind": "FunnelsQuery", "series": series, "dateRange": self.range(days),
                "funnelsFilter": { "funnelVizType": "steps", "funnelOrderType": "ordered",
                    "funnelWindowInterval": 1, "funnelWindowIntervalUnit": "day" } })
        };
        let variant = format!("$feature/{CHECKOUT}");
        vec![
            Tile {
                name: "From product to order",
                description: "Within one day of looking at a product.",
                place: [0, 20, 6, 6],
                query: funnel(
                    &["product viewed", "added to cart", "checkout started", "order paid"],
                    30,
                ),
            },
            Tile {
                name: "Does the new checkout sell more?",
                description: "Checkouts that were paid, by variant of the flag checkout-redesign.",
                place: [6, 20, 6, 6],
                query: with(
                    funnel(&["checkout started", "order paid"], 12),
                    json!({
                        "breakdownFilter": { "breakdown": variant, "breakdown_type": "event" },
                        "properties": [{ "key": variant, "type": "event", "operator": "is_set",
                            "value": "is_set" }],
                    }),
                ),
            },
        ]
    }

    fn habits(&self) -> Vec<Tile> {
        let entity = |event: &str| json!({ "id": event, "name": event, "type": "events" });
        vec![
            Tile {
                name: "Do people who sign up come back?",
                description: "Visits on the days after signing up.",
                place: [0, 26, 12, 8],
                query: json!({
                    "kind": "RetentionQuery", "dateRange": self.range(14),
                    "retentionFilter": {
                        "period": "Day", "totalIntervals": 11,
                        "retentionType": "retention_first_time",
                        "targetEntity": entity("signed up"),
                        "returningEntity": entity("$pageview"),
                    },
                }),
            },
            Tile {
                name: "New, returning and lost visitors",
                description: "By week; those below zero stayed away.",
                place: [0, 34, 6, 5],
                query: json!({
                    "kind": "LifecycleQuery", "series": [node("$pageview")], "interval": "week",
                    "dateRange": self.range(30),
                }),
            },
            Tile {
                name: "Days with a visit",
                description: "How many people came on one day, on two, and so on.",
                place: [6, 34, 6, 5],
                query: json!({
                    "kind": "StickinessQuery", "series": [node("$pageview")], "interval": "day",
                    "dateRange": self.range(14),
                }),
            },
            Tile {
                name: "Ways through the shop",
                description: "Pages in the order in which people open them, from the home page.",
                place: [0, 39, 12, 7],
                query: json!({
                    "kind": "PathsQuery", "dateRange": self.range(14),
                    "pathsFilter": {
                        "includeEventTypes": ["$pageview"], "stepLimit": 4, "edgeLimit": 30,
                        "startPoint": "/",
                        "pathGroupings": ["/products/*",
                            "/guides/*",
                            "/plants/*"],
                    },
                }),
            },
        ]
    }
}

/// Both breakpoints; on a phone tiles stand in one column, in their order.
fn layouts(place: &Place, nth: u32) -> Value {
    let [x, y, w, h] = place;
    json!({ "sm": { "x": x, "y": y, "w": w, "h": h }, "xs": { "x": 0, "y": nth * 6, "w": 1, "h": 6 } })
}

fn node(event: &str) -> Value {
    json!({ "kind": "EventsNode", "event": event, "name": event })
}

fn total(event: &str) -> Value {
    with(node(event), json!({ "math": "total" }))
}

fn unique(event: &str) -> Value {
    with(node(event), json!({ "math": "dau" }))
}

fn revenue() -> Value {
    let sum = json!({ "math": "sum", "math_property": "revenue", "custom_name": "Revenue" });
    with(node("order paid"), sum)
}

/// An object with the members of another one added.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}
