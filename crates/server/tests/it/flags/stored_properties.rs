//! Flags with stored properties of persons and groups.

use serde_json::{Value, json};

use crate::flags::evaluation::flags_of;
use crate::flags::management::{FLAGS, create, path};
use crate::harness::{Relay, Server, Store, on_both_stores, postgres_available};

on_both_stores! {
    stored_person_properties_apply_unless_overridden,
    stored_group_properties_apply_unless_overridden,
    experience_continuity_survives_identification,
    blast_radius_counts_all_persons,
    flag_dry_run_reports_changes_without_applying,
}

/// A person with its distinct ids, oldest first.
fn person(server: &Server, no: usize, ids: &[&str], properties: Value) {
    let uuid = uuid::Uuid::from_u128(no as u128);
    let mut sql = format!(
        "INSERT INTO persons (project_id, no, uuid, properties, is_identified, version, created_at) \
         VALUES (1, {no}, '{uuid}', '{properties}', TRUE, 0, 0);"
    );
    for (at, id) in ids.iter().enumerate() {
        sql += &format!(
            "INSERT INTO distinct_ids (project_id, no, distinct_id, person_no, version, version_floor) \
             VALUES (1, {}, '{id}', {no}, 0, 0);",
            no * 10 + at,
        );
    }
    server.instance().write(&sql);
}

fn plan(value: &str) -> Value {
    json!({ "properties": [{ "key": "plan", "type": "person", "value": value }] })
}

fn enabled(server: &Server, id: &str, key: &str, more: Value) -> Value {
    flags_of(server, id, more)["flags"][key]["enabled"].clone()
}

fn stored_person_properties_apply_unless_overridden(store: Store) {
    let server = store.start();
    person(&server, 1, &["ada", "ada@acme.io"], json!({ "plan": "pro" }));
    create(&server, json!({ "key": "f", "filters": { "groups": [plan("pro")] } }));
    for id in ["ada", "ada@acme.io"] {
        assert_eq!(enabled(&server, id, "f", json!({})), true);
        let over = json!({ "person_properties": { "plan": "free" } });
        assert_eq!(enabled(&server, id, "f", over), false);
        assert_eq!(enabled(&server, id, "f", json!({})), true, "only for that request");
    }
    assert_eq!(enabled(&server, "stranger", "f", json!({})), false);
    let sent = json!({ "person_properties": { "plan": "PRO" } });
    assert_eq!(enabled(&server, "stranger", "f", sent), true);
    let explained = server.get(&format!("{FLAGS}1/explain?distinct_id=ada")).expect(200).json();
    assert_eq!(explained["steps"][1]["found"], "pro");
}

// contract: flags 64-65
fn stored_group_properties_apply_unless_overridden(store: Store) {
    let server = store.start();
    server.instance().write("INSERT INTO group_types (project_id, type_index, name, created_at) VALUES (1, 0, 'company', 0); \
        INSERT INTO groups (project_id, type_index, group_key, properties, version, created_at) \
        VALUES (1, 0, 'acme', '{\"tier\":\"gold\"}', 0, 0), (1, 0, '5', '{}', 0, 0);",
    );
    let gold = json!({ "key": "tier", "type": "group", "group_type_index": 0, "value": "gold" });
    let filters =
        json!({ "aggregation_group_type_index": 0, "groups": [{ "properties": [gold] }] });
    create(&server, json!({ "key": "g", "filters": filters }));
    let half =
        json!({ "aggregation_group_type_index": 0, "groups": [{ "rollout_percentage": 50 }] });
    create(&server, json!({ "key": "half", "filters": half }));
    let acme = json!({ "groups": { "company": "acme" } });
    assert_eq!(enabled(&server, "u", "g", acme), true);
    let tin = json!({ "groups": { "company": "acme" }, "group_properties": { "company": { "tier": "tin" } } });
    assert_eq!(enabled(&server, "u", "g", tin), false);
    let number = enabled(&server, "u", "half", json!({ "groups": { "company": 5 } }));
    assert_eq!(number, enabled(&server, "v", "half", json!({ "groups": { "company": "5" } })));
    let definitions = server.get("/flags/definitions?token=phc_test").expect(200).json();
    assert_eq!(definitions["group_type_mapping"], json!({ "0": "company" }));
    let reach = json!({ "condition": { "properties": [gold] }, "group_type_index": 0 });
    let counted = server.post(&format!("{FLAGS}user_blast_radius"), reach).expect(200).json();
    assert_eq!((&counted["affected"], &counted["total"]), (&json!(1), &json!(2)));
}

// contract: flags 83-85
fn experience_continuity_survives_identification(store: Store) {
    let server = store.start();
    let half = json!({ "groups": [{ "rollout_percentage": 50 }] });
    create(
        &server,
        json!({ "key": "kept", "filters": half, "ensure_experience_continuity": true }),
    );
    create(&server, json!({ "key": "free", "filters": half }));
    let find = |prefix: &str, inside: bool| {
        let is_inside = |id: &String| ::flags::bucket("kept", id, "") <= 0.5;
        (0..).map(|n| format!("{prefix}{n}")).find(|id| is_inside(id) == inside).unwrap()
    };
    let kept = |id: &str, more: Value| enabled(&server, id, "kept", more);
    // No person is stored: applies to this request only.
    let (anonymous, user) = (find("anon", true), find("user", false));
    assert_eq!(kept(&user, json!({ "$anon_distinct_id": anonymous })), true);
    assert_eq!(kept(&user, json!({})), false);
    // One person with both ids: persistent.
    let (anonymous, user) = (find("known-anon", true), find("known-user", false));
    let other = find("other", false);
    person(&server, 1, &[&anonymous, &user], json!({}));
    assert_eq!(kept(&user, json!({})), false, "nothing is remembered yet");
    let free = enabled(&server, &user, "free", json!({}));
    let joined = flags_of(&server, &user, json!({ "$anon_distinct_id": anonymous }));
    assert_eq!(joined["flags"]["kept"]["enabled"], true);
    assert_eq!(joined["flags"]["free"]["enabled"], free, "only flags that ask for it");
    assert_eq!(kept(&user, json!({})), true);
    assert_eq!(kept(&user, json!({ "$anon_distinct_id": other })), true, "what is stored stays");
}

