//! Static cohorts: sources of members, and conditions without effect.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};
use crate::persons::cohorts::{COHORTS, create, filters, form, path, pro};

on_both_stores! {
    static_cohort_stores_conditions_without_effect,
    csv_upload_accepts_any_line_ending,
    static_cohort_adds_persons_by_request,
    static_cohort_holds_every_actor_of_its_query,
}

const IDS: &str = "_create_static_person_ids";

fn server(store: Store) -> Server {
    let server = store.start();
    let seen = |id: &str| json!({ "event": "seen", "distinct_id": id });
    server.ingest(&["a", "b", "c"].map(seen));
    server
}

fn person(server: &Server, id: &str) -> Value {
    let found = server.get(&format!("/api/projects/1/persons/?distinct_id={id}")).expect(200);
    found.json()["results"][0]["uuid"].clone()
}

/// Flags 16, management 11: a static cohort stores conditions, which are not evaluated.
/// Front-ends send an empty list.
fn static_cohort_stores_conditions_without_effect(store: Store) {
    let server = server(store);
    let by = |id: &Value| filters(json!({ "type": "cohort", "key": "id", "value": id }));
    let did = json!({ "type": "behavioral", "key": "x", "value": "performed_event",
        "event_type": "events", "time_value": 1, "time_interval": "day" });
    let old = json!([{ "properties": [{ "key": "plan", "value": "pro" }] }]);
    let none = json!({ "type": "OR", "values": [{ "type": "AND", "values": [] }] });
    let list =
        create(&server, json!({ "name": "l", "is_static": true, IDS: [person(&server, "a")] }));
    assert_eq!(list["filters"], json!(null));
    let asking = create(&server, json!({ "filters": by(&list["id"]) }));
    for kept in [
        pro(),
        filters(did),
        // In a static cohort these form no cycle, and need not exist.
        by(&list["id"]),
        by(&asking["id"]),
        by(&json!(999_999)),
        json!({}),
        json!({ "properties": {} }),
        json!({ "properties": none }),
    ] {
        let body = json!({ "name": "n", "is_static": true, "filters": kept });
        let made = create(&server, body.clone());
        let changed = server.patch(&path(&list), json!({ "filters": kept })).expect(200).json();
        let again = server.patch(&path(&list), body).expect(200).json();
        for (shown, count) in [(&made, 0), (&changed, 1), (&again, 1)] {
            assert_eq!((&shown["filters"], &shown["count"]), (&kept, &json!(count)));
            assert_eq!(shown["cohort_type"], "static");
            assert_eq!(shown["is_calculating"], json!(false));
        }
        assert_eq!(server.get(&path(&list)).json()["filters"], kept);
        let calculated =
            server.wait_until(&path(&asking), |one| one["is_calculating"] == json!(false));
        assert_eq!(
            (&calculated["count"], &calculated["errors_calculating"]),
            (&json!(1), &json!(0))
        );
        server.patch(&path(&list), json!({ "filters": null, "groups": [] })).expect(200);
        assert_eq!(server.get(&path(&list)).json()["filters"], kept);
    }
    let changed = server.patch(&path(&list), json!({ "groups": old })).expect(200).json();
    assert_eq!(changed["filters"]["properties"]["values"][0]["values"][0]["key"], "plan");
    let log = server.get(&format!("{}activity?limit=1", path(&list))).expect(200).json();
    assert_eq!(log["results"][0]["detail"]["changes"][0]["field"], "filters");
    let before = server.get(COHORTS).json()["count"].clone();
    for wrong in [
        filters(json!({ "key": "x", "operator": "like", "value": 1 })),
        filters(json!({ "type": "planet", "key": "x" })),
        json!({ "properties": { "type": "OR" } }),
        json!({ "properties": [5] }),
    ] {
        let body = json!({ "is_static": true, "filters": wrong });
        for refused in
            [server.post(COHORTS, body), server.patch(&path(&list), json!({ "filters": wrong }))]
        {
            assert_eq!(refused.expect(400).error(), "validation_error invalid_input filters");
        }
    }
    assert_eq!(server.get(COHORTS).json()["count"], before);
    assert_eq!(server.get(&path(&list)).json(), changed, "nothing is changed");
    let fields = [("name", "f"), ("is_static", "true"), ("filters", r#"{"properties":{}}"#)];
    let made = form(&server, "POST", COHORTS, &fields, b"b\n").expect(201).json();
    assert_eq!((&made["filters"], &made["count"]), (&json!({ "properties": {} }), &json!(1)));
    let more = form(&server, "PATCH", &path(&made), &fields, b"c\n").expect(200).json();
    assert_eq!(more["count"], 2);
}

/// Management 11: the rules of a CSV file.
fn csv_upload_accepts_any_line_ending(store: Store) {
    let server = server(store);
    let fields = [("name", "Listed"), ("is_static", "true")];
    for csv in [
        "distinct_id\na\nb\n",
        "distinct_id\r\na\r\nb\r\n",
        "distinct_id\ra\rb\r",
        "a\rb",
        "x,distinct_id\r1,a\r\r2,b\n3,unknown\r\n",
    ] {
        let made = form(&server, "POST", COHORTS, &fields, csv.as_bytes()).expect(201).json();
        assert_eq!(made["count"], 2, "{csv:?}");
    }
}

/// Management 11: persons and queries extend a static cohort.
fn static_cohort_adds_persons_by_request(store: Store) {
    let server = server(store);
    let list = create(&server, json!({ "name": "l", "is_static": true }));
    let text = "select person_id from events where event = 'seen' and distinct_id = 'b'";
    let query = json!({ "kind": "HogQLQuery", "query": text });
    for (sent, expected) in [
        (json!({ IDS: [person(&server, "a")] }), 1),
        (json!({ IDS: [person(&server, "a")], "name": "again" }), 1),
        (json!({ "query": query }), 2),
        (json!({ IDS: null, "query": null }), 2),
    ] {
        let changed = server.patch(&path(&list), sent.clone()).expect(200).json();
        assert_eq!(changed["count"], expected, "{sent}");
    }
    let third = || json!([person(&server, "c")]);
    let file = form(&server, "PATCH", &path(&list), &[("deleted", "true")], b"c\n").expect(400);
    assert_eq!(file.error(), "validation_error invalid_input deleted");
    let dynamic = create(&server, json!({ "filters": pro() }));
    for (cohort, sent, attr) in [
        (&list, json!({ IDS: third(), "deleted": true }), "deleted"),
        (&list, json!({ IDS: third(), "filters": { "properties": 5 } }), "filters"),
        (&list, json!({ IDS: ["x"] }), "_create_static_person_ids__0"),
        (&list, json!({ "query": { "kind": "HogQLQuery", "query": "select 1" } }), "query"),
        (&dynamic, json!({ IDS: third() }), IDS),
        (&dynamic, json!({ "query": query }), "query"),
    ] {
        let refused = server.patch(&path(cohort), sent.clone()).expect(400);
        assert_eq!(refused.error(), format!("validation_error invalid_input {attr}"), "{sent}");
    }
    let kept = server.get(&path(&list)).expect(200).json();
    assert_eq!((&kept["count"], &kept["name"]), (&json!(2), &json!("again")));
}

/// The default limit of a hundred rows must not apply (query 3.1).
fn static_cohort_holds_every_actor_of_its_query(store: Store) {
    let server = store.start();
    let seen = |no: usize| json!({ "event": "seen", "distinct_id": format!("u{no}") });
    server.ingest(&(0..150).map(seen).collect::<Vec<_>>());
    let hogql = |text: &str| json!({ "kind": "HogQLQuery", "query": text });
    let count = |query: &Value| {
        create(&server, json!({ "is_static": true, "query": query }))["count"].clone()
    };
    for (query, expected) in [
        (hogql("select id from persons"), 150),
        (hogql("select id from persons limit 120"), 120),
        (hogql("select id from persons union all select person_id from events"), 150),
        (json!({ "kind": "ActorsQuery" }), 150),
        (json!({ "kind": "ActorsQuery", "limit": 120 }), 120),
        (json!({ "kind": "DataTableNode", "source": { "kind": "ActorsQuery" } }), 150),
        (json!({ "kind": "EventsQuery", "select": ["person_id"] }), 150),
    ] {
        assert_eq!(count(&query), expected, "{query}");
    }
    let asked = json!({ "query": hogql("select id from persons") });
    let shown = server.post("/api/projects/1/query/", asked).expect(200).json();
    assert_eq!(shown["results"].as_array().unwrap().len(), 100);
    assert_eq!((&shown["limit"], &shown["hasMore"]), (&json!(100), &json!(true)));
}
