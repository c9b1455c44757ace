//! Unmodified posthog-js in Chromium on a website of another origin; only its host is configured. The
//! visit is scripted in `compat/browser.mjs`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testing::test_deps;

use crate::harness::{Instance, Server, Store};

/// How the website includes the SDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sdk {
    /// The script that this server serves.
    Snippet,
    /// The same version from npm.
    Npm,
    /// No event ids, form bodies, `/decide`.
    Npm57,
    /// Event ids, `/decide`.
    Npm130,
}

impl Sdk {
    fn name(self) -> &'static str {
        match self {
            Self::Snippet => "snippet",
            Self::Npm => "posthog-js",
            Self::Npm57 => "posthog-js-1-57",
            Self::Npm130 => "posthog-js-1-130",
        }
    }

    fn is_current(self) -> bool {
        matches!(self, Self::Snippet | Self::Npm)
    }

    fn begin(self, server: &Server, journey: &str) -> Child {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../compat/browser.mjs");
        let mut command = Command::new("node");
        command.arg(script).arg(format!("http://{}", server.address())).arg(journey);
        command.arg(self.name()).current_dir(test_deps());
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        piped.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A complete visit without failures.
    fn travel(self, server: &Server, journey: &str) -> Value {
        let output = self.begin(server, journey).wait_with_output().unwrap();
        let logged = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {journey}: {logged}");
        let printed = String::from_utf8(output.stdout).unwrap();
        let said = self.undisturbed(printed.lines().last().unwrap_or_default());
        assert_eq!(said["interrupted"], json!([]), "{self:?} {journey}");
        said["answer"].clone()
    }

    /// The report of a visit: an empty console and no failed request.
    fn undisturbed(self, line: &str) -> Value {
        let said: Value = serde_json::from_str(line).unwrap();
        assert_eq!(said["console"], json!([]), "{self:?}");
        assert_eq!(said["failed"], json!([]), "{self:?}");
        said
    }
}

/// False if the build has no script to serve; an error in CI.
fn serves_the_script(server: &Server) -> bool {
    let found = server.call("GET", "/static/array.js").no_key().send().status == 200;
    assert!(found || std::env::var_os("CI").is_none(), "tools/fetch-assets was not run");
    if !found {
        println!("skipped: no script under /static (tools/fetch-assets brings it)");
    }
    found
}

/// All events, by name, the latest first.
fn listed(server: &Server) -> BTreeMap<String, Vec<Value>> {
    server.wait_until_applied();
    let listing = server.get("/api/projects/1/events/?limit=1000").expect(200).json();
    let mut events = BTreeMap::<String, Vec<Value>>::new();
    for event in listing["results"].as_array().unwrap() {
        events.entry(event["event"].as_str().unwrap().to_owned()).or_default().push(event.clone());
    }
    events
}

fn counts(events: &BTreeMap<String, Vec<Value>>) -> BTreeMap<&str, usize> {
    events.iter().map(|(name, found)| (name.as_str(), found.len())).collect()
}

