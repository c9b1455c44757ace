//! Groups come with events, and people look for them and change them.

use serde_json::{Value, json};

use crate::harness::{Server, Store, both};

both! {
    groups_are_listed_found_and_changed,
}

const GROUPS: &str = "/api/projects/1/groups/";

// contract: management 111
fn groups_are_listed_found_and_changed(store: Store) {
    let server = Server::start(store);
    assert_eq!(server.get("/api/projects/1/groups_types/").expect(200).json(), json!([]));
    let identify = |key: &str, name: &str| {
        json!({ "event": "$groupidentify", "distinct_id": "u", "properties": {
            "$group_type": "company", "$group_key": key, "$group_set": { "name": name } } })
    };
    let many: Vec<Value> = (0..101).map(|n| identify(&format!("g{n}"), "Many")).collect();
    server.ingest(&many);
    server.ingest(&[identify("acme", "Acme Inc")]);
    let types = server.get("/api/projects/1/groups_types/").expect(200).json();
    assert_eq!(
        (&types[0]["group_type"], &types[0]["group_type_index"]),
        (&json!("company"), &json!(0))
    );
    let get = |query: &str| server.get(&format!("{GROUPS}?{query}"));
    assert_eq!(get("").expect(400).json()["attr"], "group_type_index");
    for (query, attr) in
        [("group_type_index=9", "group_type_index"), ("group_type_index=0&cursor=%21", "cursor")]
    {
        assert_eq!(get(query).expect(400).json()["attr"], attr, "{query}");
    }
    let page = get("group_type_index=0").expect(200).json();
    assert_eq!(page["results"].as_array().unwrap().len(), 100);
    assert_eq!(
        (&page["previous"], &page["results"][0]["group_key"]),
        (&json!(null), &json!("acme"))
    );
    let next = page["next"].as_str().unwrap();
    let rest = server.get(&next[next.find("/api/").unwrap()..]).expect(200).json();
    assert_eq!((rest["results"].as_array().unwrap().len(), &rest["next"]), (2, &json!(null)));
    for query in ["search=ACME", "search=inc", "group_key=acme"] {
        let found = get(&format!("group_type_index=0&{query}")).expect(200).json();
        assert_eq!(found["results"].as_array().unwrap().len(), 1, "{query}");
    }
    let named = "group_type_index=0&group_key=acme";
    let find = |query: &str| server.get(&format!("{GROUPS}find/?{query}"));
    assert_eq!(find(named).expect(200).json()["group_properties"], json!({ "name": "Acme Inc" }));
    find("group_type_index=0&group_key=nobody").expect(404);

    let action = |name: &str, body: Value| server.post(&format!("{GROUPS}{name}/?{named}"), body);
    let changed = action("update_property", json!({ "key": "seats", "value": 5 })).expect(200);
    assert_eq!(changed.json()["group_properties"]["seats"], 5);
    server.settle();
    assert_eq!(find(named).json()["group_properties"], json!({ "name": "Acme Inc", "seats": 5 }));
    action("delete_property", json!({ "$unset": "name" })).expect(200);
    server.settle();
    assert_eq!(find(named).json()["group_properties"], json!({ "seats": 5 }));

    let new = json!({ "group_type_index": 0, "group_key": "new", "group_properties": { "a": 1 } });
    let made = server.post(GROUPS, new.clone()).expect(201).json();
    assert_eq!(made["group_properties"], json!({ "a": 1 }));
    server.settle();
    let found = find("group_type_index=0&group_key=new").expect(200).json();
    assert_eq!(found["group_properties"], json!({ "a": 1 }));
    assert_eq!(server.post(GROUPS, new).expect(400).json()["attr"], "group_key");
    let unknown = json!({ "group_type_index": 3, "group_key": "x" });
    assert_eq!(server.post(GROUPS, unknown).expect(400).json()["attr"], "group_type_index");
}
