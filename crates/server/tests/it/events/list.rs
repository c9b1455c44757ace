//! The events list: filters, pagination, single events.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{PROJECT_KEY, Server, Store, on_both_stores};

pub const EVENTS: &str = "/api/projects/1/events/";
/// Timeout for an event to be listed.
pub const TIMEOUT: Duration = Duration::from_secs(60);

on_both_stores! {
    event_has_every_field_that_clients_read,
    event_pages_have_no_gaps_or_overlaps,
    after_and_before_are_exclusive_and_in_the_project_timezone,
    event_filters_match_exactly,
    events_are_filtered_by_person_and_group_properties,
    action_filter_is_the_union_of_its_steps,
    event_is_retrieved_by_uuid,
    duplicate_uuid_replaces_an_event_of_the_same_name,
    invalid_event_filters_are_rejected_with_the_reason,
    events_list_requires_query_read_scope,
    events_survive_a_restart,
}

pub fn send(server: &Server, events: Value) {
    let body = json!({ "api_key": PROJECT_KEY, "batch": events });
    server.call("POST", "/batch/").no_key().json(body).send().expect(200);
}

/// `number` seeds the uuid and is the timestamp in seconds after noon.
pub fn event(number: u32, name: &str, distinct_id: &str, properties: Value) -> Value {
    json!({
        "event": name, "distinct_id": distinct_id, "properties": properties,
        "uuid": uuid(number), "timestamp": format!("2024-03-01T12:{:02}:{:02}Z", number / 60, number % 60),
    })
}

pub fn uuid(number: u32) -> String {
    format!("018dfa00-0000-7000-8000-{number:012}")
}

fn list(server: &Server, query: &str) -> Value {
    server.get(&format!("{EVENTS}?{query}")).expect(200).json()
}

/// The numbers of listed events.
fn numbers(listing: &Value) -> Vec<u32> {
    let number = |event: &Value| event["id"].as_str().unwrap()[24..].parse().unwrap();
    listing["results"].as_array().unwrap().iter().map(number).collect()
}

/// Waits until `count` events are listed.
pub fn wait_for(server: &Server, count: usize) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let listing = list(server, "limit=1000");
        let found = listing["results"].as_array().unwrap().len();
        if found == count {
            return;
        }
        assert!(found < count && Instant::now() < deadline, "{found} events are listed: {listing}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn with_events(store: Store, events: Value) -> Server {
    let server = store.start();
    let count = events.as_array().unwrap().len();
    send(&server, events);
    wait_for(&server, count);
    server
}

fn encoded(json: &Value) -> String {
    let mut text = String::new();
    for byte in json.to_string().bytes() {
        text.push_str(&format!("%{byte:02X}"));
    }
    text
}

// contract: management 86, 94
fn event_has_every_field_that_clients_read(store: Store) {
    let elements = json!([{ "tag_name": "a", "$el_text": "Buy", "attr__href": "/buy", "nth_child": 1, "nth_of_type": 1 }]);
    let server = with_events(
        store,
        json!([
            event(1, "first", "ann", json!({})),
            event(
                2,
                "second",
                "ann",
                json!({ "$set": { "email": "ann@example.com", "plan": "pro" } })
            ),
            event(3, "third", "ann", json!({ "price": 1.5, "$elements": elements })),
        ]),
    );
    let listing = list(&server, "");
    assert_eq!(numbers(&listing), [3, 2, 1], "newest first");
    assert_eq!(listing["next"], json!(null));
    assert_eq!(listing.as_object().unwrap().len(), 2, "next and results, no count");
    let newest = &listing["results"][0];
    let mut fields: Vec<&String> = newest.as_object().unwrap().keys().collect();
    fields.sort();
    let expected = [
        "distinct_id",
        "elements",
        "elements_chain",
        "event",
        "id",
        "person",
        "properties",
        "timestamp",
    ];
    assert_eq!(fields, expected);
    for (field, expected) in [
        ("id", json!(uuid(3))),
        ("event", json!("third")),
        ("distinct_id", json!("ann")),
        ("timestamp", json!("2024-03-01T12:00:03+00:00")),
        ("person", json!(null)),
    ] {
        assert_eq!(newest[field], expected, "{field}");
    }
    assert_eq!(newest["properties"]["price"], json!(1.5));
    let element = &newest["elements"][0];
    assert_eq!((&element["text"], &element["tag_name"]), (&json!("Buy"), &json!("a")));
    assert_eq!((&element["href"], &element["order"]), (&json!("/buy"), &json!(0)));
    assert!(newest["elements_chain"].as_str().unwrap().starts_with("a:"));

    let with_person = list(&server, "include_person=true&limit=1");
    let person = &with_person["results"][0]["person"];
    assert_eq!(person["distinct_ids"], json!(["ann"]));
    assert_eq!(person["properties"], json!({ "email": "ann@example.com" }));
    assert_eq!(person["is_identified"], json!(false));
}

