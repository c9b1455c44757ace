//! Lists of persons: what fills them, and what they are not.

use serde_json::{Value, json};

use crate::cohorts::{COHORTS, create, filters, form, path, pro};
use crate::harness::{Server, Store, both};

both! {
    conditions_of_a_list_are_kept_and_mean_nothing,
    a_file_may_come_from_any_system,
}

const IDS: &str = "_create_static_person_ids";

fn server(store: Store) -> Server {
    let server = Server::start(store);
    let seen = |id: &str| json!({ "event": "seen", "distinct_id": id });
    server.ingest(&["a", "b", "c"].map(seen));
    server
}

fn person(server: &Server, id: &str) -> Value {
    let found = server.get(&format!("/api/projects/1/persons/?distinct_id={id}")).expect(200);
    found.json()["results"][0]["uuid"].clone()
}

/// Flags 16, management 11: conditions are kept with a list, and nobody is held against them.
/// Front-ends send a list without any.
fn conditions_of_a_list_are_kept_and_mean_nothing(store: Store) {
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
        // Of a list these are no loop, and need not be there.
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
fn a_file_may_come_from_any_system(store: Store) {
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
