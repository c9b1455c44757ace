//! Access controls: access to projects, and validation of rules.

use serde_json::{Value, json};

use crate::accounts::test_users;
use crate::harness::{Response, Server, Store, on_both_stores};

on_both_stores! {
    project_access_rules_exclude_members,
    project_access_control_flag_is_its_default_rule,
    invalid_access_rule_is_rejected_and_changes_nothing,
    access_rules_are_scoped_to_project_and_organization,
    access_rule_changes_are_in_the_activity_log,
}

const PROJECT: &str = "/api/projects/1/access_controls/";
pub const KINDS: &str = "/api/projects/1/resource_access_controls/";
const REFUSED: &str = "You don't have access to the project.";

/// A server with an owner and a member, who has a key and a role.
pub struct AccessFixture {
    pub server: Server,
    key: String,
    member: String,
    pub role: String,
    user: String,
}

impl AccessFixture {
    pub fn new(store: Store) -> Self {
        let server = store.start();
        let user = test_users::add(&server, "m@example.com", 1);
        let key = test_users::key_of(&server, "m@example.com", &["*"]);
        let member = membership(&server, &user);
        let role = role(&server, "Ops", &[&user]);
        Self { server, key, member, role, user }
    }

    /// As the member.
    pub fn call(&self, method: &str, path: &str, body: Value) -> Response {
        self.server.call(method, path).key(&self.key).json(body).send()
    }

    pub fn get(&self, path: &str) -> Response {
        self.server.call("GET", path).key(&self.key).send()
    }

    /// As the owner.
    fn put(&self, path: &str, body: Value) -> Response {
        self.server.call("PUT", path).json(body).send()
    }

    /// Sets a rule for the default, the member or the role.
    #[track_caller]
    pub fn rule(&self, path: &str, whom: &str, mut body: Value) {
        match whom {
            "member" => body["organization_member"] = json!(self.member),
            "role" => body["role"] = json!(self.role),
            _ => {}
        }
        let expected = if body["access_level"].is_null() { 204 } else { 200 };
        self.put(path, body).expect(expected);
    }

    /// Removes every rule of a path.
    pub fn clear(&self, path: &str) {
        for known in self.server.get(path).expect(200).json()["access_controls"].as_array().unwrap()
        {
            let mut body = known.clone();
            body["access_level"] = Value::Null;
            assert_eq!(self.put(path, body).expect(204).text(), "");
        }
        assert_eq!(self.server.get(path).json()["access_controls"], json!([]));
    }
}

fn membership(server: &Server, user: &str) -> String {
    let members = server.get(test_users::MEMBERS).expect(200).json();
    let own = members["results"].as_array().unwrap().iter().find(|one| one["user"]["uuid"] == user);
    own.unwrap()["id"].as_str().unwrap().to_owned()
}

fn role(server: &Server, name: &str, users: &[&str]) -> String {
    let roles = "/api/organizations/@current/roles/";
    let made = server.post(roles, json!({ "name": name })).expect(201).json();
    let id = made["id"].as_str().unwrap().to_owned();
    for user in users {
        let path = format!("{roles}{id}/role_memberships/");
        server.post(&path, json!({ "user_uuid": user })).expect(201);
    }
    id
}

pub fn ids(listing: &Value) -> Vec<i64> {
    listing["results"].as_array().unwrap().iter().map(|one| one["id"].as_i64().unwrap()).collect()
}

