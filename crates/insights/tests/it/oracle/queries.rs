//! Random insight queries.

use rand::rngs::StdRng;
use rand::{RngExt as _, seq::IndexedRandom as _};
use serde_json::{Value as Json, json};

use super::history::History;

pub fn one<T: Clone>(random: &mut StdRng, of: &[T]) -> T {
    of.choose(random).unwrap().clone()
}

pub fn filters(random: &mut StdRng) -> Json {
    let filter = match random.random_range(0..10) {
        0 => json!({"key": "browser", "operator": "exact", "value": "Chrome"}),
        1 => json!({"key": "browser", "operator": "is_not", "value": "Chrome"}),
        2 => json!({"key": "amount", "operator": "gt", "value": 3}),
        3 => json!({"key": "plan", "type": "person", "operator": "exact", "value": "pro"}),
        4 => {
            let operator = one(random, &["gt", "lte", "is_set"]);
            let seconds = random.random_range(0..900_000);
            json!({"key": "$session_duration", "type": "session", "operator": operator, "value": seconds})
        }
        5 => {
            let day = format!("2024-03-{}", random.random_range(24..=31));
            json!({"key": "$start_timestamp", "type": "session", "operator": "is_date_after", "value": day})
        }
        _ => return json!([]),
    };
    json!([filter])
}

fn node(random: &mut StdRng) -> Json {
    let mut node = json!({"kind": "EventsNode", "properties": filters(random)});
    node["event"] = one(random, &[json!("a"), json!("b"), json!("c"), json!(null)]);
    node
}

fn base(random: &mut StdRng, kind: &str) -> Json {
    let from = format!("2024-03-{}", random.random_range(22..=31));
    let to = format!("2024-04-{:02}", random.random_range(1..=9));
    let mut query = json!({
        "kind": kind,
        "dateRange": {"date_from": from, "date_to": to},
        "properties": filters(random),
    });
    if random.random_bool(0.2) {
        query["aggregation_group_type_index"] = json!(0);
    }
    query
}

fn breakdown(random: &mut StdRng, several: bool) -> Option<Json> {
    let browser = json!({"type": "event", "property": "browser"});
    let plan = json!({"type": "person", "property": "plan"});
    let own = match random.random_range(0..8) {
        0 | 1 => vec![browser],
        2 => vec![plan],
        3 if several => vec![browser, plan],
        _ => return None,
    };
    let mut filter = json!({ "breakdowns": own });
    if random.random_bool(0.5) {
        filter["breakdown_limit"] = json!(random.random_range(1..4));
    }
    if random.random_bool(0.2) {
        filter["breakdown_hide_other_aggregation"] = json!(true);
    }
    Some(filter)
}

pub fn any(random: &mut StdRng, history: &History) -> Json {
    loop {
        let query = match random.random_range(0..12) {
            0..=4 => trends(random),
            5..=7 => funnels(random),
            8 => retention(random),
            9 => lifecycle(random),
            10 => stickiness(random),
            _ => paths(random),
        };
        // The reference cannot order events with equal timestamps.
        let text = query.to_string();
        let ordered = ["PathsQuery", "\"strict\"", "first_", "last_touch", "\"step\""];
        if history.apart || !ordered.iter().any(|word| text.contains(word)) {
            return query;
        }
    }
}

fn trends(random: &mut StdRng) -> Json {
    let mut query = base(random, "TrendsQuery");
    let maths = [
        "total",
        "total",
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
        "p90_count_per_actor",
    ];
    let mut series = Vec::new();
    for _ in 0..random.random_range(1..3) {
        let mut node = node(random);
        node["math"] = json!(one(random, &maths));
        node["math_property"] = json!("amount");
        node["math_group_type_index"] = json!(0);
        series.push(node);
    }
    let formula = series.len() == 2 && random.random_bool(0.4);
    query["series"] = json!(series);
    query["interval"] = json!(one(random, &["day", "day", "week", "month", "hour"]));
    let display =
        ["ActionsLineGraph", "ActionsLineGraph", "ActionsLineGraphCumulative", "BoldNumber"];
    query["trendsFilter"] = json!({ "display": one(random, &display) });
    if formula {
        query["trendsFilter"]["formula"] = json!(one(random, &["A / B", "A + B * 2", "A - B"]));
    } else if random.random_bool(0.1) {
        query["trendsFilter"]["smoothingIntervals"] = json!(3);
    }
    if let Some(breakdown) = breakdown(random, true) {
        query["breakdownFilter"] = breakdown;
    }
    if random.random_bool(0.2) && query["interval"] == "day" {
        query["compareFilter"] = json!({"compare": true});
    }
    query
}

