//! Attacks by a rogue member, with a stolen key, and on the login page.

use serde_json::{Value, json};

use crate::accounts::test_users::{self, MEMBERS, PASSWORD, log_in, try_log_in};
use crate::harness::{ADMIN_EMAIL, ADMIN_PASSWORD, PERSONAL_KEY, Server, Store, on_both_stores};

on_both_stores! {
    only_staff_create_organizations,
    email_addresses_cannot_be_claimed_in_advance,
    only_staff_add_accounts_of_other_organizations,
    changed_email_requires_operator_confirmation,
    password_guesses_from_elsewhere_do_not_lock_out_the_owner,
    email_and_password_changes_require_the_password,
    scoped_key_cannot_change_the_account,
    hogql_in_bodies_requires_query_read_scope,
    public_paths_ignore_cookies,
    flag_regex_count_is_bounded,
    person_with_many_distinct_ids_is_bounded,
}

const ME: &str = "/api/users/@me/";
const ORGANIZATIONS: &str = "/api/organizations/";
const HOGQL: &str = "SELECT person_id FROM events";

fn members_of(organization: &Value) -> String {
    format!("{ORGANIZATIONS}{}/members/", organization["id"].as_str().unwrap())
}

fn operator(server: &Server, command: &str, email: &str) {
    let (ok, printed, stderr) = server.instance().run(&["admin", command, "--email", email]);
    assert!(ok && printed.contains(email), "{printed}{stderr}");
}

fn only_staff_create_organizations(store: Store) {
    let server = store.start();
    test_users::add(&server, "owner@example.com", 15);
    let key = test_users::key_of(&server, "owner@example.com", &["*"]);
    let create = || {
        let body = json!({ "name": "Mine" });
        server.call("POST", ORGANIZATIONS).key(&key).json(body).send()
    };
    let refused = create().expect(403);
    assert_eq!(refused.json()["detail"], "Only staff of this instance can create organizations.");
    let browser = log_in(&server, "owner@example.com", PASSWORD);
    browser.write("POST", ORGANIZATIONS, json!({ "name": "Mine" })).expect(403);
    assert_eq!(server.get(ORGANIZATIONS).json()["count"], 1);
    operator(&server, "grant-staff", "owner@example.com");
    create().expect(201);
    operator(&server, "revoke-staff", "owner@example.com");
    create().expect(403);
}

/// Regression: an attacker's account with somebody else's address became an administrator.
fn email_addresses_cannot_be_claimed_in_advance(store: Store) {
    let server = store.start();
    let theirs = server.post(ORGANIZATIONS, json!({ "name": "Theirs" })).expect(201).json();
    let first = server.get(ME).json()["organizations"][0]["id"].clone();
    server.patch(ME, json!({ "set_current_organization": first })).expect(200);
    let mallory = json!({ "email": "mallory@example.com", "password": PASSWORD, "level": 15 });
    server.post(&members_of(&theirs), mallory).expect(201);
    let key = test_users::key_of(&server, "mallory@example.com", &["*"]);
    let claimed = json!({ "email": "boss@example.com", "password": "chosen by mallory" });
    server.call("POST", &members_of(&theirs)).key(&key).json(claimed).send().expect(201);

    let boss = json!({ "email": "boss@example.com", "password": "chosen by admin", "level": 8 });
    let refused = server.post(MEMBERS, boss).expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input password");
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("already an account"), "{detail}");
    assert_eq!(server.get(MEMBERS).json()["count"], 1);
    let browser = log_in(&server, "boss@example.com", "chosen by mallory");
    let organizations = browser.get(ME).json()["organizations"].clone();
    assert_eq!(organizations.as_array().unwrap().len(), 1);
}

