//! Unmodified official server SDKs; their scripts are in `compat/`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testing::test_deps;

use crate::harness::{Server, Store};

#[derive(Clone, Copy, Debug)]
enum Sdk {
    Python,
    Node,
    Rust,
    /// The protocol of posthog-rs is a build-time choice.
    RustV1,
}

/// Builds part of `compat/rust`, a separate package whose dependencies are built once per target
/// directory. Returns the directory of the binaries.
pub fn build_rust(what: &[&str], environment: &[(&str, &str)]) -> PathBuf {
    let target = Path::new(env!("CARGO_BIN_EXE_hedgerow")).ancestors().nth(2).unwrap();
    let target = target.join("compat");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build.args(["build", "--quiet", "--locked", "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../compat/rust/Cargo.toml"));
    build.arg("--target-dir").arg(&target).args(what).envs(environment.iter().copied());
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("debug")
}

impl Sdk {
    fn library(self) -> &'static str {
        match self {
            Self::Python => "posthog-python",
            Self::Node => "posthog-node",
            Self::Rust | Self::RustV1 => "posthog-rs",
        }
    }

    fn begin(self, address: SocketAddr, journey: &str) -> Child {
        let installed = test_deps();
        let script = |name| format!("{}/../../compat/{name}", env!("CARGO_MANIFEST_DIR"));
        let (program, script) = match self {
            Self::Python => (installed.join("venv/bin/python"), Some(script("journey.py"))),
            Self::Node => (PathBuf::from("node"), Some(script("journey.mjs"))),
            Self::Rust => (build_rust(&["--bin", "journey"], &[]).join("journey"), None),
            Self::RustV1 => {
                let built = build_rust(&["--bin", "journey-v1", "--features", "v1"], &[]);
                (built.join("journey-v1"), None)
            }
        };
        let mut command = Command::new(program);
        command.args(script).arg(format!("http://{address}")).arg(journey).current_dir(installed);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        piped.stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Waits for the end of the script and returns its output.
    fn finish(self, child: Child) -> Value {
        let output = child.wait_with_output().unwrap();
        let (printed, logged) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{self:?}: {logged}");
        let last = printed.lines().last().unwrap_or_default();
        let answered: Value = serde_json::from_str(last).unwrap();
        assert_eq!(answered["failures"], json!([]), "{self:?}: {logged}");
        answered["answer"].clone()
    }
}

/// All events, by name.
fn listed(server: &Server) -> BTreeMap<String, Vec<Value>> {
    server.wait_until_applied();
    let listing = server.get("/api/projects/1/events/?limit=1000").expect(200).json();
    let mut events = BTreeMap::<String, Vec<Value>>::new();
    for event in listing["results"].as_array().unwrap() {
        events.entry(event["event"].as_str().unwrap().to_owned()).or_default().push(event.clone());
    }
    events
}

fn becomes_facts(sdk: Sdk, journey: &str) {
    let server = Store::Sqlite.start();
    sdk.finish(sdk.begin(server.address(), journey));
    let events = listed(&server);
    let one = |name: &str| {
        assert_eq!(events[name].len(), 1, "{sdk:?} {journey}: {name}");
        &events[name][0]
    };
    let mut expected = vec![
        "$create_alias",
        "$groupidentify",
        "$identify",
        "$set",
        "bought",
        "dated",
        "looked",
        "nobody's",
    ];
    if let Sdk::Python = sdk {
        expected.insert(4, "$set_once");
    }
    let names: Vec<&str> = events.keys().map(String::as_str).collect();
    assert_eq!(names, expected, "{sdk:?} {journey}");
    for id in ["visitor", "anna", "laptop"] {
        let found = server.get(&format!("/api/projects/1/persons/?distinct_id={id}")).expect(200);
        let person = &found.json()["results"][0];
        assert_eq!(person["properties"]["plan"], "paid", "{sdk:?} {journey}: {id} {person}");
        assert_eq!(person["properties"]["first"], 1, "{sdk:?} {journey}: {id}");
        assert_eq!(person["distinct_ids"].as_array().unwrap().len(), 3, "{person}");
    }
    assert_eq!(one("looked")["properties"]["$lib"], sdk.library());
    assert_eq!(one("bought")["properties"]["amount"], 9.5);
    assert_eq!(one("bought")["properties"]["$groups"], json!({ "company": "acme" }));
    assert_eq!(one("dated")["id"], "018dfa00-0000-7000-8000-000000000001");
    assert!(one("dated")["timestamp"].as_str().unwrap().starts_with("2024-02-29T12:30:00"));
    let nobody = one("nobody's")["distinct_id"].as_str().unwrap();
    let found = server.get(&format!("/api/projects/1/persons/?distinct_id={nobody}")).expect(200);
    assert_eq!(found.json()["results"], json!([]), "{sdk:?} {journey}");
}

