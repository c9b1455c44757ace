//! Dashboard permissions: view, edit, restrict, share and collaborators.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::dashboards::crud::{DASHBOARDS, INSIGHTS, create, insight_on, path};
use crate::harness::{PERSONAL_KEY, Server, Store, on_both_stores};

on_both_stores! {
    effective_privilege_level_is_enforced,
    collaborator_validation_order,
    collaborators_edit_what_others_only_see,
    dashboard_copy_grants_no_edit_access_to_the_original,
    adding_an_insight_requires_edit_access_to_the_dashboard,
    restored_dashboard_shows_its_tiles,
    restoring_an_insight_requires_edit_access_to_its_dashboards,
}

struct PermissionsFixture {
    server: Server,
    /// Keys by role: owner, admin, author, member, collaborator, outsider.
    keys: Vec<(&'static str, String)>,
    member: String,
    other: String,
}

impl PermissionsFixture {
    fn new(store: Store) -> Self {
        let server = store.start();
        test_users::add(&server, "admin2@example.com", 8);
        let author = test_users::add(&server, "author@example.com", 1);
        let member = test_users::add(&server, "member@example.com", 1);
        let other = test_users::add(&server, "other@example.com", 1);
        let key = |email: &str| test_users::key_of(&server, email, &["*"]);
        let keys = vec![
            ("owner", PERSONAL_KEY.to_owned()),
            ("admin", key("admin2@example.com")),
            ("author", key("author@example.com")),
            ("member", key("member@example.com")),
            ("collaborator", key("other@example.com")),
        ];
        assert_ne!(author, member);
        Self { server, keys, member, other }
    }

    fn key(&self, name: &str) -> &str {
        &self.keys.iter().find(|(known, _)| *known == name).unwrap().1
    }

    fn send(&self, who: &str, method: &str, path: &str, body: Value) -> crate::harness::Response {
        self.server.call(method, path).key(self.key(who)).json(body).send()
    }

    fn own(&self, who: &str) -> Value {
        self.send(who, "POST", DASHBOARDS, json!({ "name": "own" })).expect(201).json()
    }