fn only_staff_add_accounts_of_other_organizations(store: Store) {
    let server = store.start();
    test_users::add(&server, "mia@example.com", 1);
    test_users::add(&server, "ada@example.com", 8);
    let second = server.post(ORGANIZATIONS, json!({ "name": "Second" })).expect(201).json();
    let owner = json!({ "email": "owner@example.com", "password": PASSWORD, "level": 15 });
    server.post(&members_of(&second), owner).expect(201);
    let key = test_users::key_of(&server, "owner@example.com", &["*"]);
    let add = |key: &str, email: &str| {
        let body = json!({ "email": email });
        server.call("POST", &members_of(&second)).key(key).json(body).send()
    };
    let refused = add(&key, "mia@example.com").expect(403);
    assert_eq!(refused.error(), "authentication_error permission_denied -");
    // Staff, and admins of an organization that it belongs to, may add the account.
    add(PERSONAL_KEY, "ada@example.com").expect(201);
    let uuid = |email: &str| {
        let members = server.get(&members_of(&second)).json()["results"].clone();
        let found = members.as_array().unwrap().iter().find(|one| one["user"]["email"] == email);
        found.unwrap()["user"]["uuid"].as_str().unwrap().to_owned()
    };
    let path = format!("{}{}", members_of(&second), uuid("ada@example.com"));
    server.patch(&path, json!({ "level": 8 })).expect(200);
    let by_ada = test_users::key_of(&server, "ada@example.com", &["*"]);
    add(&by_ada, "mia@example.com").expect(201);
}

fn changed_email_requires_operator_confirmation(store: Store) {
    let server = store.start();
    test_users::add(&server, "mallory@example.com", 1);
    let browser = log_in(&server, "mallory@example.com", PASSWORD);
    let change = json!({ "email": "boss@example.com", "current_password": PASSWORD });
    let me = browser.write("PATCH", ME, change).expect(200).json();
    assert_eq!(
        (&me["email"], &me["is_email_verified"]),
        (&json!("boss@example.com"), &json!(false))
    );
    let second = server.post(ORGANIZATIONS, json!({ "name": "Second" })).expect(201).json();
    let add = || server.post(&members_of(&second), json!({ "email": "boss@example.com" }));
    let refused = add().expect(400);
    assert_eq!(refused.error(), "validation_error invalid_input email");
    assert!(refused.json()["detail"].as_str().unwrap().contains("confirm-email"));
    operator(&server, "confirm-email", "boss@example.com");
    add().expect(201);
}

fn password_guesses_from_elsewhere_do_not_lock_out_the_owner(store: Store) {
    let proxied = [("HEDGEROW_TRUSTED_PROXIES", "127.0.0.0/8")];
    let server = store.start_with(&proxied);
    let from = |address: &str, email: &str, password: &str| {
        let body = json!({ "email": email, "password": password });
        let call = server.call("POST", "/api/login").no_key().json(body);
        call.header("X-Forwarded-For", address).send()
    };
    test_users::add(&server, "mia@example.com", 1);
    from("192.0.2.1", "mia@example.com", PASSWORD).expect(200);
    // One network is rate limited; another one is not.
    for _ in 0..5 {
        from("198.51.100.1", "mia@example.com", "a guess").expect(400);
    }
    from("198.51.100.1", "mia@example.com", PASSWORD).expect(429);
    from("198.51.100.2", "mia@example.com", "a guess").expect(400);
    // Many networks lock the address, except for networks with an earlier login.
    let answers: Vec<u16> = (0..60)
        .map(|nth| from(&format!("203.0.113.{nth}"), "mia@example.com", "a guess").status)
        .collect();
    assert_eq!(answers.iter().filter(|status| **status == 400).count(), 14);
    assert!(answers.ends_with(&[429; 10]));
    from("203.0.113.200", "mia@example.com", PASSWORD).expect(429);
    from("192.0.2.1", "mia@example.com", PASSWORD).expect(200);
    // Known networks survive a restart, stored as hashes.
    let server = server.restart();
    let from = |address: &str, password: &str| {
        let body = json!({ "email": "mia@example.com", "password": password });
        let call = server.call("POST", "/api/login").no_key().json(body);
        call.header("X-Forwarded-For", address).send()
    };
    for nth in 0..20 {
        from(&format!("203.0.113.{nth}"), "a guess").expect(400);
    }
    from("198.51.100.9", PASSWORD).expect(429);
    from("192.0.2.1", PASSWORD).expect(200);
}

