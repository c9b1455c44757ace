//! Generates insight queries.
//!
//! They select events `a`, `b`, `c` and `$pageview` from 2024-03-06 to 2024-04-09, event properties
//! `amount`, `browser` and `active`, person properties `plan` and `age`, group properties `tier` and
//! `size`, the cohorts 5 and 6 and the action 7.

use serde_json::{Value as Json, json};

use crate::Rng;

/// What a suite compares with. A part that it does not compute is drawn again.
pub trait Reference {
    fn computes_filter(&self, filter: &Json) -> bool;
    /// A node of a trend has a `math`, a step of a funnel has none.
    fn computes_node(&self, node: &Json) -> bool;
    fn computes_breakdown(&self, breakdown_filter: &Json) -> bool;
    fn computes_query(&self, query: &Json) -> bool;
}

/// Whether a result depends on the order of events, which equal timestamps leave undefined.
pub fn depends_on_order(query: &Json) -> bool {
    let text = query.to_string();
    let ordered =
        ["PathsQuery", "\"strict\"", "first_", "last_touch", "\"step\"", "24_hour_windows"];
    // Which of two steps with the same timestamp is the first decides whether an optional one counts.
    text.contains("\"optionalInFunnel\":true") || ordered.iter().any(|word| text.contains(word))
}

/// Draws insights that a reference computes.
pub struct Generator<'a, R> {
    pub rng: &'a mut Rng,
    pub reference: &'a R,
}