// contract: management 87-89
fn event_pages_have_no_gaps_or_overlaps(store: Store) {
    let server = store.start();
    // Several events share each timestamp; half have another name.
    let one = |number: u32| {
        let mut event =
            event(number, if number.is_multiple_of(2) { "a" } else { "b" }, "ann", json!({}));
        event["timestamp"] = json!(format!("2024-03-01T12:00:{:02}.000123Z", number / 20));
        event
    };
    send(&server, (0..300).map(one).collect());
    wait_for(&server, 300);
    for (order, bound) in [("", "before="), ("&orderBy=%5B%22timestamp%22%5D", "after=")] {
        let first = list(&server, &format!("limit=50&event=a{order}"));
        let last = first["results"][49]["timestamp"].as_str().unwrap();
        let mut link = first["next"].as_str().unwrap().to_owned();
        assert!(link.contains("event=a") && link.contains("limit=50"), "{link}");
        let time = last.replace(':', "%3A").replace('+', "%2B");
        assert!(link.contains(&format!("{bound}{time}")), "{link} should have {time}");
        let mut seen = numbers(&first);
        for page in 2..=3 {
            let path = link.split_once(&server.address().to_string()).unwrap().1.to_owned();
            let listing = server.get(&path).expect(200).json();
            assert_eq!(listing["results"].as_array().unwrap().len(), 50, "page {page}");
            seen.extend(numbers(&listing));
            link = listing["next"].as_str().unwrap_or_default().to_owned();
        }
        assert_eq!(link, "", "150 events are three pages");
        let times: Vec<u32> = seen.iter().map(|number| number / 20).collect();
        assert!(if order.is_empty() {
            times.is_sorted_by(|a, b| a >= b)
        } else {
            times.is_sorted()
        });
        seen.sort();
        assert_eq!(
            seen,
            (0..300).filter(|number: &u32| number.is_multiple_of(2)).collect::<Vec<_>>()
        );
    }
    let skipped = list(&server, "limit=10&offset=290");
    assert_eq!(skipped["results"].as_array().unwrap().len(), 10);
    assert_eq!(skipped["next"], json!(null));
    send(&server, (300..1_100).map(one).collect());
    let deadline = Instant::now() + TIMEOUT;
    while list(&server, "limit=1000&offset=100")["results"].as_array().unwrap().len() < 1_000 {
        assert!(Instant::now() < deadline);
    }
    let most = list(&server, "limit=5000");
    assert_eq!(most["results"].as_array().unwrap().len(), 1_100);
    assert_eq!(most["next"], json!(null));
}

// contract: management 92
fn after_and_before_are_exclusive_and_in_the_project_timezone(store: Store) {
    let server = store.start();
    let at = |number: u32, time: &str| json!({ "event": "a", "distinct_id": "ann", "uuid": uuid(number), "timestamp": time });
    send(
        &server,
        json!([
            at(1, "2024-01-01T04:59:59Z"),
            at(2, "2024-01-01T05:00:00Z"),
            at(3, "2024-01-01T05:00:00.000001Z"),
        ]),
    );
    wait_for(&server, 3);
    server.patch("/api/projects/1/", json!({ "timezone": "America/New_York" })).expect(200);
    for (query, expected) in [
        ("after=2024-01-01", &[3][..]),
        ("before=2024-01-01", &[1]),
        ("after=2024-01-01T05:00:00Z", &[3]),
        ("after=2024-01-01T04:59:59Z&before=2024-01-01T05:00:00.000001Z", &[2]),
        ("after=-24h", &[]),
        ("before=-24h", &[3, 2, 1]),
    ] {
        assert_eq!(numbers(&list(&server, query)), expected, "{query}");
    }
}