    /// A dashboard of the author with this restriction level, and a collaborator if possible.
    fn dashboard(&self, level: i64) -> Value {
        let body = json!({ "name": "d", "restriction_level": 37 });
        let made = self.send("author", "POST", DASHBOARDS, body).expect(201).json();
        let added = json!({ "user_uuid": self.other });
        self.send("author", "POST", &format!("{}collaborators", path(&made)), added).expect(201);
        let body = json!({ "restriction_level": level });
        self.send("author", "PATCH", &path(&made), body).expect(200).json()
    }
}

// contract: management 57-59
fn effective_privilege_level_is_enforced(store: Store) {
    let fixture = PermissionsFixture::new(store);
    // caller, level -> may edit, may restrict, privilege level
    for (who, level, edits, restricts, access) in [
        ("owner", 21, true, true, "manager"),
        ("admin", 21, true, true, "manager"),
        ("author", 21, true, true, "manager"),
        ("member", 21, true, false, "editor"),
        ("collaborator", 21, true, false, "editor"),
        ("owner", 37, true, true, "manager"),
        ("admin", 37, true, true, "manager"),
        ("author", 37, true, true, "manager"),
        ("member", 37, false, false, "viewer"),
        ("collaborator", 37, true, false, "editor"),
    ] {
        let case = format!("{who} {level}");
        let made = fixture.dashboard(level);
        let at = path(&made);
        let insight = insight_on(&fixture.server, "i", &[&made]);
        let insight_at = format!("/api/projects/1/insights/{}", insight["id"]);
        let read = |path: &str| {
            fixture.server.call("GET", path).key(fixture.key(who)).send().expect(200).json()
        };
        let (shown, shown_insight) = (read(&at), read(&insight_at));
        let listing = read(DASHBOARDS);
        let listed = listing["results"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["id"] == made["id"])
            .unwrap();
        for shown in [&shown, listed] {
            assert_eq!(shown["effective_restriction_level"], level, "{case}");
            assert_eq!(shown["effective_privilege_level"], if edits { 37 } else { 21 }, "{case}");
            assert_eq!(shown["user_access_level"], access, "{case}");
        }
        assert_eq!(shown_insight["effective_restriction_level"], level, "{case}");
        assert_eq!(
            shown_insight["effective_privilege_level"],
            if edits { 37 } else { 21 },
            "{case}"
        );

        let may = |allowed: bool| if allowed { 200 } else { 403 };
        let text = json!({ "tiles": [{ "text": { "body": "x" } }] });
        let tile = &shown["tiles"][0]["id"];
        let moving = json!({ "tile": { "id": tile }, "toDashboard": 999_999 });
        for (method, at, body, expected) in [
            ("PATCH", at.clone(), json!({ "name": case }), may(edits)),
            ("PATCH", at.clone(), text, may(edits)),
            ("PATCH", format!("{at}move_tile"), moving, if edits { 404 } else { 403 }),
            ("POST", format!("{at}reorder_tiles"), json!({ "tile_order": [tile] }), may(edits)),
            ("PATCH", format!("{at}sharing"), json!({ "enabled": false }), may(edits)),
            ("POST", format!("{at}sharing/refresh"), json!({}), may(edits)),
            ("PATCH", insight_at.clone(), json!({ "name": case }), may(edits)),
            ("PATCH", insight_at.clone(), json!({ "dashboards": [] }), may(edits)),
            ("PATCH", at.clone(), json!({ "restriction_level": 58 - level }), may(restricts)),
        ] {
            let response = fixture.send(who, method, &at, body.clone());
            assert_eq!(
                response.status,
                expected,
                "{case}: {method} {at} {body}: {}",
                response.text()
            );
        }
        let after = fixture.server.get(&at).json();
        assert_eq!(after["name"], if edits { json!(case) } else { json!("d") });
        assert_eq!(after["restriction_level"], if restricts { 58 - level } else { level });
    }
    let made = fixture.dashboard(37);
    let refused = fixture.send("member", "PATCH", &path(&made), json!({ "name": "x" })).expect(403);
    assert_eq!(refused.json()["detail"], "You don't have edit permissions for this dashboard.");
    let made = fixture.dashboard(21);
    let refused = fixture
        .send("member", "PATCH", &path(&made), json!({ "restriction_level": 37 }))
        .expect(403);
    let detail = "Only the dashboard owner and project admins have the restriction rights required \
                  to change the dashboard's restriction level.";
    assert_eq!(refused.json()["detail"], detail);
}

// contract: management 60-65
fn collaborator_validation_order(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let author =
        fixture.server.call("GET", "/api/users/@me/").key(fixture.key("author")).send().json();
    let owner = fixture.server.get("/api/users/@me/").json();
    let open = fixture.dashboard(21);
    let closed = fixture.dashboard(37);
    let unknown = "0192f0c1-2345-7000-8000-000000000000";
    let inherent = "Cannot add collaborators that already have inherent access \
                    (the dashboard owner or a project admins).";
    for (dashboard, body, expected, detail) in [
        (&closed, json!({}), "required user_uuid", "This field is required."),
        (&closed, json!({ "user_uuid": "x" }), "invalid_input user_uuid", "Must be a valid UUID."),
        (
            &open,
            json!({ "user_uuid": fixture.member }),
            "invalid_input -",
            "Cannot add collaborators to a dashboard on the lowest restriction level.",
        ),
        (
            &closed,
            json!({ "user_uuid": fixture.member, "level": 21 }),
            "invalid_input -",
            "Only edit access can be explicitly specified currently.",
        ),
        (
            &closed,
            json!({ "user_uuid": fixture.member, "level": 5 }),
            "invalid_choice level",
            "\"5\" is not a valid choice.",
        ),
        (&closed, json!({ "user_uuid": unknown }), "invalid_input -", "User does not exist."),
        (&closed, json!({ "user_uuid": author["uuid"] }), "invalid_input -", inherent),
        (&closed, json!({ "user_uuid": owner["uuid"] }), "invalid_input -", inherent),
        (
            &closed,
            json!({ "user_uuid": fixture.other, "level": 37 }),
            "invalid_input -",
            "User already is a collaborator.",
        ),
    ] {
        let refused =
            fixture.send("author", "POST", &format!("{}collaborators", path(dashboard)), body);
        let refused = refused.expect(400);
        assert_eq!(refused.error(), format!("validation_error {expected}"));
        assert_eq!(refused.json()["detail"], detail);
    }
    let nowhere = fixture.server.post("/api/projects/1/dashboards/999999/collaborators", json!({}));
    assert_eq!(nowhere.expect(404).json()["detail"], "Dashboard not found.");
    let body = json!({ "user_uuid": fixture.member });
    fixture.send("member", "POST", &format!("{}collaborators", path(&closed)), body).expect(403);
}

// contract: management 61, 66-68
fn collaborators_edit_what_others_only_see(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let made = create(&fixture.server, json!({ "restriction_level": 37 }));
    let at = format!("{}collaborators", path(&made));
    let added = fixture
        .server
        .post(&at, json!({ "user_uuid": fixture.member, "level": 37 }))
        .expect(201)
        .json();
    assert_eq!((&added["level"], &added["dashboard_id"]), (&json!(37), &made["id"]));
    assert_eq!(
        (&added["user_uuid"], &added["user"]["uuid"]),
        (&json!(fixture.member), &json!(fixture.member))
    );
    assert!(
        added["id"].is_string() && added["added_at"].is_string() && added["updated_at"].is_string()
    );
    assert_eq!(fixture.server.get(&at).expect(200).json(), json!([added]));
    let named = || fixture.send("member", "PATCH", &path(&made), json!({ "name": "x" })).status;
    assert_eq!(named(), 200);
    // Lowering and raising the level keeps the collaborators.
    let level = |level: i64| {
        fixture.server.patch(&path(&made), json!({ "restriction_level": level })).expect(200)
    };
    let own = format!("{at}/{}", fixture.member);
    level(21);
    let refused = fixture.server.delete(&own).expect(400);
    let detail = "Cannot remove collaborators from a dashboard on the lowest restriction level.";
    assert_eq!(refused.json()["detail"], detail);
    level(37);
    assert_eq!(named(), 200);
    test_users::set_active(&fixture.server, "member@example.com", false);
    assert_eq!(fixture.server.get(&at).expect(200).json(), json!([]), "nobody who is gone");
    test_users::set_active(&fixture.server, "member@example.com", true);
    assert_eq!(fixture.server.delete(&own).expect(204).text(), "");
    fixture.server.delete(&own).expect(404);
    assert_eq!(named(), 403);
    let log = fixture.server.get(&format!("{}activity", path(&made))).json();
    assert_eq!(log["results"][0]["detail"]["changes"][0]["field"], "collaborators");
    // A member who rejoins must be invited again.
    fixture.server.post(&at, json!({ "user_uuid": fixture.member })).expect(201);
    let members = format!("/api/organizations/@current/members/{}/", fixture.member);
    fixture.server.delete(&members).expect(204);
    assert_eq!(fixture.server.get(&at).expect(200).json(), json!([]));
    let again = json!({ "email": "member@example.com", "level": 1 });
    fixture.server.post(test_users::MEMBERS, again).expect(201);
    assert_eq!(named(), 403);
}

fn dashboard_copy_grants_no_edit_access_to_the_original(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let closed = fixture.dashboard(37);
    let tiles = json!({ "tiles": [{ "text": { "body": "as it was" } }] });
    fixture.send("author", "PATCH", &path(&closed), tiles).expect(200);
    let body = json!({ "name": "i", "dashboards": [closed["id"]] });
    let insight = fixture.send("author", "POST", INSIGHTS, body).expect(201).json();

    let mut body = json!({ "name": "copy", "use_dashboard": closed["id"] });
    fixture.send("member", "POST", DASHBOARDS, body.clone()).expect(403);
    body["duplicate_tiles"] = json!(true);
    let copy = fixture.send("member", "POST", DASHBOARDS, body).expect(201).json();
    let note = copy["tiles"].as_array().unwrap().iter().find(|tile| !tile["text"].is_null());
    let note = note.unwrap();
    let text = json!({ "id": note["text"]["id"], "body": "another" });
    let tiles = json!({ "tiles": [{ "id": note["id"], "text": text }] });
    fixture.send("member", "PATCH", &path(&copy), tiles).expect(200);
    let insight = format!("{}{}", INSIGHTS, insight["id"]);
    fixture.send("member", "PATCH", &insight, json!({ "deleted": true })).expect(403);

    let after = fixture.send("author", "GET", &path(&closed), json!({})).expect(200).json();
    let tiles = after["tiles"].as_array().unwrap();
    assert_eq!(tiles.len(), 2);
    assert!(tiles.iter().any(|tile| tile["text"]["body"] == "as it was"), "{after}");
}

fn adding_an_insight_requires_edit_access_to_the_dashboard(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let closed = fixture.dashboard(37);
    let own = fixture.own("member");
    let body = json!({ "name": "i", "dashboards": [closed["id"]] });
    let insight = fixture.send("author", "POST", INSIGHTS, body).expect(201).json();
    let at = format!("{INSIGHTS}{}/", insight["id"]);
    let both = json!({ "dashboards": [closed["id"], own["id"]] });
    let member = |method: &str, path: &str, body: Value| fixture.send("member", method, path, body);
    let refused = member("PATCH", &at, both.clone()).expect(403).json();
    let tile = fixture.server.get(&path(&closed)).json()["tiles"][0]["id"].clone();
    let copy = json!({ "fromDashboardId": closed["id"], "tileId": tile });
    let copies = format!("{}copy_tile/", path(&own));
    for response in [
        member("POST", &copies, copy.clone()),
        member("POST", DASHBOARDS, json!({ "use_dashboard": closed["id"] })),
    ] {
        assert_eq!(response.expect(403).json(), refused);
    }

    // Nor through a tile that was added while they had access.
    let restrict = |level: i64| {
        let body = json!({ "restriction_level": level });
        fixture.send("author", "PATCH", &path(&closed), body).expect(200);
    };
    restrict(21);
    member("PATCH", &at, both).expect(200);
    let old = fixture.server.get(&path(&own)).json()["tiles"][0]["id"].clone();
    member("PATCH", &path(&own), json!({ "tiles": [{ "id": old, "deleted": true }] })).expect(200);
    restrict(37);
    let back = json!([{ "id": old, "deleted": false }]);
    let response = member("PATCH", &path(&own), json!({ "tiles": back }));
    assert_eq!(response.expect(403).json(), refused);
    assert_eq!(member("POST", &copies, copy.clone()).expect(403).json(), refused);
    member("PATCH", &path(&own), json!({ "deleted": true })).expect(200);
    let response = member("PATCH", &path(&own), json!({ "deleted": false, "tiles": back }));
    assert_eq!(response.expect(403).json(), refused);
    let restored = member("PATCH", &path(&own), json!({ "deleted": false })).expect(200).json();
    assert_eq!(restored["tiles"], json!([]));
    let read = member("GET", &at, json!({})).expect(200).json();
    assert_eq!(read["dashboards"], json!([closed["id"]]));
    assert_eq!(read["effective_privilege_level"], 21);
    assert_eq!(member("PATCH", &at, json!({ "name": "mine" })).expect(403).json(), refused);

    let own = fixture.own("collaborator");
    let copies = format!("{}copy_tile/", path(&own));
    fixture.send("collaborator", "POST", &copies, copy).expect(200);
    let body = json!({ "use_dashboard": closed["id"] });
    fixture.send("collaborator", "POST", DASHBOARDS, body).expect(201);
}

fn restored_dashboard_shows_its_tiles(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let (open, closed) = (fixture.dashboard(21), fixture.dashboard(37));
    let [kept, off] =
        ["kept", "off"].map(|name| insight_on(&fixture.server, name, &[&open, &closed]));
    let tiles = || fixture.server.get(&path(&open)).expect(200).json()["tiles"].clone();
    let tile =
        tiles().as_array().unwrap().iter().find(|tile| tile["insight"]["id"] == off["id"]).unwrap()
            ["id"]
            .clone();
    let body = json!({ "tiles": [{ "id": tile, "deleted": true }] });
    fixture.send("member", "PATCH", &path(&open), body).expect(200);
    let before = tiles();
    assert_eq!(before.as_array().unwrap().len(), 1);
    let gone = fixture.send("member", "PATCH", &path(&open), json!({ "deleted": true }));
    assert_eq!(gone.expect(200).json()["tiles"], json!([]));
    let at = format!("{INSIGHTS}{}/", kept["id"]);
    assert_eq!(fixture.server.get(&at).json()["dashboards"], json!([closed["id"]]));
    fixture.send("member", "PATCH", &path(&open), json!({ "deleted": false })).expect(200);
    assert_eq!(tiles()[0]["id"], before[0]["id"]);
    assert_eq!(tiles().as_array().unwrap().len(), 1);
}

/// Restoring an insight, or another dashboard with it, changes what a dashboard shows.
fn restoring_an_insight_requires_edit_access_to_its_dashboards(store: Store) {
    let fixture = PermissionsFixture::new(store);
    let (closed, open) = (fixture.dashboard(37), fixture.dashboard(21));
    let insight = insight_on(&fixture.server, "i", &[&closed, &open]);
    let at = format!("{}{}/", INSIGHTS, insight["id"]);
    let shown = |dashboard: &Value| {
        let read = fixture.server.get(&path(dashboard)).expect(200).json();
        read["tiles"].as_array().unwrap().len()
    };
    let (delete, restore) = (json!({ "deleted": true }), json!({ "deleted": false }));
    fixture.send("owner", "PATCH", &at, delete.clone()).expect(200);
    assert_eq!((shown(&closed), shown(&open)), (0, 0));
    let refused = fixture.send("member", "PATCH", &at, restore.clone()).expect(403).json();
    let told = "You don't have permission to add insights to this dashboard.";
    assert_eq!(refused["detail"], told);
    let both = json!({ "deleted": false, "dashboards": [open["id"]] });
    fixture.send("member", "PATCH", &at, both).expect(403);
    assert_eq!((shown(&closed), shown(&open)), (0, 0));
    fixture.send("collaborator", "PATCH", &at, restore.clone()).expect(200);
    assert_eq!((shown(&closed), shown(&open)), (1, 1));

    // Restoring a dashboard restores its insights on this dashboard only.
    fixture.send("owner", "PATCH", &at, delete.clone()).expect(200);
    fixture.send("member", "PATCH", &path(&open), delete).expect(200);
    fixture.send("member", "PATCH", &path(&open), restore).expect(200);
    assert_eq!((shown(&closed), shown(&open)), (0, 1));
    let read = fixture.server.get(&at).expect(200).json();
    assert_eq!(read["dashboards"], json!([open["id"]]));
}
