//! Behavioral cohorts.

use serde_json::{Value, json};

use crate::harness::{Store, on_both_stores};
use crate::persons::cohorts::{COHORTS, create, filters, path, pro};

on_both_stores! {
    cohort_membership_follows_behavior,
    flags_reject_behavioral_cohorts,
    cohort_dependency_cycles_are_rejected,
}

fn did(kind: &str, more: Value) -> Value {
    let mut leaf = json!({ "type": "behavioral", "key": "bought", "value": kind,
        "event_type": "events", "time_value": "30", "time_interval": "day", "negation": false });
    leaf.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    leaf
}

// contract: management section 11, the first three kinds of behaviour
fn cohort_membership_follows_behavior(store: Store) {
    let server = store.start();
    let event = |id: &str, name: &str, more: Value| {
        let mut event = json!({ "event": name, "distinct_id": id, "properties": {
            "$set": { "name": id, "plan": if id == "old" { "free" } else { "pro" } } } });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let long_ago = json!({ "timestamp": "2020-01-01T00:00:00Z" });
    let dear = json!({ "properties": { "price": 90, "$set": { "name": "thrice" } } });
    server.ingest(&[
        event("once", "bought", json!({})),
        event("thrice", "bought", json!({})),
        event("thrice", "bought", json!({})),
        event("thrice", "bought", dear),
        event("again", "bought", long_ago.clone()),
        event("again", "bought", json!({})),
        event("old", "bought", long_ago),
        event("never", "looked", json!({})),
    ]);
    let action = json!({ "name": "dear", "steps": [{ "event": "bought",
        "properties": [{ "key": "price", "operator": "gt", "value": 50 }] }] });
    let action = server.post("/api/projects/1/actions/", action).expect(201).json();
    let members = |values: Value| -> Vec<String> {
        let tree = json!({ "properties": { "type": "AND", "values": values } });
        let made = create(&server, json!({ "filters": tree }));
        assert_eq!((&made["cohort_type"], &made["filters"]), (&json!("behavioral"), &tree));
        let is_done = |cohort: &Value| cohort["is_calculating"] == json!(false);
        let done = server.wait_until(&path(&made), is_done);
        let persons = server.get(&format!("{}persons", path(&made))).expect(200).json();
        let named = |person: &Value| person["name"].as_str().unwrap().to_owned();
        let names: Vec<String> = persons["results"].as_array().unwrap().iter().map(named).collect();
        assert_eq!(
            (&done["count"], &done["last_error_message"]),
            (&json!(names.len()), &Value::Null)
        );
        names
    };
    let times = |operator: &str, times: i64| {
        did("performed_event_multiple", json!({ "operator": operator, "operator_value": times }))
    };
    let pro = json!({ "type": "person", "key": "plan", "value": "pro" });
    let (never, old) = (vec!["never"], vec!["old"]);
    let not = json!({ "negation": true });
    for (values, expected) in [
        (json!([did("performed_event", json!({}))]), vec!["once", "thrice", "again"]),
        (json!([did("performed_event", not.clone())]), vec!["old", "never"]),
        (json!([did("performed_event", not), pro]), never),
        (json!([did("performed_event_first_time", json!({}))]), vec!["once", "thrice"]),
        (json!([times("gte", 2)]), vec!["thrice"]),
        (json!([times("lte", 2)]), vec!["once", "again"]),
        (json!([times("exact", 3)]), vec!["thrice"]),
        (
            json!([did(
                "performed_event",
                json!({ "event_type": "actions", "key": action["id"] })
            )]),
            vec!["thrice"],
        ),
        (
            json!([did(
                "performed_event",
                json!({ "event_filters": [
                { "key": "price", "operator": "is_set", "value": "is_set" }] })
            )]),
            vec!["thrice"],
        ),
        (
            json!([did("performed_event", json!({ "explicit_datetime": "2019-12-01",
                "explicit_datetime_to": "2020-02-01" })), { "type": "OR", "values": [
                { "type": "person", "key": "plan", "value": "free" }, times("gt", 5)] }]),
            old,
        ),
    ] {
        assert_eq!(members(values.clone()), expected, "{values}");
    }
    // Insights and other cohorts use the members.
    let found = server.get(COHORTS).json()["results"].as_array().unwrap().last().unwrap().clone();
    let inside = json!({ "key": "id", "type": "cohort", "value": found["id"] });
    let asked = json!({ "query": { "kind": "TrendsQuery", "properties": [inside],
        "series": [{ "kind": "EventsNode", "event": "bought", "math": "dau" }],
        "trendsFilter": { "display": "BoldNumber" } } });
    let response = server.post("/api/projects/1/query/", asked).expect(200).json();
    assert_eq!(response["results"][0]["aggregated_value"], 3);
    let outer = json!([{ "type": "cohort", "key": "id", "value": found["id"], "negation": true },
        did("performed_event", json!({ "key": "looked" }))]);
    assert_eq!(members(outer), ["never"]);
    // Deleting the action keeps the members and reports the error.
    let asks = did("performed_event", json!({ "event_type": "actions", "key": action["id"] }));
    let made = create(&server, json!({ "filters": filters(asks) }));
    server.wait_until(&path(&made), |cohort| cohort["count"] == json!(1));
    server.patch(&format!("/api/projects/1/actions/{}/", action["id"]), json!({ "deleted": true }));
    server.post(&format!("{}calculate", path(&made)), json!({})).expect(200);
    let failed = server.wait_until(&path(&made), |cohort| cohort["errors_calculating"] == json!(1));
    assert!(failed["last_error_message"].as_str().unwrap().contains("which is deleted"));
    assert_eq!(failed["count"], 1);
    for wrong in [
        did("performed_event_regularly", json!({})),
        did("performed_event_multiple", json!({})),
        did("performed_event", json!({ "event_type": "actions", "key": 999 })),
        did(
            "performed_event",
            json!({ "event_filters": [{ "type": "cohort", "key": "id", "value": 999 }] }),
        ),
        did("performed_event", json!({ "explicit_datetime": "some day" })),
    ] {
        let refused = server.post(COHORTS, json!({ "filters": filters(wrong) })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input filters");
    }
    let field = "filters__properties__values__0__values__0";
    let leaf = did("performed_event", json!({ "negation": "x" }));
    let refused = server.post(COHORTS, json!({ "filters": filters(leaf) })).expect(400);
    assert_eq!(refused.error(), format!("validation_error invalid_input {field}__negation"));
    let fine = json!({ "key": "price", "value": 90 });
    for wrong in [
        json!({ "key": "x", "operator": "like" }),
        json!({ "key": "x", "operator": "regex", "value": "(" }),
        json!({ "type": "hogql", "key": "a b" }),
        json!({ "type": "hogql", "key": "nosuchfn(1)" }),
        json!({ "type": "session", "key": "$nothing", "value": "x" }),
        json!({ "type": "nope", "key": "x" }),
        json!({ "type": "cohort", "key": "id", "value": "x" }),
        json!({ "type": "AND", "values": [{ "key": "x", "operator": "like" }] }),
        json!(5),
    ] {
        let leaf = did("performed_event", json!({ "event_filters": [fine, wrong] }));
        let refused = server.post(COHORTS, json!({ "filters": filters(leaf) })).expect(400);
        let field = format!("{field}__event_filters__1");
        assert_eq!(refused.error(), format!("validation_error invalid_input {field}"), "{wrong}");
    }
    let list = json!([did("performed_event", json!({}))]).to_string();
    let list: String = list.bytes().map(|byte| format!("%{byte:02x}")).collect();
    server.get(&format!("/api/projects/1/persons/?properties={list}")).expect(400);
}

// contract: flags 16
fn flags_reject_behavioral_cohorts(store: Store) {
    let server = store.start();
    let did = filters(did("performed_event", json!({})));
    let inner = create(&server, json!({ "filters": did.clone() }));
    let asks = |id: &Value| json!({ "type": "cohort", "key": "id", "value": id });
    let outer = create(&server, json!({ "filters": filters(asks(&inner["id"])) }));
    let flag = |key: &str, id: &Value| {
        json!({ "key": key, "filters": {
        "groups": [{ "properties": [asks(id)], "rollout_percentage": 100 }] } })
    };
    const FLAGS: &str = "/api/projects/1/feature_flags/";
    for cohort in [&inner, &outer] {
        let refused = server.post(FLAGS, flag("x", &cohort["id"])).expect(400);
        assert_eq!(refused.error(), "validation_error behavioral_cohort_found filters");
    }
    let body = json!({ "is_static": true, "filters": did });
    let list = create(&server, body);
    server.post(FLAGS, flag("listed", &list["id"])).expect(201);
    // A cohort that a flag uses cannot become behavioral.
    let plain = create(&server, json!({ "filters": pro() }));
    server.post(FLAGS, flag("plain", &plain["id"])).expect(201);
    for leaf in [did["properties"]["values"][0]["values"][0].clone(), asks(&inner["id"])] {
        let refused = server.patch(&path(&plain), json!({ "filters": filters(leaf) })).expect(400);
        assert_eq!(refused.error(), "validation_error behavioral_cohort_found filters");
    }
    assert_eq!(server.get(&path(&plain)).json()["filters"], pro());
}

// contract: management section 11, a cycle
fn cohort_dependency_cycles_are_rejected(store: Store) {
    const ACTIONS: &str = "/api/projects/1/actions/";
    let server = store.start();
    let asks = |id: &Value| json!({ "type": "cohort", "key": "id", "value": id });
    let by_events =
        |id: &Value| filters(did("performed_event", json!({ "event_filters": [asks(id)] })));
    let by_action =
        |id: &Value| filters(did("performed_event", json!({ "event_type": "actions", "key": id })));
    let steps = |id: &Value| json!([{ "event": "bought", "properties": [asks(id)] }]);
    let inner = create(&server, json!({ "filters": pro() }));
    let outer = create(&server, json!({ "filters": filters(asks(&inner["id"])) }));
    let action = json!({ "name": "a", "steps": steps(&outer["id"]) });
    let action = server.post(ACTIONS, action).expect(201).json();
    let action_at = format!("{ACTIONS}{}/", action["id"]);
    let group = json!({ "type": "OR", "values": [asks(&outer["id"])] });
    for closing in [
        by_events(&inner["id"]),
        by_events(&outer["id"]),
        by_events(&json!([outer["id"]])),
        by_events(&json!(outer["id"].to_string())),
        filters(did("performed_event", json!({ "event_filters": [group] }))),
        by_action(&action["id"]),
    ] {
        let refused = server.patch(&path(&inner), json!({ "filters": closing })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input filters", "{closing}");
        assert_eq!(refused.json()["detail"], "Cohorts cannot reference other cohorts in a loop.");
        assert_eq!(server.get(&path(&inner)).json()["filters"], pro());
    }
    // An action can close a cycle too, deleted or not.
    server.patch(&action_at, json!({ "steps": [{ "event": "bought" }] })).expect(200);
    server.patch(&path(&inner), json!({ "filters": by_action(&action["id"]) })).expect(200);
    for id in [&inner["id"], &outer["id"]] {
        for deleted in [false, true] {
            server.patch(&action_at, json!({ "deleted": deleted }));
            let closing = json!({ "steps": steps(id), "deleted": false });
            let refused = server.patch(&action_at, closing).expect(400);
            assert_eq!(refused.error(), "validation_error invalid_input steps");
            server.patch(&action_at, json!({ "deleted": false }));
            assert_eq!(server.get(&action_at).json()["steps"][0]["properties"], json!(null));
        }
    }
    // Behavioral cohorts follow changes of a referenced cohort too.
    let buyers = create(&server, json!({ "filters": by_events(&outer["id"]) }));
    let is_done = |cohort: &Value| cohort["is_calculating"] == json!(false);
    let before = server.wait_until(&path(&buyers), is_done)["version"].as_i64().unwrap();
    server.patch(&path(&inner), json!({ "filters": pro() })).expect(200);
    server.wait_until(&path(&buyers), |cohort| cohort["version"].as_i64() > Some(before));
}
