//! Every route of the OpenAPI document checks a caller in one observable order: credentials (401), the
//! project (404), the key's restrictions (403), its scope (403), membership (403), the object (404), and
//! only then the body (400).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::{Request, Response, Server, Store, on_both_stores};

on_both_stores! {
    authorization_precedes_body_parsing_on_every_route,
    every_documented_path_is_routed_and_options_lists_its_methods,
}

/// A scope that no route requires.
const USELESS: &str = "webhook:write";
/// Reads with a required query parameter.
const NEED_A_QUERY: &[&str] = &[
    "/api/projects/{project_id}/event_definitions/by_name",
    "/api/projects/{project_id}/events/values",
    "/api/projects/{project_id}/feature_flags/evaluation_reasons",
    "/api/projects/{project_id}/groups",
    "/api/projects/{project_id}/groups/find",
    "/api/projects/{project_id}/groups/property_values",
    "/api/projects/{project_id}/groups/related",
    "/api/projects/{project_id}/insights/funnel",
    "/api/projects/{project_id}/persons/cohorts",
];
const QUERY: &str = "/api/projects/{project_id}/query/{id}";
/// Lists what has the key, which may be nothing.
const FLAGS_OF_KEY: &str = "/api/organizations/{organization_id}/feature_flags/{key}";
/// Streams without an end.
const ENDLESS: [&str; 2] =
    ["/api/projects/{project_id}/events/live", "/api/projects/{project_id}/pulse"];
/// Reported only to authorized callers.
const BROKEN_JSON: &[u8] = b"{\"name\": ";

/// One documented operation.
struct Operation {
    path: String,
    method: String,
    /// `None` on public paths.
    scope: Option<String>,
    has_body: bool,
    /// Responds with 405 without looking up the object.
    never_deletes: bool,
    parameters: BTreeMap<String, String>,
}

/// A server with the objects that authorization can fail on.
struct AuthorizationFixture {
    server: Server,
    /// A second project of the same organization.
    sibling: i64,
    /// A project of an organization that the caller is not a member of.
    foreign: i64,
    foreign_organization: String,
    /// A key with a useless scope, restricted to the sibling project.
    restricted: String,
    narrow_id: String,
    narrow: String,
}

fn operations(server: &Server) -> Vec<Operation> {
    let document = server.call("GET", "/api/schema/").no_key().send().expect(200).json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut found = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let scopes = &operation["security"][0]["personal_api_key"];
            assert!(
                scopes.is_null() || scopes[0].is_string(),
                "{method} {path} needs a key but names no scope"
            );
            let parameters = operation["parameters"].as_array().unwrap().iter();
            let parameters = parameters.filter(|parameter| parameter["in"] == "path");
            found.push(Operation {
                path: path.clone(),
                method: method.to_uppercase(),
                scope: scopes[0].as_str().map(str::to_owned),
                has_body: operation.get("requestBody").is_some(),
                never_deletes: operation["responses"].get("405").is_some(),
                parameters: parameters
                    .map(|known| (word(&known["name"]), unknown(&known["schema"])))
                    .collect(),
            });
        }
    }
    assert!(found.len() > 20, "the document names only {} operations", found.len());
    found
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// A well-formed id of nothing.
fn unknown(schema: &Value) -> String {
    match (schema["type"].as_str(), schema["format"].as_str()) {
        (Some("integer"), _) => "987654321".into(),
        (_, Some("uuid")) => "0192f0c1-2345-7000-8000-000000000000".into(),
        _ => "0192f0c1-2345-7000-8000-00000000dead".into(),
    }
}

impl Operation {
    fn is_in(&self, parameter: &str) -> bool {
        self.parameters.contains_key(parameter)
    }

    /// Whether the path addresses an object inside a project, organization or account.
    fn has_object(&self) -> bool {
        // The id is a kind, or a run that may be over: nothing is looked up.
        if (self.path == QUERY && self.method != "GET") || self.path == FLAGS_OF_KEY {
            return false;
        }
        self.parameters.keys().any(|name| name != "project_id" && name != "organization_id")
    }

    /// The response for a missing object; a few paths have their own.
    fn without_its_object(&self) -> (u16, &'static str, Option<&'static str>) {
        match (self.method.as_str(), self.path.as_str()) {
            ("POST", path) if path.ends_with("/role_memberships") => {
                (400, "invalid_input", Some("Role does not exist."))
            }
            (_, "/api/users/{id}") => (403, "permission_denied", None),
            _ => (404, "not_found", None),
        }
    }

