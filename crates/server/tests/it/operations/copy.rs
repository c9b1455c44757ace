//! `hedgerow copy`: between two servers, and from answers in PostHog's shapes.

mod posthog;
mod scripted;
mod seeded;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{ADMIN_EMAIL, PERSONAL_KEY, Process, Request, Server, Store};
use posthog::{KEY, Unreliable};
use scripted::{Answer, Scripted};
use seeded::{counts, events, find, objects, seed};

const SCOPES: [&str; 11] = [
    "project",
    "feature_flag",
    "cohort",
    "action",
    "event_definition",
    "property_definition",
    "annotation",
    "insight",
    "dashboard",
    "group",
    "person",
];

/// Runs the command, with the files that it needs.
struct Copy {
    dir: TempDir,
    from: String,
    project: &'static str,
    to: String,
}

struct Ran {
    code: i32,
    printed: String,
    logged: String,
}

impl Copy {
    fn new(from: String, project: &'static str, key: &str, to: String) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("from"), format!("{key}\n")).unwrap();
        std::fs::write(dir.path().join("to"), PERSONAL_KEY).unwrap();
        Self { dir, from, project, to }
    }

    fn between(from: &Server, to: &Server) -> Self {
        let base = |server: &Server| format!("http://{}", server.address());
        Self::new(base(from), "1", PERSONAL_KEY, base(to))
    }

    /// With keys that may do what docs/OPERATING.md says, and nothing else.
    fn with_scoped_keys(self, source: &Server, target: &Server) -> Self {
        let scopes = |access: &str| SCOPES.map(|object| format!("{object}:{access}")).join(",");
        let keys = [
            (source, "from", scopes("read")),
            (target, "to", format!("{},query:read", scopes("write"))),
        ];
        for (server, file, scopes) in keys {
            let create = ["admin", "create-key", "--email", ADMIN_EMAIL, "--scopes", &scopes];
            let (ok, printed, logged) = server.instance().run(&create);
            assert!(ok, "{logged}");
            std::fs::write(self.file(file), printed.split_whitespace().last().unwrap()).unwrap();
        }
        self
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, server: &Server, more: &[&str]) -> Process {
        let file = |name| self.file(name).display().to_string();
        let mut command = server.instance().command(&["copy", "--project", self.project]);
        command.args(["--from", &self.from, "--personal-api-key-file", &file("from")]);
        command.args(["--to", &self.to, "--to-personal-api-key-file", &file("to")]);
        if !more.contains(&"--check") {
            command.args(["--state", &file("state")]);
        }
        command.args(more);
        Process::start(command)
    }

    fn run(&self, server: &Server, more: &[&str]) -> Ran {
        let mut process = self.start(server, more);
        let code = process.wait().code().unwrap();
        let ran = Ran { code, printed: process.printed(), logged: process.logged() };
        for key in [KEY, PERSONAL_KEY] {
            assert!(!process.output().contains(key), "{}", process.output());
        }
        ran
    }

    /// Copies everything without a complaint.
    fn expect_all(&self, server: &Server) -> String {
        let Ran { code, printed, logged } = self.run(server, &[]);
        assert_eq!(code, 0, "{printed}\n{logged}");
        printed
    }
}

impl Ran {
    fn says(&self, words: &str) -> &Self {
        assert!(
            self.printed.contains(words),
            "no \"{words}\" in:\n{}\n{}",
            self.printed,
            self.logged
        );
        self
    }
}

/// Two servers with the same events; the target has objects of its own, so that ids differ.
fn seeded() -> (Server, Server) {
    let (source, target) = (Store::Sqlite.start(), Store::Sqlite.start());
    seed(&source);
    for name in ["own one", "own two", "own three"] {
        let own = json!({"name": name, "is_static": true});
        target.post("/api/projects/1/cohorts/", own).expect(201);
        target.post("/api/projects/1/actions/", json!({"name": name})).expect(201);
        target.post("/api/projects/1/dashboards/", json!({"name": name})).expect(201);
        let filters = json!({"groups": [{}]});
        let flag = json!({"key": name.replace(' ', "-"), "active": false, "filters": filters});
        target.post("/api/projects/1/feature_flags/", flag).expect(201);
    }
    target.ingest(&events());
    (source, target)
}

