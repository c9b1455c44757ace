//! Unmodified clients that others maintain: PostHog's agent toolkit, posthog-js-lite, the OpenFeature
//! provider and Airbyte's source. Their scripts are in `compat/`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use testing::test_deps;

use crate::flags::management::create;
use crate::harness::{PERSONAL_KEY, Server, Store};

const EVENTS: usize = 2_000;

/// Runs a program in the directory of the packages and returns its standard output.
fn run(program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let mut command = Command::new(program.as_ref());
    let output = command.args(arguments).current_dir(test_deps()).output();
    let output = output.unwrap_or_else(|why| {
        panic!("{why}: tools/install-test-deps brings {}", program.as_ref().display())
    });
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}\n{printed}", String::from_utf8_lossy(&output.stderr));
    printed
}

fn script(name: &str) -> String {
    format!("{}/../../compat/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn base(server: &Server) -> String {
    format!("http://{}", server.address())
}

fn python() -> PathBuf {
    test_deps().join("venv/bin/python")
}

fn buyers(server: &Server) {
    let event = |id: &str, event: &str| json!({"event": event, "distinct_id": id, "properties": {"amount": 3}});
    server.ingest(&[
        event("anna", "looked"),
        event("anna", "bought"),
        event("anna", "bought"),
        event("bert", "looked"),
        event("carl", "bought"),
    ]);
}

#[test]
fn agent_toolkit_answers_questions_and_manages_what_exists() {
    let server = Store::Sqlite.start();
    buyers(&server);
    let printed = run("node", &[&script("agent_toolkit.mjs"), &base(&server)]);
    let steps: Value = serde_json::from_str(&printed).unwrap();
    let at = |pointer: &str| {
        steps.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {steps:#}"))
    };
    for (pointer, expected) in [
        ("/organizations-get/0/name", json!("My organization")),
        ("/organization-details-get/name", json!("My organization")),
        ("/projects-get/0/id", json!(1)),
        ("/switch-project", json!("Switched to project 1")),
        ("/event-definitions-list/0/name", json!("bought")),
        ("/properties-list/0", json!({"name": "amount", "property_type": "Numeric"})),
        // Anna and Carl.
        ("/buyers", json!([[2]])),
        ("/trend/0/data/1", json!(2)),
        ("/funnel/0/count", json!(2)),
        ("/funnel/1/count", json!(1)),
        ("/insight-create-from-query/name", json!("Buyers")),
        ("/insight-query/results", json!([[2]])),
        ("/insight-update/name", json!("Buyers this week")),
        ("/insights-get-all/0/name", json!("Buyers this week")),
        ("/dashboard-create/name", json!("Board")),
        ("/add-insight-to-dashboard/dashboards", json!([1])),
        ("/dashboard-get/name", json!("Weekly")),
        ("/dashboard-get/tiles/0/insight/name", json!("Buyers this week")),
        ("/dashboards-get-all/0/name", json!("Weekly")),
        ("/dashboard-delete/success", json!(true)),
        ("/insight-delete/success", json!(true)),
        ("/create-feature-flag/key", json!("by-agent")),
        ("/update-feature-flag/active", json!(false)),
        ("/feature-flag-get-definition/filters/groups/0/rollout_percentage", json!(50)),
        ("/feature-flag-get-all/0/key", json!("by-agent")),
        ("/delete-feature-flag/success", json!(true)),
        ("/flags left", json!([])),
    ] {
        assert_eq!(*at(pointer), expected, "{pointer} in {steps:#}");
    }
    // The toolkit says what the server said.
    for (step, words) in [
        ("surveys-get-all", "404"),
        ("experiment-get-all", "Not Found"),
        ("list-errors", "Unknown kind of query"),
    ] {
        let failed = at(&format!("/{step}/failed")).as_str().unwrap();
        assert!(failed.contains(words), "{failed}");
    }
}

/// The flags that the clients evaluate.
fn flags(server: &Server) {
    let share = |share: u8| json!({"groups": [{"properties": [], "rollout_percentage": share}]});
    create(server, json!({"key": "on", "filters": share(100)}));
    create(server, json!({"key": "off", "filters": share(0)}));
    let plan = json!({"type": "person", "key": "plan", "operator": "exact", "value": "pro"});
    create(
        server,
        json!({"key": "colour", "filters": {
            "groups": [{"properties": [plan], "rollout_percentage": 100}],
            "multivariate": {"variants": [{"key": "red", "rollout_percentage": 100}]},
            "payloads": {"red": "{\"hex\":\"f00\"}"},
        }}),
    );
    let seats = json!({"type": "group", "group_type_index": 0, "key": "seats", "operator": "gt", "value": 10});
    create(
        server,
        json!({"key": "of-company", "filters": {
            "aggregation_group_type_index": 0,
            "groups": [{"properties": [seats], "rollout_percentage": 100}],
        }}),
    );
}

#[test]
fn posthog_js_lite_captures_and_evaluates_flags() {
    let server = Store::Sqlite.start();
    server.ingest(&[json!({
        "event": "$groupidentify", "distinct_id": "anna",
        "properties": {"$group_type": "company", "$group_key": "acme", "$group_set": {"seats": 12}},
    })]);
    flags(&server);
    let printed = run("node", &[&script("js_lite.mjs"), &base(&server)]);
    let session: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(session["failures"], json!([]));
    let answer = &session["answer"];
    let flags = json!({"on": true, "off": false, "colour": "red", "of-company": true});
    assert_eq!(answer["flags"], flags);
    assert_eq!((&answer["colour"], &answer["payload"]), (&json!("red"), &json!({"hex": "f00"})));
    server.wait_until_applied();
    let anonymous = answer["anonymous"].as_str().unwrap();
    let anna = server.get("/api/projects/1/persons/?distinct_id=anna").expect(200).json();
    let anna = &anna["results"][0];
    // Logging in merged the visitor.
    assert!(anna["distinct_ids"].as_array().unwrap().contains(&json!(anonymous)), "{anna}");
    assert_eq!(anna["properties"]["plan"], "pro");
    let events = server.get("/api/projects/1/events/?event=bought").expect(200).json();
    let bought = &events["results"][0];
    assert_eq!(
        (&bought["distinct_id"], &bought["properties"]["amount"]),
        (&json!("anna"), &json!(9.5))
    );
    let query = "select person.properties.plan from events where event = 'looked'";
    let body = json!({"query": {"kind": "HogQLQuery", "query": query}});
    let looked = server.post("/api/projects/1/query/", body).expect(200).json();
    assert_eq!(looked["results"], json!([["pro"]]));
}

#[test]
fn open_feature_provider_evaluates_remotely_and_locally() {
    let server = Store::Sqlite.start();
    server.ingest(&[json!({
        "event": "$groupidentify", "distinct_id": "anna",
        "properties": {"$group_type": "company", "$group_key": "acme", "$group_set": {"seats": 12}},
    })]);
    flags(&server);
    let printed = run(python(), &[&script("open_feature.py"), &base(&server)]);
    let values: Value = serde_json::from_str(&printed).unwrap();
    let expected = json!({
        "on": true, "off": false, "colour": "red", "payload": {"hex": "f00"}, "of-company": true,
        "missing": [true, "FLAG_NOT_FOUND"], "reason": "TARGETING_MATCH",
    });
    assert_eq!(values, json!({"remote": expected, "local": expected}));
}

/// The messages of Airbyte's protocol that a command prints.
fn airbyte(arguments: &[&str]) -> Vec<Value> {
    let printed = run(test_deps().join("venv-airbyte/bin/source-posthog"), arguments);
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn airbyte_source_reads_every_row() {
    let server = Store::Sqlite.start();
    let day = |number: usize| 1 + number % 28;
    let events: Vec<Value> = (0..EVENTS)
        .map(|number| {
            // Equal timestamps too.
            let at = format!("2024-02-{:02}T10:{:02}:00Z", day(number), number / 500);
            json!({"event": "counted", "distinct_id": format!("user {}", number % 150), "timestamp": at})
        })
        .collect();
    for batch in events.chunks(500) {
        server.ingest(batch);
    }
    let condition = json!({"type": "person", "key": "plan", "value": "pro"});
    let filters = json!({"properties": {"type": "AND", "values": [condition]}});
    for number in 0..120 {
        let cohort = json!({"name": format!("cohort {number}"), "filters": filters});
        server.post("/api/projects/1/cohorts/", cohort).expect(201);
    }
    flags(&server);
    let insight =
        json!({"name": "SQL", "query": {"kind": "HogQLQuery", "query": "select 1"}, "saved": true});
    server.post("/api/projects/1/insights/", insight).expect(201);
    server.post("/api/projects/1/annotations/", json!({"content": "Sale"})).expect(201);

    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, content.to_string()).unwrap();
        path.display().to_string()
    };
    let settings = json!({"api_key": PERSONAL_KEY, "base_url": base(&server), "start_date": "2024-01-01T00:00:00Z"});
    let config = file("config.json", &settings);
    let checked = airbyte(&["check", "--config", &config]);
    let status = checked.iter().find(|message| message["type"] == "CONNECTION_STATUS").unwrap();
    assert_eq!(status["connectionStatus"]["status"], "SUCCEEDED", "{status}");
    let discovered = airbyte(&["discover", "--config", &config]);
    let catalog = discovered.iter().find(|message| message["type"] == "CATALOG").unwrap();
    let streams: Vec<Value> = catalog["catalog"]["streams"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stream| json!({"stream": stream, "sync_mode": "full_refresh", "destination_sync_mode": "append"}))
        .collect();
    let catalog = file("catalog.json", &json!({"streams": streams}));
    let messages = airbyte(&["read", "--config", &config, "--catalog", &catalog]);
    let mut ids: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for record in messages.iter().filter_map(|message| message.get("record")) {
        let stream = record["stream"].as_str().unwrap();
        assert!(
            ids.entry(stream).or_default().insert(record["data"]["id"].to_string()),
            "{record}"
        );
    }
    let rows: BTreeMap<&str, usize> =
        ids.iter().map(|(stream, ids)| (*stream, ids.len())).collect();
    let expected = [
        ("annotations", 1),
        ("cohorts", 120),
        ("events", EVENTS),
        ("feature_flags", 4),
        ("insights", 1),
        ("persons", 150),
        ("projects", 1),
    ];
    assert_eq!(rows, BTreeMap::from(expected));
}