    fn at(&self, parameters: &[(&str, &str)]) -> String {
        let mut path = self.path.clone();
        for (name, unknown) in &self.parameters {
            let given = parameters.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            let fallback = match name.as_str() {
                "project_id" => "1",
                "organization_id" => "@current",
                _ => unknown,
            };
            path = path.replace(&format!("{{{name}}}"), given.unwrap_or(fallback));
        }
        path
    }

    fn call(&self, server: &Server, parameters: &[(&str, &str)]) -> Request {
        let call = server.call(&self.method, &self.at(parameters));
        let call = call.header("Content-Type", "application/json");
        if self.method == "GET" { call } else { call.bytes(BROKEN_JSON.to_vec()) }
    }
}

impl AuthorizationFixture {
    fn new(store: Store) -> Self {
        let server = store.start();
        let sibling = server.post("/api/projects/", json!({ "name": "Two" })).expect(201).json();
        let sibling = sibling["id"].as_i64().unwrap();
        let (foreign, foreign_organization) = foreign(&server);
        let key = |body: Value| {
            let made = server.post("/api/personal_api_keys/", body).expect(201).json();
            (word(&made["id"]), word(&made["value"]))
        };
        let (_, restricted) = key(json!({
            "label": "restricted", "scopes": [USELESS], "scoped_teams": [sibling],
        }));
        let (narrow_id, narrow) = key(json!({ "label": "narrow", "scopes": [USELESS] }));
        Self { server, sibling, foreign, foreign_organization, restricted, narrow_id, narrow }
    }

    /// A key without the required scope; read does not imply write.
    fn narrow_for(&self, scope: &str) -> &str {
        let mut scopes = vec![USELESS.to_owned()];
        if let Some(object) = scope.strip_suffix(":write") {
            scopes.push(format!("{object}:read"));
        }
        let path = format!("/api/personal_api_keys/{}", self.narrow_id);
        self.server.patch(&path, json!({ "scopes": scopes })).expect(200);
        &self.narrow
    }

    fn walk(&self, operation: &Operation, scope: &str) {
        let call = |parameters: &[(&str, &str)]| operation.call(&self.server, parameters);
        refused(call(&[]).no_key(), 401, "not_authenticated", None);
        refused(call(&[]).key("phx_bad"), 401, "invalid_personal_api_key", None);
        if operation.is_in("project_id") {
            for missing in ["987654321", "abc", "99999999999999999999"] {
                let call = call(&[("project_id", missing)]).key(&self.restricted);
                refused(call, 404, "not_found", Some("Project not found."));
            }
            let detail = "API key does not have access to the requested project: ID 1.";
            refused(call(&[]).key(&self.restricted), 403, "permission_denied", Some(detail));
        } else if operation.is_in("organization_id") {
            for missing in ["0192f0c1-2345-7000-8000-000000000000", "abc"] {
                let call = call(&[("organization_id", missing)]).key(&self.narrow);
                refused(call, 404, "not_found", Some("Organization not found."));
            }
        }
        if !operation.is_in("project_id") && !scope.starts_with("user:") {
            let detail = "API keys with scoped projects are only supported on \
                          project-based endpoints.";
            refused(call(&[]).key(&self.restricted), 403, "permission_denied", Some(detail));
        }
        let detail = format!("API key missing required scope '{scope}'");
        refused(call(&[]).key(self.narrow_for(scope)), 403, "permission_denied", Some(&detail));
        self.walk_as_stranger(operation);
        self.walk_with_everything(operation);
    }

    /// Membership is checked after the scope and before the object.
    fn walk_as_stranger(&self, operation: &Operation) {
        let call = |parameters: &[(&str, &str)]| operation.call(&self.server, parameters);
        let project = self.foreign.to_string();
        let parameters = [
            ("organization_id", self.foreign_organization.as_str()),
            ("project_id", project.as_str()),
        ];
        if operation.is_in("project_id") {
            let detail = "You don't have access to the project.";
            refused(call(&parameters), 403, "permission_denied", Some(detail));
        } else if operation.is_in("organization_id") {
            refused(call(&parameters), 404, "not_found", Some("Organization not found."));
        }
    }

    /// The object is looked up before the body is read.
    fn walk_with_everything(&self, operation: &Operation) {
        let call = |parameters: &[(&str, &str)]| operation.call(&self.server, parameters);
        if operation.never_deletes {
            assert_eq!(call(&[]).send().expect(405).text(), "");
            return;
        }
        if operation.has_object() {
            let (status, code, detail) = operation.without_its_object();
            refused(call(&[]), status, code, detail);
        }
        if operation.method == "GET"
            && !operation.has_object()
            && !ENDLESS.contains(&operation.path.as_str())
        {
            let bare = NEED_A_QUERY.contains(&operation.path.as_str());
            call(&[]).send().expect(if bare { 400 } else { 200 });
        }
        if !operation.has_body {
            return;
        }
        let parameters = self.fixture(operation);
        let parameters: Vec<(&str, &str)> =
            parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let response = refused(call(&parameters), 400, "parse_error", None);
        assert_eq!(response.json()["type"], "invalid_request");
    }