fn email_and_password_changes_require_the_password(store: Store) {
    let server = store.start();
    let key = server.key(&["user:write"]);
    let browser = log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let by_key = |body: Value| server.call("PATCH", ME).key(&key).json(body).send();
    for change in [json!({ "email": "eve@example.com" }), json!({ "password": "chosen by eve" })] {
        for refused in [by_key(change.clone()), browser.write("PATCH", ME, change.clone())] {
            let error = refused.expect(400).error();
            assert_eq!(error, "validation_error required current_password", "{change}");
        }
        let mut guess = change.clone();
        guess["current_password"] = json!("a guess");
        let error = by_key(guess).expect(400).error();
        assert_eq!(error, "validation_error incorrect_password current_password");
    }
    assert_eq!(server.get(ME).json()["email"], ADMIN_EMAIL);
    // Sending the unchanged address back changes nothing.
    by_key(json!({ "email": ADMIN_EMAIL, "first_name": "Ada" })).expect(200);
    let change = json!({ "email": "ada@example.com", "current_password": ADMIN_PASSWORD });
    let me = browser.write("PATCH", ME, change).expect(200).json();
    assert_eq!(me["email"], "ada@example.com");
    try_log_in(&server, "ada@example.com", ADMIN_PASSWORD).expect(200);
}

fn scoped_key_cannot_change_the_account(store: Store) {
    let server = store.start();
    let organization = server.get("/api/organizations/@current/").json()["id"].clone();
    for limits in
        [json!({ "scoped_teams": [1] }), json!({ "scoped_organizations": [organization] })]
    {
        let mut body = json!({ "label": "limited", "scopes": ["*"] });
        body.as_object_mut().unwrap().extend(limits.as_object().unwrap().clone());
        let key = server.post("/api/personal_api_keys/", body).expect(201).json();
        let key = key["value"].as_str().unwrap();
        let call = |method: &str, path: &str, body: Value| {
            server.call(method, path).key(key).json(body).send()
        };
        for body in [
            json!({ "first_name": "Eve" }),
            json!({ "email": "eve@example.com", "current_password": ADMIN_PASSWORD }),
            json!({ "set_current_team": 1 }),
        ] {
            let refused = call("PATCH", ME, body).expect(403);
            assert_eq!(refused.error(), "authentication_error permission_denied -");
        }
        let whole = json!({ "first_name": "Eve", "email": ADMIN_EMAIL });
        call("PUT", ME, whole).expect(403);
        call("POST", ORGANIZATIONS, json!({ "name": "Eve's" })).expect(403);
        let wider = json!({ "label": "wider", "scopes": ["*"] });
        call("POST", "/api/personal_api_keys/", wider).expect(403);
        call("GET", ME, json!({})).expect(200);
    }
    assert_eq!(server.get(ME).json()["first_name"], "Admin");
}