fn project_access_rules_exclude_members(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let sibling = sibling["id"].as_i64().unwrap();
    let rules = server.get(PROJECT).expect(200).json();
    assert_eq!(
        rules,
        json!({ "access_controls": [], "available_access_levels": ["none", "member", "admin"],
            "default_access_level": "member", "user_access_level": "admin",
            "user_can_edit_access_levels": true })
    );
    let rules = fixture.get(PROJECT).expect(200).json();
    assert_eq!(rules["user_access_level"], "member");
    assert_eq!(rules["user_can_edit_access_levels"], false);

    // rules as (subject, level) -> access level of the member
    let cases: [(&[(&str, &str)], &str); 12] = [
        (&[], "member"),
        (&[("everybody", "none")], "none"),
        (&[("everybody", "admin")], "admin"),
        (&[("member", "none")], "none"),
        (&[("role", "none")], "none"),
        (&[("member", "admin")], "admin"),
        (&[("role", "admin")], "admin"),
        (&[("everybody", "none"), ("member", "member")], "member"),
        (&[("everybody", "none"), ("role", "admin")], "admin"),
        (&[("everybody", "admin"), ("member", "none")], "none"),
        (&[("everybody", "admin"), ("role", "member")], "member"),
        (&[("role", "member"), ("member", "none")], "member"),
    ];
    for (rules, stands) in cases {
        for (whom, level) in rules {
            fixture.rule(PROJECT, whom, json!({ "access_level": level }));
        }
        let (is_in, is_admin) = (stands != "none", stands == "admin");
        let may = |allowed: bool| if allowed { 200 } else { 403 };
        let case = format!("{rules:?}");
        for path in [
            "/api/projects/1/",
            "/api/environments/1/",
            "/api/projects/1/dashboards/",
            "/api/projects/1/events/",
            "/api/projects/1/persons/",
            PROJECT,
        ] {
            let response = fixture.get(path);
            assert_eq!(response.status, may(is_in), "{case} {path}: {}", response.text());
            if !is_in {
                assert_eq!(response.json()["detail"], REFUSED);
            }
        }
        let listed: Vec<i64> = if is_in { vec![1, sibling] } else { vec![sibling] };
        assert_eq!(ids(&fixture.get("/api/projects/").expect(200).json()), listed, "{case}");
        let path = "/api/organizations/@current/projects/";
        assert_eq!(ids(&fixture.get(path).expect(200).json()), listed, "{case}");
        let organization = fixture.get("/api/organizations/@current/").expect(200).json();
        for nested in ["teams", "projects"] {
            let nested = json!({ "results": organization[nested] });
            assert_eq!(ids(&nested), listed, "{case}");
        }
        let me = fixture.get("/api/users/@me/").expect(200).json();
        assert_eq!(me["team"].is_null(), !is_in, "{case}");
        let moving = json!({ "set_current_team": 1 });
        let moved = fixture.call("PATCH", "/api/users/@me/", moving);
        assert_eq!(moved.status, if is_in { 200 } else { 400 }, "{case}");

        if is_in {
            let project = fixture.get("/api/projects/1/").json();
            assert_eq!(project["user_access_level"], stands, "{case}");
            assert_eq!(project["effective_membership_level"], if is_admin { 8 } else { 1 });
            assert_eq!(fixture.get(PROJECT).json()["user_access_level"], stands);
        }
        // Needs an administrator of the project.
        let rotated = fixture.call("PATCH", "/api/projects/1/rotate_secret_token", json!({}));
        assert_eq!(rotated.status, may(is_admin), "{case}");
        let kind = json!({ "access_level": null, "resource": "dashboard" });
        let expected = if is_admin { 204 } else { 403 };
        assert_eq!(fixture.call("PUT", KINDS, kind).status, expected, "{case}");
        let ruled = json!({ "access_level": "member", "role": fixture.role });
        assert_eq!(fixture.call("PUT", PROJECT, ruled).status, may(is_admin), "{case}");
        // The organization and other projects are not affected.
        fixture
            .call("POST", "/api/organizations/@current/roles/", json!({ "name": "x" }))
            .expect(403);
        server.get("/api/projects/1/").expect(200);
        fixture.get(&format!("/api/projects/{sibling}/")).expect(200);
        fixture.clear(PROJECT);
    }
    // Leaving the organization deletes the member's rules.
    fixture.rule(PROJECT, "member", json!({ "access_level": "none" }));
    fixture.rule(PROJECT, "role", json!({ "access_level": "none" }));
    server.delete(&format!("{}{}/", test_users::MEMBERS, fixture.user)).expect(204);
    server.delete(&format!("/api/organizations/@current/roles/{}/", fixture.role)).expect(204);
    assert_eq!(server.get(PROJECT).json()["access_controls"], json!([]));
}

fn project_access_control_flag_is_its_default_rule(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let switched = |on: bool| {
        let shown = server.get("/api/projects/1/").json();
        let listed = server.get("/api/projects/").json();
        assert_eq!(shown["access_control"], on);
        assert_eq!(listed["results"][0]["access_control"], on);
        assert_eq!(fixture.get("/api/projects/1/").status, if on { 403 } else { 200 });
    };
    switched(false);
    let body = json!({ "access_control": true });
    fixture.call("PATCH", "/api/projects/1/", body.clone()).expect(403);
    fixture.call("PATCH", "/api/projects/1/", json!({ "access_control": false })).expect(200);
    let shown = server.patch("/api/projects/1/", body).expect(200).json();
    assert_eq!(shown["access_control"], true);
    switched(true);
    let rules = server.get(PROJECT).json();
    let rule = &rules["access_controls"][0];
    assert_eq!((&rule["access_level"], &rule["role"]), (&json!("none"), &json!(null)));
    // Other settings do not change it, and new members start in an accessible project.
    server.patch("/api/projects/1/", json!({ "name": "n" })).expect(200);
    let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    test_users::add(server, "new@example.com", 1);
    let browser = test_users::log_in(server, "new@example.com", test_users::PASSWORD);
    assert_eq!(browser.get("/api/users/@me/").json()["team"]["id"], sibling["id"]);
    switched(true);
    fixture.rule(PROJECT, "everybody", json!({ "access_level": null }));
    switched(false);
    fixture.rule(PROJECT, "everybody", json!({ "access_level": "none" }));
    switched(true);
    server.patch("/api/projects/1/", json!({ "access_control": false })).expect(200);
    switched(false);
    assert_eq!(server.get(PROJECT).json()["access_controls"], json!([]));
    let body = json!({ "name": "Three", "access_control": true });
    let third = server.post("/api/projects/", body).expect(201).json();
    assert_eq!(third["access_control"], true);
    fixture.get(&format!("/api/projects/{}/", third["id"])).expect(403);
}