    /// Creates an object for the paths that need an existing one.
    fn fixture(&self, operation: &Operation) -> Vec<(String, String)> {
        if !operation.has_object() {
            return Vec::new();
        }
        let made = |collection: &str, body: Value, field: &str| {
            let made = self.server.post(collection, body).expect(201).json();
            let id = &made[field];
            id.as_str().map_or_else(|| id.to_string(), str::to_owned)
        };
        let unique = format!("walk {} {}", operation.method, operation.path);
        let (parameter, id) = match operation.path.as_str() {
            "/api/projects/{project_id}/actions/{id}"
            | "/api/projects/{project_id}/actions/{id}/access_controls" => {
                ("id", made("/api/projects/1/actions", json!({ "name": unique }), "id"))
            }
            "/api/projects/{project_id}/annotations/{id}" => {
                ("id", made("/api/projects/1/annotations", json!({}), "id"))
            }
            path if path.starts_with("/api/projects/{project_id}/feature_flags/{id}") => {
                let key = unique.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
                ("id", made("/api/projects/1/feature_flags", json!({ "key": key }), "id"))
            }
            path if path.starts_with("/api/projects/{project_id}/persons/{id}") => {
                self.server.ingest(&[json!({ "event": "walk", "distinct_id": "walker" })]);
                let found = self.server.get("/api/projects/1/persons?distinct_id=walker").json();
                ("id", word(&found["results"][0]["uuid"]))
            }
            "/api/projects/{project_id}/event_definitions/{id}" => {
                ("id", made("/api/projects/1/event_definitions", json!({ "name": unique }), "id"))
            }
            "/api/projects/{project_id}/property_definitions/{id}" => {
                let properties = json!({ &unique: 1 });
                self.server.ingest(&[
                    json!({ "event": "walk", "distinct_id": "w", "properties": properties }),
                ]);
                let known = self.server.get("/api/projects/1/property_definitions").json();
                let known = known["results"].as_array().unwrap().clone();
                let own = known.iter().find(|one| one["name"] == json!(unique)).unwrap();
                ("id", word(&own["id"]))
            }
            path if path.starts_with("/api/projects/{project_id}/dashboards/{id}") => {
                ("id", made("/api/projects/1/dashboards", json!({}), "id"))
            }
            path if path.starts_with("/api/projects/{project_id}/cohorts/{id}") => {
                ("id", made("/api/projects/1/cohorts", json!({ "is_static": true }), "id"))
            }
            "/api/projects/{project_id}/insight_variables/{id}" => {
                let variable = json!({ "name": unique, "type": "String" });
                ("id", made("/api/projects/1/insight_variables", variable, "id"))
            }
            path if path.starts_with("/api/projects/{project_id}/insights/{id}") => {
                ("id", made("/api/projects/1/insights", json!({}), "id"))
            }
            "/api/personal_api_keys/{id}" => ("id", self.narrow_id.clone()),
            "/api/users/{id}" | "/api/organizations/{organization_id}/members/{id}" => {
                ("id", "@me".into())
            }
            "/api/organizations/{organization_id}/roles/{role_id}"
            | "/api/organizations/{organization_id}/roles/{role_id}/role_memberships" => {
                let roles = "/api/organizations/@current/roles";
                ("role_id", made(roles, json!({ "name": unique }), "id"))
            }
            other => panic!("the walk needs an object for {other}: add one here"),
        };
        vec![(parameter.to_owned(), id)]
    }
}

/// Exactly the standard error shape.
#[track_caller]
fn refused(call: Request, status: u16, code: &str, detail: Option<&str>) -> Response {
    let response = call.send().expect(status);
    let body = response.json();
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["attr", "code", "detail", "type"], "{body}");
    assert_eq!(body["code"], code, "{body}");
    assert_eq!(body["attr"], json!(null), "{body}");
    if let Some(detail) = detail {
        assert_eq!(body["detail"], detail);
    }
    assert_eq!(response.header("www-authenticate"), (status == 401).then_some("Bearer"));
    response
}

