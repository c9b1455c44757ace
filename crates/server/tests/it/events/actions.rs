//! Actions as stored objects: validation, tags, soft delete, and Terraform's requests.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

const ACTIONS: &str = "/api/projects/1/actions/";

on_both_stores! {
    action_has_every_field_that_clients_read,
    action_step_stores_its_filters_and_errors_name_the_field,
    action_selector_matches_clicked_elements,
    action_name_is_unique_among_live_actions,
    tags_are_normalized_and_unique,
    action_is_soft_deleted_and_restored,
    actions_are_paged_newest_first,
    action_pinned_at_keeps_its_first_timestamp,
    changes_are_logged_with_before_and_after,
    terraform_manages_an_action,
    concurrent_action_updates_are_not_lost,
    bad_bodies_change_nothing,
}

fn create(server: &Server, body: Value) -> Value {
    server.post(ACTIONS, body).expect(201).json()
}

fn path(action: &Value) -> String {
    format!("{ACTIONS}{}/", action["id"])
}

fn names(listing: &Value) -> Vec<String> {
    let results = listing["results"].as_array().unwrap();
    results.iter().map(|action| action["name"].as_str().unwrap().to_owned()).collect()
}

fn action_has_every_field_that_clients_read(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "  Signed up ", "nonsense": 1 }));
    for (field, expected) in [
        ("name", json!("Signed up")),
        ("description", json!("")),
        ("tags", json!([])),
        ("post_to_slack", json!(false)),
        ("slack_message_format", json!("")),
        ("steps", json!([])),
        ("deleted", json!(false)),
        ("is_calculating", json!(false)),
        ("last_calculated_at", action["created_at"].clone()),
        ("team_id", json!(1)),
        ("is_action", json!(true)),
        ("bytecode_error", json!(null)),
        ("pinned_at", json!(null)),
        ("creation_context", json!(null)),
        ("user_access_level", json!("manager")),
    ] {
        assert_eq!(action.get(field), Some(&expected), "{field}");
    }
    assert_eq!(action["created_by"]["email"], "admin@example.com");
    assert!(action["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(server.get(&path(&action)).expect(200).json(), action);
    assert_eq!(server.get(ACTIONS).expect(200).json()["results"], json!([action]));
}

fn action_step_stores_its_filters_and_errors_name_the_field(store: Store) {
    let server = store.start();
    let filters =
        json!([{ "key": "plan", "value": ["pro", 1, 2.5], "operator": "exact", "odd": {} }]);
    let steps = json!([
        { "event": " $pageview", "url": "/pay", "url_matching": "regex", "properties": filters },
        { "event": "paid", "text_matching": null, "isNew": true },
    ]);
    let action = create(&server, json!({ "name": "Paid", "steps": steps }));
    let empty = |event: &str| {
        json!({
            "event": event, "properties": null, "selector": null, "tag_name": null,
            "text": null, "text_matching": null, "href": null, "href_matching": null,
            "url": null, "url_matching": "contains",
        })
    };
    let mut first = empty(" $pageview");
    first["properties"] = filters;
    first["url"] = json!("/pay");
    first["url_matching"] = json!("regex");
    assert_eq!(action["steps"], json!([first, empty("paid")]));

    for (steps, code, attr) in [
        (json!("x"), "not_a_list", "steps"),
        (json!(null), "null", "steps"),
        (json!([5]), "invalid_input", "steps__0"),
        (json!([{}, { "url_matching": "like" }]), "invalid_choice", "steps__1__url_matching"),
        (json!([{ "url_matching": 5 }]), "invalid_choice", "steps__0__url_matching"),
        (json!([{ "event": 5 }]), "invalid_input", "steps__0__event"),
        (json!([{ "selector": "a:hover" }]), "invalid_input", "steps__0__selector"),
        (json!([{ "properties": {} }]), "not_a_list", "steps__0__properties"),
        (json!([{ "properties": [1] }]), "invalid_input", "steps__0__properties__0"),
        (
            json!([{}, { "properties": [{ "key": "a", "operator": "zz", "value": 1 }] }]),
            "invalid_input",
            "steps__1__properties__0",
        ),
        (
            json!([{ "properties": [
                { "key": "a", "value": 1 }, { "key": "a", "type": "zz", "value": 1 },
            ] }]),
            "invalid_input",
            "steps__0__properties__1",
        ),
        (
            json!([{ "properties": [{ "key": "id", "type": "cohort", "value": "x" }] }]),
            "invalid_input",
            "steps__0__properties__0",
        ),
        (
            json!([{ "properties": [{ "key": "event = ", "type": "hogql" }] }]),
            "invalid_input",
            "steps__0__properties__0",
        ),
        (
            json!([{}, { "properties": [{ "key": "id", "type": "cohort", "value": 999 }] }]),
            "does_not_exist",
            "steps__1__properties__0__value",
        ),
        (json!(vec![json!({}); 101]), "max_length", "steps"),
        (json!([{ "text": "x".repeat(65_536) }]), "max_length", "steps"),
    ] {
        let new = json!({ "name": "New", "steps": steps });
        for refused in [server.patch(&path(&action), new.clone()), server.post(ACTIONS, new)] {
            assert_eq!(refused.expect(400).error(), format!("validation_error {code} {attr}"));
        }
    }
    let path = path(&action);
    assert_eq!(server.get(&path).json(), action, "a refused change changes nothing");
    let kept = server.patch(&path, json!({ "description": "x" })).expect(200).json();
    assert_eq!(kept["steps"], action["steps"], "steps left out stay");
    let cleared = server.patch(&path, json!({ "steps": [] })).expect(200).json();
    assert_eq!(cleared["steps"], json!([]));
}

/// Management 12.2: `selector`.
fn action_selector_matches_clicked_elements(store: Store) {
    let server = store.start();
    let click = |class: &str| {
        let elements = json!([{ "tag_name": "span", "$el_text": "Buy" },
            { "tag_name": "a", "attr__class": class, "attr__href": "/buy" }, { "tag_name": "div" }]);
        json!({ "event": "$autocapture", "distinct_id": "a", "properties": { "$elements": elements } })
    };
    server.ingest(&[click("big"), click("small"), click("big")]);
    for (selector, expected) in
        [("div > a.big[href='/buy'] span", 2), ("a", 3), ("div > span", 0), ("", 3)]
    {
        let steps = json!([{ "event": "$autocapture", "selector": selector }]);
        let action = create(&server, json!({ "name": selector.to_owned() + "?", "steps": steps }));
        let node = json!({ "kind": "ActionsNode", "id": action["id"] });
        let query = json!({ "query": { "kind": "TrendsQuery", "series": [node] } });
        let response = server.post("/api/projects/1/query/", query).expect(200).json();
        assert_eq!(response["results"][0]["count"], expected, "{selector}");
    }
}

// contract: management 110
fn action_name_is_unique_among_live_actions(store: Store) {
    let server = store.start();
    let first = create(&server, json!({ "name": "Paid" }));
    let other = create(&server, json!({ "name": "Other" }));
    let taken = format!("This project already has an action with this name, ID {}", first["id"]);
    let refusals = [
        server.post(ACTIONS, json!({ "name": "Paid" })),
        server.post(ACTIONS, json!({ "name": " Paid " })),
        server.patch(&path(&other), json!({ "name": "Paid" })),
    ];
    for refused in refusals {
        let refused = refused.expect(400);
        assert_eq!(refused.error(), "validation_error unique name");
        assert_eq!(refused.json()["detail"], taken);
    }
    server.patch(&path(&first), json!({ "name": "Paid" })).expect(200);
    server.patch(&path(&first), json!({ "deleted": true })).expect(200);
    let second = create(&server, json!({ "name": "Paid" }));
    let refused = server.patch(&path(&first), json!({ "deleted": false })).expect(400);
    assert_eq!(refused.error(), "validation_error unique name");
    assert!(refused.json()["detail"].as_str().unwrap().ends_with(&second["id"].to_string()));
    let renamed = json!({ "deleted": false, "name": "Paid before" });
    server.patch(&path(&first), renamed).expect(200);
}

// contract: management 41
fn tags_are_normalized_and_unique(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "a", "tags": ["Old"] }));
    create(&server, json!({ "name": "b", "tags": ["other"] }));
    assert_eq!(action["tags"], json!(["old"]));
    let path = path(&action);
    let sent = json!({ "tags": ["  Foo", "foo", "bar", " "] });
    let tagged = server.patch(&path, sent).expect(200).json();
    assert_eq!(tagged["tags"], json!(["bar", "foo"]));
    let kept = server.patch(&path, json!({ "description": "x" })).expect(200).json();
    assert_eq!(kept["tags"], json!(["bar", "foo"]));
    let listed = server.get(ACTIONS).json();
    assert_eq!(listed["results"][0]["tags"], json!(["other"]));
    assert_eq!(listed["results"][1]["tags"], json!(["bar", "foo"]));
    let many: Vec<String> = (0..101).map(|number| number.to_string()).collect();
    for (tags, code, attr) in [
        (json!("x"), "not_a_list", "tags"),
        (json!(null), "null", "tags"),
        (json!(["ok", 1]), "invalid_input", "tags__1"),
        (json!(["ok", "x".repeat(256)]), "max_length", "tags__1"),
        (json!(many), "max_length", "tags"),
    ] {
        let refused = server.patch(&path, json!({ "tags": tags })).expect(400);
        assert_eq!(refused.error(), format!("validation_error {code} {attr}"));
    }
    let emptied = server.patch(&path, json!({ "tags": [] })).expect(200).json();
    assert_eq!(emptied["tags"], json!([]));
}

