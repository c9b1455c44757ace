//! Drill-down: the number of listed actors equals the data point, the listed events are theirs, and
//! where events are counted, their number equals it too.

use std::cell::Cell;
use std::collections::BTreeSet;

use insights::InsightActors;
use serde_json::{Value as Json, json};
use warehouse::ColumnKey;

use crate::project::{CountedEvent, Project};

struct Check<'a> {
    project: &'a Project,
    query: &'a Json,
    /// Data points that were checked.
    points: Cell<usize>,
}

/// Of so many data points, the events of one are compared with its actors; each costs three scans.
const POINTS_PER_COMPARISON: usize = 4;

impl Check<'_> {
    fn actors(&self, query: &Json, point: &Json) -> InsightActors {
        let actors = self.project.actors(query, point).unwrap_or_else(|error| {
            panic!("{query} at {point}: {error}");
        });
        if self.points.replace(self.points.get() + 1).is_multiple_of(POINTS_PER_COMPARISON) {
            self.compare_events(query, point, &actors);
        }
        actors
    }

    /// The actors of the listed events are the listed actors.
    fn compare_events(&self, query: &Json, point: &Json, actors: &InsightActors) {
        let keys: Vec<ColumnKey> = actors.group.map(ColumnKey::Group).into_iter().collect();
        let events = self.counted_events(query, point, &keys);
        let of_group = |event: &CountedEvent| (0, event.texts[0].clone());
        let of_person = |event: &CountedEvent| (event.actor, None);
        let of_events: BTreeSet<(u32, Option<String>)> = match actors.group {
            Some(_) => events.iter().map(of_group).filter(|(_, key)| key.is_some()).collect(),
            None => events.iter().map(of_person).collect(),
        };
        let listed = actors.actors.iter().map(|actor| match actors.group {
            Some(_) => (0, Some(actor.key.clone())),
            None => (actor.actor_no, None),
        });
        assert_eq!(of_events, listed.collect(), "{query} at {point}");
    }

    fn counted_events(&self, query: &Json, point: &Json, keys: &[ColumnKey]) -> Vec<CountedEvent> {
        self.project.counted_events(query, point, keys).unwrap_or_else(|error| {
            panic!("{query} at {point}: {error}");
        })
    }

    fn count_events(&self, point: &Json, number: &Json) {
        let found = self.counted_events(self.query, point, &[]).len();
        assert_eq!(found as f64, number.as_f64().unwrap(), "{} at {point}", self.query);
    }

    /// The values of a property of the events.
    fn values(&self, point: &Json, property: &str) -> Vec<String> {
        let events =
            self.counted_events(self.query, point, &[ColumnKey::Property(property.into())]);
        let value = |event: CountedEvent| event.texts.into_iter().next().flatten();
        let without = || format!("{} at {point}: an event without {property}", self.query);
        events
            .into_iter()
            .map(|event| value(event).unwrap_or_else(|| panic!("{}", without())))
            .collect()
    }

    fn count(&self, point: Json, number: &Json) {
        let found = self.actors(self.query, &point).actors.len();
        assert_eq!(found as f64, number.as_f64().unwrap(), "{} at {point}", self.query);
    }

    fn events(&self, query: &Json, point: Json, number: &Json) {
        let found: u64 = self.actors(query, &point).actors.iter().map(|actor| actor.events).sum();
        assert_eq!(found as f64, number.as_f64().unwrap(), "{query} at {point}");
    }
}

/// Data points per line that are checked; each costs a scan.
const NUMBERS_MAX: usize = 3;