#[test]
fn copied_project_has_the_same_objects_and_flag_values() {
    let (source, target) = seeded();
    let copy = Copy::between(&source, &target).with_scoped_keys(&source, &target);
    let printed = copy.expect_all(&target);
    let copied = objects(&target);
    for (kind, sources) in objects(&source) {
        let here = &copied.iter().find(|(other, _)| *other == kind).unwrap().1;
        for object in sources {
            assert!(here.contains(&object), "{kind} here lack {object:#}\n{printed}");
        }
    }
    // References, by name.
    let chain = find(&target, "cohorts", "name", "chain 11");
    let previous = find(&target, "cohorts", "name", "chain 10");
    let members = &chain["filters"]["properties"]["values"][0]["values"];
    assert_eq!(members[0]["value"], previous["id"]);
    let flag = find(&target, "feature_flags", "key", "depends-5");
    let on = find(&target, "feature_flags", "key", "depends-4");
    assert_eq!(flag["filters"]["groups"][0]["properties"][0]["key"], on["id"].to_string());
    let sql = find(&target, "insights", "name", "sql");
    let query = sql["query"]["source"]["query"].as_str().unwrap();
    assert!(query.contains(&format!("in cohort {}", previous["id"])), "{query}");
    // The flags of users, whatever decides them.
    let checked = copy.run(&target, &["--check", "--sample", "120"]);
    assert_eq!(checked.code, 0, "{}\n{}", checked.printed, checked.logged);
    checked.says("19 flags of 120 users: 0 values differ");
    // A difference that somebody made.
    let patch = json!({"filters": {"groups": [{"properties": [], "rollout_percentage": 0}]}});
    target.patch(&format!("/api/projects/1/feature_flags/{}/", on["id"]), patch).expect(200);
    let checked = copy.run(&target, &["--check", "--sample", "5"]);
    assert_eq!(checked.code, 3);
    checked.says("depends-4: true at the source, false here");
}

#[test]
fn copy_again_takes_over_changes_and_doubles_nothing() {
    let (source, target) = seeded();
    let copy = Copy::between(&source, &target);
    copy.expect_all(&target);
    let before = counts(&target);
    let printed = copy.expect_all(&target);
    for line in printed.lines().skip(1).filter(|line| !line.starts_with("note")) {
        let numbers: Vec<&str> = line.split_whitespace().rev().take(4).collect();
        assert_eq!((numbers[3], numbers[2], numbers[0]), ("0", "0", "0"), "{printed}");
    }
    // Edits here stay, changes there are taken over.
    let edited = find(&target, "cohorts", "name", "did it");
    let path = format!("/api/projects/1/cohorts/{}/", edited["id"]);
    target.patch(&path, json!({"description": "edited here"})).expect(200);
    let changed = find(&source, "cohorts", "name", "chain 4");
    let path = format!("/api/projects/1/cohorts/{}/", changed["id"]);
    source.patch(&path, json!({"name": "renamed there"})).expect(200);
    copy.expect_all(&target);
    assert_eq!(find(&target, "cohorts", "name", "did it")["description"], "edited here");
    find(&target, "cohorts", "name", "renamed there");
    assert_eq!(counts(&target), before);
    // Without the file that remembers, equal objects are recognized.
    std::fs::remove_file(copy.file("state")).unwrap();
    let again = copy.run(&target, &[]);
    assert_eq!(again.code, 0, "{}\n{}", again.printed, again.logged);
    let mut after = counts(&target);
    // The one that was edited here is another one now.
    assert_eq!(after.insert("cohorts".into(), before["cohorts"]), Some(before["cohorts"] + 1));
    assert_eq!(after, before);
}

#[test]
fn killed_copy_goes_on_where_it_stopped() {
    let (source, target) = seeded();
    let whole = Copy::between(&source, &target);
    let copy = Copy::between(&source, &target);
    for done in [1, 25, 50] {
        let process = copy.start(&target, &[]);
        let words = format!("writing objects: {done} of");
        // The last ones may be over before they are killed.
        let _ = process.wait_for(if done == 1 { "writing event definitions" } else { &words });
        process.signal("KILL");
    }
    copy.expect_all(&target);
    let after = counts(&target);
    // Nothing is left to do for a copy that remembers nothing.
    whole.expect_all(&target);
    assert_eq!(counts(&target), after);
}