/// A visit that uses the SDK's common features.
fn becomes_facts(sdk: Sdk, journey: &str, sent: &[&str]) {
    let server = Store::Sqlite.start();
    if sdk == Sdk::Snippet && !serves_the_script(&server) {
        return;
    }
    let response = sdk.travel(&server, journey);
    assert_eq!(response["known"], json!({ "id": "anna", "seen": 1 }), "{sdk:?} {journey}");
    let used = response["sent"].as_array().unwrap();
    for request in sent {
        assert!(used.contains(&json!(request)), "{sdk:?} {journey}: {request} not in {used:?}");
    }

    let events = listed(&server);
    let expected = BTreeMap::from([
        ("$autocapture", 1),
        ("$create_alias", 1),
        ("$groupidentify", 1),
        ("$identify", 1),
        ("$pageleave", 2),
        ("$pageview", 2),
        ("asked early", 2),
        ("bought", 1),
        ("looked", 1),
        ("themed", 1),
    ]);
    assert_eq!(counts(&events), expected, "{sdk:?} {journey}");
    let first = |name: &str| events[name].last().unwrap()["properties"].clone();
    for name in ["$pageview", "$pageleave"] {
        let paths: Vec<&Value> =
            events[name].iter().map(|event| &event["properties"]["$pathname"]).collect();
        assert_eq!(paths, ["/thanks", "/shop"], "{sdk:?} {journey}: {name}");
    }
    let landing = first("$pageview");
    assert_eq!(landing["$lib"], "web", "{sdk:?} {journey}");
    assert_eq!(landing["$browser"], "Chrome", "{sdk:?} {journey}");
    assert_eq!(landing["utm_source"], "letter", "{sdk:?} {journey}");
    assert_eq!(events["looked"][0]["distinct_id"], response["anonymous"], "{sdk:?} {journey}");
    assert_eq!(first("looked")["page"], "/", "{sdk:?} {journey}");
    assert_eq!(first("looked").get("theme"), None, "{sdk:?} {journey}");
    assert_eq!(first("themed")["theme"], "dark", "{sdk:?} {journey}");
    assert_eq!(first("bought").get("theme"), None, "{sdk:?} {journey}");
    assert_eq!(first("bought")["seen"], 1, "{sdk:?} {journey}");
    assert_eq!(first("bought")["amount"], 9.5, "{sdk:?} {journey}");
    assert_eq!(first("bought")["$groups"], json!({ "company": "acme" }), "{sdk:?} {journey}");

    // Autocapture: the browser names the elements, the pipeline parses and serializes the chain.
    let click = &events["$autocapture"][0];
    assert_eq!(click["properties"]["$event_type"], "click", "{sdk:?} {journey}");
    let (button, around) = (&click["elements"][0], &click["elements"][1]);
    for (name, value) in [
        ("tag_name", json!("button")),
        ("attr_class", json!(["btn", "primary"])),
        ("attr_id", json!("buy")),
        ("nth_child", json!(1)),
        ("text", json!("Buy now")),
    ] {
        assert_eq!(button[name], value, "{sdk:?} {journey}: {click}");
    }
    assert_eq!(around["attr_class"], json!(["big", "wrap"]), "{sdk:?} {journey}: {click}");

    let persons = server.get("/api/projects/1/persons/").expect(200).json();
    let [person] = &persons["results"].as_array().unwrap()[..] else { panic!("{persons}") };
    let ids = person["distinct_ids"].as_array().unwrap();
    assert_eq!(ids.len(), 3, "{sdk:?} {journey}: {person}");
    for id in [&response["anonymous"], &json!("anna"), &json!("laptop")] {
        assert!(ids.contains(id), "{sdk:?} {journey}: {id} not in {ids:?}");
    }
    let known = &person["properties"];
    assert_eq!(known["plan"], "paid", "{sdk:?} {journey}");
    assert_eq!(known["first"], 1, "{sdk:?} {journey}");
    assert_eq!(known["$initial_utm_source"], "letter", "{sdk:?} {journey}");
    let theirs = format!(
        "/api/projects/1/events/?limit=1000&person_id={}",
        person["uuid"].as_str().unwrap()
    );
    let theirs = server.get(&theirs).expect(200).json();
    let all = events.values().map(Vec::len).sum::<usize>();
    assert_eq!(theirs["results"].as_array().unwrap().len(), all, "{sdk:?} {journey}");
    let group = "/api/projects/1/groups/find/?group_type_index=0&group_key=acme";
    let group = server.get(group).expect(200).json();
    assert_eq!(group["group_properties"], json!({ "seats": 12 }), "{sdk:?} {journey}");
}

// contract: ingestion 30, 31, 33, 86, 97, 106, 112, 113, 135
#[test]
fn browser_snippet_visit_is_ingested() {
    let sent = [
        "GET /static/array.js script - -",
        "GET /array/phc_test/config.js script - -",
        "POST /e/ fetch text/plain -",
        "POST /i/v0/e/ fetch text/plain -",
        "POST /flags/ fetch text/plain -",
    ];
    becomes_facts(Sdk::Snippet, "visit", &sent);
}

#[test]
fn browser_package_visit_is_ingested() {
    becomes_facts(Sdk::Npm, "visit", &["POST /i/v0/e/ fetch text/plain -"]);
}

// contract: ingestion 27
#[test]
fn browser_visit_without_compression_is_ingested() {
    becomes_facts(Sdk::Npm, "uncompressed", &["POST /i/v0/e/ fetch application/json -"]);
}

#[test]
fn browser_visit_without_batches_is_ingested() {
    becomes_facts(Sdk::Npm, "at once", &["POST /i/v0/e/ fetch text/plain -"]);
}

#[test]
fn browser_visit_over_xhr_is_ingested() {
    becomes_facts(Sdk::Npm, "xhr", &["POST /i/v0/e/ xhr text/plain -"]);
}