fn hogql_in_bodies_requires_query_read_scope(store: Store) {
    let server = store.start();
    let project = "/api/projects/1/";
    let sql = json!({ "kind": "HogQLQuery", "query": HOGQL });
    let expression = json!([{ "type": "hogql", "key": "event = 'x'" }]);
    let behaviour = json!({
        "type": "behavioral", "key": "$pageview", "value": "performed_event",
        "event_type": "events", "time_value": 30, "time_interval": "day",
        "event_filters": expression,
    });
    let tree = json!({ "type": "OR", "values": [{ "type": "AND", "values": [behaviour] }] });
    let tile = json!({ "type": "INSIGHT", "name": "t", "query": sql, "layouts": {} });
    let template = json!({
        "template_name": "t", "dashboard_description": "", "dashboard_filters": {},
        "tiles": [tile],
    });
    let insight = server.post(&format!("{project}insights/"), json!({ "name": "i" }));
    let insight = insight.expect(201).json()["id"].clone();
    let override_ = r#"?filters_override={"properties":[{"type":"hogql","key":"1=1"}]}"#;
    let override_ = override_.replace('"', "%22");
    for (scope, method, path, body) in [
        ("cohort:write", "POST", "cohorts/".into(), json!({ "is_static": true, "query": sql })),
        ("cohort:write", "POST", "cohorts/".into(), json!({ "filters": { "properties": tree } })),
        (
            "cohort:read",
            "POST",
            "cohorts/count/".into(),
            json!({ "filters": { "properties": tree } }),
        ),
        ("insight:write", "POST", "insights/".into(), json!({ "query": sql })),
        ("insight:write", "PATCH", format!("insights/{insight}/"), json!({ "query": sql })),
        ("insight:read", "GET", format!("insights/{insight}/{override_}"), json!({})),
        ("dashboard:read", "GET", format!("dashboards/1/run_insights/{override_}"), json!({})),
        (
            "dashboard:write",
            "POST",
            "dashboards/create_from_template_json/".into(),
            json!({ "template": template }),
        ),
        (
            "dashboard:write",
            "POST",
            "dashboards/".into(),
            json!({ "filters": { "properties": expression } }),
        ),
        (
            "action:write",
            "POST",
            "actions/".into(),
            json!({ "name": "a", "steps": [{ "properties": expression }] }),
        ),
        ("project:write", "PATCH", String::new(), json!({ "test_account_filters": expression })),
    ] {
        let key =
            server.post("/api/personal_api_keys/", json!({ "label": scope, "scopes": [scope] }));
        let key = key.expect(201).json();
        let call = server.call(method, &format!("{project}{path}"));
        let refused = call.key(key["value"].as_str().unwrap()).json(body).send();
        assert_eq!(refused.status, 403, "{scope} {method} {path}: {}", refused.text());
        let detail = "API key missing required scope 'query:read'";
        assert_eq!(refused.json()["detail"], detail, "{scope} {method} {path}");
        server
            .delete(&format!("/api/personal_api_keys/{}/", key["id"].as_str().unwrap()))
            .expect(204);
    }
    let form = format!(
        "--b\r\nContent-Disposition: form-data; name=\"filters\"\r\n\r\n{}\r\n--b--",
        json!({ "properties": tree })
    );
    let upload = |scopes: &[&str]| {
        let call = server.call("POST", "/api/projects/1/cohorts/").key(&server.key(scopes));
        call.header("Content-Type", "multipart/form-data; boundary=b")
            .bytes(form.clone().into_bytes())
            .send()
    };
    upload(&["cohort:write"]).expect(403);
    upload(&["cohort:write", "query:read"]).expect(201);
    let key = server.key(&["cohort:write", "query:read"]);
    let body = json!({ "name": "c", "is_static": true, "query": sql });
    server.call("POST", "/api/projects/1/cohorts/").key(&key).json(body).send().expect(201);
    let key = server.key(&["insight:write"]);
    let trends =
        json!({ "kind": "TrendsQuery", "series": [{ "kind": "EventsNode", "event": "x" }] });
    let call = server.call("POST", "/api/projects/1/insights/").key(&key);
    call.json(json!({ "query": trends })).send().expect(201);
}