/// A relay to the target that loses every seventh answer of a write after it was carried out.
fn lossy(target: &Server) -> Scripted {
    let (address, writes) = (target.address(), AtomicUsize::new(0));
    Scripted::start(move |received| {
        let mut request = Request::new(address, &received.method, &received.path);
        for header in &received.headers {
            let (name, value) = header.split_once(": ").unwrap();
            if ["authorization", "content-type"].contains(&name) {
                // The log of requests is in lower case.
                let value = value.replace("bearer", "Bearer");
                request = request.header(name, &value);
            }
        }
        let response = request.bytes(received.body.clone()).send();
        let is_write = received.method != "GET";
        if is_write && writes.fetch_add(1, Ordering::Relaxed) % 7 == 6 {
            return Answer::status(502, "");
        }
        Answer { status: response.status, headers: "", body: response.body }
    })
}

#[test]
fn lost_answers_double_nothing() {
    let project = posthog::project();
    let source = Scripted::start(move |received| posthog::answer(&project, received));
    let (direct, relayed) = (Store::Sqlite.start(), Store::Sqlite.start());
    let lossy = lossy(&relayed);
    let plain = Copy::new(source.base(), "7", KEY, format!("http://{}", direct.address()));
    let through = Copy::new(source.base(), "7", KEY, lossy.base());
    assert_eq!(plain.run(&direct, &[]).code, 3);
    let ran = through.run(&relayed, &[]);
    assert_eq!(ran.code, 3, "{}\n{}", ran.printed, ran.logged);
    assert_eq!(counts(&relayed), counts(&direct), "{}\n{}", ran.printed, ran.logged);
}

#[test]
fn posthog_project_is_copied_and_what_cannot_be_is_reported() {
    let (project, unreliable) = (posthog::project(), Unreliable::default());
    let source = Scripted::start(move |received| {
        unreliable.refusal(received).unwrap_or_else(|| posthog::answer(&project, received))
    });
    let target = Store::Sqlite.start();
    let copy = Copy::new(source.base(), "7", KEY, format!("http://{}", target.address()));
    let ran = copy.run(&target, &[]);
    assert_eq!(ran.code, 3, "{}\n{}", ran.printed, ran.logged);
    for words in [
        "feature flag 45 \"sealed\": its payloads are encrypted",
        "feature flag 47 \"behavioural\": status 400: filters: Cohorts with behavioral conditions",
        "cohort 504 \"Chicken\": it refers to itself, directly or through others",
        "cohort 505 \"Egg\": it refers to itself",
        "insight 804 \"Lost cohort\": it refers to cohort 506, which is not here",
        "annotation 63 \"Look here\": status 400: scope",
        "tile 1004: it shows neither an insight nor a text nor a button",
        "group type 1 \"team\": it has no groups",
        "members of cohort 502 \"Staff\": 2 of 2 are no persons here yet",
        "property definition type=event/coupon \"coupon\": nothing that was ingested here has it",
        "note: whoever used the flags new-checkout before logging in may get another value",
    ] {
        ran.says(words);
    }
    assert_eq!(ran.printed.matches("not taken: ").count(), 10, "{}", ran.printed);
    assert!(ran.logged.contains("status 429; next attempt in 0ns"), "{}", ran.logged);
    assert!(ran.logged.contains("status 500; next attempt in 500ms"), "{}", ran.logged);
    // The key goes to no other host, and only as a header.
    let received = source.received();
    assert!(
        received.iter().all(|request| request.path.starts_with("/api/") && request.body.is_empty())
    );
    posthog_objects_are_here(&target);
    // The events come later; another copy takes what waited for them.
    target.ingest(&[
        json!({"event": "ordered", "distinct_id": "anna", "properties": {"coupon": "X"}}),
        json!({"event": "ordered", "distinct_id": "bert"}),
    ]);
    let before = counts(&target);
    let again = copy.run(&target, &[]);
    assert_eq!(again.printed.matches("not taken: ").count(), 8, "{}", again.printed);
    assert_eq!(find(&target, "cohorts", "name", "Staff")["count"], 2);
    assert_eq!(counts(&target), before);
}