fn list(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Days and their numbers, some of them if there are many.
fn days(item: &Json) -> impl Iterator<Item = (&Json, &Json)> {
    let all = list(&item["days"]).iter().zip(list(&item["data"]));
    all.step_by(list(&item["days"]).len() / NUMBERS_MAX + 1)
}

fn with(mut point: Json, key: &str, value: &Json) -> Json {
    if !value.is_null() {
        point[key] = value.clone();
    }
    point
}

pub fn check(project: &Project, query: &Json, results: &Json) {
    let check = Check { project, query, points: Cell::default() };
    match query["kind"].as_str().unwrap() {
        "TrendsQuery" => trends(&check, results),
        "FunnelsQuery" => funnels(&check, results),
        "RetentionQuery" => retention(&check, results),
        "LifecycleQuery" => {
            for item in list(results) {
                for (day, number) in days(item) {
                    let number = json!(number.as_i64().unwrap().abs());
                    check.count(json!({ "day": day, "status": item["status"] }), &number);
                }
            }
        }
        "StickinessQuery" => {
            for item in list(results) {
                for (day, number) in days(item) {
                    check.count(json!({ "day": day, "series": item["action"]["order"] }), number);
                }
            }
        }
        _ => {
            for edge in list(results) {
                let mut query = query.clone();
                query["pathsFilter"]["pathStartKey"] = edge["source"].clone();
                query["pathsFilter"]["pathEndKey"] = edge["target"].clone();
                check.events(&query, json!({}), &edge["value"]);
            }
        }
    }
}

/// Whether the math of a series is over a property of events.
fn is_of_event(node: &Json) -> bool {
    node["math_property"] != "$session_duration"
        && matches!(node["math_property_type"].as_str(), None | Some("event_properties"))
}

fn trends(check: &Check<'_>, results: &Json) {
    let filter = &check.query["trendsFilter"];
    if filter.get("formula").is_some() || filter.get("smoothingIntervals").is_some() {
        return;
    }
    let cumulative = filter["display"] == "ActionsLineGraphCumulative";
    for item in list(results) {
        let order = &item["action"]["order"];
        let point = with(json!({ "series": order }), "breakdown", &item["breakdown_value"]);
        let point = with(point, "compare", &item["compare_label"]);
        let node = &check.query["series"][order.as_u64().unwrap() as usize];
        let math = node["math"].as_str().unwrap();
        let one = |point: Json, number: &Json| match math {
            "dau" | "weekly_active" | "monthly_active" | "unique_group" => {
                check.count(point, number);
            }
            "first_time_for_user" | "first_matching_event_for_user" => {
                check.count_events(&point, number);
                check.count(point, number);
            }
            "total" => {
                check.count_events(&point, number);
                // Events without a group count, but have no actor.
                if check.query.get("aggregation_group_type_index").is_none() {
                    check.events(check.query, point, number);
                }
            }
            "unique_session" => {
                let ids: BTreeSet<String> =
                    check.values(&point, "$session_id").into_iter().collect();
                assert_eq!(ids.len() as f64, number.as_f64().unwrap(), "{}", check.query);
            }
            "sum" if is_of_event(node) => {
                let values = check.values(&point, node["math_property"].as_str().unwrap());
                let sum: f64 =
                    values.iter().map(|value| value.trim().parse::<f64>().unwrap()).sum();
                let number = number.as_f64().unwrap();
                assert!((sum - number).abs() < 1e-6, "{} at {point}: {sum}", check.query);
            }
            _ => drop(check.counted_events(check.query, &point, &[])),
        };
        if item.get("aggregated_value").is_some() {
            one(point, &item["aggregated_value"]);
            continue;
        }
        // A sum of distinct counts per bucket is not a number of actors.
        if cumulative
            && matches!(
                math,
                "weekly_active" | "monthly_active" | "unique_group" | "unique_session"
            )
        {
            continue;
        }
        for (day, number) in days(item) {
            one(with(point.clone(), "day", day), number);
        }
    }
}

fn funnels(check: &Check<'_>, results: &Json) {
    let filter = &check.query["funnelsFilter"];
    // An actor with several values beyond the limit is listed once, but counted for each.
    let is_one = |value: &Json| {
        *value != json!(["Other"]) || filter["breakdownAttributionType"] != "all_events"
    };
    match filter["funnelVizType"].as_str().unwrap() {
        "steps" => {
            let nodes = list(&check.query["series"]);
            let whole: Vec<Json> =
                list(results).chunks(nodes.len()).map(|steps| json!(steps)).collect();
            let broken = check.query.get("breakdownFilter").is_some();
            for funnel in if broken { list(results) } else { &whole } {
                let steps = list(funnel);
                let value = &steps[0]["breakdown_value"];
                let point = |step: i64| {
                    let point = with(json!({ "funnelStep": step }), "funnelStepBreakdown", value);
                    with(point, "compare", &steps[0]["compare_label"])
                };
                // A funnel that only the other period has is not in the result of this one.
                let is_empty = steps[0]["count"] == 0 && !steps[0]["compare_label"].is_null();
                for (at, step) in
                    steps.iter().enumerate().filter(|_| is_one(value) && !(broken && is_empty))
                {
                    check.count(point(at as i64 + 1), &step["count"]);
                    let is_required = |before: &usize| nodes[*before]["optionalInFunnel"] != true;
                    if let Some(before) = (0..at).rev().find(is_required) {
                        let lost = steps[before]["count"].as_i64().unwrap()
                            - step["count"].as_i64().unwrap();
                        check.count(point(-(at as i64) - 1), &json!(lost));
                    }
                }
            }
        }
        "trends" => {
            for item in list(results).iter().filter(|item| is_one(&item["breakdown_value"])) {
                for (day, percent) in days(item) {
                    let of = |dropped: bool| {
                        let point = json!({ "funnelTrendsEntrancePeriodStart": day, "funnelTrendsDropOff": dropped });
                        let point = with(point, "funnelStepBreakdown", &item["breakdown_value"]);
                        let point = with(point, "compare", &item["compare_label"]);
                        check.actors(check.query, &point).actors.len() as f64
                    };
                    let (converted, dropped) = (of(false), of(true));
                    let expected = match converted + dropped {
                        0.0 => 0.0,
                        entered => (converted / entered * 10_000.0).round() / 100.0,
                    };
                    assert_eq!(percent.as_f64().unwrap(), expected, "{} on {day}", check.query);
                }
            }
        }
        _ => {}
    }
}

fn retention(check: &Check<'_>, results: &Json) {
    for item in list(results) {
        let label = item["label"].as_str().unwrap();
        let row: usize = label.rsplit(' ').next().unwrap().parse().unwrap();
        for (later, value) in list(&item["values"]).iter().enumerate() {
            let point = json!({ "interval": row, "day": later });
            check.count(with(point, "breakdown", &item["breakdown_value"]), &value["count"]);
        }
    }
}
