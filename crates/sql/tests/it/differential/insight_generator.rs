//! Generates insight queries from a seed.

use serde_json::{Value as Json, json};

use crate::differential::mirrored_project::MirroredProject;
use crate::differential::rng::Rng;

fn pick_json(rng: &mut Rng, of: &[Json]) -> Json {
    of[rng.below(of.len() as u64) as usize].clone()
}

fn filter(rng: &mut Rng) -> Json {
    let event = |key: &str, operator: &str, value: Json| json!({"key": key, "type": "event", "operator": operator, "value": value});
    match rng.below(20) {
        0 => event("browser", rng.pick(&["exact", "is_not"]), json!("Chrome")),
        1 => event("browser", rng.pick(&["exact", "is_not"]), json!(["Chrome", "Safari"])),
        2 => event("browser", rng.pick(&["icontains", "not_icontains"]), json!("fox")),
        3 => event("browser", rng.pick(&["regex", "not_regex"]), json!("^[CS]")),
        4 => event("browser", rng.pick(&["is_set", "is_not_set"]), json!("is_set")),
        5 | 6 => {
            let value = json!(rng.below(8));
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
            json!({"key": "id", "type": "cohort", "operator": operator, "value": 5 + rng.below(2)})
        }
        15 => {
            let operator = rng.pick(&["gt", "lte"]);
            json!({"key": "$session_duration", "type": "session", "operator": operator, "value": rng.below(40_000)})
        }
        16 => {
            let day = format!("2024-03-{}", 10 + rng.below(20));
            json!({"key": "$start_timestamp", "type": "session", "operator": "is_date_after", "value": day})
        }
        17 => {
            json!({"key": "distinct_id", "type": "event_metadata", "operator": "icontains", "value": "-0"})
        }
        18 => json!({"type": "hogql", "key": "properties.amount > 5"}),
        _ => json!({"type": "hogql", "key": "length(distinct_id) = 4 and toHour(timestamp) < 15"}),
    }
}

fn filters(rng: &mut Rng) -> Json {
    match rng.below(10) {
        0..=4 => json!([]),
        5..=7 => json!([filter(rng)]),
        8 => json!([filter(rng), filter(rng)]),
        _ => {
            let inner = json!({"type": "AND", "values": [filter(rng), filter(rng)]});
            json!({"type": "OR", "values": [filter(rng), inner]})
        }
    }
}

fn node(rng: &mut Rng) -> Json {
    let mut node = json!({"kind": "EventsNode", "properties": filters(rng)});
    node["event"] =
        pick_json(rng, &[json!("a"), json!("b"), json!("c"), json!("$pageview"), json!(null)]);
    if node["properties"].is_object() {
        node["properties"] = json!([]);
    }
    node
}

fn node_or_action(rng: &mut Rng) -> Json {
    match rng.chance(10) {
        true => json!({"kind": "ActionsNode", "id": 7, "properties": []}),
        false => node(rng),
    }
}