fn posthog_objects_are_here(target: &Server) {
    let flag = find(target, "feature_flags", "key", "new-checkout");
    let base = find(target, "feature_flags", "key", "base");
    let germans = find(target, "cohorts", "name", "Germans");
    let groups = &flag["filters"]["groups"];
    assert_eq!(groups[0]["properties"][0]["key"], base["id"].to_string());
    assert_eq!(groups[1]["properties"][0]["value"], germans["id"]);
    assert_eq!(flag["filters"]["holdout"], json!({"id": 3, "exclusion_percentage": 5}));
    assert_eq!(flag["filters"]["payloads"]["test"], "{\"colour\": \"blue\"}");
    assert_eq!(flag["ensure_experience_continuity"], true);
    assert_eq!(flag["evaluation_contexts"], json!(["web"]));
    let beta = find(target, "feature_flags", "key", "beta");
    assert_eq!(beta["filters"]["feature_enrollment"], true);
    let archived = target.get("/api/projects/1/feature_flags/?archived=true").expect(200).json();
    assert_eq!(archived["results"][0]["key"], "old");
    let action = find(target, "actions", "name", "Bought");
    let loyal = find(target, "cohorts", "name", "Loyal");
    let conditions = &loyal["filters"]["properties"]["values"][0]["values"];
    assert_eq!((&conditions[0]["key"], &conditions[1]["value"]), (&action["id"], &germans["id"]));
    let orders = find(target, "insights", "name", "Orders");
    let source = &orders["query"]["source"];
    assert_eq!(source["series"][0]["id"], action["id"]);
    assert_eq!(source["breakdownFilter"]["breakdown"], json!([germans["id"], "all"]));
    let sql = find(target, "insights", "name", "By hand");
    let statement = sql["query"]["source"]["query"].as_str().unwrap();
    let expected = format!("in cohort {} and event != 'in cohort 501'", germans["id"]);
    assert!(statement.ends_with(&expected), "{statement}");
    let board = find(target, "dashboards", "name", "Shop");
    let board =
        target.get(&format!("/api/projects/1/dashboards/{}/", board["id"])).expect(200).json();
    let tiles = board["tiles"].as_array().unwrap();
    let names: Value = tiles.iter().map(|tile| tile["insight"]["name"].clone()).collect();
    assert_eq!(names, json!(["Orders", "By hand", null]));
    assert_eq!((&tiles[0]["color"], &tiles[1]["layouts"]["sm"]["x"]), (&json!("blue"), &json!(6)));
    assert_eq!(tiles[2]["text"]["body"], "# Read me\nfirst");
    let project = target.get("/api/projects/1/").expect(200).json();
    let staff = find(target, "cohorts", "name", "Staff");
    assert_eq!(project["timezone"], "Europe/Berlin");
    assert_eq!(project["test_account_filters"][0]["value"], staff["id"]);
    assert_eq!(project["primary_dashboard"], board["id"]);
    assert_eq!(project["session_recording_opt_in"], false);
    let groups = target.get("/api/projects/1/groups_types/").expect(200).json();
    assert_eq!(
        (&groups[0]["group_type"], &groups[0]["name_plural"]),
        (&json!("company"), &json!("Companies"))
    );
    let notes = target.get("/api/projects/1/annotations/").expect(200).json();
    assert!(
        notes["results"]
            .as_array()
            .unwrap()
            .iter()
            .any(|note| note["dashboard_item"] == orders["id"])
    );
    let defined = "/api/projects/1/event_definitions/by_name/?name=ordered";
    assert_eq!(target.get(defined).expect(200).json()["description"], "A paid order");
}

#[test]
fn wrong_keys_projects_and_arguments_are_named() {
    let project = posthog::project();
    let source =
        Scripted::start(move |received| match received.path.starts_with("/api/projects/8/") {
            true => Answer::status(302, "Location: https://elsewhere.example/\r\n"),
            false => posthog::answer(&project, received),
        });
    let target = Store::Sqlite.start();
    let to = format!("http://{}", target.address());
    for (from, project, key, more, code, words) in [
        (source.base(), "7", "phx_wrong", &[] as &[&str], 1, "status 401: scripted"),
        (source.base(), "9", KEY, &[], 1, "/api/projects/9/: status 404"),
        (source.base(), "8", KEY, &[], 1, "redirects to https://elsewhere.example/"),
        (source.base(), "7", "two words", &[], 1, "a personal API key is one word"),
        ("posthog.example".into(), "7", KEY, &[], 1, "is no address such as"),
        (source.base(), "../7", KEY, &[], 1, "the id of a project is a number"),
        (source.base(), "7", KEY, &["--sample", "5"], 2, "--check"),
        (source.base(), "7", KEY, &["--check", "--sample", "0"], 2, "--sample"),
    ] {
        let ran = Copy::new(from, project, key, to.clone()).run(&target, more);
        assert_eq!(ran.code, code, "{words}: {}", ran.logged);
        assert!(ran.logged.contains(words), "no \"{words}\" in {}", ran.logged);
    }
}