fn funnels(random: &mut StdRng) -> Json {
    let mut query = base(random, "FunnelsQuery");
    let steps: Vec<Json> = (0..random.random_range(2..5)).map(|_| node(random)).collect();
    let unit = one(random, &["minute", "hour", "day", "week"]);
    let mut filter = json!({
        "funnelOrderType": one(random, &["ordered", "ordered", "strict", "unordered"]),
        "funnelWindowInterval": random.random_range(1..40),
        "funnelWindowIntervalUnit": unit,
        "funnelVizType": one(random, &["steps", "steps", "trends", "time_to_convert"]),
    });
    let last = steps.len() - 1;
    if random.random_bool(0.3)
        && steps.iter().all(|step| step["event"].is_string() && step["event"] != "c")
    {
        let from = random.random_range(0..last);
        let to = random.random_range(from + 1..=last);
        filter["exclusions"] = json!([{"kind": "EventsNode", "event": "c", "funnelFromStep": from, "funnelToStep": to}]);
    }
    query["series"] = json!(steps);
    query["interval"] = json!(one(random, &["day", "week"]));
    if filter["funnelVizType"] != "time_to_convert"
        && let Some(breakdown) = breakdown(random, false)
    {
        let mut own = one(random, &["first_touch", "last_touch", "all_events", "step"]);
        // Unordered funnels do not define which event matches which step.
        if own == "step" && filter["funnelOrderType"] == "unordered" {
            own = "first_touch";
        }
        filter["breakdownAttributionType"] = json!(own);
        filter["breakdownAttributionValue"] = json!(random.random_range(0..=last));
        query["breakdownFilter"] = breakdown;
    }
    query["funnelsFilter"] = filter;
    query
}

fn retention(random: &mut StdRng) -> Json {
    let mut query = base(random, "RetentionQuery");
    if random.random() {
        query["dateRange"].as_object_mut().unwrap().remove("date_from");
    }
    let mut entity = || {
        let node = node(random);
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
        "period": one(random, &["Day", "Day", "Week", "Month"]),
        "totalIntervals": random.random_range(1..12),
        "retentionType": one(random, &types),
        "cumulative": random.random_bool(0.3),
        "minimumOccurrences": one(random, &[1, 1, 2]),
    });
    if let Some(breakdown) = breakdown(random, false) {
        query["breakdownFilter"] = breakdown;
    }
    query
}

fn lifecycle(random: &mut StdRng) -> Json {
    let mut query = base(random, "LifecycleQuery");
    query.as_object_mut().unwrap().remove("aggregation_group_type_index");
    query["series"] = json!([node(random)]);
    query["interval"] = json!(one(random, &["day", "week", "month"]));
    query
}

fn stickiness(random: &mut StdRng) -> Json {
    let mut query = base(random, "StickinessQuery");
    query["series"] = json!([node(random), node(random)]);
    query["interval"] = json!(one(random, &["day", "week", "hour"]));
    let mut filter = json!({ "computedAs": one(random, &["cumulative", "non_cumulative"]) });
    if random.random() {
        let operator = one(random, &["gte", "lte", "exact"]);
        filter["stickinessCriteria"] =
            json!({"operator": operator, "value": random.random_range(1..3)});
    }
    query["stickinessFilter"] = filter;
    query
}

fn paths(random: &mut StdRng) -> Json {
    let mut query = base(random, "PathsQuery");
    let mut filter =
        json!({"stepLimit": random.random_range(2..6), "edgeLimit": random.random_range(1..12)});
    if random.random_bool(0.4) {
        filter["startPoint"] = json!(one(random, &["a", "b"]));
    }
    if random.random_bool(0.4) {
        filter["endPoint"] = json!(one(random, &["b", "c"]));
    }
    if random.random_bool(0.2) {
        filter["excludeEvents"] = json!(["c"]);
    }
    if random.random_bool(0.2) {
        filter["minEdgeWeight"] = json!(2);
    }
    query["pathsFilter"] = filter;
    query
}
