//! The activity log of the project and of single objects.

use serde_json::{Value, json};

use crate::harness::{Server, Store, on_both_stores};

on_both_stores! {
    activity_log_is_filtered_by_scope_item_and_user,
    activity_log_cursor_reads_both_directions_without_gaps,
    object_activity_is_paged_by_number,
    activity_log_rejects_invalid_filters_and_cursors,
    activity_log_requires_its_scope,
}

fn rename(server: &Server, names: std::ops::Range<usize>) {
    for number in names {
        server.patch("/api/projects/1", json!({ "name": format!("n{number}") })).expect(200);
    }
}

fn names(page: &Value) -> Vec<String> {
    let results = page["results"].as_array().unwrap();
    let name = |entry: &Value| entry["detail"]["name"].as_str().unwrap().to_owned();
    results.iter().map(name).collect()
}

/// The path and query of a link, which must point to this server.
fn follow(server: &Server, link: &Value) -> Value {
    let origin = format!("http://{}", server.address());
    let path = link.as_str().and_then(|link| link.strip_prefix(&origin));
    server.get(path.unwrap_or_else(|| panic!("{link} leads elsewhere"))).expect(200).json()
}

// contract: management 112
fn activity_log_is_filtered_by_scope_item_and_user(store: Store) {
    let server = store.start();
    rename(&server, 0..1);
    server.patch("/api/projects/1", json!({ "name": "n0" })).expect(200);
    let log = server.get("/api/projects/1/activity_log/?scope=Team&item_id=1").expect(200).json();
    let fields: Vec<&String> = log.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["next", "previous", "results"]);
    assert_eq!(log["results"].as_array().unwrap().len(), 2, "no change, no line: {log}");
    let mut entry = log["results"][0].clone();
    let user = entry["user"]["uuid"].as_str().unwrap().to_owned();
    assert_eq!(entry["user"]["email"], "admin@example.com");
    let project = server.get("/api/projects/1").expect(200).json();
    assert_eq!(entry["organization_id"], project["organization"]);
    for made_up in ["id", "created_at", "organization_id", "user"] {
        entry.as_object_mut().unwrap().remove(made_up);
    }
    let change = json!({
        "type": "Team", "action": "changed", "field": "name",
        "before": "Default project", "after": "n0",
    });
    assert_eq!(
        entry,
        json!({
            "activity": "updated", "scope": "Team", "item_id": "1", "is_system": false,
            "was_impersonated": false, "unread": false,
            "detail": {
                "id": null, "changes": [change], "name": "n0", "short_id": null,
                "trigger": null, "merge": null, "type": null,
            },
        })
    );
    for (filter, count) in [
        ("", 3),
        ("scope=Team", 2),
        ("scope=PersonalAPIKey", 1),
        ("scopes=Team,PersonalAPIKey", 3),
        ("scopes=Team&scopes=PersonalAPIKey", 3),
        ("scope=Dashboard", 0),
        ("scope=Team&item_id=2", 0),
        (&format!("user={user}"), 1),
        ("user=00000000-0000-4000-8000-000000000000", 0),
        ("scope=&item_id=&user=", 3),
    ] {
        let log = server.get(&format!("/api/projects/1/activity_log?{filter}")).expect(200).json();
        assert_eq!(log["results"].as_array().unwrap().len(), count, "{filter}: {log}");
    }
}

fn activity_log_cursor_reads_both_directions_without_gaps(store: Store) {
    const CHANGES: usize = 204;
    let server = store.start();
    rename(&server, 0..CHANGES);
    let expected: Vec<String> = (0..CHANGES).rev().map(|number| format!("n{number}")).collect();
    let path = "/api/environments/@current/activity_log/?scope=Team";
    let first = server.get(path).expect(200).json();
    assert_eq!(first["previous"], Value::Null);
    assert_eq!(names(&first), expected[..100]);
    // Concurrent writes do not shift the pages.
    rename(&server, CHANGES..CHANGES + 1);
    let second = follow(&server, &first["next"]);
    assert_eq!(names(&second), expected[100..200]);
    let third = follow(&server, &second["next"]);
    assert_eq!(names(&third)[..4], expected[200..]);
    assert_eq!(third["results"].as_array().unwrap().len(), 5, "with the line of its creation");
    assert_eq!(third["next"], Value::Null);
    assert!(
        third["previous"].as_str().unwrap().contains("/api/environments/@current/activity_log/?")
    );
    let back = follow(&server, &third["previous"]);
    assert_eq!(back["results"], second["results"]);
    let back = follow(&server, &back["previous"]);
    assert_eq!(back["results"], first["results"]);
    let newest = follow(&server, &back["previous"]);
    assert_eq!(names(&newest), [format!("n{CHANGES}")]);
    assert_eq!(newest["previous"], Value::Null);
    assert_eq!(follow(&server, &newest["next"])["results"], first["results"]);
}

fn object_activity_is_paged_by_number(store: Store) {
    let server = store.start();
    rename(&server, 0..11);
    let first = server.get("/api/projects/1/activity/").expect(200).json();
    assert_eq!((&first["total_count"], &first["previous"]), (&json!(12), &Value::Null));
    assert_eq!(names(&first), (1..11).rev().map(|n| format!("n{n}")).collect::<Vec<_>>());
    let next = format!("http://{}/api/projects/1/activity/?limit=10&page=2", server.address());
    assert_eq!(first["next"], json!(next));
    let second = follow(&server, &first["next"]);
    assert_eq!(names(&second), ["n0", "Default project"]);
    assert_eq!(
        (&second["next"], second["results"][1]["activity"].as_str()),
        (&Value::Null, Some("created"))
    );
    assert_eq!(follow(&server, &second["previous"]), first);
    for (query, count) in [
        ("limit=3&page=4", 3),
        ("limit=x&page=0", 10),
        ("page=9223372036854775807", 0),
        ("limit=-1", 10),
    ] {
        let page = server.get(&format!("/api/projects/1/activity?{query}")).expect(200).json();
        assert_eq!(page["results"].as_array().unwrap().len(), count, "{query}");
        assert_eq!(page["total_count"], 12);
    }
}

fn activity_log_rejects_invalid_filters_and_cursors(store: Store) {
    let server = store.start();
    for (query, status, error) in [
        ("user=me", 400, "validation_error invalid_input user"),
        ("scope=Bogus", 400, "validation_error invalid_choice scope"),
        ("scopes=Team,Bogus", 400, "validation_error invalid_choice scopes"),
        ("cursor=abc", 404, "invalid_request not_found -"),
        ("item_id=%00", 400, "validation_error invalid_input -"),
        ("scope=a%00b", 400, "validation_error invalid_choice scope"),
    ] {
        let refused = server.get(&format!("/api/projects/1/activity_log?{query}")).expect(status);
        assert_eq!(refused.error(), error, "{query}");
    }
}

fn activity_log_requires_its_scope(store: Store) {
    let server = store.start();
    let (reader, other) = (server.key(&["activity_log:read"]), server.key(&["project:write"]));
    for path in ["/api/projects/1/activity_log", "/api/projects/1/activity"] {
        server.call("GET", path).key(&reader).send().expect(200);
        let refused = server.call("GET", path).key(&other).send().expect(403).json();
        assert_eq!(refused["detail"], "API key missing required scope 'activity_log:read'");
    }
}
