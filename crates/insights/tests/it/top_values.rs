//! Breakdowns with many more values than the limit, where top-value pruning applies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value as Json, json};
use testing::Rng;

use crate::project::{Project, at, with};

const NULL: &str = "$$_posthog_breakdown_null_$$";
const OTHER: &str = "$$_posthog_breakdown_other_$$";
const PERSONS: u32 = 60;

/// Actors by value.
#[derive(Default)]
struct Plain {
    persons: BTreeMap<String, BTreeSet<String>>,
    groups: BTreeMap<String, BTreeSet<String>>,
}

/// Distribution of values and persons over events.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Some values have all persons.
    Skewed,
    /// The values with the most events have one person each, so that others rank first.
    Busy,
    /// No value has more than two persons.
    Flat,
}

fn event(shape: Shape, rng: &mut Rng) -> (u32, u32) {
    let person = rng.range(0..PERSONS);
    let among = |rng: &mut Rng| rng.range(0..400);
    match shape {
        Shape::Skewed => {
            let value = among(rng).min(among(rng)).min(among(rng));
            (value, person)
        }
        Shape::Busy if rng.range(0..3) > 0 => {
            let value = rng.range(400..460);
            (value, value % PERSONS)
        }
        Shape::Busy => (among(rng).min(among(rng)), person),
        Shape::Flat => {
            let value = among(rng);
            (value, value % 30 + 30 * rng.range(0..2))
        }
    }
}

fn project(shape: Shape, mut rng: Rng) -> (Project, Plain) {
    let (mut project, mut plain) = (Project::empty(), Plain::default());
    for person in 0..PERSONS {
        project.person(&[&format!("p{person}")], "2024-01-01T08:00:00Z", json!({}));
    }
    for number in 0..6_000 {
        let (value, person) = event(shape, &mut rng);
        let (properties, text) = match value {
            3 => (json!({}), NULL.to_owned()),
            4 => (json!({ "page": "" }), NULL.to_owned()),
            5 => (json!({ "page": 5 }), "5".to_owned()),
            value => (json!({ "page": format!("/{value}/") }), format!("/{value}/")),
        };
        let id = format!("p{person}");
        // Some values occur only in events without a group.
        let group = (value % 7 > 0).then(|| format!("g{}", person % 20));
        plain.persons.entry(text.clone()).or_default().insert(id.clone());
        if let Some(group) = &group {
            plain.groups.entry(text).or_default().insert(group.clone());
        }
        let groups = [group, None, None, None, None];
        project.row(&id, "a", at("2024-01-02T12:00:00Z"), properties, groups);
        if number % 1_500 == 0 {
            project.warehouse.flush().unwrap();
        }
    }
    (project, plain)
}

fn expected(
    plain: &BTreeMap<String, BTreeSet<String>>,
    limit: usize,
    hide_other: bool,
    factor: f64,
) -> Vec<Json> {
    let number = |there: usize| there as f64 * factor;
    let mut ranked: Vec<(&String, f64)> =
        plain.iter().map(|(value, there)| (value, number(there.len()))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    let rest = ranked.split_off(limit.min(ranked.len()));
    ranked.sort_by_key(|(value, _)| *value == NULL);
    let mut lines: Vec<Json> =
        ranked.iter().map(|(value, number)| json!([value, number])).collect();
    if !rest.is_empty() && !hide_other {
        let there: BTreeSet<&String> = rest.iter().flat_map(|(value, _)| &plain[*value]).collect();
        lines.push(json!([OTHER, number(there.len())]));
    }
    lines
}

#[test]
fn top_value_pruning_gives_the_same_result_as_counting_all_values() {
    for shape in [Shape::Skewed, Shape::Busy, Shape::Flat] {
        let seed = testing::seed_or(shape as u64);
        let (project, plain) = project(shape, seed.rng());
        for (math, plain) in [("dau", &plain.persons), ("unique_group", &plain.groups)] {
            for (limit, hide_other, factor) in [
                (1, false, 1.0),
                (2, true, 1.0),
                (7, false, 0.1),
                (20, true, 3.0),
                (20, false, 1e-322),
                (60, false, 1.0),
                (5, false, -1.0),
                (3, false, 0.0),
                (450, false, 1.0),
                (1_000, false, 1.0),
            ] {
                let node = json!({
                    "kind": "EventsNode", "event": "a", "math": math,
                    "math_group_type_index": 0, "math_multiplier": factor,
                });
                let query = json!({
                    "kind": "TrendsQuery", "series": [node],
                    "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
                    "trendsFilter": {"display": "ActionsBarValue"},
                    "breakdownFilter": {
                        "breakdown": "page", "breakdown_limit": limit,
                        "breakdown_hide_other_aggregation": hide_other,
                    },
                });
                let outcome = project.try_run(&query).unwrap();
                let lines = outcome.results.as_array().unwrap().iter();
                let lines: Vec<Json> = lines
                    .map(|line| json!([line["breakdown_value"], line["aggregated_value"].as_f64()]))
                    .collect();
                let case = format!("{shape:?} {math} {limit} {hide_other} {factor}");
                assert_eq!(lines, expected(plain, limit, hide_other, factor), "{case}");
                assert_eq!(outcome.has_more, Some(plain.len() > limit), "{case}");
            }
        }
    }
}

#[test]
fn drill_down_finds_actors_of_one_value_among_many() {
    let seed = testing::seed_or(0);
    let (project, plain) = project(Shape::Skewed, seed.rng());
    let query = json!({
        "kind": "TrendsQuery",
        "series": [{"kind": "EventsNode", "event": "a", "math": "dau"}],
        "dateRange": {"date_from": "2024-01-01", "date_to": "2024-01-03"},
        "trendsFilter": {"display": "ActionsBarValue"},
        "breakdownFilter": {"breakdown": "page", "breakdown_limit": 3},
    });
    for line in expected(&plain.persons, 3, false, 1.0) {
        let behind = project.actors(&query, &json!({ "breakdown": line[0] })).unwrap();
        assert_eq!(behind.actors.len() as f64, line[1], "{line}");
    }
    let shortened = |(value, there): (&String, &BTreeSet<String>)| {
        (value.strip_suffix('/').unwrap_or(value).to_owned(), there.clone())
    };
    let plain = plain.persons.iter().map(shortened).collect();
    let filter =
        json!({"breakdown": "page", "breakdown_limit": 3, "breakdown_normalize_url": true});
    let found = project.run(with(query, json!({ "breakdownFilter": filter })));
    for (line, expected) in found.as_array().unwrap().iter().zip(expected(&plain, 3, false, 1.0)) {
        assert_eq!(line["breakdown_value"], expected[0]);
        assert_eq!(line["aggregated_value"].as_f64(), expected[1].as_f64());
    }
}