#[test]
fn posthog_python_events_are_ingested() {
    for journey in ["plain", "gzip", "at once", "v1"] {
        becomes_facts(Sdk::Python, journey);
    }
}

#[test]
fn posthog_node_events_are_ingested() {
    for journey in ["plain", "gzip", "at once"] {
        becomes_facts(Sdk::Node, journey);
    }
}

#[test]
fn posthog_rs_events_are_ingested() {
    for journey in ["plain", "gzip", "batch", "at once"] {
        becomes_facts(Sdk::Rust, journey);
    }
    for journey in ["plain", "gzip", "deflate", "br", "zstd", "batch", "at once"] {
        becomes_facts(Sdk::RustV1, journey);
    }
}

/// The server is killed and restarted between two batches, while the SDK keeps sending.
fn survives_kills(sdk: Sdk) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_LISTEN", &port.to_string());
    let mut server = instance.serve();
    let mut child = sdk.begin(server.address(), "many");
    let mut answers = child.stdin.take().unwrap();
    let printed = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = String::new();
    for line in printed {
        last = line.unwrap();
        if last.parse::<u32>().is_ok() {
            let instance = server.kill();
            answers.write_all(b"go on\n").unwrap();
            server = instance.serve();
        }
    }
    let output = child.wait_with_output().unwrap();
    let logged = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{sdk:?}: {logged}");
    let answered: Value = serde_json::from_str(&last).unwrap();
    let events = listed(&server);
    let mut numbers: Vec<u64> =
        events["counted"].iter().map(|one| one["properties"]["number"].as_u64().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..300).collect::<Vec<_>>(), "{sdk:?}: {answered} {logged}");
}

#[test]
fn posthog_python_survives_server_kills_exactly_once() {
    survives_kills(Sdk::Python);
}

#[test]
fn posthog_node_survives_server_kills_exactly_once() {
    survives_kills(Sdk::Node);
}

#[test]
fn posthog_rs_survives_server_kills_exactly_once() {
    survives_kills(Sdk::Rust);
    survives_kills(Sdk::RustV1);
}

/// Flags of every kind, evaluated by the server and locally by the SDK.
fn agrees_about_flags(sdk: Sdk) {
    let server = Store::Sqlite.start();
    let pro = json!({ "key": "plan", "type": "person", "value": "pro", "operator": "exact" });
    let colours = json!([
        { "key": "red", "rollout_percentage": 50 },
        { "key": "blue", "rollout_percentage": 50 },
    ]);
    for (key, filters) in [
        ("everybody", json!({ "groups": [{ "properties": [], "rollout_percentage": 100 }] })),
        ("nobody", json!({ "groups": [{ "properties": [], "rollout_percentage": 0 }] })),
        ("pro", json!({ "groups": [{ "properties": [pro], "rollout_percentage": 100 }] })),
        (
            "colour",
            json!({
                "groups": [{ "properties": [], "rollout_percentage": 100 }],
                "multivariate": { "variants": colours },
                "payloads": { "red": "{\"hex\":\"f00\"}", "blue": "{\"hex\":\"00f\"}" },
            }),
        ),
    ] {
        let flag = json!({ "key": key, "name": key, "active": true, "filters": filters });
        server.post("/api/projects/1/feature_flags/", flag).expect(201);
    }
    let response = sdk.finish(sdk.begin(server.address(), "flags"));
    let remote = &response["remote"];
    assert_eq!(remote, &response["local"], "{sdk:?}");
    let (everybody, nobody, pro) = (&remote["everybody"], &remote["nobody"], &remote["pro"]);
    assert_eq!([everybody, nobody, pro], [&json!(true), &json!(false), &json!(true)], "{sdk:?}");
    let colour = remote["colour"].as_str().unwrap();
    let hex = if colour == "red" { "f00" } else { "00f" };
    assert_eq!(
        (&response["called"], &response["payload"]),
        (&json!(colour), &json!({ "hex": hex }))
    );
    let events = listed(&server);
    let [called] = &events["$feature_flag_called"][..] else { panic!("{sdk:?}: {events:?}") };
    assert_eq!(called["properties"]["$feature_flag"], "colour", "{sdk:?}");
    assert_eq!(called["properties"]["$feature_flag_response"], colour, "{sdk:?}");
}

#[test]
fn posthog_python_agrees_with_server_flags() {
    agrees_about_flags(Sdk::Python);
}

#[test]
fn posthog_node_agrees_with_server_flags() {
    agrees_about_flags(Sdk::Node);
}

#[test]
fn posthog_rs_agrees_with_server_flags() {
    agrees_about_flags(Sdk::Rust);
}