// contract: management 1-2, 6, 8-10, 14-15, 18
fn authorization_precedes_body_parsing_on_every_route(store: Store) {
    let fixture = AuthorizationFixture::new(store);
    let mut walked = 0;
    for operation in operations(&fixture.server) {
        println!("{} {}", operation.method, operation.path);
        match &operation.scope {
            Some(scope) => fixture.walk(&operation, scope),
            None => is_public(&fixture.server, &operation),
        }
        walked += 1;
    }
    println!("{walked} operations");
    let unharmed = fixture.server.get("/api/projects/1").expect(200).json();
    assert_eq!(unharmed["id"], 1);
    fixture.server.get(&format!("/api/projects/{}", fixture.sibling)).expect(200);
}

/// A public path needs no key and handles a broken body.
fn is_public(server: &Server, operation: &Operation) {
    let response = operation.call(server, &[]).no_key().send();
    if operation.path == "/flags/definitions" {
        // The SDK path that requires a secret key.
        assert_eq!(response.expect(401).error(), "authentication_error not_authenticated -");
        return;
    }
    assert!(response.status < 500, "{}: {}", operation.path, response.text());
    assert!(!response.text().contains("not_authenticated"), "{}", operation.path);
    if operation.path.starts_with("/api/") && operation.has_body {
        refused(operation.call(server, &[]).no_key(), 400, "parse_error", None);
    }
}

fn every_documented_path_is_routed_and_options_lists_its_methods(store: Store) {
    let server = store.start();
    let mut paths: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
    for operation in operations(&server) {
        paths.entry(operation.path.clone()).or_default().push(operation);
    }
    let useless = server.key(&[USELESS]);
    let nowhere = server.get("/api/nowhere").expect(404).text();
    for (path, operations) in paths {
        let known = &operations[0];
        for spelling in [known.at(&[]), format!("{}/", known.at(&[]))] {
            let call = server.call(&known.method, &spelling).no_key().bytes(b"{".to_vec());
            assert_ne!(call.send().text(), nowhere, "{spelling} is documented but not routed");
        }
        let is_known = |method: &str| operations.iter().any(|known| known.method == method);
        let Some(other) = ["PUT", "DELETE", "POST"].into_iter().find(|other| !is_known(other))
        else {
            continue;
        };
        let refused = server.call(other, &known.at(&[])).send();
        if path.starts_with("/api/") {
            assert_eq!(refused.status, 405, "{other} {path}: {}", refused.text());
            assert_eq!(refused.error(), "invalid_request method_not_allowed -");
        }
        let allowed = refused.header("allow").unwrap_or_default().to_owned();
        for known in &operations {
            assert!(allowed.contains(&known.method), "{path} allows {allowed}");
        }
        let options = || server.call("OPTIONS", &known.at(&[]));
        if let Some(scope) = operations.iter().find_map(|known| known.scope.as_deref()) {
            refused_without_reading(options(), &useless, scope);
            let response = options().send().expect(200);
            assert_eq!(response.header("allow"), Some(allowed.as_str()), "{path}");
        }
    }
}

/// OPTIONS requires the read scope, whatever the path requires otherwise.
fn refused_without_reading(options: Request, useless: &str, scope: &str) {
    let (object, _) = scope.split_once(':').unwrap();
    let detail = format!("API key missing required scope '{object}:read'");
    refused(options.key(useless), 403, "permission_denied", Some(&detail));
}

/// `Routes` documents every route it registers, so no other code may register routes.
#[test]
fn routes_are_registered_only_through_the_openapi_builder() {
    let ways = [".route(", ".route_service(", ".nest(", ".nest_service(", ".fallback_service("];
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut unread = vec![crates.join("api/src"), crates.join("server/src")];
    let mut found = Vec::new();
    while let Some(path) = unread.pop() {
        if path.is_dir() {
            unread.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| ways.iter().any(|way| line.contains(way)));
        let file = path.strip_prefix(crates).unwrap().display().to_string();
        found.extend(lines.map(|_| file.clone()));
    }
    found.sort();
    // `routes.rs` registers routes; `router.rs` mounts management behind the public ones.
    assert_eq!(found, ["api/src/router.rs", "api/src/routes.rs"]);
}

/// A project of an organization that the default caller has left.
fn foreign(server: &Server) -> (i64, String) {
    let organization =
        server.post("/api/organizations/", json!({ "name": "Elsewhere" })).expect(201).json();
    let organization = word(&organization["id"]);
    let at = |rest: &str| format!("/api/organizations/{organization}/{rest}");
    let project = server.post(&at("projects/"), json!({ "name": "Theirs" })).expect(201).json();
    let owner = json!({
        "email": "owner@example.com", "first_name": "O", "level": 15,
        "password": "another good horse",
    });
    server.post(&at("members/"), owner).expect(201);
    server.delete(&at("members/@me/")).expect(204);
    (project["id"].as_i64().unwrap(), organization)
}
