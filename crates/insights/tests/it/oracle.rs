//! Differential test: random queries on random projects, run by the crate and by a reference
//! implementation with plain loops over rows.

mod actors;
mod behavioral;
mod funnels;
mod history;
mod others;
mod trends;

use serde_json::Value as Json;
use testing::insights::Generator;

use crate::project::Project;
use history::History;

/// Random projects, and queries per project.
const PROJECTS: u64 = 16;
const QUERIES: usize = 40;
/// Behavioral filters per project.
const BEHAVIORAL_FILTERS: usize = 20;

/// Floats may differ by the order of summation.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
        }
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Restricts a result to the members that the reference computes.
fn only(results: &Json, shape: &Json) -> Json {
    match (results, shape) {
        (Json::Array(results), Json::Array(shapes)) if results.len() == shapes.len() => {
            results.iter().zip(shapes).map(|(result, shape)| only(result, shape)).collect()
        }
        (Json::Object(own), Json::Object(shape)) => {
            let member = |(key, shape): (&String, &Json)| {
                (key.clone(), own.get(key).map_or(Json::Null, |own| only(own, shape)))
            };
            Json::Object(shape.iter().map(member).collect())
        }
        (Json::Array(results), Json::Array(shapes)) => {
            let shape = shapes.first().unwrap_or(&Json::Null);
            results.iter().map(|result| only(result, shape)).collect()
        }
        (other, _) => other.clone(),
    }
}

fn check(project: &Project, history: &History, query: &Json) {
    let found = project.try_run(query);
    let found = found.unwrap_or_else(|error| panic!("{query}: {error}")).results;
    let expected = match query["kind"].as_str().unwrap() {
        "TrendsQuery" => trends::reference(history, query),
        "FunnelsQuery" => funnels::reference(history, query),
        "RetentionQuery" => others::retention(history, query),
        "LifecycleQuery" => others::lifecycle(history, query),
        "StickinessQuery" => others::stickiness(history, query),
        _ => others::paths(history, query),
    };
    actors::check(project, query, &found);
    let found = only(&found, &expected);
    assert!(same(&found, &expected), "{query}\nfound    {found}\nexpected {expected}");
}

#[test]
fn insight_results_agree_with_the_reference_implementation() {
    for seed in testing::seeds(0..PROJECTS) {
        let mut rng = seed.rng();
        let (project, history) = History::random(&mut rng);
        for _ in 0..QUERIES {
            let query = Generator { rng: &mut rng, reference: &history }.query();
            check(&project, &history, &query);
        }
        for _ in 0..BEHAVIORAL_FILTERS {
            behavioral::check(&project, &history, &mut rng);
        }
    }
}
