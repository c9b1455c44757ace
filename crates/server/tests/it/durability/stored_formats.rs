//! Data directories in every stored format, in `fixtures/formats`: each release must open them and return
//! the same results. When the version of a stored format changes (journal, segments, manifest, catalog,
//! backup), record a new fixture with
//!
//! ```sh
//! cargo test -p server --test it -- --ignored record_stored_format_fixture
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Instance, Server, Store};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/formats")
}

fn kept_numbers() -> Vec<u32> {
    let entries = fs::read_dir(kept()).into_iter().flatten();
    let mut numbers: Vec<u32> = entries
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

fn tar(arguments: &[&str], archive: &Path, dir: &Path) {
    let mut tar = Command::new("tar");
    let ran = tar.args(arguments).arg(archive).arg("-C").arg(dir).arg(".").status();
    assert!(ran.unwrap().success(), "{}", archive.display());
}

/// The requests whose results are compared; none depends on the current date.
fn answers(server: &Server) -> Value {
    server.wait_until_applied();
    let get = |path: &str| server.get(&format!("/api/projects/1/{path}")).expect(200).json();
    let query = |query: Value| {
        let body = json!({ "query": query, "refresh": "force_blocking" });
        server.post("/api/projects/1/query/", body).expect(200).json()["results"].clone()
    };
    // Selected fields of each result, sorted if they are unordered.
    let some = |listed: &Value, fields: &[&str]| {
        let part = |one: &Value| -> Value {
            fields.iter().map(|field| (field.to_string(), one[field].clone())).collect()
        };
        let mut parts: Vec<Value> = listed.as_array().unwrap().iter().map(part).collect();
        parts.sort_by_key(Value::to_string);
        Value::from(parts)
    };
    let told = |id: &str| {
        let body = json!({ "token": "phc_test", "distinct_id": id });
        let told = server.call("POST", "/flags/?v=2").no_key().json(body).send();
        let flags = told.expect(200).json()["flags"].clone();
        json!({ "colour": flags["colour"]["variant"], "payload": flags["colour"]["metadata"]["payload"],
            "paying": flags["paying"]["enabled"] })
    };
    let events = get("events/?after=2024-01-01&before=2024-12-31&limit=1000");
    let dashboard = get("dashboards/1/");
    let tiles = dashboard["tiles"].as_array().unwrap().iter();
    let tiles: Vec<Value> = tiles
        .map(|tile| {
            json!([tile["text"]["body"], tile["insight"]["name"], tile["insight"]["query"]])
        })
        .collect();
    // Old recordings have 0 for empty sums, which are null today.
    let grouped = "select event, count(), count(distinct person_id), \
                   ifNull(sum(properties.amount), 0), max(person.properties.plan) from events \
                   group by event order by event";
    json!({
        "events": some(&events["results"], &["id", "event", "distinct_id", "timestamp", "properties", "elements_chain"]),
        "persons": some(&get("persons/")["results"], &["uuid", "distinct_ids", "properties"]),
        "groups": some(&get("groups/?group_type_index=0")["results"], &["group_key", "group_properties"]),
        "sql": query(json!({ "kind": "HogQLQuery", "query": grouped })),
        "trends": query(json!({ "kind": "TrendsQuery", "interval": "month",
            "series": [{ "kind": "EventsNode", "event": "bought", "math": "dau" }],
            "breakdownFilter": { "breakdown": "plan", "breakdown_type": "person" },
            "dateRange": { "date_from": "2024-03-01", "date_to": "2024-04-30" } }))
            .as_array().unwrap().iter()
            .map(|series| json!([series["label"], series["data"]])).collect::<Vec<_>>(),
        "flags": [told("anna"), told("bob"), told("stranger")],
        "dashboard": json!({ "name": dashboard["name"], "tiles": tiles }),
        "shared": get("dashboards/1/sharing/")["access_token"],
        "rules": some(&get("dashboards/1/access_controls/")["access_controls"], &["access_level", "resource", "resource_id"]),
        "cohorts": some(&get("cohorts/")["results"], &["name", "count", "is_static", "filters"]),
        "members": some(&get("persons/?cohort=1")["results"], &["uuid"]),
        "actions": some(&get("actions/")["results"], &["name", "steps"]),
        "names": some(&get("event_definitions/")["results"], &["name"]),
        "properties": some(&get("property_definitions/?limit=500")["results"], &["name", "property_type"]),
        "keys": some(&server.get("/api/personal_api_keys/").expect(200).json(), &["label", "scopes"]),
        "activity": some(&get("activity_log/")["results"], &["scope", "activity", "item_id"]),
    })
}

#[test]
fn stored_formats_open_and_return_the_same_results() {
    let numbers = kept_numbers();
    assert!(!numbers.is_empty());
    for number in numbers {
        let dir = kept().join(number.to_string());
        let expected = fs::read(dir.join("answers.json")).unwrap();
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        let same = |server: &Server, what: &str| {
            let answers = answers(server);
            for (name, expected) in expected.as_object().unwrap() {
                assert_eq!(&answers[name], expected, "{what} {number}: {name}");
            }
        };

        let instance = Store::Sqlite.instance();
        tar(&["-xzf"], &dir.join("data.tar.gz"), instance.data_dir.path());
        let server = instance.serve();
        same(&server, "directory");
        // It continues, and its new files open again.
        let more =
            json!({ "event": "later", "distinct_id": "anna", "timestamp": "2025-01-01T00:00:00Z" });
        server.ingest(&[more]);
        let server = server.restart();
        let sql = json!({ "query": { "kind": "HogQLQuery",
            "query": "select count(), min(person.properties.plan) from events where event = 'later'" } });
        let counted = server.post("/api/projects/1/query/", sql).expect(200).json();
        assert_eq!(counted["results"], json!([[1, "pro"]]), "format {number}");

        let (copy, instance) = (tempfile::tempdir().unwrap(), Store::Sqlite.instance());
        tar(&["-xzf"], &dir.join("backup.tar.gz"), copy.path());
        let from = copy.path().display().to_string();
        let (restored, said, stderr) = instance.run(&["restore", "--from", &from]);
        assert!(restored, "{said}{stderr}");
        same(&instance.serve(), "backup");
    }
}

/// Downgrade: a backup from before the upgrade, restored into an empty directory, still has the
/// formats of the release that took it.
#[test]
fn backup_before_an_upgrade_restores_its_old_formats() {
    let oldest = kept_numbers()[0].to_string();
    let dir = kept().join(oldest);
    let expected = fs::read(dir.join("answers.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    let schema = |instance: &Instance| {
        catalog::check_file(&instance.data_dir.path().join("catalog.sqlite")).unwrap().schema
    };

    let instance = Store::Sqlite.instance();
    tar(&["-xzf"], &dir.join("data.tar.gz"), instance.data_dir.path());
    let old = schema(&instance);
    // This release backs up a directory without migrating it.
    let copies = tempfile::tempdir().unwrap();
    let copy = copies.path().join("copy").display().to_string();
    let (made, said, stderr) = instance.run(&["backup", "--to", &copy]);
    assert!(made, "{said}{stderr}");
    assert_eq!(schema(&instance), old, "a backup migrates nothing");
    let (status, output, instance) = instance.serve().stop();
    assert!(status.success(), "{output}");
    assert!(schema(&instance) > old, "the fixture is no older release's");

    let back = Store::Sqlite.instance();
    let (restored, said, stderr) = back.run(&["restore", "--from", &copy]);
    assert!(restored, "{said}{stderr}");
    assert_eq!(schema(&back), old);
    let (whole, said, stderr) = back.run(&["verify"]);
    assert!(whole, "{said}{stderr}");
    let answers = answers(&back.serve());
    for (name, expected) in expected.as_object().unwrap() {
        assert_eq!(&answers[name], expected, "{name}");
    }
}

fn event(name: &str, who: &str, when: &str, properties: Value) -> Value {
    json!({ "event": name, "distinct_id": who, "timestamp": format!("2024-{when}:00Z"), "properties": properties })
}

/// Waits until the project has `count` segment files.
fn files(server: &Server, wanted: usize) -> Value {
    loop {
        let (listed, printed, stderr) = server.instance().run(&["files", "--json"]);
        assert!(listed, "{stderr}");
        let listed: Value = serde_json::from_str(&printed).unwrap();
        if listed["files"].as_array().unwrap().len() == wanted {
            return listed;
        }
        std::thread::yield_now();
    }
}

#[test]
#[ignore = "makes a fixture; for a format that is new"]
fn record_stored_format_fixture() {
    let mut server = Store::Sqlite.start();
    // Six segments of one month, which are compacted into one.
    for round in 0..6 {
        let day = format!("03-0{}T10:0{round}", round + 1);
        let plan = ["free", "pro"][round % 2];
        let mixed = [json!(1), json!("one")][round % 2].clone();
        let set = json!({ "$set": { "plan": plan }, "$set_once": { "first": round } });
        let mut events = vec![
            event(
                "looked",
                "visitor",
                &day,
                json!({ "$current_url": "https://example.com/", "round": round }),
            ),
            event(
                "bought",
                "anna",
                &day,
                json!({ "amount": 9.5, "$groups": { "company": "acme" } }),
            ),
            event("bought", "bob", &day, json!({ "amount": round, "mixed": mixed })),
            event("$set", "anna", &day, set),
            event(
                "quiet",
                "nobody",
                &day,
                json!({ "$process_person_profile": false, "nothing": null }),
            ),
            event(
                "$groupidentify",
                "anna",
                &day,
                json!({ "$group_type": "company", "$group_key": "acme", "$group_set": { "seats": round } }),
            ),
        ];
        if round == 2 {
            events.push(event("looked", "doomed", &day, json!({})));
        }
        server.ingest(&events);
        server = server.restart();
    }
    files(&server, 1);
    server.ingest(&[
        event(
            "$autocapture",
            "anna",
            "04-01T00:00",
            json!({ "$event_type": "click",
            "$elements": [{ "tag_name": "a", "$el_text": "Buy", "attr__href": "/buy" }] }),
        ),
        event(
            "typed",
            "bob",
            "04-30T23:59",
            json!({ "yes": true, "whole": 3, "part": 0.25, "text": "ü",
            "list": [1, "a"], "object": { "deep": { "er": null } }, "when": "2024-04-30" }),
        ),
    ]);
    let server = server.restart();
    let doomed = server.get("/api/projects/1/persons/?distinct_id=doomed").expect(200).json();
    let doomed = json!({ "ids": [doomed["results"][0]["uuid"]], "delete_events": true });
    server.post("/api/projects/1/persons/bulk_delete/", doomed).expect(202);
    server.wait_until_applied();

    let make = |path: &str, body: Value| {
        server.post(&format!("/api/projects/1/{path}"), body).expect(201).json()
    };
    let pro = json!({ "key": "plan", "type": "person", "value": "pro", "operator": "exact" });
    let leaf = json!({ "type": "AND", "values": [pro] });
    make(
        "cohorts/",
        json!({ "name": "Pro", "filters": { "properties": { "type": "OR", "values": [leaf] } } }),
    );
    server.wait_until("/api/projects/1/cohorts/1/", |cohort| cohort["is_calculating"] == false);
    let half = |key: &str| json!({ "key": key, "rollout_percentage": 50 });
    make(
        "feature_flags/",
        json!({ "key": "colour", "name": "", "active": true, "filters": {
        "groups": [{ "properties": [], "rollout_percentage": 100 }],
        "multivariate": { "variants": [half("red"), half("blue")] }, "payloads": { "red": "\"f00\"", "blue": "\"00f\"" } } }),
    );
    let member = json!({ "key": "id", "type": "cohort", "value": 1 });
    make(
        "feature_flags/",
        json!({ "key": "paying", "name": "", "active": true,
        "filters": { "groups": [{ "properties": [member], "rollout_percentage": 100 }] } }),
    );
    make("actions/", json!({ "name": "Bought", "steps": [{ "event": "bought" }] }));
    make("dashboards/", json!({ "name": "Shop" }));
    let node = json!({ "kind": "EventsNode", "event": "bought" });
    make(
        "insights/",
        json!({ "name": "Sales", "dashboards": [1],
        "query": { "kind": "InsightVizNode", "source": { "kind": "TrendsQuery", "series": [node] } } }),
    );
    let text = json!({ "tiles": [{ "text": { "body": "Hello" } }] });
    server.patch("/api/projects/1/dashboards/1/", text).expect(200);
    server.patch("/api/projects/1/dashboards/1/sharing/", json!({ "enabled": true })).expect(200);
    let rule = json!({ "access_level": "viewer" });
    let rules = server.call("PUT", "/api/projects/1/dashboards/1/access_controls/").json(rule);
    rules.send().expect(200);
    server.key(&["query:read"]);

    // Only in the journal and the catalog: the release that opens the directory creates its row.
    server.ingest(&[
        event("$identify", "anna", "04-02T00:00", json!({ "$anon_distinct_id": "visitor" })),
        event("bought", "anna", "04-02T00:01", json!({ "amount": 1 })),
    ]);
    let (expected, listed) = (answers(&server), files(&server, 2));
    assert!(
        listed["files"].as_array().unwrap().iter().any(|file| file["dead"].is_string()),
        "{listed}"
    );
    let copy = tempfile::tempdir().unwrap();
    let (made, said, stderr) =
        server.instance().run(&["backup", "--to", &copy.path().display().to_string()]);
    assert!(made, "{said}{stderr}");
    let instance = server.kill();
    fs::remove_file(instance.data_dir.path().join("lock")).unwrap();
    let dir = kept().join((kept_numbers().last().unwrap_or(&0) + 1).to_string());
    fs::create_dir_all(&dir).unwrap();
    tar(&["-czf"], &dir.join("data.tar.gz"), instance.data_dir.path());
    tar(&["-czf"], &dir.join("backup.tar.gz"), copy.path());
    fs::write(dir.join("answers.json"), serde_json::to_vec_pretty(&expected).unwrap()).unwrap();
}
