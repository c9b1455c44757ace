//! Event and property definitions: created by ingestion, edited by users.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    event_definitions_are_searched_ordered_and_filtered,
    event_definition_is_verified_hidden_and_deleted,
    event_definition_can_be_created_manually,
    property_definitions_have_owner_and_type,
    event_definition_counts_thirty_days,
    group_properties_have_definitions_and_name_length_is_bounded,
}

const EVENTS: &str = "/api/projects/1/event_definitions/";
const PROPERTIES: &str = "/api/projects/1/property_definitions/";

fn event(name: &str, properties: Value) -> Value {
    json!({ "event": name, "distinct_id": "u1", "properties": properties })
}

fn names(page: &Value) -> Vec<&str> {
    page["results"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

fn started(store: Store) -> Server {
    let server = store.start();
    server.ingest(&[
        event("signup", json!({ "plan": "pro", "seats": 3, "$group_0": "x" })),
        event("sign up later", json!({ "plan": "free" })),
        event("$pageview", json!({ "$set": { "email": "a@b.c" }, "$feature/beta": true })),
    ]);
    server
}

// contract: management 75-78, 83, 84
fn event_definitions_are_searched_ordered_and_filtered(store: Store) {
    let server = started(store);
    let list = |query: &str| server.get(&format!("{EVENTS}?{query}")).expect(200).json();
    let found = list("search=sig");
    assert_eq!(names(&found), ["signup", "sign up later"], "the shortest name comes first");
    assert_eq!((&found["count"], &found["count_is_capped"]), (&json!(2), &json!(false)));
    let first = &found["results"][0];
    assert_eq!((&first["is_action"], &first["created_by"]), (&json!(false), &json!(null)));
    assert!(first["created_at"].is_string() && first["last_seen_at"].is_string());
    for (query, expected) in [
        ("search=up%20sign", vec!["signup", "sign up later"]),
        ("search=later+SIGN", vec!["sign up later"]),
        ("event_type=event_posthog", vec!["$pageview"]),
        ("event_type=event_custom&ordering=name", vec!["sign up later", "signup"]),
        ("ordering=-name", vec!["signup", "sign up later", "$pageview"]),
        ("ordering=foo", vec!["$pageview", "sign up later", "signup"]),
        ("names=signup,$pageview&ordering=-name", vec!["signup", "$pageview"]),
        ("excluded_properties=[%22signup%22]&event_type=event_custom", vec!["sign up later"]),
        ("verified=true", vec!["$pageview"]),
        ("tags=[%22none%22]", vec![]),
        ("exclude_stale=true&search=signup", vec!["signup"]),
        ("limit=1&offset=1&ordering=name", vec!["sign up later"]),
    ] {
        assert_eq!(names(&list(query)), expected, "{query}");
    }
    for (query, attr) in [
        ("event_type=bogus", "event_type"),
        ("limit=0", "limit"),
        ("limit=x", "limit"),
        ("offset=-1", "offset"),
        ("tags=x", "tags"),
    ] {
        let response = server.get(&format!("{EVENTS}?{query}")).expect(400);
        assert_eq!(response.json()["attr"], attr, "{query}");
    }
    let signup = server.get(&format!("{EVENTS}by_name/?name=signup")).expect(200).json();
    assert_eq!(signup["name"], "signup");
    server.get(&format!("{EVENTS}by_name/?name=missing")).expect(404);
    let id = signup["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("{EVENTS}{id}/")).expect(200).json(), signup);
    for path in ["nonsense", "00000000-0000-0000-0000-000000000000"] {
        server.get(&format!("{EVENTS}{path}/")).expect(404);
    }
}

// contract: management 79-82
fn event_definition_is_verified_hidden_and_deleted(store: Store) {
    let server = started(store);
    let definition = server.get(&format!("{EVENTS}by_name/?name=signup")).expect(200).json();
    let path = format!("{EVENTS}{}/", definition["id"].as_str().unwrap());
    let owner = server.get("/api/users/@me/").expect(200).json()["id"].clone();
    let patch = |body: Value| server.patch(&path, body);

    let verified = patch(json!({ "verified": true })).expect(200).json();
    assert_eq!(verified["verified_by"]["id"], owner);
    assert!(verified["verified_at"].is_string());
    let again = patch(json!({ "verified": true })).expect(200).json();
    assert_eq!(again["verified_at"], verified["verified_at"]);
    let hidden = patch(json!({ "hidden": true })).expect(200).json();
    assert_eq!(
        (&hidden["verified"], &hidden["verified_by"], &hidden["verified_at"]),
        (&json!(false), &json!(null), &json!(null))
    );
    let refused = patch(json!({ "verified": true, "hidden": true })).expect(400).json();
    assert_eq!(refused["detail"], "An event cannot be both hidden and verified");
    assert!(
        names(&server.get(&format!("{EVENTS}?exclude_hidden=true")).json())
            .iter()
            .all(|name| *name != "signup")
    );

    let body = json!({ "name": "x", "description": "joins", "tags": ["A", "a"], "owner": owner,
        "default_columns": ["plan"], "primary_property": "plan", "enforcement_mode": "reject" });
    let changed = patch(body).expect(200).json();
    for (field, expected) in [
        ("name", json!("signup")),
        ("description", json!("joins")),
        ("tags", json!(["a"])),
        ("default_columns", json!(["plan"])),
        ("primary_property", json!("plan")),
        ("enforcement_mode", json!("reject")),
    ] {
        assert_eq!(changed[field], expected, "{field}");
    }
    assert_eq!((&changed["owner"]["id"], &changed["updated_by"]["id"]), (&owner, &owner));
    assert_eq!(patch(json!({ "owner": 99 })).expect(400).json()["attr"], "owner");
    let log = server.get(&format!("{path}activity/")).expect(200).json();
    assert_eq!(log["results"][0]["activity"], "changed");
    assert_eq!(log["results"][0]["scope"], "EventDefinition");

    assert!(server.delete(&path).expect(204).body.is_empty());
    server.get(&path).expect(404);
    server.delete(&path).expect(404);
    server.ingest(&[event("signup", json!({ "plan": "pro" }))]);
    let back = server.get(&format!("{EVENTS}by_name/?name=signup")).expect(200).json();
    assert_ne!(back["id"], definition["id"]);
    assert_eq!((&back["description"], &back["tags"]), (&json!(null), &json!([])));
}

fn event_definition_can_be_created_manually(store: Store) {
    let server = started(store);
    let made = server.post(EVENTS, json!({ "name": "planned", "tags": ["soon"] })).expect(201);
    let made = made.json();
    assert_eq!(
        (&made["created_at"], &made["last_seen_at"], &made["tags"]),
        (&json!(null), &json!(null), &json!(["soon"]))
    );
    assert!(made["created_by"]["id"].is_number());
    for (body, attr) in [
        (json!({ "name": "planned" }), "name"),
        (json!({ "name": " " }), "name"),
        (json!({}), "name"),
        (json!({ "name": "x".repeat(401) }), "name"),
    ] {
        assert_eq!(server.post(EVENTS, body).expect(400).json()["attr"], attr);
    }
    server.ingest(&[event("planned", json!({}))]);
    let seen = server.get(&format!("{EVENTS}by_name/?name=planned")).expect(200).json();
    assert_eq!(seen["id"], made["id"]);
    assert!(seen["created_at"].is_string() && seen["last_seen_at"].is_string());
    let key = server.key(&["event_definition:read"]);
    server.call("POST", EVENTS).key(&key).json(json!({ "name": "z" })).send().expect(403);
    server.call("GET", EVENTS).key(&key).send().expect(200);
}

// contract: management 85
fn property_definitions_have_owner_and_type(store: Store) {
    let server = started(store);
    server.ingest(&[event(
        "$groupidentify",
        json!({ "$group_type": "company", "$group_key": "acme", "$group_set": { "size": 5 } }),
    )]);
    let list = |query: &str| server.get(&format!("{PROPERTIES}?{query}")).expect(200).json();
    for (query, expected) in [
        ("exclude_core_properties=true", vec!["plan", "seats"]),
        ("type=person", vec!["email"]),
        ("type=group&group_type_index=0", vec!["size"]),
        ("type=group&group_type_index=1", vec![]),
        ("type=session", vec![]),
        ("is_numerical=true", vec!["seats"]),
        ("is_feature_flag=true", vec!["$feature/beta"]),
        ("search=EA", vec!["$feature/beta", "seats"]),
        ("properties=plan,seats&excluded_properties=[%22plan%22]", vec!["seats"]),
        (
            "event_names=[%22sign%20up%20later%22]&filter_by_event_names=true\
             &exclude_core_properties=true",
            vec!["plan"],
        ),
    ] {
        assert_eq!(names(&list(query)), expected, "{query}");
    }
    let marked = list("event_names=[%22sign%20up%20later%22]&exclude_core_properties=true");
    let seen: Vec<&Value> = marked["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["is_seen_on_filtered_events"])
        .collect();
    assert_eq!(seen, [&json!(true), &json!(false)]);
    let plan = &list("properties=plan")["results"][0];
    assert_eq!(
        (&plan["property_type"], &plan["is_numerical"], &plan["is_seen_on_filtered_events"]),
        (&json!("String"), &json!(false), &json!(null))
    );
    for (query, attr) in [
        ("type=group", "group_type_index"),
        ("type=group&group_type_index=7", "group_type_index"),
        ("type=nobody", "type"),
    ] {
        let response = server.get(&format!("{PROPERTIES}?{query}")).expect(400);
        assert_eq!(response.json()["attr"], attr, "{query}");
    }
    let path = format!("{PROPERTIES}{}/", plan["id"].as_str().unwrap());
    let body = json!({ "property_type": "Numeric", "description": "d", "verified": true });
    let changed = server.patch(&path, body).expect(200).json();
    assert_eq!((&changed["is_numerical"], &changed["verified"]), (&json!(true), &json!(true)));
    let refused = server.patch(&path, json!({ "property_type": "Colour" })).expect(400).json();
    assert_eq!(refused["attr"], "property_type");
    server.patch(&path, json!({ "property_type": null })).expect(200);
    server.ingest(&[event("signup", json!({ "plan": "pro" }))]);
    assert_eq!(server.get(&path).json()["property_type"], "String");
    server.delete(&path).expect(204);
    server.get(&path).expect(404);
    server.ingest(&[event("signup", json!({ "plan": "pro" }))]);
    assert_eq!(names(&list("properties=plan")), ["plan"]);
}

fn event_definition_counts_thirty_days(store: Store) {
    let server = started(store);
    let volume = |server: &Server, name: &str| {
        let found = server.get(&format!("{EVENTS}by_name/?name={name}")).expect(200).json();
        found["volume_30_day"].clone()
    };
    assert_eq!(volume(&server, "signup"), 1);
    let at = |days_ago: i64| {
        let at = model::Clock::system().now().plus_seconds(-days_ago * 86_400);
        json!({ "event": "signup", "distinct_id": "u1", "timestamp": at.to_string() })
    };
    server.ingest(&[at(0), at(1), at(28), at(32), at(400)]);
    server.ingest(&[at(0)]);
    assert_eq!(volume(&server, "signup"), 5);
    let listed = server.get(&format!("{EVENTS}?names=signup,$pageview&ordering=name")).json();
    let volumes: Vec<&Value> =
        listed["results"].as_array().unwrap().iter().map(|one| &one["volume_30_day"]).collect();
    assert_eq!(volumes, [&json!(1), &json!(5)]);
    let server = server.restart();
    server.ingest(&[at(0)]);
    assert_eq!(volume(&server, "signup"), 6, "once each, also after a restart");
    let unseen = server.post(EVENTS, json!({ "name": "never" })).expect(201).json();
    assert_eq!(unseen["volume_30_day"], 0);
}

// contract: ingestion 116, 124, 126
fn group_properties_have_definitions_and_name_length_is_bounded(store: Store) {
    let server = store.start();
    let identify = |set: Value| {
        json!({ "event": "$groupidentify", "distinct_id": "u", "properties": {
            "$group_type": "company", "$group_key": "acme", "$group_set": set } })
    };
    let (long, fits) = ("x".repeat(201), "y".repeat(200));
    server.ingest(&[
        identify(json!({ "name": "A", "seats": 3 })),
        identify(json!({ "seats": 5 })),
        event("e", json!({ &long: 1, &fits: 2 })),
    ]);
    let found = "/api/projects/1/groups/find/?group_type_index=0&group_key=acme";
    let group = server.get(found).expect(200).json();
    assert_eq!(group["group_properties"], json!({ "name": "A", "seats": 5 }));

    let of = |query: &str| {
        let page = server.get(&format!("{PROPERTIES}?{query}")).expect(200).json();
        names(&page).into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(of("type=group&group_type_index=0"), ["name", "seats"]);
    let events = of("type=event&limit=100");
    assert!(!events.contains(&"seats".to_owned()) && !events.contains(&long), "{events:?}");
    assert!(events.contains(&fits), "{events:?}");
    let stored = server.get("/api/projects/1/events/?event=e").expect(200).json();
    assert_eq!(stored["results"][0]["properties"][&long], 1);
}