impl<R: Reference> Generator<'_, R> {
    /// An insight of any kind.
    pub fn query(&mut self) -> Json {
        let kind: fn(&mut Self) -> Json = match self.rng.range(0..14) {
            0..=5 => Self::trends,
            6..=8 => Self::funnels,
            9 | 10 => Self::retention,
            11 => Self::lifecycle,
            12 => Self::stickiness,
            _ => Self::paths,
        };
        loop {
            let query = kind(self);
            if self.reference.computes_query(&query) {
                return query;
            }
            // Of some kinds a reference may compute none, such as paths with equal timestamps.
            if self.rng.chance(10) {
                return self.query();
            }
        }
    }

    /// A list of filters.
    pub fn filters(&mut self) -> Json {
        match self.rng.range(0..9) {
            0..=4 => json!([]),
            5..=7 => json!([self.filter()]),
            _ => json!([self.filter(), self.filter()]),
        }
    }

    fn filters_or_group(&mut self) -> Json {
        if !self.rng.chance(10) {
            return self.filters();
        }
        let inner = json!({"type": "AND", "values": [self.filter(), self.filter()]});
        json!({"type": "OR", "values": [self.filter(), inner]})
    }

    fn filter(&mut self) -> Json {
        loop {
            let filter = filter(self.rng);
            if self.reference.computes_filter(&filter) {
                return filter;
            }
        }
    }

    fn node(&mut self) -> Json {
        let mut node = json!({"kind": "EventsNode", "properties": self.filters()});
        let events = [json!("a"), json!("b"), json!("c"), json!("$pageview"), Json::Null];
        node["event"] = self.rng.pick(&events);
        if self.reference.computes_node(&node) { node } else { self.node() }
    }

    fn node_or_action(&mut self) -> Json {
        let action = json!({"kind": "ActionsNode", "id": 7, "properties": []});
        if self.rng.chance(10) && self.reference.computes_node(&action) {
            return action;
        }
        self.node()
    }

    fn node_with_math(&mut self) -> Json {
        loop {
            let mut node = self.node_or_action();
            add_math(self.rng, &mut node);
            if self.reference.computes_node(&node) {
                return node;
            }
        }
    }

    fn breakdown(&mut self, several: bool) -> Option<Json> {
        loop {
            let filter = breakdown(self.rng, several)?;
            if self.reference.computes_breakdown(&filter) {
                return Some(filter);
            }
        }
    }

    fn base(&mut self, kind: &str) -> Json {
        let mut query = json!({"kind": kind, "properties": self.filters_or_group()});
        let rng = &mut *self.rng;
        query["dateRange"] = match rng.range(0..5) {
            0 => json!({"date_from": format!("-{}d", rng.range(1..=30))}),
            _ => json!({
                "date_from": format!("2024-03-{:02}", rng.range(6..=31)),
                "date_to": format!("2024-04-{:02}", rng.range(1..=9)),
            }),
        };
        if rng.chance(20) {
            query["aggregation_group_type_index"] = json!(0);
        }
        if rng.chance(15) {
            query["filterTestAccounts"] = json!(true);
        }
        query
    }

    fn trends(&mut self) -> Json {
        let mut query = self.base("TrendsQuery");
        let series: Vec<Json> = (0..self.rng.range(1..=2)).map(|_| self.node_with_math()).collect();
        let formula = series.len() == 2 && self.rng.chance(50);
        query["series"] = json!(series);
        let interval = self.rng.pick(&["day", "day", "week", "month", "hour"]);
        // With the interval `hour`, a relative date counts hours, not days.
        if interval == "hour" && query["dateRange"].get("date_to").is_none() {
            query["dateRange"] = json!({"date_from": "2024-03-28", "date_to": "2024-04-03"});
        }
        query["interval"] = json!(interval);
        let display = self.rng.pick(&[
            "ActionsLineGraph",
            "ActionsLineGraph",
            "ActionsBar",
            "ActionsLineGraphCumulative",
            "BoldNumber",
            "ActionsTable",
        ]);
        query["trendsFilter"] = json!({ "display": display });
        if formula {
            let formulas = ["A / B", "A + B * 2", "A - B", "(A - B) / (A + B)"];
            query["trendsFilter"]["formula"] = json!(self.rng.pick(&formulas));
        } else if self.rng.chance(15) {
            query["trendsFilter"]["smoothingIntervals"] = json!(self.rng.range(2..=4));
        }
        let cohorts = json!({
            "breakdown_type": "cohort",
            "breakdown": self.rng.pick(&[json!([5, 6]), json!([6]), json!(["all", 5]), json!(5)]),
        });
        if !formula && self.rng.chance(8) && self.reference.computes_breakdown(&cohorts) {
            query["breakdownFilter"] = cohorts;
            return query;
        }
        if let Some(breakdown) = self.breakdown(true) {
            query["breakdownFilter"] = breakdown;
        }
        let absolute = query["dateRange"].get("date_to").is_some();
        if interval == "day" && absolute && self.rng.chance(25) {
            query["compareFilter"] = json!({"compare": true});
            if self.rng.chance(30) {
                query["compareFilter"]["compare_to"] = json!("-1w");
            }
        }
        query
    }

    fn funnels(&mut self) -> Json {
        let mut query = self.base("FunnelsQuery");
        let order =
            self.rng.pick(&["ordered", "ordered", "ordered", "strict", "unordered", "unordered"]);
        let mut steps: Vec<Json> = (0..self.rng.range(2..=4)).map(|_| self.node()).collect();
        let last = steps.len() - 1;
        let rng = &mut *self.rng;
        let mut filter = json!({
            "funnelOrderType": order,
            "funnelWindowInterval": rng.range(1..=40),
            "funnelWindowIntervalUnit": rng.pick(&["minute", "hour", "day", "week"]),
            "funnelVizType": rng.pick(&["steps", "steps", "trends", "time_to_convert"]),
        });
        // A step must not select what excludes.
        if rng.chance(35)
            && steps.iter().all(|step| step["event"].is_string() && step["event"] != "c")
        {
            let from = rng.range(0..last);
            let to = rng.range(from + 1..=last);
            filter["exclusions"] = json!([{"kind": "EventsNode", "event": "c", "funnelFromStep": from, "funnelToStep": to}]);
        }
        if filter["funnelVizType"] == "steps" && order != "unordered" && rng.chance(40) {
            for at in (1..=last).rev().filter(|_| rng.chance(60)) {
                steps[at]["optionalInFunnel"] = json!(!is_taken_by(&steps[at], steps.get(at + 1)));
            }
        }
        query["series"] = json!(steps);
        query["interval"] = json!(rng.pick(&["day", "week"]));
        if query["interval"] == "day"
            && query["dateRange"].get("date_to").is_some()
            && rng.chance(25)
        {
            query["compareFilter"] = json!({"compare": true});
            if rng.chance(30) {
                query["compareFilter"]["compare_to"] = json!("-1w");
            }
        }
        if filter["funnelVizType"] == "trends" && rng.chance(15) {
            filter["hideIncompleteConversionWindowPeriods"] = json!(true);
        }
        if filter["funnelVizType"] != "time_to_convert"
            && let Some(breakdown) = self.breakdown(false)
            && breakdown.get("breakdowns").is_some()
        {
            let mut attributions = vec!["first_touch", "last_touch", "all_events"];
            // When the order is free, it is undefined which event matches which step.
            if order != "unordered" {
                attributions.push("step");
            }
            filter["breakdownAttributionType"] = json!(self.rng.pick(&attributions));
            filter["breakdownAttributionValue"] = json!(self.rng.range(0..=last));
            query["breakdownFilter"] = breakdown;
        }
        query["funnelsFilter"] = filter;
        query
    }

    fn retention(&mut self) -> Json {
        let mut query = self.base("RetentionQuery");
        if self.rng.chance(50) {
            query["dateRange"].as_object_mut().unwrap().remove("date_from");
        }
        let mut entity = || {
            let node = self.node();
            let mut entity = json!({"type": "events", "properties": node["properties"]});
            if let Some(event) = node["event"].as_str() {
                entity["id"] = json!(event);
            }
            entity
        };
        let (target, returning) = (entity(), entity());
        let types =
            ["retention_recurring", "retention_first_time", "retention_first_ever_occurrence"];
        query["retentionFilter"] = json!({
            "targetEntity": target,
            "returningEntity": returning,
            "period": self.rng.pick(&["Day", "Day", "Week", "Month"]),
            "totalIntervals": self.rng.range(1..=11),
            "retentionType": self.rng.pick(&types),
            "cumulative": self.rng.chance(30),
            "minimumOccurrences": self.rng.pick(&[1, 1, 2]),
        });
        let filter = &mut query["retentionFilter"];
        if self.rng.chance(30) {
            let brackets: Vec<usize> =
                (0..self.rng.range(1..=4)).map(|_| self.rng.range(1..=4)).collect();
            filter["retentionCustomBrackets"] = json!(brackets);
        }
        if filter["cumulative"] == false && self.rng.chance(30) {
            filter["timeWindowMode"] = json!("24_hour_windows");
        } else if filter["cumulative"] == false && self.rng.chance(50) {
            filter["aggregationType"] = json!(self.rng.pick(&["sum", "avg"]));
            filter["aggregationProperty"] = json!("amount");
            if self.rng.chance(40) {
                filter["returningEntity"] = filter["targetEntity"].clone();
            }
        }
        if let Some(breakdown) = self.breakdown(false)
            && breakdown.get("breakdowns").is_some()
        {
            query["breakdownFilter"] = breakdown;
        }
        query
    }

    fn lifecycle(&mut self) -> Json {
        let mut query = self.base("LifecycleQuery");
        query.as_object_mut().unwrap().remove("aggregation_group_type_index");
        query["series"] = json!([self.node_or_action()]);
        query["interval"] = json!(self.rng.pick(&["day", "week", "month"]));
        query
    }

    fn stickiness(&mut self) -> Json {
        let mut query = self.base("StickinessQuery");
        query["series"] = json!([self.node_or_action(), self.node()]);
        let rng = &mut *self.rng;
        query["interval"] = json!(rng.pick(&["day", "week", "month", "hour"]));
        let mut filter = json!({ "computedAs": rng.pick(&["cumulative", "non_cumulative"]) });
        if rng.chance(50) {
            let operator = rng.pick(&["gte", "lte", "exact"]);
            filter["stickinessCriteria"] = json!({"operator": operator, "value": rng.range(1..=2)});
        }
        query["stickinessFilter"] = filter;
        if rng.chance(40) {
            query["intervalCount"] = json!(rng.range(1..=4));
        }
        query
    }

    fn paths(&mut self) -> Json {
        let mut query = self.base("PathsQuery");
        let rng = &mut *self.rng;
        let mut filter = json!({"stepLimit": rng.range(2..=5), "edgeLimit": rng.range(1..=12)});
        if rng.chance(40) {
            filter["startPoint"] = json!(rng.pick(&["a", "b", "/home"]));
        }
        if rng.chance(40) {
            filter["endPoint"] = json!(rng.pick(&["b", "c", "/docs"]));
        }
        if rng.chance(20) {
            filter["excludeEvents"] = json!(["c"]);
        }
        if rng.chance(20) {
            filter["minEdgeWeight"] = json!(2);
        }
        query["pathsFilter"] = filter;
        query
    }
}

