//! Sharing links: enable, disable, rotate, and what they show.

use serde_json::{Value, json};

use crate::dashboards::crud::{create, insight_on, path};
use crate::harness::{Response, Server, Store, on_both_stores};

on_both_stores! {
    sharing_token_is_stable,
    shared_link_shows_only_its_dashboard,
    shared_pages_have_csp_and_only_embedded_is_framed,
    disabled_sharing_link_is_not_found,
    rotated_sharing_token_is_valid_for_its_grace_period,
    insight_has_its_own_sharing_link,
    sharing_token_reads_only_its_insights,
    settings_are_checked,
}

fn open(server: &Server, path: &str) -> Response {
    server.call("GET", path).no_key().send()
}

fn shared(server: &Server, dashboard: &Value) -> String {
    let on = server.patch(&format!("{}sharing", path(dashboard)), json!({ "enabled": true }));
    on.expect(200).json()["access_token"].as_str().unwrap().to_owned()
}

// contract: management 69, 74
fn sharing_token_is_stable(store: Store) {
    let server = store.start();
    let at = format!("{}sharing", path(&create(&server, json!({}))));
    let reader = server.key(&["sharing_configuration:read"]);
    let first = server.call("GET", &at).key(&reader).send().expect(200).json();
    assert_eq!(server.get(&at).expect(200).json(), first);
    let token = first["access_token"].as_str().unwrap();
    assert_eq!(token.len(), 30);
    assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    for (field, expected) in [
        ("enabled", json!(false)),
        ("settings", json!(null)),
        ("password_required", json!(false)),
        ("share_passwords", json!([])),
    ] {
        assert_eq!(first.get(field), Some(&expected), "{field}");
    }
    assert!(first["created_at"].is_string());
    let body = json!({ "enabled": true });
    server.call("PATCH", &at).key(&reader).json(body).send().expect(403);
    assert_eq!(open(&server, &format!("/shared/{token}")).status, 404);
}

// contract: management 70
fn shared_link_shows_only_its_dashboard(store: Store) {
    let server = store.start();
    let (made, other) =
        (create(&server, json!({ "name": "Ours" })), create(&server, json!({ "name": "Secret" })));
    insight_on(&server, "numbers", &[&made, &other]);
    server.patch(&path(&made), json!({ "tiles": [{ "text": { "body": "a note" } }] })).expect(200);
    let token = shared(&server, &made);
    assert_eq!(server.get(&path(&made)).json()["is_shared"], json!(true));
    assert_eq!(server.get(&path(&other)).json()["is_shared"], json!(false));
    let response = open(&server, &format!("/shared/{token}.json")).expect(200);
    let shown = response.json();
    assert_eq!((&shown["type"], &shown["accessToken"]), (&json!("scene"), &json!(token)));
    let dashboard = &shown["dashboard"];
    assert_eq!((&dashboard["id"], &dashboard["name"]), (&made["id"], &json!("Ours")));
    assert_eq!(dashboard["effective_restriction_level"], 37);
    assert_eq!(dashboard["effective_privilege_level"], 21);
    assert_eq!(dashboard["tiles"].as_array().unwrap().len(), 2);
    for tile in dashboard["tiles"].as_array().unwrap() {
        let insight = &tile["insight"];
        assert!(insight.is_null() || insight["dashboards"] == json!([made["id"]]), "{insight}");
        assert!(insight["hogql"].is_null(), "{insight}");
    }
    let page = open(&server, &format!("/shared/{token}")).expect(200);
    for text in [response.text(), page.text()] {
        assert!(!text.contains('@') && !text.contains("Secret"), "{text}");
        assert!(text.contains("numbers") && text.contains("a note"));
    }
    assert_eq!(
        open(&server, &format!("/embedded/{token}.json")).expect(200).json()["type"],
        "embed"
    );
    for path in [path(&made), path(&other), "/api/projects/1/".into()] {
        let call = server.call("GET", &format!("{path}?sharing_access_token={token}")).no_key();
        call.send().expect(401);
        server.call("GET", &path).key(&token).send().expect(401);
    }
}

