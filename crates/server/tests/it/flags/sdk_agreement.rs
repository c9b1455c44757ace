//! Official SDKs: local evaluation agrees with the server's evaluation.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use testing::test_deps;

use crate::flags::management::create;
use crate::harness::{PERSONAL_KEY, PROJECT_KEY, Store};

const IDS: usize = 500;

fn run(mut command: Command, input: &str) -> Vec<Value> {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|why| {
        panic!("{why}: tools/install-test-deps brings the SDKs");
    });
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

// contract: flags 109
#[test]
fn local_evaluation_of_sdks_agrees_with_the_server() {
    let server = Store::Sqlite.start();
    let recorded = include_str!("../../../../../fixtures/flags/flag_hash.json");
    let recorded: Value = serde_json::from_str(recorded).unwrap();
    let mut cases: Vec<Value> = Vec::new();
    let outcomes = recorded["outcomes"].as_array().unwrap();
    // The flag of each recorded case.
    let mut own: Vec<&str> = Vec::new();
    for config in recorded["flag_configs"].as_array().unwrap() {
        if config["name"].as_str().unwrap().starts_with("unit_only") {
            continue;
        }
        let (key, filters) = (&config["flag"]["key"], &config["flag"]["filters"]);
        create(&server, json!({ "key": key, "filters": filters }));
        let rows = outcomes.iter().find(|rows| rows["config"] == config["name"]).unwrap();
        let fits = |row: &&Value| {
            let id = row["distinct_id"].as_str().unwrap();
            id.chars().count() <= 200 && !id.contains('\0')
        };
        let rows = rows["rows"].as_array().unwrap().iter().filter(fits).take(IDS);
        cases.extend(rows.cloned());
        own.resize(cases.len(), key.as_str().unwrap());
    }
    assert!(cases.len() >= 3 * IDS - 100, "{}", cases.len());
    let input = Value::Array(cases.clone()).to_string();
    let (dir, scripts) =
        (test_deps(), Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/files"));
    let host = format!("http://{}", server.address());
    let mut python = Command::new(dir.join("venv/bin/python"));
    python.arg(scripts.join("agree.py"));
    let mut node = Command::new("node");
    node.arg(scripts.join("agree.mjs")).arg(&dir);
    for (sdk, mut command) in [("python", python), ("node", node)] {
        command.args([&host, PROJECT_KEY, PERSONAL_KEY]);
        let answers = run(command, &input);
        assert_eq!(answers.len(), cases.len());
        for ((response, case), own) in answers.iter().zip(&cases).zip(&own) {
            let local = response["local"].as_object().unwrap();
            assert_eq!(local.get(*own), Some(&case["expected"]), "{sdk}: {own} for {case}");
            // Without the property an SDK falls back to the server, so there is nothing to compare.
            for (key, value) in local {
                assert_eq!(*value, response["remote"][key], "{sdk}: {key} for {case}");
            }
        }
    }
}