// contract: management 32-35, 37
fn action_is_soft_deleted_and_restored(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "a", "tags": ["x"], "steps": [{}] }));
    let path = path(&action);
    for gone in [&path, "/api/projects/1/actions/999/", "/api/projects/1/actions/x/"] {
        let refused = server.delete(gone).expect(405);
        assert_eq!(refused.text(), "", "{gone}");
    }
    let reader = server.key(&["action:read"]);
    let refused = server.call("DELETE", &path).key(&reader).send().expect(403);
    assert!(refused.text().contains("'action:write'"));
    assert_eq!(server.get(&path).expect(200).json(), action);

    for word in [json!(true), json!("true"), json!(1)] {
        let deleted = server.patch(&path, json!({ "deleted": word })).expect(200).json();
        assert_eq!(deleted["deleted"], true);
        server.get(&path).expect(404);
        assert_eq!(server.get(ACTIONS).json()["count"], 0);
        for change in [json!({ "name": "b" }), json!({ "deleted": true }), json!({ "name": 5 })] {
            server.patch(&path, change).expect(404);
        }
        server.call("PATCH", &path).bytes(b"{".to_vec()).send().expect(404);
        server.patch(&path, json!({ "deleted": false, "name": 5 })).expect(400);
        let restored = server.patch(&path, json!({ "deleted": "false" })).expect(200).json();
        assert_eq!(restored, action);
    }
    let refused = server.patch(&path, json!({ "deleted": "perhaps" })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input deleted");
}