fn invalid_access_rule_is_rejected_and_changes_nothing(store: Store) {
    let fixture = AccessFixture::new(store);
    let dashboard =
        fixture.server.post("/api/projects/1/dashboards/", json!({})).expect(201).json();
    let object = format!("/api/projects/1/dashboards/{}/access_controls/", dashboard["id"]);
    let (member, role) = (&fixture.member, &fixture.role);
    let nobody = "0192f0c1-2345-7000-8000-000000000000";
    let none = "none";
    for (path, body, error) in [
        (PROJECT, json!({}), "required access_level"),
        (PROJECT, json!({ "access_level": "viewer" }), "invalid_choice access_level"),
        (PROJECT, json!({ "access_level": 3 }), "invalid_choice access_level"),
        (PROJECT, json!({ "access_level": none, "role": "x" }), "invalid_input role"),
        (
            PROJECT,
            json!({ "access_level": none, "organization_member": 5 }),
            "invalid_input organization_member",
        ),
        (PROJECT, json!({ "access_level": none, "role": nobody }), "does_not_exist role"),
        (
            PROJECT,
            json!({ "access_level": none, "organization_member": nobody }),
            "does_not_exist organization_member",
        ),
        (
            PROJECT,
            json!({ "access_level": none, "organization_member": fixture.user }),
            "does_not_exist organization_member",
        ),
        (
            PROJECT,
            json!({ "access_level": none, "organization_member": member, "role": role }),
            "invalid_input role",
        ),
        (KINDS, json!({ "access_level": none }), "required resource"),
        (KINDS, json!({ "access_level": none, "resource": "project" }), "invalid_choice resource"),
        (KINDS, json!({ "access_level": none, "resource": "cohort" }), "invalid_choice resource"),
        (KINDS, json!({ "resource": "dashboard" }), "required access_level"),
        (
            KINDS,
            json!({ "access_level": "member", "resource": "dashboard" }),
            "invalid_choice access_level",
        ),
        (
            KINDS,
            json!({ "access_level": none, "resource": "dashboard", "resource_id": "1" }),
            "invalid_input resource_id",
        ),
        (&object, json!({}), "required access_level"),
        (&object, json!({ "access_level": "admin" }), "invalid_choice access_level"),
        (
            &object,
            json!({ "access_level": none, "resource": "insight" }),
            "invalid_choice resource",
        ),
        (
            &object,
            json!({ "access_level": none, "resource_id": "987654" }),
            "invalid_input resource_id",
        ),
        (&object, json!({ "access_level": none, "role": nobody }), "does_not_exist role"),
    ] {
        let refused = fixture.put(path, body.clone()).expect(400);
        assert_eq!(refused.error(), format!("validation_error {error}"), "{path} {body}");
    }
    for path in [PROJECT, KINDS, &object] {
        assert_eq!(fixture.server.get(path).json()["access_controls"], json!([]), "{path}");
    }
    let gone = "/api/projects/1/dashboards/987654/access_controls/";
    fixture.server.get(gone).expect(404);
    fixture.put(gone, json!({})).expect(404);
    // Setting and removing rules is idempotent.
    let body = json!({ "access_level": "viewer", "role": role, "resource": "dashboard" });
    let first = fixture.put(&object, body.clone()).expect(200).json();
    assert_eq!(fixture.put(&object, body).expect(200).json(), first);
    let id = dashboard["id"].to_string();
    assert_eq!((&first["resource"], &first["resource_id"]), (&json!("dashboard"), &json!(id)));
    assert_eq!((&first["role"], &first["organization_member"]), (&json!(role), &json!(null)));
    assert_eq!((&first["created_by"], first["created_at"].is_string()), (&json!(null), true));
    let body = json!({ "access_level": "editor", "role": role });
    let second = fixture.put(&object, body).expect(200).json();
    assert_eq!(second["created_at"], first["created_at"]);
    assert_eq!(fixture.server.get(&object).json()["access_controls"], json!([second]));
    fixture.clear(&object);
    fixture.put(&object, json!({ "access_level": null, "role": role })).expect(204);
    // Insights have two resource names, and Terraform uses the singular.
    let insight = fixture.server.post("/api/projects/1/insights/", json!({})).expect(201).json();
    let short = insight["short_id"].as_str().unwrap();
    let body = json!({ "access_level": "viewer", "resource": "insight", "resource_id": short });
    let path = format!("/api/projects/1/insights/{short}/access_controls/");
    fixture.put(&path, body).expect(200);
    let path = format!("/api/projects/1/insight/{}/access_controls/", insight["id"]);
    let rules = fixture.server.get(&path).expect(200).json();
    assert_eq!(rules["access_controls"][0]["access_level"], "viewer");
    assert_eq!(rules["available_access_levels"], json!(["none", "viewer", "editor", "manager"]));
    assert_eq!(rules["default_access_level"], "editor");
}