// contract: management 71
fn shared_pages_have_csp_and_only_embedded_is_framed(store: Store) {
    let server = store.start();
    let sly = "</script><script>alert(1)</script>";
    let made = create(&server, json!({ "name": sly, "description": sly }));
    let body = json!({ "tiles": [{ "text": { "body": sly } }, { "button_tile": { "url": "/\"x", "text": sly } }] });
    server.patch(&path(&made), body).expect(200);
    let token = shared(&server, &made);
    for (kind, framed) in [("shared", false), ("shared_dashboard", false), ("embedded", true)] {
        for suffix in ["", "/", "?whitelabel=true&noHeader&legend&refresh=true"] {
            let page = open(&server, &format!("/{kind}/{token}{suffix}")).expect(200);
            assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
            assert_eq!(page.header("x-frame-options").is_none(), framed, "{kind}");
            let policy = page.header("content-security-policy").unwrap();
            assert!(policy.starts_with("default-src 'none'"), "{policy}");
            assert!(policy.ends_with(if framed {
                "frame-ancestors *"
            } else {
                "frame-ancestors 'none'"
            }));
            for (header, expected) in [
                ("referrer-policy", "no-referrer"),
                ("x-robots-tag", "noindex, nofollow"),
                ("x-content-type-options", "nosniff"),
                ("cache-control", "no-store"),
            ] {
                assert_eq!(page.header(header), Some(expected), "{header}");
            }
            assert!(page.header("set-cookie").is_none());
            let text = page.text();
            assert!(!text.contains("<script>"), "{text}");
            let (nonce, _) =
                policy.split_once("script-src 'nonce-").unwrap().1.split_once('\'').unwrap();
            // The data and, where the build has the web interface, its script for these pages.
            let own = format!("<script type=\"module\" nonce=\"{nonce}\" src=\"/assets/shared-");
            let scripts = text.matches("<script").count();
            assert_eq!(scripts - text.matches(&own).count(), 1, "{text}");
            assert!(scripts <= 2 && policy.contains("connect-src 'none'"), "{policy}");
            let (_, data) = text.split_once("id=\"POSTHOG_EXPORTED_DATA\">").unwrap();
            let data: Value =
                serde_json::from_str(data.split("</script>").next().unwrap()).unwrap();
            assert_eq!(data["dashboard"]["name"], sly);
            assert_eq!(text.contains("<footer>"), !suffix.contains("whitelabel"));
            assert_eq!(text.contains("<h1>"), !suffix.contains("noHeader"));
        }
    }
}