// contract: management 29-31
fn actions_are_paged_newest_first(store: Store) {
    let server = store.start();
    for number in 0..105 {
        create(&server, json!({ "name": format!("n{number}") }));
    }
    let first = server.get(ACTIONS).json();
    assert_eq!(first["count"], 105);
    assert_eq!(names(&first).len(), 100);
    assert_eq!(names(&first)[0], "n104");
    assert_eq!(first["previous"], json!(null));
    let next = first["next"].as_str().unwrap();
    let origin = format!("http://{}", server.address());
    assert_eq!(next, format!("{origin}{ACTIONS}?limit=100&offset=100"));
    let second = server.get(next.strip_prefix(&origin).unwrap()).json();
    assert_eq!(names(&second), ["n4", "n3", "n2", "n1", "n0"]);
    assert_eq!(second["next"], json!(null));
    assert_eq!(second["previous"], format!("{origin}{ACTIONS}?limit=100"));
    for odd in ["?limit=0", "?limit=x", "?offset=-1", "?limit=99999999999999999999"] {
        assert_eq!(names(&server.get(&format!("{ACTIONS}{odd}")).expect(200).json()).len(), 100);
    }
    let all = server.get(&format!("{ACTIONS}?limit=1000")).json();
    assert_eq!(names(&all).len(), 105);
}

