//! Insights made up by seed.

use serde_json::{Value as Json, json};

use super::twin::Twin;
use crate::made::Made;

fn one(made: &mut Made, of: &[Json]) -> Json {
    of[made.below(of.len() as u64) as usize].clone()
}

fn filter(made: &mut Made) -> Json {
    let event = |key: &str, operator: &str, value: Json| json!({"key": key, "type": "event", "operator": operator, "value": value});
    match made.below(20) {
        0 => event("browser", made.of(&["exact", "is_not"]), json!("Chrome")),
        1 => event("browser", made.of(&["exact", "is_not"]), json!(["Chrome", "Safari"])),
        2 => event("browser", made.of(&["icontains", "not_icontains"]), json!("fox")),
        3 => event("browser", made.of(&["regex", "not_regex"]), json!("^[CS]")),
        4 => event("browser", made.of(&["is_set", "is_not_set"]), json!("is_set")),
        5 | 6 => {
            let value = json!(made.below(8));
            event("amount", made.of(&["gt", "gte", "lt", "lte"]), value)
        }
        7 => event("amount", "between", json!([2, 7.5])),
        8 => event("active", "exact", json!(made.of(&["true", "false"]))),
        9 | 10 => {
            let operator = made.of(&["exact", "is_not", "is_set"]);
            json!({"key": "plan", "type": "person", "operator": operator, "value": "pro"})
        }
        11 => json!({"key": "age", "type": "person", "operator": "gte", "value": 30}),
        12 => {
            let operator = made.of(&["exact", "is_not"]);
            json!({"key": "tier", "type": "group", "group_type_index": 0, "operator": operator, "value": "pro"})
        }
        13 => {
            json!({"key": "size", "type": "group", "group_type_index": 0, "operator": "gt", "value": 5})
        }
        14 => {
            let operator = made.of(&["in", "not_in"]);
            json!({"key": "id", "type": "cohort", "operator": operator, "value": 5 + made.below(2)})
        }
        15 => {
            let operator = made.of(&["gt", "lte"]);
            json!({"key": "$session_duration", "type": "session", "operator": operator, "value": made.below(40_000)})
        }
        16 => {
            let day = format!("2024-03-{}", 10 + made.below(20));
            json!({"key": "$start_timestamp", "type": "session", "operator": "is_date_after", "value": day})
        }
        17 => {
            json!({"key": "distinct_id", "type": "event_metadata", "operator": "icontains", "value": "-0"})
        }
        18 => json!({"type": "hogql", "key": "properties.amount > 5"}),
        _ => json!({"type": "hogql", "key": "length(distinct_id) = 4 and toHour(timestamp) < 15"}),
    }
}

fn filters(made: &mut Made) -> Json {
    match made.below(10) {
        0..=4 => json!([]),
        5..=7 => json!([filter(made)]),
        8 => json!([filter(made), filter(made)]),
        _ => {
            let inner = json!({"type": "AND", "values": [filter(made), filter(made)]});
            json!({"type": "OR", "values": [filter(made), inner]})
        }
    }
}

fn node(made: &mut Made) -> Json {
    let mut node = json!({"kind": "EventsNode", "properties": filters(made)});
    node["event"] =
        one(made, &[json!("a"), json!("b"), json!("c"), json!("$pageview"), json!(null)]);
    if node["properties"].is_object() {
        node["properties"] = json!([]);
    }
    node
}

fn node_or_action(made: &mut Made) -> Json {
    match made.chance(10) {
        true => json!({"kind": "ActionsNode", "id": 7, "properties": []}),
        false => node(made),
    }
}

fn base(made: &mut Made, kind: &str) -> Json {
    let mut query = json!({"kind": kind, "properties": filters(made)});
    query["dateRange"] = match made.below(5) {
        0 => json!({"date_from": format!("-{}d", 1 + made.below(30))}),
        _ => json!({
            "date_from": format!("2024-03-{:02}", 6 + made.below(25)),
            "date_to": format!("2024-04-{:02}", 1 + made.below(9)),
        }),
    };
    if made.chance(20) {
        query["aggregation_group_type_index"] = json!(0);
    }
    if made.chance(15) {
        query["filterTestAccounts"] = json!(true);
    }
    query
}