// contract: management 72
fn disabled_sharing_link_is_not_found(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let token = shared(&server, &made);
    let nothing = |token: &str| {
        let page = open(&server, &format!("/shared/{token}")).expect(404);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        open(&server, &format!("/embedded/{token}")).expect(404);
        let json = open(&server, &format!("/shared/{token}.json")).expect(404);
        assert_eq!(json.error(), "invalid_request not_found -");
    };
    let at = format!("{}sharing", path(&made));
    let set = |body: Value| server.patch(&at, body).expect(200);
    open(&server, &format!("/shared/{token}")).expect(200);
    set(json!({ "enabled": false }));
    nothing(&token);
    set(json!({ "enabled": true }));
    server.patch(&path(&made), json!({ "deleted": true })).expect(200);
    nothing(&token);
    server.patch(&path(&made), json!({ "deleted": false })).expect(200);
    open(&server, &format!("/shared/{token}")).expect(200);
    let organization = "/api/organizations/@current/";
    server.patch(organization, json!({ "allow_publicly_shared_resources": false })).expect(200);
    nothing(&token);
    let refuse = || {
        let refused = server.patch(&at, json!({ "enabled": true })).expect(403);
        assert_eq!(refused.json()["detail"], "Public sharing is disabled for this organization.");
    };
    refuse();
    set(json!({ "settings": { "legend": true } }));
    set(json!({ "enabled": false, "settings": null }));
    refuse();
    open(&server, &format!("/shared/{token}.png")).expect(404);
    for odd in ["x", "..", "%00", "%ff", &"a".repeat(30), &"a".repeat(5_000)] {
        open(&server, &format!("/shared/{odd}")).expect(404);
    }
    let log = server.get(&format!("{}activity", path(&made))).json();
    let told: Vec<&str> = log["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["activity"].as_str().unwrap())
        .collect();
    assert_eq!(&told[..4], ["updated", "sharing disabled", "updated", "restored"]);
}

// contract: management 73
fn rotated_sharing_token_is_valid_for_its_grace_period(store: Store) {
    for (grace, old_works) in [("300", 200), ("0", 404)] {
        let server = store.start_with(&[("HEDGEROW_SHARING_GRACE_SECONDS", grace)]);
        let made = create(&server, json!({}));
        let old = shared(&server, &made);
        let at = format!("{}sharing/refresh", path(&made));
        let renewed = server.post(&at, json!({})).expect(200).json();
        let new = renewed["access_token"].as_str().unwrap();
        assert_ne!(new, old);
        assert_eq!(renewed["enabled"], json!(true));
        open(&server, &format!("/shared/{new}")).expect(200);
        assert_eq!(open(&server, &format!("/shared/{old}")).status, old_works, "{grace}");
        assert!(!server.output().contains(new));
        // Rotated again within the grace period: each token has its own.
        let newest = server.post(&at, json!({})).expect(200).json();
        let newest = newest["access_token"].as_str().unwrap();
        open(&server, &format!("/shared/{newest}")).expect(200);
        for token in [new, &old] {
            assert_eq!(open(&server, &format!("/shared/{token}")).status, old_works, "{grace}");
        }
        server.patch(&format!("{}sharing", path(&made)), json!({ "enabled": false })).expect(200);
        for token in [newest, new, &old] {
            open(&server, &format!("/shared/{token}")).expect(404);
        }
    }
}

fn insight_has_its_own_sharing_link(store: Store) {
    let server = store.start();
    let made = create(&server, json!({}));
    let insight = insight_on(&server, "numbers", &[&made]);
    let at = format!("/api/projects/1/insights/{}/sharing", insight["short_id"].as_str().unwrap());
    let on = server.patch(&at, json!({ "enabled": true })).expect(200).json();
    let token = on["access_token"].as_str().unwrap();
    let shown = open(&server, &format!("/shared/{token}.json")).expect(200).json();
    assert_eq!(
        (&shown["insight"]["name"], &shown["insight"]["dashboards"]),
        (&json!("numbers"), &json!([]))
    );
    assert_eq!((&shown["insight"]["created_by"], shown.get("dashboard")), (&json!(null), None));
    assert!(open(&server, &format!("/shared/{token}")).expect(200).text().contains("numbers"));
    assert_eq!(server.get(&path(&made)).json()["is_shared"], json!(false));
    server.post(&format!("{at}/refresh"), json!({})).expect(200);
}

fn settings_are_checked(store: Store) {
    let server = store.start();
    let at = format!("{}sharing", path(&create(&server, json!({}))));
    let sent = json!({ "settings": { "whitelabel": true, "theme": "dark", "nonsense": 1 } });
    let shown = server.patch(&at, sent).expect(200).json();
    assert_eq!(shown["settings"], json!({ "whitelabel": true, "theme": "dark" }));
    for settings in [json!([]), json!("x"), json!({ "theme": "pink" }), json!({ "legend": "yes" })]
    {
        let refused = server.patch(&at, json!({ "settings": settings })).expect(400);
        assert_eq!(refused.error(), "validation_error invalid_input settings");
        assert_eq!(refused.json()["detail"], "Invalid settings format");
    }
    let refused = server.patch(&at, json!({ "password_required": true })).expect(403).json();
    assert_eq!(refused["error"], "Sharing with password requires the Advanced Permissions feature");
    assert_eq!(server.get(&at).json()["settings"], shown["settings"]);
    assert_eq!(
        server.patch(&at, json!({ "settings": null })).expect(200).json()["settings"],
        json!(null)
    );
}

/// Management 7.3: `sharing_access_token` opens what the link shows, to read.
fn sharing_token_reads_only_its_insights(store: Store) {
    const INSIGHTS: &str = "/api/projects/1/insights/";
    let server = store.start();
    let (made, other) = (create(&server, json!({})), create(&server, json!({})));
    let both = insight_on(&server, "both", &[&made, &other]);
    let own = insight_on(&server, "own", &[&made]);
    let hidden = insight_on(&server, "hidden", &[&other]);
    let token = shared(&server, &made);
    let ask = |method: &str, path: &str, token: &str| {
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}sharing_access_token={token}");
        server.call(method, &path).no_key().send()
    };
    let get = |path: &str| ask("GET", path, &token);
    let names = |listing: Value| -> Vec<String> {
        let results = listing["results"].as_array().unwrap().clone();
        results.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    let one = |insight: &Value| format!("{INSIGHTS}{}/", insight["id"]);
    let listing = get(INSIGHTS).expect(200).json();
    assert_eq!(listing["count"], 2);
    assert_eq!(names(listing), ["both", "own"]);
    let short = format!("{INSIGHTS}?short_id={}", own["short_id"].as_str().unwrap());
    assert_eq!(names(get(&short).expect(200).json()), ["own"]);
    let short = format!("{INSIGHTS}?short_id={}", hidden["short_id"].as_str().unwrap());
    assert_eq!(get(&short).expect(200).json()["count"], 0);
    for path in [INSIGHTS.to_owned(), one(&both), "/api/projects/@current/insights/".into()] {
        let response = get(&path).expect(200);
        assert!(!response.text().contains('@'), "nobody's name: {}", response.text());
        assert_eq!(ask("HEAD", &path, &token).expect(200).text(), "");
    }
    let seen = get(&one(&both)).expect(200).json();
    assert_eq!(
        (&seen["dashboards"], &seen["effective_privilege_level"]),
        (&json!([made["id"]]), &json!(21))
    );
    get(&one(&hidden)).expect(404);
    // Fields that would reveal the author or other dashboards.
    for query in ["created_by=1", "user=1", "favorited=true", "search=h", "order=-created_by"] {
        get(&format!("{INSIGHTS}?{query}")).expect(400);
    }
    get(&format!("{INSIGHTS}?dashboards=[{}]", other["id"])).expect(400);
    get(&format!("{}?from_dashboard={}", one(&both), other["id"])).expect(400);
    for (method, path) in [
        ("POST", INSIGHTS.to_owned()),
        ("PATCH", one(&own)),
        ("DELETE", one(&own)),
        ("GET", format!("{}activity/", one(&own))),
        ("GET", format!("{INSIGHTS}my_last_viewed/")),
        ("GET", path(&made)),
    ] {
        assert_eq!(ask(method, &path, &token).status, 401, "{method} {path}");
    }
    // With a key the key takes precedence; a link opens no other project.
    let listing =
        server.get(&format!("{INSIGHTS}?sharing_access_token={token}")).expect(200).json();
    assert_eq!(listing["count"], 3);
    let second = server.post("/api/projects/", json!({ "name": "two" })).expect(201).json();
    get(&format!("/api/projects/{}/insights/", second["id"])).expect(403);
    get("/api/projects/987654/insights/").expect(404);
    for wrong in ["", "x", &"a".repeat(30)] {
        assert_eq!(ask("GET", INSIGHTS, wrong).status, 401, "{wrong}");
    }

    let on = server.patch(&format!("{}sharing", one(&hidden)), json!({ "enabled": true }));
    let alone = on.expect(200).json()["access_token"].as_str().unwrap().to_owned();
    assert_eq!(names(ask("GET", INSIGHTS, &alone).expect(200).json()), ["hidden"]);
    let seen = ask("GET", &one(&hidden), &alone).expect(200).json();
    assert_eq!(seen["dashboards"], json!([]));
    ask("GET", &one(&own), &alone).expect(404);

    let off = json!({ "enabled": false });
    server.patch(&format!("{}sharing", path(&made)), off).expect(200);
    get(INSIGHTS).expect(401);
}