fn base(rng: &mut Rng, kind: &str) -> Json {
    let mut query = json!({"kind": kind, "properties": filters(rng)});
    query["dateRange"] = match rng.below(5) {
        0 => json!({"date_from": format!("-{}d", 1 + rng.below(30))}),
        _ => json!({
            "date_from": format!("2024-03-{:02}", 6 + rng.below(25)),
            "date_to": format!("2024-04-{:02}", 1 + rng.below(9)),
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

fn breakdown(rng: &mut Rng, several: bool) -> Option<Json> {
    let mut part = || match rng.below(10) {
        0..=3 => json!({"type": "event", "property": "browser"}),
        4 | 5 => json!({"type": "person", "property": "plan"}),
        6 => json!({"type": "group", "property": "tier", "group_type_index": 0}),
        7 => json!({"type": "hogql", "property": "upper(event)"}),
        8 => json!({"type": "session", "property": "$session_duration"}),
        _ => json!({"type": "event_metadata", "property": "distinct_id"}),
    };
    let (a, b) = (part(), part());
    let mut filter = match rng.below(8) {
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
        filter["breakdown_limit"] = json!(1 + rng.below(4));
    }
    if rng.chance(20) {
        filter["breakdown_hide_other_aggregation"] = json!(true);
    }
    Some(filter)
}

/// An insight of any kind.
pub fn any(rng: &mut Rng, project: &MirroredProject) -> Json {
    loop {
        let query = match rng.below(14) {
            0..=5 => trends(rng, project),
            6..=8 => funnels(rng),
            9 | 10 => retention(rng),
            11 => lifecycle(rng),
            12 => stickiness(rng),
            _ => paths(rng),
        };
        // Events with equal timestamps have no defined order, so such insights are not comparable.
        let text = query.to_string();
        let ordered = ["PathsQuery", "\"strict\"", "first_", "last_touch", "\"step\""];
        if project.has_unique_timestamps || !ordered.iter().any(|word| text.contains(word)) {
            return query;
        }
    }
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

fn node_with_math(rng: &mut Rng) -> Json {
    let mut node = node_or_action(rng);
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
            node["math_property"] = json!("amount");
            match rng.below(6) {
                0 => {
                    node["math_property"] = json!("age");
                    node["math_property_type"] = json!("person_properties");
                }
                1 => {
                    node["math_property"] = json!("$session_duration");
                    node["math_property_type"] = json!("session_properties");
                }
                _ => {}
            }
        }
        _ => {}
    }
    node
}

fn trends(rng: &mut Rng, project: &MirroredProject) -> Json {
    let mut query = base(rng, "TrendsQuery");
    let series: Vec<Json> = (0..1 + rng.below(2)).map(|_| node_with_math(rng)).collect();
    // Smoothing rounds down, which would amplify a difference in a float's last digit.
    let fractions = ["avg", "median", "p75", "p90", "p95", "p99", "hogql"];
    let of = |node: &Json| node["math"].as_str().unwrap().to_owned();
    let whole = series.iter().all(|node| !fractions.iter().any(|word| of(node).starts_with(word)));
    let formula = series.len() == 2 && rng.chance(50);
    query["series"] = json!(series);
    let mut interval = rng.pick(&["day", "day", "week", "month", "hour"]);
    // ClickHouse's hours begin at half past after a clock change of half an hour.
    if interval == "hour" && project.zone == "Australia/Lord_Howe" {
        interval = "day";
    }
    // With the interval `hour`, a relative date counts hours, not days.
    if interval == "hour" {
        query["dateRange"] = json!({"date_from": "2024-03-28", "date_to": "2024-04-03"});
    }
    query["interval"] = json!(interval);
    let display = rng.pick(&[
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
        query["trendsFilter"]["formula"] = json!(rng.pick(&formulas));
    } else if rng.chance(15) && display != "ActionsLineGraphCumulative" && whole {
        query["trendsFilter"]["smoothingIntervals"] = json!(2 + rng.below(3));
    }
    if let Some(breakdown) = breakdown(rng, true) {
        query["breakdownFilter"] = breakdown;
    }
    if !formula && rng.chance(8) {
        let cohorts = json!([[5, 6], [6], ["all", 5], 5]);
        let one = cohorts[rng.below(4) as usize].clone();
        query["breakdownFilter"] = json!({"breakdown_type": "cohort", "breakdown": one});
        // Series are sorted before smoothing, which the reference does not do.
        query["trendsFilter"].as_object_mut().unwrap().remove("smoothingIntervals");
    } else if rng.chance(25) && interval == "day" && query["dateRange"].get("date_to").is_some() {
        query["compareFilter"] = json!({"compare": true});
        if rng.chance(30) {
            query["compareFilter"]["compare_to"] = json!("-1w");
        }
    }
    query
}

fn funnels(rng: &mut Rng) -> Json {
    let mut query = base(rng, "FunnelsQuery");
    let order = rng.pick(&["ordered", "ordered", "strict", "unordered"]);
    // The reference joins every start with every later event, which is slow for long windows.
    let (most, units): (u64, &[&str]) = match order {
        "unordered" => (2, &["minute", "hour"]),
        _ => (3, &["minute", "hour", "day", "week"]),
    };
    let steps: Vec<Json> = (0..2 + rng.below(most)).map(|_| node(rng)).collect();
    let mut filter = json!({
        "funnelOrderType": order,
        "funnelWindowInterval": 1 + rng.below(40),
        "funnelWindowIntervalUnit": rng.pick(units),
        "funnelVizType": rng.pick(&["steps", "steps", "trends", "time_to_convert"]),
    });
    let last = steps.len() as u64 - 1;
    let excludes = rng.chance(35)
        && steps.iter().all(|step| step["event"].is_string() && step["event"] != "c");
    if excludes {
        let from = rng.below(last);
        let to = from + 1 + rng.below(last - from);
        filter["exclusions"] = json!([{"kind": "EventsNode", "event": "c", "funnelFromStep": from, "funnelToStep": to}]);
    }
    query["series"] = json!(steps);
    query["interval"] = json!(rng.pick(&["day", "week"]));
    if filter["funnelVizType"] != "time_to_convert"
        && let Some(breakdown) = breakdown(rng, false)
        && breakdown.get("breakdowns").is_some()
    {
        let mut attribution = rng.pick(&["first_touch", "last_touch", "all_events", "step"]);
        // Undefined: which event matches which step when the order is free, and the breakdown value
        // of an excluded event between two steps.
        if (attribution == "step" && order == "unordered")
            || (attribution == "all_events" && order == "strict" && excludes)
        {
            attribution = "first_touch";
        }
        filter["breakdownAttributionType"] = json!(attribution);
        filter["breakdownAttributionValue"] = json!(rng.below(last + 1));
        query["breakdownFilter"] = breakdown;
    }
    query["funnelsFilter"] = filter;
    query
}

fn retention(rng: &mut Rng) -> Json {
    let mut query = base(rng, "RetentionQuery");
    if rng.chance(50) {
        query["dateRange"].as_object_mut().unwrap().remove("date_from");
    }
    let mut entity = || {
        let node = node(rng);
        let mut entity = json!({"type": "events", "properties": node["properties"]});
        if let Some(event) = node["event"].as_str() {
            entity["id"] = json!(event);
        }
        entity
    };
    let (target, returning) = (entity(), entity());
    let types = ["retention_recurring", "retention_first_time", "retention_first_ever_occurrence"];
    query["retentionFilter"] = json!({
        "targetEntity": target,
        "returningEntity": returning,
        "period": rng.pick(&["Day", "Day", "Week", "Month"]),
        "totalIntervals": 1 + rng.below(11),
        "retentionType": rng.pick(&types),
        "cumulative": rng.chance(30),
        "minimumOccurrences": 1 + rng.below(3) / 2,
    });
    if let Some(breakdown) = breakdown(rng, false)
        && breakdown.get("breakdowns").is_some()
    {
        query["breakdownFilter"] = breakdown;
    }
    query
}

fn lifecycle(rng: &mut Rng) -> Json {
    let mut query = base(rng, "LifecycleQuery");
    query.as_object_mut().unwrap().remove("aggregation_group_type_index");
    query["series"] = json!([node_or_action(rng)]);
    query["interval"] = json!(rng.pick(&["day", "week", "month"]));
    query
}

fn stickiness(rng: &mut Rng) -> Json {
    let mut query = base(rng, "StickinessQuery");
    query["series"] = json!([node_or_action(rng), node(rng)]);
    query["interval"] = json!(rng.pick(&["day", "week", "month"]));
    let mut filter = json!({ "computedAs": rng.pick(&["cumulative", "non_cumulative"]) });
    if rng.chance(50) {
        let operator = rng.pick(&["gte", "lte", "exact"]);
        filter["stickinessCriteria"] = json!({"operator": operator, "value": 1 + rng.below(2)});
    }
    query["stickinessFilter"] = filter;
    query
}

fn paths(rng: &mut Rng) -> Json {
    let mut query = base(rng, "PathsQuery");
    let mut filter = json!({"stepLimit": 2 + rng.below(4), "edgeLimit": 1 + rng.below(12)});
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