/// Whether the next step is required and selects every event that an optional step selects, which a
/// funnel may not have.
fn is_taken_by(step: &Json, next: Option<&Json>) -> bool {
    next.is_some_and(|next| {
        next["optionalInFunnel"] != true
            && next["event"] == step["event"]
            && (next["properties"] == step["properties"] || next["properties"] == json!([]))
    })
}

fn filter(rng: &mut Rng) -> Json {
    let event = |key: &str, operator: &str, value: Json| json!({"key": key, "type": "event", "operator": operator, "value": value});
    match rng.range(0..20) {
        0 => event("browser", rng.pick(&["exact", "is_not"]), json!("Chrome")),
        1 => event("browser", rng.pick(&["exact", "is_not"]), json!(["Chrome", "Safari"])),
        2 => event("browser", rng.pick(&["icontains", "not_icontains"]), json!("fox")),
        3 => event("browser", rng.pick(&["regex", "not_regex"]), json!("^[CS]")),
        4 => event("browser", rng.pick(&["is_set", "is_not_set"]), json!("is_set")),
        5 | 6 => {
            let value = json!(rng.range(0..8));
            event("amount", rng.pick(&["gt", "gte", "lt", "lte"]), value)
        }
        7 => event("amount", "between", json!([2, 7.5])),
        8 => event("active", "exact", json!(rng.pick(&["true", "false"]))),
        9 | 10 => {
            let operator = rng.pick(&["exact", "is_not", "is_set"]);
            json!({"key": "plan", "type": "person", "operator": operator, "value": "pro"})
        }
        11 => json!({"key": "age", "type": "person", "operator": "gte", "value": 30}),
        12 => {
            let operator = rng.pick(&["exact", "is_not"]);
            json!({"key": "tier", "type": "group", "group_type_index": 0, "operator": operator, "value": "pro"})
        }
        13 => {
            json!({"key": "size", "type": "group", "group_type_index": 0, "operator": "gt", "value": 5})
        }
        14 => {
            let operator = rng.pick(&["in", "not_in"]);
            json!({"key": "id", "type": "cohort", "operator": operator, "value": rng.range(5..=6)})
        }
        15 => {
            let operator = rng.pick(&["gt", "lte", "is_set"]);
            let most = rng.pick(&[40_000, 900_000]);
            json!({"key": "$session_duration", "type": "session", "operator": operator, "value": rng.range(0..most)})
        }
        16 => {
            let day = format!("2024-03-{}", rng.range(10..=31));
            json!({"key": "$start_timestamp", "type": "session", "operator": "is_date_after", "value": day})
        }
        17 => {
            json!({"key": "distinct_id", "type": "event_metadata", "operator": "icontains", "value": "-0"})
        }
        18 => json!({"type": "hogql", "key": "properties.amount > 5"}),
        _ => json!({"type": "hogql", "key": "length(distinct_id) = 4 and toHour(timestamp) < 15"}),
    }
}

