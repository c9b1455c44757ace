//! A project in the shapes of PostHog's API.

use std::sync::Mutex;

use serde_json::{Value, json};

use super::scripted::{Answer, Received};

/// Objects on a page: small, so that every list has several.
const PAGE: usize = 2;
pub const KEY: &str = "phx_secret_of_the_source";

pub fn project() -> Value {
    serde_json::from_str(include_str!("../../../../../../fixtures/copy/posthog.json")).unwrap()
}

/// Answers as PostHog does. The links name another host, as behind a proxy.
pub fn answer(project: &Value, received: &Received) -> Answer {
    if !received.headers.contains(&format!("authorization: bearer {KEY}")) {
        return Answer::status(401, "");
    }
    let (path, query) = received.path.split_once('?').unwrap_or((&received.path, ""));
    let given =
        |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let Some(rest) = path.strip_prefix("/api/projects/7/") else { return Answer::status(404, "") };
    let parts: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let list = match parts[..] {
        [] => return Answer::json(&project["project"]),
        ["groups_types"] => return Answer::json(&project["groups_types"]),
        ["groups"] if given("group_type_index") == Some("0") => project["groups"].clone(),
        ["groups"] => json!([]),
        ["cohorts", "502", "persons"] => project["members"].clone(),
        ["dashboards", id] => {
            let all = project["dashboards"].as_array().unwrap();
            return Answer::json(
                all.iter().find(|one| one["id"].as_i64() == id.parse().ok()).unwrap(),
            );
        }
        ["feature_flags"] if given("archived") == Some("true") => project["archived_flags"].clone(),
        ["property_definitions"] if given("type") != Some("event") => json!([]),
        [collection] if !project[collection].is_null() => project[collection].clone(),
        _ => return Answer::status(404, ""),
    };
    let list = list.as_array().unwrap();
    let offset: usize = given("offset").map_or(0, |text| text.parse().unwrap());
    let kept: Vec<&str> =
        query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("offset=")).collect();
    let after = offset + PAGE;
    let next = (after < list.len())
        .then(|| format!("https://internal.example{path}?{}&offset={after}", kept.join("&")));
    let results: Vec<&Value> = list.iter().skip(offset).take(PAGE).collect();
    Answer::json(
        &json!({ "count": list.len(), "next": next, "previous": null, "results": results }),
    )
}

/// Refuses the first request of every third path, and fails once in the middle of a list.
#[derive(Default)]
pub struct Unreliable {
    seen: Mutex<Vec<String>>,
}

impl Unreliable {
    pub fn refusal(&self, received: &Received) -> Option<Answer> {
        let mut seen = self.seen.lock().unwrap();
        if seen.contains(&received.path) {
            return None;
        }
        seen.push(received.path.clone());
        match seen.len() % 3 {
            _ if received.path.contains("insights") && received.path.contains("offset=2") => {
                Some(Answer::status(500, ""))
            }
            0 => Some(Answer::status(429, "Retry-After: 0\r\n")),
            _ => None,
        }
    }
}
