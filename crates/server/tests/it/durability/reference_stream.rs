//! A deterministic stream of events that creates persons, groups and definitions, and the resulting state.
//! Whatever faults occur meanwhile, the state must equal that of an undisturbed run.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::harness::{PROJECT_KEY, Request, Response, Server};

/// Fields that differ between two runs of the stream.
const PASSING: [&str; 5] =
    ["created_at", "last_seen_at", "last_updated_at", "updated_at", "volume_30_day"];

/// Deterministic. Their ids contain a space, so that they do not collide with others.
pub fn event(n: usize) -> Value {
    let tens = n / 10;
    let (user, stranger) = (format!("user {}", tens % 5), format!("stranger {tens}"));
    let told = |name: &str, id: &str, properties: Value| {
        let (minutes, seconds) = (n / 60 % 60, n % 60);
        json!({
            "event": name,
            "distinct_id": id,
            "uuid": Uuid::from_u128(0x4000_8000_0000_0000_0000 | (n as u128) << 96),
            "timestamp": format!("2024-05-{:02}T10:{minutes:02}:{seconds:02}Z", 1 + n / 3_600),
            "properties": properties,
        })
    };
    match n % 10 {
        0 => told("viewed", &stranger, json!({ "$set": { "seen": n }, "page": "/ü", "n": n })),
        1 => told(
            "$identify",
            &user,
            json!({ "$anon_distinct_id": stranger, "$set_once": { "first": n } }),
        ),
        2 => told(
            "paid",
            &user,
            json!({ "$groups": { "company": format!("c {}", tens % 3) }, "price": 1.5 }),
        ),
        3 => told("$create_alias", &user, json!({ "alias": format!("alias {tens}") })),
        4 => told(
            "$groupidentify",
            &user,
            json!({ "$group_type": "company", "$group_key": format!("c {}", tens % 3), "$group_set": { "size": n } }),
        ),
        5 => told(
            "quiet",
            &format!("quiet {}", tens % 4),
            json!({ "$process_person_profile": false }),
        ),
        // A retry of a client that did not get the response.
        6 => event(n - 4),
        7 => told(
            "$set",
            &user,
            json!({ "$set": { format!("p{}", tens % 6): n }, "$unset": ["p3"] }),
        ),
        8 => told(
            &format!("rare {}", tens % 9),
            &format!("alias {tens}"),
            json!({ format!("q{}", tens % 9): true }),
        ),
        _ => told("viewed", &user, json!({ "page": "/", "at": "2024-05-01" })),
    }
}

/// Sends one request, whatever the response.
pub fn tell(server: &Server, events: &[Value]) -> Response {
    let body = json!({ "api_key": PROJECT_KEY, "batch": events });
    Request::new(server.address(), "POST", "/batch/").json(body).send()
}

/// The resulting persons, groups and definitions.
pub fn facts(server: &Server) -> Vec<(&'static str, Vec<String>)> {
    let all = [
        ("persons", "/api/projects/1/persons/?limit=1000"),
        ("groups", "/api/projects/1/groups/?group_type_index=0"),
        ("event definitions", "/api/projects/1/event_definitions/?limit=1000"),
        ("property definitions", "/api/projects/1/property_definitions/?limit=1000"),
        ("person properties", "/api/projects/1/property_definitions/?limit=1000&type=person"),
    ];
    all.map(|(what, path)| (what, listed(server, path))).into()
}

/// The objects of a list without volatile fields, sorted.
pub fn listed(server: &Server, path: &str) -> Vec<String> {
    let mut response = server.get(path).expect(200).json();
    assert!(response["next"].is_null(), "{path} has more pages");
    let results = response["results"].as_array_mut().unwrap();
    results.retain(|one| !is_of_others(one));
    let mut shown: Vec<String> = results
        .iter_mut()
        .map(|one| {
            forget(one);
            // Ids of definitions and persons depend on concurrent events.
            if one.get("distinct_id").is_none() {
                let about = one.as_object_mut().unwrap();
                ["id", "uuid"].iter().for_each(|name| _ = about.remove(*name));
            }
            one.to_string()
        })
        .collect();
    shown.sort();
    shown
}

fn is_of_others(one: &Value) -> bool {
    let ids = one["distinct_ids"].as_array();
    one["name"] == "e" || ids.is_some_and(|ids| !ids[0].as_str().unwrap().contains(' '))
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !PASSING.contains(&name.as_str()));
            members.values_mut().for_each(forget);
            if let Some(Value::Array(ids)) = members.get_mut("distinct_ids") {
                ids.sort_by_key(Value::to_string);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(forget),
        _ => {}
    }
}