fn access_rules_are_scoped_to_project_and_organization(store: Store) {
    let fixture = AccessFixture::new(store);
    let server = &fixture.server;
    let two = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
    let at_two = |rest: &str| format!("/api/projects/{}/{rest}", two["id"]);
    let made = server.post(&at_two("dashboards/"), json!({ "name": "d" })).expect(201).json();
    // A dashboard of another project is not found.
    let path = format!("/api/projects/1/dashboards/{}/access_controls/", made["id"]);
    server.get(&path).expect(404);
    fixture.put(&path, json!({ "access_level": "none" })).expect(404);
    for kind in ["action", "dashboard", "feature_flag", "insight"] {
        fixture.rule(KINDS, "everybody", json!({ "access_level": "none", "resource": kind }));
    }
    fixture.rule(PROJECT, "everybody", json!({ "access_level": "none" }));
    let seen = fixture.get(&at_two(&format!("dashboards/{}/", made["id"]))).expect(200).json();
    assert_eq!(seen["user_access_level"], "editor");
    assert_eq!(server.get(&at_two("access_controls/")).json()["access_controls"], json!([]));
    assert_eq!(
        server.get(&at_two("resource_access_controls/")).json()["access_controls"],
        json!([])
    );
    // Members and roles of another organization cannot be referenced, nor its rules read.
    let other = test_users::log_in(server, "m@example.com", test_users::PASSWORD);
    let foreign = test_users::organization_of(server, "m@example.com", "F");
    let (organization, project) =
        (foreign["id"].as_str().unwrap(), foreign["teams"][0]["id"].as_i64().unwrap());
    let roles = format!("/api/organizations/{organization}/roles/");
    let role = other.write("POST", &roles, json!({ "name": "R" })).expect(201).json();
    let members = other.get(&format!("/api/organizations/{organization}/members/")).json();
    let stranger = &members["results"][0]["id"];
    for (body, error) in [
        (json!({ "access_level": "admin", "role": role["id"] }), "does_not_exist role"),
        (
            json!({ "access_level": "admin", "organization_member": stranger }),
            "does_not_exist organization_member",
        ),
    ] {
        let refused = fixture.put(&at_two("access_controls/"), body).expect(400);
        assert_eq!(refused.error(), format!("validation_error {error}"));
    }
    for path in ["access_controls/", "resource_access_controls/"] {
        let path = format!("/api/projects/{project}/{path}");
        assert_eq!(server.get(&path).expect(403).json()["detail"], REFUSED);
        fixture.put(&path, json!({ "access_level": "none" })).expect(403);
        other.get(&path).expect(200);
    }
}

fn access_rule_changes_are_in_the_activity_log(store: Store) {
    let fixture = AccessFixture::new(store);
    let made =
        fixture.server.post("/api/projects/1/dashboards/", json!({ "name": "d" })).expect(201);
    let made = made.json();
    let rules = format!("/api/projects/1/dashboards/{}/access_controls/", made["id"]);
    fixture.rule(&rules, "role", json!({ "access_level": "viewer" }));
    fixture.rule(&rules, "role", json!({ "access_level": "viewer" }));
    fixture.rule(&rules, "role", json!({ "access_level": null }));
    fixture.rule(PROJECT, "everybody", json!({ "access_level": "admin" }));
    let log = fixture.server.get("/api/projects/1/activity_log/").expect(200).json();
    let told: Vec<Value> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["detail"]["changes"][0]["field"] == "access_controls")
        .map(|entry| {
            let change = &entry["detail"]["changes"][0];
            json!([
                entry["scope"],
                entry["item_id"],
                entry["detail"]["name"],
                change["action"],
                change["before"]["access_level"],
                change["after"]["access_level"]
            ])
        })
        .collect();
    let id = made["id"].to_string();
    let project = fixture.server.get("/api/projects/1/").json()["name"].clone();
    assert_eq!(
        told,
        [
            json!(["Team", "1", project, "created", null, "admin"]),
            json!(["Dashboard", id, "d", "deleted", "viewer", null]),
            json!(["Dashboard", id, "d", "created", null, "viewer"]),
        ]
    );
}
