//! Counting a cohort while it is edited, and where a cohort is used.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};
use crate::persons::cohorts::{COHORTS, create, filters, path, pro};

on_both_stores! {
    cohort_is_counted_before_it_is_stored,
    cohort_names_what_uses_it,
}

fn count(server: &Server, filters: Value) -> Value {
    server.post(&format!("{COHORTS}count/"), json!({ "filters": filters })).expect(200).json()
}

fn cohort_is_counted_before_it_is_stored(store: Store) {
    let server = store.start();
    server.ingest(&[
        json!({ "event": "bought", "distinct_id": "a", "properties": { "$set": { "plan": "pro" } } }),
        json!({ "event": "e", "distinct_id": "b", "properties": { "$set": { "plan": "pro" } } }),
        json!({ "event": "bought", "distinct_id": "c" }),
    ]);
    assert_eq!(count(&server, pro()), json!({ "count": 2, "total": 3 }));
    let bought = json!({ "type": "behavioral", "key": "bought", "event_type": "events",
        "value": "performed_event", "time_value": 30, "time_interval": "day" });
    let both = json!({ "properties": { "type": "AND", "values": [pro()["properties"], bought] } });
    assert_eq!(count(&server, both), json!({ "count": 1, "total": 3 }));
    let list = json!({ "is_static": true, "_create_static_person_ids": [] });
    let list = server.post(COHORTS, list).expect(201).json();
    let listed = filters(json!({ "type": "cohort", "key": "id", "value": list["id"] }));
    assert_eq!(count(&server, listed), json!({ "count": 0, "total": 3 }));
    assert_eq!(server.get(COHORTS).json()["count"], 1, "only the list is stored");
    let send = |body: Value| server.post(&format!("{COHORTS}count/"), body).expect(400).error();
    assert_eq!(send(json!({})), "validation_error required filters");
    let missing = filters(json!({ "type": "cohort", "key": "id", "value": 999 }));
    assert_eq!(send(json!({ "filters": missing })), "validation_error invalid_input filters");
}

fn cohort_names_what_uses_it(store: Store) {
    let server = store.start();
    let cohort = create(&server, json!({ "name": "pros", "filters": pro() }));
    let asks = json!({ "type": "cohort", "key": "id", "value": cohort["id"] });
    let users = || server.get(&format!("{}used_by/", path(&cohort))).expect(200).json();
    let nothing =
        json!({ "feature_flags": [], "insights": [], "cohorts": [], "actions": [], "hidden": 0 });
    assert_eq!(users(), nothing);
    let flag = json!({ "key": "f", "filters": { "groups": [{ "properties": [asks] }] } });
    let flag = server.post("/api/projects/1/feature_flags/", flag).expect(201).json();
    let other = create(&server, json!({ "name": "others", "filters": filters(asks.clone()) }));
    let steps = json!([{ "event": "e", "properties": [asks] }]);
    let action = json!({ "name": "act", "steps": steps });
    let action = server.post("/api/projects/1/actions/", action).expect(201).json();
    let query = json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode", "event": "e" }],
        "properties": [asks] });
    let insight = json!({ "name": "i", "query": { "kind": "InsightVizNode", "source": query } });
    let insight = server.post("/api/projects/1/insights/", insight).expect(201).json();
    assert_eq!(
        users(),
        json!({
            "feature_flags": [{ "id": flag["id"], "key": "f", "name": "" }],
            "insights": [{ "id": insight["id"], "short_id": insight["short_id"], "name": "i" }],
            "cohorts": [{ "id": other["id"], "name": "others" }],
            "actions": [{ "id": action["id"], "name": "act" }],
            "hidden": 0,
        })
    );
    let gone = format!("/api/projects/1/insights/{}/", insight["id"]);
    server.patch(&gone, json!({ "deleted": true })).expect(200);
    assert_eq!(users()["insights"], json!([]));
}