fn breakdown(made: &mut Made, several: bool) -> Option<Json> {
    let mut part = || match made.below(10) {
        0..=3 => json!({"type": "event", "property": "browser"}),
        4 | 5 => json!({"type": "person", "property": "plan"}),
        6 => json!({"type": "group", "property": "tier", "group_type_index": 0}),
        7 => json!({"type": "hogql", "property": "upper(event)"}),
        8 => json!({"type": "session", "property": "$session_duration"}),
        _ => json!({"type": "event_metadata", "property": "distinct_id"}),
    };
    let (a, b) = (part(), part());
    let mut filter = match made.below(8) {
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
    if made.chance(50) {
        filter["breakdown_limit"] = json!(1 + made.below(4));
    }
    if made.chance(20) {
        filter["breakdown_hide_other_aggregation"] = json!(true);
    }
    Some(filter)
}

pub fn any(made: &mut Made, twin: &Twin) -> Json {
    loop {
        let query = match made.below(14) {
            0..=5 => trends(made, twin),
            6..=8 => funnels(made),
            9 | 10 => retention(made),
            11 => lifecycle(made),
            12 => stickiness(made),
            _ => paths(made),
        };
        // What happens at one moment has no order that a statement could know.
        let text = query.to_string();
        let ordered = ["PathsQuery", "\"strict\"", "first_", "last_touch", "\"step\""];
        if twin.apart || !ordered.iter().any(|word| text.contains(word)) {
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

fn measured(made: &mut Made) -> Json {
    let mut node = node_or_action(made);
    let math = made.of(MATHS);
    node["math"] = json!(math);
    if made.chance(10) {
        node["math_multiplier"] = json!(2.5);
    }
    match math {
        "hogql" => {
            node["math_hogql"] = json!(made.of(&[
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
            match made.below(6) {
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

fn trends(made: &mut Made, twin: &Twin) -> Json {
    let mut query = base(made, "TrendsQuery");
    let series: Vec<Json> = (0..1 + made.below(2)).map(|_| measured(made)).collect();
    // A mean that is rounded down must not depend on the last digit of what it is made of.
    let fractions = ["avg", "median", "p75", "p90", "p95", "p99", "hogql"];
    let of = |node: &Json| node["math"].as_str().unwrap().to_owned();
    let whole = series.iter().all(|node| !fractions.iter().any(|word| of(node).starts_with(word)));
    let formula = series.len() == 2 && made.chance(50);
    query["series"] = json!(series);
    let mut interval = made.of(&["day", "day", "week", "month", "hour"]);
    // Hours that begin between hours are nobody's.
    if interval == "hour" && twin.zone == "Australia/Lord_Howe" {
        interval = "day";
    }
    // A relative date means an hour then, not a day.
    if interval == "hour" {
        query["dateRange"] = json!({"date_from": "2024-03-28", "date_to": "2024-04-03"});
    }
    query["interval"] = json!(interval);
    let display = made.of(&[
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
        query["trendsFilter"]["formula"] = json!(made.of(&formulas));
    } else if made.chance(15) && display != "ActionsLineGraphCumulative" && whole {
        query["trendsFilter"]["smoothingIntervals"] = json!(2 + made.below(3));
    }
    if let Some(breakdown) = breakdown(made, true) {
        query["breakdownFilter"] = breakdown;
    }
    if !formula && made.chance(8) {
        let cohorts = json!([[5, 6], [6], ["all", 5], 5]);
        let one = cohorts[made.below(4) as usize].clone();
        query["breakdownFilter"] = json!({"breakdown_type": "cohort", "breakdown": one});
        // Lines are ordered before they are smoothed.
        query["trendsFilter"].as_object_mut().unwrap().remove("smoothingIntervals");
    } else if made.chance(25) && interval == "day" && query["dateRange"].get("date_to").is_some() {
        query["compareFilter"] = json!({"compare": true});
        if made.chance(30) {
            query["compareFilter"]["compare_to"] = json!("-1w");
        }
    }
    query
}

fn funnels(made: &mut Made) -> Json {
    let mut query = base(made, "FunnelsQuery");
    let order = made.of(&["ordered", "ordered", "strict", "unordered"]);
    // Every start with every end is much for a statement.
    let (most, units): (u64, &[&str]) = match order {
        "unordered" => (2, &["minute", "hour"]),
        _ => (3, &["minute", "hour", "day", "week"]),
    };
    let steps: Vec<Json> = (0..2 + made.below(most)).map(|_| node(made)).collect();
    let mut filter = json!({
        "funnelOrderType": order,
        "funnelWindowInterval": 1 + made.below(40),
        "funnelWindowIntervalUnit": made.of(units),
        "funnelVizType": made.of(&["steps", "steps", "trends", "time_to_convert"]),
    });
    let last = steps.len() as u64 - 1;
    let excludes = made.chance(35)
        && steps.iter().all(|step| step["event"].is_string() && step["event"] != "c");
    if excludes {
        let from = made.below(last);
        let to = from + 1 + made.below(last - from);
        filter["exclusions"] = json!([{"kind": "EventsNode", "event": "c", "funnelFromStep": from, "funnelToStep": to}]);
    }
    query["series"] = json!(steps);
    query["interval"] = json!(made.of(&["day", "week"]));
    if filter["funnelVizType"] != "time_to_convert"
        && let Some(breakdown) = breakdown(made, false)
        && breakdown.get("breakdowns").is_some()
    {
        let mut own = made.of(&["first_touch", "last_touch", "all_events", "step"]);
        // Which event serves which step is not said when the order is free, nor whose an excluded
        // one is that stands between two.
        if (own == "step" && order == "unordered")
            || (own == "all_events" && order == "strict" && excludes)
        {
            own = "first_touch";
        }
        filter["breakdownAttributionType"] = json!(own);
        filter["breakdownAttributionValue"] = json!(made.below(last + 1));
        query["breakdownFilter"] = breakdown;
    }
    query["funnelsFilter"] = filter;
    query
}

fn retention(made: &mut Made) -> Json {
    let mut query = base(made, "RetentionQuery");
    if made.chance(50) {
        query["dateRange"].as_object_mut().unwrap().remove("date_from");
    }
    let mut entity = || {
        let node = node(made);
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
        "period": made.of(&["Day", "Day", "Week", "Month"]),
        "totalIntervals": 1 + made.below(11),
        "retentionType": made.of(&types),
        "cumulative": made.chance(30),
        "minimumOccurrences": 1 + made.below(3) / 2,
    });
    if let Some(breakdown) = breakdown(made, false)
        && breakdown.get("breakdowns").is_some()
    {
        query["breakdownFilter"] = breakdown;
    }
    query
}

fn lifecycle(made: &mut Made) -> Json {
    let mut query = base(made, "LifecycleQuery");
    query.as_object_mut().unwrap().remove("aggregation_group_type_index");
    query["series"] = json!([node_or_action(made)]);
    query["interval"] = json!(made.of(&["day", "week", "month"]));
    query
}

fn stickiness(made: &mut Made) -> Json {
    let mut query = base(made, "StickinessQuery");
    query["series"] = json!([node_or_action(made), node(made)]);
    query["interval"] = json!(made.of(&["day", "week", "month"]));
    let mut filter = json!({ "computedAs": made.of(&["cumulative", "non_cumulative"]) });
    if made.chance(50) {
        let operator = made.of(&["gte", "lte", "exact"]);
        filter["stickinessCriteria"] = json!({"operator": operator, "value": 1 + made.below(2)});
    }
    query["stickinessFilter"] = filter;
    query
}

fn paths(made: &mut Made) -> Json {
    let mut query = base(made, "PathsQuery");
    let mut filter = json!({"stepLimit": 2 + made.below(4), "edgeLimit": 1 + made.below(12)});
    if made.chance(40) {
        filter["startPoint"] = json!(made.of(&["a", "b", "/home"]));
    }
    if made.chance(40) {
        filter["endPoint"] = json!(made.of(&["b", "c", "/docs"]));
    }
    if made.chance(20) {
        filter["excludeEvents"] = json!(["c"]);
    }
    if made.chance(20) {
        filter["minEdgeWeight"] = json!(2);
    }
    query["pathsFilter"] = filter;
    query
}