fn public_paths_ignore_cookies(store: Store) {
    let server = store.start();
    let browser = log_in(&server, ADMIN_EMAIL, ADMIN_PASSWORD);
    let token = server.get("/api/projects/1/").json()["api_token"].as_str().unwrap().to_owned();
    for path in [format!("/flags/definitions?token={token}"), "/flags/definitions".into()] {
        let call = browser.call("GET", &path).header("Authorization", "Basic x");
        let refused = call.header("Origin", "https://evil.example").send().expect(401);
        assert!(!refused.text().contains("filters"), "{}", refused.text());
    }
    let by_key = server.call("GET", "/flags/definitions").key(PERSONAL_KEY);
    let opened = by_key.header("Origin", "https://evil.example").send().expect(200);
    assert_eq!(opened.header("access-control-allow-credentials"), None);
    // The cookie works on management paths, which have no CORS.
    let own = browser.call("GET", "/api/projects/1/feature_flags/local_evaluation");
    let own = own.header("Origin", "https://evil.example").send().expect(200);
    assert_eq!(own.header("access-control-allow-origin"), None);
}

fn flag_regex_count_is_bounded(store: Store) {
    let server = store.start();
    let flag = |key: &str, patterns: usize, pattern: &str| {
        let properties: Vec<Value> = (0..patterns)
            .map(|nth| {
                let value = format!("{pattern}{nth}$");
                json!({ "key": "email", "type": "person", "operator": "regex", "value": value })
            })
            .collect();
        let filters =
            json!({ "groups": [{ "properties": properties, "rollout_percentage": 100 }] });
        server.post("/api/projects/1/feature_flags/", json!({ "key": key, "filters": filters }))
    };
    flag("few", 100, "^a").expect(201);
    for (key, patterns, pattern, why) in [
        ("many", 2_000, "^a", "more than 100 different ones"),
        ("large", 20, r"^\w{12}", "together they take more than 8 MiB"),
    ] {
        let refused = flag(key, patterns, pattern).expect(400);
        assert!(refused.json()["detail"].as_str().unwrap().contains(why), "{}", refused.text());
    }
}

fn person_with_many_distinct_ids_is_bounded(store: Store) {
    const IDS: usize = 2_600;
    let server = store.start();
    let token = server.get("/api/projects/1/").json()["api_token"].clone();
    let batch: Vec<Value> = (0..IDS)
        .map(|nth| {
            json!({
                "event": "$create_alias", "distinct_id": "u0",
                "properties": { "alias": format!("u{}", nth + 1) },
            })
        })
        .collect();
    let body = json!({ "api_key": token, "batch": batch });
    server.call("POST", "/batch/").no_key().json(body).send().expect(200);
    let persons = "/api/projects/1/persons/";
    let person = || {
        let found = server.get(&format!("{persons}?distinct_id=u0")).expect(200).json();
        found["results"][0].clone()
    };
    let shown = |person: &Value| person["distinct_ids"].as_array().map_or(0, Vec::len);
    let own = format!("{persons}?distinct_id=u0");
    server.wait_until(&own, |found| shown(&found["results"][0]) == 2_500);
    let path = |rest: &str| format!("{persons}{}/{rest}", person()["id"].as_str().unwrap());
    let leaving: Vec<String> = (1..=IDS).map(|nth| format!("u{nth}")).collect();
    let mut all = leaving.clone();
    all.push("u0".into());
    let refused = server.post(&path("split/"), json!({ "distinct_ids_to_split": all })).expect(400);
    assert_eq!(refused.json()["detail"], "One distinct id has to stay.");
    let foreign = json!({ "distinct_ids_to_split": ["u1", "somebody"] });
    let refused = server.post(&path("split/"), foreign).expect(400);
    assert_eq!(refused.json()["detail"], "The person has no distinct id \"somebody\".");
    let endless = json!({ "distinct_ids_to_split": vec!["u1"; 50_001] });
    server.post(&path("split/"), endless).expect(400);
    server.post(&path("split/"), json!({ "distinct_ids_to_split": leaving })).expect(201);
    server.wait_until(&own, |found| shown(&found["results"][0]) == 1);
    let last = format!("{persons}?distinct_id=u{IDS}");
    server.wait_until(&last, |found| shown(&found["results"][0]) == 1);
}
