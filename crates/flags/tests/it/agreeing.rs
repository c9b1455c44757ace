//! Ours against the local evaluators of posthog-python and posthog-node, on generated flags.
//!
//! An SDK that cannot decide asks the server, so only what it does decide is compared.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use model::flag::filters::properties;
use serde_json::{Map, Value, json};

use crate::generating::{CASES, Dice, World, any_world};
use crate::*;

const WORLDS: usize = 20;
const SEED: u64 = 20_260_115;

fn ours(world: &World, case: &Value) -> Map<String, Value> {
    let text = |name: &str| case[name].as_str();
    let mut context = person(text("distinct_id").unwrap(), case["person_properties"].clone());
    context.device_id = text("device_id");
    if let Some(key) = case["groups"]["company"].as_str() {
        context = in_group(context, 0, key, case["group_properties"]["company"].clone());
    }
    let answers = world.set.evaluate(&context, &everything());
    answers.answers.iter().map(|one| (one.flag.key.clone(), shown(one).0)).collect()
}

/// Where `tools/install-test-deps` puts the SDKs.
fn installed() -> PathBuf {
    let folder = std::env::var_os("HEDGEROW_TEST_DEPS").map(PathBuf::from).unwrap_or_else(|| {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
        cache.unwrap_or_else(home).join("hedgerow/test-deps")
    });
    assert!(folder.join("installed").exists(), "run tools/install-test-deps first");
    folder
}

fn run(mut command: Command, input: &str) -> Vec<Vec<Map<String, Value>>> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// One answer of an SDK beside ours.
struct Comparison<'a> {
    sdk: &'a str,
    flag: &'a Value,
    case: &'a Value,
    ours: &'a Map<String, Value>,
    theirs: &'a Map<String, Value>,
    cohorts: &'a Value,
}

impl Comparison<'_> {
    /// The differences that the contract explains, by name. Everything else is a defect.
    fn explained(&self) -> Option<&'static str> {
        let properties = self.properties();
        if properties.iter().any(|property| self.depends_on_a_difference(property)) {
            return Some("it depends on a flag that differs");
        }
        if let Some(name) = properties.iter().find_map(|property| self.reads_differently(property))
        {
            return Some(name);
        }
        let groups = self.flag["filters"]["groups"].as_array().unwrap().len();
        let key = self.flag["key"].as_str().unwrap();
        let undecided = (0..groups).any(|n| !self.theirs.contains_key(&format!("probe-{key}-{n}")));
        undecided.then_some("an SDK goes on after a condition that it cannot decide")
    }

    fn properties(&self) -> Vec<Value> {
        let filters = self.flag["filters"].as_object().unwrap();
        properties(filters).cloned().map(Value::Object).collect()
    }

    fn depends_on_a_difference(&self, property: &Value) -> bool {
        let Some(chain) = property["dependency_chain"].as_array() else { return false };
        chain.iter().filter_map(Value::as_str).any(|key| {
            let own = self.ours.get(key).cloned().unwrap_or(json!(false));
            self.theirs.get(key) != Some(&own)
        })
    }

    /// How an SDK reads what the contract's table reads otherwise.
    fn reads_differently(&self, property: &Value) -> Option<&'static str> {
        let operator = property["operator"].as_str().unwrap_or("exact");
        let of = match property["type"].as_str() {
            Some("group") => &self.case["group_properties"]["company"],
            Some("person") => &self.case["person_properties"],
            Some("cohort") => {
                let cohort = property["value"].to_string();
                return self.leaves(&self.cohorts[&cohort]);
            }
            _ => return None,
        };
        let (held, wanted) = (&of[property["key"].as_str().unwrap()], &property["value"]);
        let either = |fits: &dyn Fn(&Value) -> bool| fits(held) || fits(wanted);
        let is_node = self.sdk == "node";
        match operator {
            _ if operator.starts_with("semver") && either(&is_loose_version) => {
                Some("SDKs drop pre-release parts of versions, and spaces around them")
            }
            "gt" | "gte" | "lt" | "lte" if is_node && either(&is_no_number) => {
                Some("node compares what is no number as text, or by the digits it begins with")
            }
            "is_date_before" | "is_date_after" if is_node && is_no_date(held) => {
                Some("node reads dates as JavaScript does: milliseconds, and almost any text")
            }
            _ if is_node && held.is_null() && UNKNOWN_TO_SDKS.contains(&operator) => {
                Some("node calls null no match before it sees that it does not know the operator")
            }
            "regex" | "not_regex" if held.is_array() || held.is_boolean() => {
                Some("SDKs write lists and truth in the words of their language for patterns")
            }
            _ if is_node
                && TEXTUAL.iter().any(|word| operator.ends_with(word))
                && !held.is_string() =>
            {
                Some("node writes lists without brackets, and 5.0 as 5")
            }
            _ => None,
        }
    }

    fn leaves(&self, tree: &Value) -> Option<&'static str> {
        match tree["values"].as_array() {
            Some(values) => values.iter().find_map(|value| self.leaves(value)),
            None => self.reads_differently(tree),
        }
    }
}

const UNKNOWN_TO_SDKS: [&str; 5] =
    ["between", "not_between", "icontains_multi", "not_icontains_multi", "is_date_exact"];
const TEXTUAL: [&str; 5] = ["icontains", "starts_with", "ends_with", "regex", "exact"];

fn is_loose_version(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains('-') || text.trim() != text)
}

fn is_no_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => false,
        Value::String(text) => !text.parse().is_ok_and(f64::is_finite),
        _ => true,
    }
}

fn is_no_date(value: &Value) -> bool {
    value.as_str().and_then(Timestamp::parse).is_none()
}

#[test]
fn whatever_an_sdk_decides_we_decide_alike() {
    let mut dice = Dice(SEED);
    let worlds: Vec<World> = (0..WORLDS).map(|_| any_world(&mut dice)).collect();
    let input: Vec<Value> = worlds
        .iter()
        .map(|world| json!({"definitions": world.definitions, "cases": world.cases}))
        .collect();
    let input = serde_json::to_string(&input).unwrap();
    let folder = installed();
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/sdks");
    let mut python = Command::new(folder.join("venv/bin/python"));
    python.arg(scripts.join("evaluate.py"));
    let mut node = Command::new("node");
    node.arg(scripts.join("evaluate.mjs")).arg(&folder).env("TZ", "UTC");
    for (sdk, command) in [("python", python), ("node", node)] {
        let theirs = run(command, &input);
        let (mut compared, mut differences) = (0, Vec::new());
        for (world, rows) in worlds.iter().zip(theirs) {
            for (case, row) in world.cases.iter().zip(rows) {
                let ours = ours(world, case);
                for flag in world.definitions["flags"].as_array().unwrap() {
                    let key = flag["key"].as_str().unwrap();
                    let Some(value) = row.get(key).filter(|_| !key.starts_with("probe")) else {
                        continue;
                    };
                    compared += 1;
                    let own = ours.get(key).cloned().unwrap_or(json!(false));
                    let cohorts = &world.definitions["cohorts"];
                    let comparison =
                        Comparison { sdk, flag, case, ours: &ours, theirs: &row, cohorts };
                    if own != *value && comparison.explained().is_none() {
                        differences.push(format!("{sdk} {value}, we {own}: {flag} for {case}"));
                    }
                }
            }
        }
        assert!(compared > WORLDS * CASES * 20, "{sdk} decided only {compared}");
        assert!(
            differences.is_empty(),
            "{} of {compared}:\n{}",
            differences.len(),
            differences[..differences.len().min(8)].join("\n")
        );
    }
}