// contract: management 93
fn event_filters_match_exactly(store: Store) {
    let server = with_events(
        store,
        json!([
            event(1, "a", "ann", json!({ "plan": "pro", "seats": 5 })),
            event(2, "b", "ann", json!({ "plan": "free", "seats": 50 })),
            event(3, "a", "bob", json!({ "plan": "Pro", "$browser": "Firefox" })),
            event(4, "b", "7", json!({ "plan": null })),
        ]),
    );
    for (query, expected) in [
        ("event=a", &[3, 1][..]),
        ("event=nothing", &[]),
        ("distinct_id=ann", &[2, 1]),
        ("distinct_id=7", &[4]),
        ("distinct_id=nobody", &[]),
        ("distinct_id=ann&event=b", &[2]),
    ] {
        assert_eq!(numbers(&list(&server, query)), expected, "{query}");
    }
    for (properties, expected) in [
        (json!([{ "key": "plan", "value": "pro" }]), &[1][..]),
        (json!([{ "key": "plan", "value": ["pro", "free"] }]), &[2, 1]),
        (json!([{ "key": "plan", "value": "pro", "operator": "icontains" }]), &[3, 1]),
        (json!([{ "key": "plan", "operator": "is_not_set" }]), &[4]),
        (json!([{ "key": "plan", "operator": "is_not", "value": "pro" }]), &[4, 3, 2]),
        (json!([{ "key": "seats", "operator": "gt", "value": 5 }]), &[2]),
        (json!([{ "key": "event", "type": "event_metadata", "value": "b" }]), &[4, 2]),
        (
            json!({ "type": "OR", "values": [
                { "key": "seats", "value": 5 },
                { "type": "AND", "values": [{ "key": "$browser", "value": "Firefox" }] },
            ] }),
            &[3, 1],
        ),
        (json!([]), &[4, 3, 2, 1]),
    ] {
        let query = format!("properties={}", encoded(&properties));
        assert_eq!(numbers(&list(&server, &query)), expected, "{properties}");
    }
    let response = server.get(&format!("{EVENTS}?properties=%7Bbad")).expect(400);
    assert_eq!(response.json()["detail"], "Properties are unparsable!");
}

fn events_are_filtered_by_person_and_group_properties(store: Store) {
    let server = with_events(
        store,
        json!([
            event(
                1,
                "$groupidentify",
                "ann",
                json!({
                "$group_type": "company", "$group_key": "acme", "$group_set": { "size": 500 } })
            ),
            event(
                2,
                "a",
                "ann",
                json!({ "$set": { "plan": "pro" }, "$groups": { "company": "acme" } })
            ),
            event(
                3,
                "a",
                "bob",
                json!({ "$set": { "plan": "free" }, "$groups": { "company": "tiny" } })
            ),
            event(4, "a", "cid", json!({ "$process_person_profile": false })),
            event(5, "$identify", "ann@example.com", json!({ "$anon_distinct_id": "ann" })),
            event(6, "a", "ann@example.com", json!({})),
        ]),
    );
    let person = |operator: &str| {
        json!([
            { "key": "plan", "type": "person", "value": "pro", "operator": operator },
            { "key": "event", "type": "event_metadata", "value": "a" },
        ])
    };
    let group = json!([{ "key": "size", "type": "group", "group_type_index": 0, "value": 100, "operator": "gt" }]);
    for (properties, expected) in
        [(person("exact"), &[6, 2][..]), (person("is_not"), &[4, 3]), (group, &[2])]
    {
        let query = format!("properties={}", encoded(&properties));
        assert_eq!(numbers(&list(&server, &query)), expected, "{properties}");
    }
    for (id, expected) in [
        ("1", &[6, 5, 2, 1][..]),
        ("2", &[3]),
        ("99", &[]),
        ("018dfa00-0000-7000-8000-000000000099", &[]),
        ("x", &[]),
    ] {
        assert_eq!(numbers(&list(&server, &format!("person_id={id}"))), expected, "{id}");
    }
}

// contract: management 109
fn action_filter_is_the_union_of_its_steps(store: Store) {
    let server = with_events(
        store,
        json!([
            event(1, "paid", "ann", json!({ "plan": "pro" })),
            event(2, "paid", "ann", json!({ "plan": "free" })),
            event(3, "$pageview", "ann", json!({ "$current_url": "https://example.com/buy?x=1" })),
            event(
                4,
                "$autocapture",
                "ann",
                json!({ "$elements": [{ "tag_name": "button", "$el_text": "Buy" }] })
            ),
            event(5, "other", "ann", json!({})),
        ]),
    );
    let steps = json!([
        { "event": "paid", "properties": [{ "key": "plan", "value": "pro" }] },
        { "event": "$pageview", "url": "/buy" },
        { "event": "$autocapture", "tag_name": "button", "text": "Buy" },
    ]);
    let action =
        server.post("/api/projects/1/actions/", json!({ "name": "bought", "steps": steps }));
    let id = action.expect(201).json()["id"].clone();
    assert_eq!(numbers(&list(&server, &format!("action_id={id}"))), [4, 3, 1]);
    let chosen = || {
        let path = format!("{EVENTS}?action_id={id}&select=%5B%22event%22%5D");
        let listed = server.get(&path).expect(200).json()["results"].clone();
        let query =
            json!({ "kind": "EventsQuery", "select": ["event"], "actionId": id, "after": "all" });
        let asked = json!({ "query": query, "refresh": "force_blocking" });
        let asked = server.post("/api/projects/1/query/", asked).expect(200).json();
        assert_eq!(listed, asked["results"]);
        listed
    };
    assert_eq!(chosen(), json!([["$autocapture"], ["$pageview"], ["paid"]]));
    server.patch(&format!("/api/projects/1/actions/{id}/"), json!({ "steps": [] })).expect(200);
    for id in [id.to_string(), "99".into()] {
        assert_eq!(numbers(&list(&server, &format!("action_id={id}"))), [0u32; 0]);
    }
    assert_eq!(chosen(), json!([]));
}