// contract: ingestion 35, 36, 97, 112, 134
#[test]
fn browser_package_of_2023_visit_is_ingested() {
    let sent = [
        "POST /decide/ xhr application/x-www-form-urlencoded -",
        "POST /e/ xhr application/x-www-form-urlencoded -",
        "POST /e/ xhr text/plain gzip-js",
    ];
    becomes_facts(Sdk::Npm57, "visit", &sent);
}

// contract: ingestion 35, 36, 97, 112, 135
#[test]
fn browser_package_of_2024_visit_is_ingested() {
    let sent = [
        "POST /decide/ xhr application/x-www-form-urlencoded base64",
        "POST /i/v0/e/ xhr text/plain gzip-js",
    ];
    becomes_facts(Sdk::Npm130, "visit", &sent);
}

/// The tests above compare the script and the package only if their versions are equal.
#[test]
fn browser_script_and_package_have_one_version() {
    let read = |path: PathBuf| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
    };
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let [served, tested] = ["assets/npm", "tools/sdks"]
        .map(|dir| read(root.join(dir).join("package.json"))["dependencies"].clone());
    assert_eq!(served["posthog-js"], tested["posthog-js"]);
}

fn create_flags(server: &Server) {
    server.ingest(&[json!({ "event": "$groupidentify", "distinct_id": "seed", "properties": {
        "$group_type": "company", "$group_key": "acme", "$group_set": { "seats": 12 } } })]);
    let everybody = json!({ "properties": [], "rollout_percentage": 100 });
    let pro = json!({ "key": "plan", "type": "person", "value": "pro", "operator": "exact" });
    let large = json!({ "key": "seats", "type": "group", "group_type_index": 0, "value": 10,
        "operator": "gt" });
    let ten: Vec<Value> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]
        .map(|key| json!({ "key": key, "rollout_percentage": 10 }))
        .into();
    let colours = json!([
        { "key": "red", "rollout_percentage": 50 },
        { "key": "blue", "rollout_percentage": 50 },
    ]);
    for (key, filters) in [
        ("everybody", json!({ "groups": [everybody] })),
        ("nobody", json!({ "groups": [{ "properties": [], "rollout_percentage": 0 }] })),
        ("pro", json!({ "groups": [{ "properties": [pro], "rollout_percentage": 100 }] })),
        (
            "colour",
            json!({
                "groups": [everybody],
                "multivariate": { "variants": colours },
                "payloads": { "red": "{\"hex\":\"f00\"}", "blue": "{\"hex\":\"00f\"}" },
            }),
        ),
        (
            "company",
            json!({
                "groups": [{ "properties": [large], "rollout_percentage": 100 }],
                "aggregation_group_type_index": 0,
            }),
        ),
        ("steady", json!({ "groups": [everybody], "multivariate": { "variants": ten } })),
    ] {
        let flag = json!({ "key": key, "name": key, "active": true, "filters": filters,
            "ensure_experience_continuity": key == "steady" });
        server.post("/api/projects/1/feature_flags/", flag).expect(201);
    }
}

/// Flags of every kind, for a visitor who logs in and joins a group.
fn decides_flags(sdk: Sdk) {
    let server = Store::Sqlite.start();
    if sdk == Sdk::Snippet && !serves_the_script(&server) {
        return;
    }
    create_flags(&server);
    let response = sdk.travel(&server, "flags");
    let stages = ["anonymous", "joined", "known", "member", "later"];
    for stage in stages {
        let read = &response[stage];
        let colour = read["colour"].as_str().unwrap();
        let hex = if colour == "red" { "f00" } else { "00f" };
        assert_eq!(read["again"], colour, "{sdk:?} {stage}");
        assert_eq!(read["payload"], json!({ "hex": hex }), "{sdk:?} {stage}");
        assert_eq!(read["everybody"], true, "{sdk:?} {stage}");
        assert_eq!(read["nobody"], false, "{sdk:?} {stage}");
    }
    let over_time = |key: &str| stages.map(|stage| response[stage][key].clone());
    let mut pro = over_time("pro");
    if sdk == Sdk::Npm57 {
        // It requests flags before the identify event has arrived.
        pro[1] = true.into();
    }
    assert_eq!(pro, [false, true, true, true, true].map(Value::from), "{sdk:?}");
    assert_eq!(over_time("company"), [false, false, false, true, true].map(Value::from), "{sdk:?}");
    let steady = over_time("steady");
    assert_eq!(steady[0], steady[1], "{sdk:?}: changed by signing in");
    if !sdk.is_current() {
        // The current SDK creates no person before the login, so experience continuity cannot apply.
        assert!(steady.iter().all(|variant| *variant == steady[0]), "{sdk:?}: {steady:?}");
    }
    let heard = &response["heard"];
    assert_eq!(heard["names"], json!(["colour", "everybody", "steady"]), "{sdk:?}");
    assert_eq!(heard["variants"]["colour"], response["anonymous"]["colour"], "{sdk:?}");
    assert_eq!(heard["variants"]["everybody"], true, "{sdk:?}");

    let events = listed(&server);
    let anonymous = &events["asked early"].last().unwrap()["distinct_id"];
    let mut called: Vec<String> = events["$feature_flag_called"]
        .iter()
        .filter(|event| event["distinct_id"] == *anonymous)
        .map(|event| &event["properties"])
        .map(|told| format!("{} {}", told["$feature_flag"], told["$feature_flag_response"]))
        .collect();
    called.sort_unstable();
    let colour = format!("\"colour\" {}", response["anonymous"]["colour"]);
    assert_eq!(called, [colour, "\"everybody\" true".to_owned()], "{sdk:?}");
}