fn breakdown(rng: &mut Rng, several: bool) -> Option<Json> {
    let mut part = || match rng.range(0..10) {
        0..=3 => json!({"type": "event", "property": "browser"}),
        4 | 5 => json!({"type": "person", "property": "plan"}),
        6 => json!({"type": "group", "property": "tier", "group_type_index": 0}),
        7 => json!({"type": "hogql", "property": "upper(event)"}),
        8 => json!({"type": "session", "property": "$session_duration"}),
        _ => json!({"type": "event_metadata", "property": "distinct_id"}),
    };
    let (a, b) = (part(), part());
    let mut filter = match rng.range(0..8) {
        0 | 1 if a["type"] == "event" || a["type"] == "person" => {
            json!({"breakdown_type": a["type"], "breakdown": a["property"]})
        }
        0..=2 => json!({ "breakdowns": [a] }),
        3 if several && a != b => json!({ "breakdowns": [a, b] }),
        3 if several => json!({
            "breakdown_type": "event",
            "breakdown": "$current_url",
            "breakdown_normalize_url": true,
        }),
        _ => return None,
    };
    if rng.chance(50) {
        filter["breakdown_limit"] = json!(rng.range(1..=4));
    }
    if rng.chance(20) {
        filter["breakdown_hide_other_aggregation"] = json!(true);
    }
    Some(filter)
}

const MATHS: &[&str] = &[
    "total",
    "total",
    "total",
    "dau",
    "dau",
    "dau",
    "weekly_active",
    "monthly_active",
    "unique_session",
    "unique_group",
    "first_time_for_user",
    "first_matching_event_for_user",
    "sum",
    "avg",
    "min",
    "max",
    "median",
    "p75",
    "p90",
    "p95",
    "p99",
    "avg_count_per_actor",
    "min_count_per_actor",
    "max_count_per_actor",
    "median_count_per_actor",
    "p75_count_per_actor",
    "p90_count_per_actor",
    "p95_count_per_actor",
    "p99_count_per_actor",
    "hogql",
    "hogql",
];

fn add_math(rng: &mut Rng, node: &mut Json) {
    let math = rng.pick(MATHS);
    node["math"] = json!(math);
    if rng.chance(10) {
        node["math_multiplier"] = json!(2.5);
    }
    match math {
        "hogql" => {
            node["math_hogql"] = json!(rng.pick(&[
                "sum(properties.amount)",
                "avg(properties.amount) * 2",
                "uniq(properties.browser)",
                "countIf(properties.amount > 3)",
                "count(distinct distinct_id)",
            ]));
        }
        "unique_group" => node["math_group_type_index"] = json!(0),
        "sum" | "avg" | "min" | "max" | "median" | "p75" | "p90" | "p95" | "p99" => {
            let (property, kind) = match rng.range(0..6) {
                0 => ("age", Some("person_properties")),
                1 => ("$session_duration", Some("session_properties")),
                _ => ("amount", None),
            };
            node["math_property"] = json!(property);
            if let Some(kind) = kind {
                node["math_property_type"] = json!(kind);
            }
        }
        _ => {}
    }
}