// contract: management 96, 97
fn event_is_retrieved_by_uuid(store: Store) {
    let server = with_events(store, json!([event(1, "a", "ann", json!({ "x": 1 }))]));
    let listed = list(&server, "")["results"][0].clone();
    for id in [uuid(1), uuid(1).replace('-', "")] {
        assert_eq!(server.get(&format!("{EVENTS}{id}/")).expect(200).json(), listed);
    }
    let response = server.get(&format!("{EVENTS}{}/?include_person=1", uuid(1))).expect(200).json();
    assert_eq!(response["person"]["distinct_ids"], json!(["ann"]));
    let bad = server.get(&format!("{EVENTS}not-a-uuid/")).expect(400).json();
    assert_eq!(
        bad,
        json!({ "type": "validation_error", "code": "invalid", "detail": "Invalid UUID" })
    );
    let missing = server.get(&format!("{EVENTS}{}/", uuid(2))).expect(404);
    assert_eq!(missing.error(), "invalid_request not_found -");
    assert!(missing.json()["detail"].as_str().unwrap().ends_with(&uuid(2)));
}

// contract: ingestion 62, 63
fn duplicate_uuid_replaces_an_event_of_the_same_name(store: Store) {
    let server = with_events(store, json!([event(1, "a", "ann", json!({ "x": 1 }))]));
    send(
        &server,
        json!([
            event(1, "a", "ann", json!({ "x": 2 })),
            event(1, "a", "ann", json!({ "x": 2 })),
            event(1, "b", "ann", json!({ "x": 3 })),
            event(2, "last", "ann", json!({})),
        ]),
    );
    wait_for(&server, 3);
    let listing = list(&server, "event=a");
    assert_eq!(listing["results"].as_array().unwrap().len(), 1);
    assert_eq!(listing["results"][0]["properties"]["x"], json!(2));
    assert_eq!(numbers(&list(&server, "event=b")), [1]);
}

// contract: management 91
fn invalid_event_filters_are_rejected_with_the_reason(store: Store) {
    let server = store.start();
    for (query, expected) in [
        ("offset=60000", "validation_error invalid_input offset"),
        ("after=soon", "validation_error invalid_input after"),
        ("before=2024-99-01", "validation_error invalid_input before"),
        ("format=xml", "validation_error invalid_choice format"),
        ("select=event", "validation_error invalid_input select"),
        ("where=%5B1%5D", "validation_error invalid_input where"),
        ("orderBy=timestamp", "validation_error invalid_input orderBy"),
        ("cursor=x", "validation_error invalid_input cursor"),
        ("action_id=x", "validation_error invalid_input action_id"),
        (
            "properties=%5B%7B%22key%22%3A1%2C%22operator%22%3A%22x%22%7D%5D",
            "validation_error invalid_input -",
        ),
        ("event=%00", "validation_error invalid_input event"),
    ] {
        let response = server.get(&format!("{EVENTS}?{query}")).expect(400);
        assert_eq!(response.error(), expected, "{query}");
    }
    // An invalid limit is ignored, as in every list.
    for query in
        ["limit=x", "limit=-1", "limit=0", "offset=-1", "offset=x", "limit=99999999999999999999"]
    {
        assert_eq!(list(&server, query)["results"], json!([]), "{query}");
    }
}

fn events_list_requires_query_read_scope(store: Store) {
    let server = store.start();
    let (right, wrong) = (server.key(&["query:read"]), server.key(&["action:read"]));
    for path in ["", "values/?key=a&event_name=b", &format!("{}/", uuid(1)), "live/"] {
        let path = format!("{EVENTS}{path}");
        server.call("GET", &path).key(&wrong).send().expect(403);
        server.call("GET", &path).no_key().send().expect(401);
    }
    server.call("GET", EVENTS).key(&right).send().expect(200);
    server.call("GET", "/api/projects/99/events/").key(&right).send().expect(404);
}

fn events_survive_a_restart(store: Store) {
    let server = with_events(store, json!([event(1, "a", "ann", json!({ "x": 1.0 }))]));
    let before = list(&server, "include_person=true");
    let server = server.restart();
    assert_eq!(list(&server, "include_person=true"), before);
    send(&server, json!([event(2, "b", "ann", json!({}))]));
    wait_for(&server, 2);
    let server = server.kill().serve();
    wait_for(&server, 2);
    assert_eq!(numbers(&list(&server, "distinct_id=ann")), [2, 1]);
}