// contract: flags 53, 55, 62, 63, 64, 67, 92
#[test]
fn browser_snippet_evaluates_flags() {
    decides_flags(Sdk::Snippet);
}

#[test]
fn browser_package_evaluates_flags() {
    decides_flags(Sdk::Npm);
}

// contract: flags 62, 64, 83, 86, 93
#[test]
fn older_browser_packages_evaluate_flags() {
    decides_flags(Sdk::Npm57);
    decides_flags(Sdk::Npm130);
}

/// A visitor who opted out sends nothing until they opt in, not even on another page.
fn keeps_quiet(sdk: Sdk) {
    let server = Store::Sqlite.start();
    if sdk == Sdk::Snippet && !serves_the_script(&server) {
        return;
    }
    let response = sdk.travel(&server, "consent");
    // The current SDK treats no decision as consent.
    assert_eq!(response["before"], json!([sdk.is_current(), false]), "{sdk:?}");
    assert_eq!(response["out"], json!([false, true]), "{sdk:?}");
    assert_eq!(response["into"], json!([true, false]), "{sdk:?}");
    let events = listed(&server);
    // The current SDK then sends the pageview it withheld.
    let pageviews = if sdk.is_current() { 2 } else { 1 };
    let expected = BTreeMap::from([
        ("$opt_in", 1),
        ("$pageleave", 1),
        ("$pageview", pageviews),
        ("asked early", 1),
        ("shown", 1),
    ]);
    assert_eq!(counts(&events), expected, "{sdk:?}");
    assert_eq!(events["$pageleave"][0]["properties"]["$pathname"], "/hidden", "{sdk:?}");
}

#[test]
fn browser_opt_out_stops_events_until_opt_in() {
    [Sdk::Snippet, Sdk::Npm, Sdk::Npm57, Sdk::Npm130].into_iter().for_each(keeps_quiet);
}

/// The server is killed and restarted repeatedly; finally one response is lost.
fn survives_kills(sdk: Sdk) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_LISTEN", &port.to_string());
    let server = instance.serve();
    if sdk == Sdk::Snippet && !serves_the_script(&server) {
        return;
    }
    let mut child = sdk.begin(&server, "interrupted");
    let (mut running, mut down) = (Some(server), None);
    let mut answers = child.stdin.take().unwrap();
    let mut last = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        last = line.unwrap();
        match last.as_str() {
            "kill" => down = running.take().map(Server::kill),
            "start" => running = down.take().map(Instance::serve),
            _ => continue,
        }
        answers.write_all(b"done\n").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sdk:?}: {logged}");
    let said = sdk.undisturbed(&last);
    let response = &said["answer"];
    assert_eq!(response["lost"], 200, "{sdk:?}: {said}");
    // One per outage, one for the lost response.
    assert!(response["retries"].as_u64().unwrap() >= 3, "{sdk:?}: {said}");
    let events = listed(&running.unwrap());
    let mut numbers: Vec<u64> =
        events["counted"].iter().map(|one| one["properties"]["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    let expected: Vec<u64> = (0..response["counted"].as_u64().unwrap()).collect();
    assert_eq!(numbers, expected, "{sdk:?}: {said}");
}

// contract: ingestion 62
#[test]
fn browser_events_survive_server_kills_exactly_once() {
    survives_kills(Sdk::Snippet);
    survives_kills(Sdk::Npm);
}