fn action_pinned_at_keeps_its_first_timestamp(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "a" }));
    let path = path(&action);
    let pin = json!({ "pinned_at": "2020-01-01T00:00:00Z" });
    let pinned = server.patch(&path, pin.clone()).expect(200).json();
    assert!(pinned["pinned_at"].as_str().unwrap() > action["created_at"].as_str().unwrap());
    assert_eq!(server.patch(&path, pin).expect(200).json(), pinned);
    let refused = server.patch(&path, json!({ "pinned_at": "soon" })).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input pinned_at");
    assert_eq!(server.patch(&path, json!({ "pinned_at": null })).json(), action);
}

// contract: management 112
fn changes_are_logged_with_before_and_after(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "a", "tags": ["x"] }));
    let path = path(&action);
    server.patch(&path, json!({ "name": "b", "tags": ["y"] })).expect(200);
    server.patch(&path, json!({ "name": "b", "tags": [" Y "], "steps": [] })).expect(200);
    server.patch(&path, json!({ "deleted": true })).expect(200);
    server.patch(&path, json!({ "deleted": false })).expect(200);
    let id = action["id"].to_string();
    let log = server.get(&format!("/api/projects/1/activity_log?scope=Action&item_id={id}"));
    let log = log.expect(200).json();
    let lines = log["results"].as_array().unwrap();
    let activities: Vec<&Value> = lines.iter().map(|line| &line["activity"]).collect();
    assert_eq!(activities, ["restored", "deleted", "updated", "created"]);
    let updated = &lines[2];
    assert_eq!(updated["user"]["email"], "admin@example.com");
    assert_eq!(updated["item_id"], id);
    assert_eq!(updated["detail"]["name"], "b");
    let change = |field: &str, before: Value, after: Value| {
        json!({
            "type": "Action", "action": "changed", "field": field,
            "before": before, "after": after,
        })
    };
    assert_eq!(
        updated["detail"]["changes"],
        json!([change("name", json!("a"), json!("b")), change("tags", json!(["x"]), json!(["y"]))])
    );
    let page = server.get(&format!("{path}activity?limit=3")).expect(200).json();
    assert_eq!(page["total_count"], 4);
    assert_eq!(page["results"], json!(lines[..3]));
    let of_all = server.get(&format!("{ACTIONS}activity")).expect(200).json();
    assert_eq!(of_all["results"], json!(lines));
    server.get(&format!("{ACTIONS}999/activity")).expect(404);
}

/// The requests of Terraform's resource, in order.
fn terraform_manages_an_action(store: Store) {
    let server = store.start();
    let made = create(
        &server,
        json!({
            "name": "tf", "description": "d", "tags": ["tf"], "post_to_slack": true,
            "slack_message_format": "[event.name]",
            "steps": [{ "event": "$pageview", "url": "/a", "url_matching": "exact" }],
        }),
    );
    let path = path(&made);
    let read = server.get(&path).expect(200).json();
    assert_eq!(read["steps"][0]["url_matching"], "exact");
    assert_eq!(read["slack_message_format"], "[event.name]");
    let changed = server.patch(
        &path,
        json!({
            "name": "tf", "description": "", "tags": [], "post_to_slack": false,
            "slack_message_format": "", "steps": [], "deleted": false,
        }),
    );
    let changed = changed.expect(200).json();
    for (field, expected) in [
        ("description", json!("")),
        ("tags", json!([])),
        ("post_to_slack", json!(false)),
        ("slack_message_format", json!("")),
        ("steps", json!([])),
        ("deleted", json!(false)),
    ] {
        assert_eq!(changed[field], expected, "{field}");
    }
    assert_eq!(server.patch(&path, json!({ "deleted": true })).expect(200).json()["deleted"], true);
    server.get(&path).expect(404);
    let again = json!({ "deleted": false, "name": "tf" });
    assert_eq!(server.patch(&path, again).expect(200).json()["deleted"], false);
}