/// Cached definitions are used; only flags that need stored properties fail.
#[test]
fn flags_evaluate_while_the_catalog_is_unavailable() {
    if !postgres_available() {
        return;
    }
    let mut instance = Store::Postgres.instance();
    let url = instance.get("HEDGEROW_CATALOG_URL");
    let (_, rest) = url.split_once('@').unwrap();
    let (host, database) = rest.split_once('/').unwrap();
    let relay = Relay::to(host.parse().unwrap());
    instance
        .set("HEDGEROW_CATALOG_URL", &format!("postgres://postgres@{}/{database}", relay.address));
    let server = instance.serve();
    create(&server, json!({ "key": "on", "filters": { "groups": [{}] } }));
    create(&server, json!({ "key": "stored", "filters": { "groups": [plan("pro")] } }));
    assert_eq!(enabled(&server, "u", "on", json!({})), true);
    relay.cut();
    let away = flags_of(&server, "somebody else", json!({}));
    assert_eq!(away["flags"]["on"]["enabled"], true);
    assert_eq!(away["errorsWhileComputingFlags"], true);
    let failed = &away["flags"]["stored"];
    assert_eq!((&failed["failed"], &failed["enabled"]), (&json!(true), &json!(false)));
    assert_eq!(failed["reason"]["code"], "database_error");
    let sent =
        flags_of(&server, "somebody else", json!({ "person_properties": { "plan": "pro" } }));
    assert_eq!(sent["flags"]["stored"]["enabled"], true);
    assert_eq!(sent["errorsWhileComputingFlags"], false);
    relay.restore();
}

// contract: flags 51
fn blast_radius_counts_all_persons(store: Store) {
    let server = store.start();
    for no in 1..=10 {
        let plan = if no <= 4 { "pro" } else { "free" };
        person(&server, no, &[&format!("u{no}")], json!({ "plan": plan }));
    }
    let count = |body: Value| server.post(&format!("{FLAGS}user_blast_radius"), body);
    let counted = |affected: u64| json!({ "affected": affected, "total": 10, "users_affected": affected, "total_users": 10, "conditions": [{ "affected": affected }] });
    let mut condition = plan("pro");
    condition["rollout_percentage"] = json!(25);
    assert_eq!(count(json!({ "condition": condition })).expect(200).json(), counted(4));
    assert_eq!(count(json!({ "condition": { "properties": [] } })).expect(200).json(), counted(10));
    let either = json!({ "filters": { "groups": [plan("pro"), plan("free")] } });
    let either = count(either).expect(200).json();
    assert_eq!(either["affected"], 10);
    assert_eq!(either["conditions"], json!([{ "affected": 4 }, { "affected": 6 }]));
    let uuids = [2, 7, 9].map(uuid::Uuid::from_u128);
    let list = json!({ "is_static": true, "_create_static_person_ids": uuids });
    let list = server.post("/api/projects/1/cohorts/", list).expect(201).json();
    let listed = json!([{ "type": "cohort", "key": "id", "value": list["id"] }]);
    let listed = json!({ "condition": { "properties": listed } });
    assert_eq!(count(listed).expect(200).json(), counted(3));
    assert_eq!(count(json!({})).expect(400).error(), "validation_error invalid_input -");
    let bad = json!({ "condition": { "properties": [{ "key": "p", "type": "person", "operator": "foo" }] } });
    assert_eq!(count(bad).expect(400).error(), "validation_error invalid_input filters");
}

fn flag_dry_run_reports_changes_without_applying(store: Store) {
    let server = store.start();
    for no in 1..=30 {
        let plan = if no <= 5 { "pro" } else { "free" };
        person(&server, no, &[&format!("u{no}")], json!({ "plan": plan }));
    }
    let flag = create(&server, json!({ "key": "f", "filters": { "groups": [plan("pro")] } }));
    let dry = |body: Value| server.post(&format!("{}dry_run", path(&flag)), body);
    let wider = json!({ "filters": { "groups": [plan("pro"), plan("free")] } });
    let told = dry(wider.clone()).expect(200).json();
    assert_eq!(
        (&told["subjects"], &told["complete"], &told["changed"]),
        (&json!(30), &json!(true), &json!(25))
    );
    let matrix = told["matrix"].as_array().unwrap();
    let cells: Vec<(&Value, &Value, &Value)> =
        matrix.iter().map(|cell| (&cell["from"], &cell["to"], &cell["count"])).collect();
    let (yes, no) = (json!("true"), json!("false"));
    assert_eq!(cells, [(&no, &yes, &json!(25)), (&yes, &yes, &json!(5))]);
    assert_eq!(matrix[0]["examples"].as_array().unwrap().len(), 20);
    assert_eq!(matrix[1]["examples"][0], "u1");
    assert_eq!(server.get(&path(&flag)).json(), flag, "nothing is stored");
    assert_eq!(enabled(&server, "u9", "f", json!({})), false);
    assert_eq!(dry(json!({ "active": false })).expect(200).json()["changed"], 5);
    assert_eq!(
        dry(json!({ "filters": { "groups": 5 } })).expect(400).error(),
        "validation_error invalid_input filters"
    );
    server.patch(&path(&flag), wider).expect(200);
    assert_eq!(enabled(&server, "u9", "f", json!({})), true);
}
