//! Attacks with a key: expensive queries, flags and edits.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::victim::Victim;
use crate::load::post;
use crate::server_process::PROJECT_KEY;

/// Events in the data directory.
const EVENTS: usize = 20_000;

/// 1,500 columns of long strings.
pub async fn wide(victim: Victim) -> Result<String> {
    some_events(&victim, PROJECT_KEY, 1).await?;
    run_concurrently(&victim, &[(1, wide_query())], 3).await
}

/// An array of sixteen million numbers made for every row.
pub async fn endless(victim: Victim) -> Result<String> {
    some_events(&victim, PROJECT_KEY, 1).await?;
    let query = "select sum(indexOf(range(16000000), toInt(length(event)) + 15999000)) from events";
    run_concurrently(&victim, &[(1, query.to_owned())], 3).await
}

/// 1,500 regular expressions with large compiled programs.
pub async fn regexes(victim: Victim) -> Result<String> {
    some_events(&victim, PROJECT_KEY, 1).await?;
    let mut query = String::from("select countIf(false");
    for number in 0..1_500 {
        // Writing to a String cannot fail.
        let _ = write!(query, " or match(event, '\\\\w{{4}}{number}')");
    }
    query.push_str(") from events");
    run_concurrently(&victim, &[(1, query)], 3).await
}

/// Four projects run the maximum of queries concurrently.
pub async fn everybody(victim: Victim) -> Result<String> {
    some_events(&victim, PROJECT_KEY, 1).await?;
    let mut queries = vec![(1, wide_query())];
    for name in ["second", "third", "fourth"] {
        let project = victim.new_project(name).await?;
        some_events(&victim, &project.key, project.id).await?;
        queries.push((project.id, wide_query()));
    }
    run_concurrently(&victim, &queries, 3).await
}

/// One flag with 2,000 regular expressions.
pub async fn flag_regexes(victim: Victim) -> Result<String> {
    let groups: Vec<_> = (0..2_000)
        .map(|number| {
            let pattern = format!("\\w{{4}}{number}");
            let condition =
                json!({ "key": "email", "type": "person", "operator": "regex", "value": pattern });
            json!({ "properties": [condition], "rollout_percentage": 100 })
        })
        .collect();
    let body = json!({ "key": "regexes", "filters": { "groups": groups } });
    let started = Instant::now();
    let (made, said) = victim.manage("POST", "/api/projects/1/feature_flags/", &body).await?;
    let said = said["detail"].as_str().unwrap_or_default();
    let request = json!({
        "token": PROJECT_KEY, "distinct_id": "x", "person_properties": { "email": "a@example.com" },
    });
    let request = post("/flags/?v=2", "Connection: close\r\n", request.to_string().as_bytes());
    let (status, _) = victim.ask(0, &request).await?;
    ensure!(status == 200, "/flags answered {status}");
    Ok(format!("saving {made} {said}, /flags {status}, {:.1} s", started.elapsed().as_secs_f64()))
}

/// A person with 50,000 ids is split.
pub async fn split(victim: Victim) -> Result<String> {
    const IDS: usize = 50_000;
    let mut batch = Vec::new();
    for number in 0..IDS {
        batch.push(json!({
            "event": "$create_alias", "distinct_id": "main",
            "properties": { "alias": format!("alias-{number}") },
        }));
    }
    for part in batch.chunks(5_000) {
        let body = json!({ "api_key": PROJECT_KEY, "batch": part }).to_string();
        let (status, _) =
            victim.ask(0, &post("/batch/", "Connection: close\r\n", body.as_bytes())).await?;
        ensure!(status == 200, "a batch was answered {status}");
    }
    let person = loop {
        let (status, found) =
            victim.hogql(1, "select person_id, count() from person_distinct_ids group by person_id order by count() desc limit 1").await?;
        ensure!(status == 200, "looking for the person answered {status}: {found}");
        if found["results"][0][1].as_u64().is_some_and(|ids| ids as usize > IDS) {
            break found["results"][0][0].as_str().unwrap_or_default().to_owned();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    let ids: Vec<_> = (0..IDS).map(|number| format!("alias-{number}")).collect();
    let body = json!({ "distinct_ids_to_split": ids });
    let started = Instant::now();
    let (status, _) =
        victim.manage("POST", &format!("/api/projects/1/persons/{person}/split/"), &body).await?;
    Ok(format!("answered {status} in {:.1} s", started.elapsed().as_secs_f64()))
}

/// The blast radius of a flag over all stored persons.
pub async fn blast_radius(victim: Victim) -> Result<String> {
    let condition =
        json!({ "key": "email", "type": "person", "operator": "icontains", "value": "7@" });
    let group = json!({ "properties": [condition], "rollout_percentage": 100 });
    let started = Instant::now();
    let path = "/api/projects/1/feature_flags/user_blast_radius/";
    let (status, response) = victim.manage("POST", path, &json!({ "condition": group })).await?;
    ensure!(status == 200, "answered {status}: {response}");
    Ok(format!("{response} in {:.1} s", started.elapsed().as_secs_f64()))
}

fn wide_query() -> String {
    let mut query = String::from("select ");
    for number in 0..1_500 {
        // Writing to a String cannot fail.
        let _ = write!(query, "repeat(concat(event, '{number}'), 1000) as c{number}, ");
    }
    query.push_str("event from events limit 50000");
    query
}

/// Runs each query `times` times concurrently; 200, 4xx, 503 and 504
/// are acceptable.
async fn run_concurrently(
    victim: &Victim,
    queries: &[(u64, String)],
    times: usize,
) -> Result<String> {
    let mut requests = JoinSet::new();
    for (project, query) in queries {
        for _ in 0..times {
            let (victim, project, query) = (victim.clone(), *project, query.clone());
            requests.spawn(async move {
                let started = Instant::now();
                let (status, response) = victim.hogql(project, &query).await?;
                anyhow::Ok((status, response, started.elapsed().as_secs_f64()))
            });
        }
    }
    let mut by_status = std::collections::BTreeMap::<_, (usize, f64)>::new();
    for outcome in requests.join_all().await {
        let (status, response, seconds) = outcome?;
        ensure!(status < 500 || [503, 504].contains(&status), "answered {status}: {response}");
        let why = response["detail"].as_str().unwrap_or_default().to_owned();
        let (times, longest) = by_status.entry((status, why)).or_default();
        *times += 1;
        *longest = longest.max(seconds);
    }
    // A query that timed out with 504 must stop.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let by_status = by_status.into_iter().map(|((status, why), (times, longest))| {
        format!("{times} × {status} within {longest:.1} s {why}")
    });
    Ok(by_status.collect::<Vec<_>>().join(", "))
}

async fn some_events(victim: &Victim, key: &str, project: u64) -> Result<()> {
    let batch: Vec<Value> = (0..EVENTS)
        .map(|number| json!({ "event": format!("event {}", number % 50), "distinct_id": format!("u{number}") }))
        .collect();
    let body = json!({ "api_key": key, "batch": batch }).to_string();
    let (status, before) = victim.hogql(project, "select count() from events").await?;
    ensure!(status == 200, "counting answered {status}");
    let expected = super::count(&before)? + EVENTS as u64;
    let (status, _) =
        victim.ask(0, &post("/batch/", "Connection: close\r\n", body.as_bytes())).await?;
    ensure!(status == 200, "the batch was answered {status}");
    let stored = victim.events(project, expected, Duration::from_secs(60)).await?;
    ensure!(stored == expected, "{stored} of {expected} events");
    Ok(())
}