fn concurrent_action_updates_are_not_lost(store: Store) {
    let server = store.start();
    let action = create(&server, json!({ "name": "a", "description": "start" }));
    let path = path(&action);
    let made = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..50)
            .map(|number| {
                let (server, path) = (&server, &path);
                scope.spawn(move || {
                    let change = json!({ "description": number.to_string() });
                    server.patch(path, change).expect(200);
                    server.post(ACTIONS, json!({ "name": number.to_string() })).expect(201);
                    let raced = server.post(ACTIONS, json!({ "name": "raced" }));
                    assert!(raced.status == 201 || raced.text().contains("unique"));
                    raced.status
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).filter(|made| *made == 201).count()
    });
    assert_eq!(made, 1, "one name, one action");
    assert_eq!(server.get(ACTIONS).json()["count"], 52);
    let log = server.get(&format!("{path}activity?limit=100")).expect(200).json();
    let lines = log["results"].as_array().unwrap();
    assert_eq!(lines.len(), 51);
    let mut description = server.get(&path).json()["description"].clone();
    for line in &lines[..50] {
        let change = &line["detail"]["changes"][0];
        assert_eq!(change["after"], description, "a change that nobody saw");
        description = change["before"].clone();
    }
    assert_eq!(description, "start");
}

// contract: management 18
fn bad_bodies_change_nothing(store: Store) {
    let server = store.start();
    let refusals = [
        (r#"{"name""#.to_owned(), "invalid_request parse_error -"),
        ("[]".into(), "validation_error invalid_input -"),
        ("{}".into(), "validation_error required name"),
        (json!({ "name": null }).to_string(), "validation_error null name"),
        (json!({ "name": " " }).to_string(), "validation_error blank name"),
        (json!({ "name": 5 }).to_string(), "validation_error invalid_input name"),
        (json!({ "name": "a".repeat(401) }).to_string(), "validation_error max_length name"),
        (json!({ "name": "a\0" }).to_string(), "validation_error invalid_input name"),
        (
            json!({ "name": "a", "steps": [{ "url": "(", "url_matching": "regex" }] }).to_string(),
            "validation_error invalid_input steps__0__url",
        ),
        (
            json!({ "name": "a", "steps": [{}, { "properties": [
                { "key": "k", "operator": "not_regex", "value": "[" },
            ] }] })
            .to_string(),
            "validation_error invalid_input steps__1__properties__0__value",
        ),
        (
            json!({ "name": "a", "description": null }).to_string(),
            "validation_error null description",
        ),
        (
            json!({ "name": "a", "slack_message_format": "x".repeat(1_201) }).to_string(),
            "validation_error max_length slack_message_format",
        ),
    ];
    for (body, expected) in refusals {
        let call = server.call("POST", ACTIONS).header("Content-Type", "application/json");
        let refused = call.bytes(body.clone().into_bytes()).send().expect(400);
        assert_eq!(refused.error(), expected, "{body}");
    }
    assert_eq!(server.get(ACTIONS).json()["count"], 0);
    create(&server, json!({ "name": "a".repeat(400) }));
    let put = server.put(&format!("{ACTIONS}1"), json!({ "description": "x" })).expect(400);
    assert_eq!(put.error(), "validation_error required name");
    server.put(&format!("{ACTIONS}1"), json!({ "name": "b" })).expect(200);
}
