//! Compares results with local evaluation in posthog-python and posthog-node, on generated flags.
//!
//! An SDK that cannot evaluate a flag falls back to the server, so only flags that it evaluates are
//! compared.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use model::flag::filters::groups;
use serde_json::{Map, Value, json};

use crate::generator::{CASES, Scenario, any_scenario, probe_of_cohort, probe_of_flag};
use crate::sdk_quirks::{Reading, Sdk, ours, reading};
use crate::*;

const SCENARIOS: usize = 20;
const SEED: u64 = 20_260_115;

fn our_results(set: &FlagSet, case: &Value) -> Map<String, Value> {
    let text = |name: &str| case[name].as_str();
    let mut context = person(text("distinct_id").unwrap(), case["person_properties"].clone());
    context.device_id = text("device_id");
    if let Some(key) = case["groups"]["company"].as_str() {
        context = in_group(context, 0, key, case["group_properties"]["company"].clone());
    }
    let results = set.evaluate(&context, &everything());
    results.results.iter().map(|one| (one.flag.key.clone(), shown(one).0)).collect()
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

/// The results of an SDK in one case, next to ours.
struct Comparison<'a> {
    sdk: Sdk,
    case: &'a Value,
    theirs: &'a Map<String, Value>,
    cohorts: &'a Value,
}

/// How an SDK evaluates a property; `None` if it falls back to the server.
type Read = Result<Option<bool>, String>;

impl Comparison<'_> {
    /// Checks that known divergences explain the SDK's `value`: each property that it evaluates
    /// differently has a named quirk, and evaluating the flag with the SDK's property results gives
    /// its value. Anything else is a defect, returned as an error.
    fn explain(&self, flag: &FlagDefinition, value: &Value) -> Result<(), String> {
        let mut flag = flag.clone();
        let groups = groups(&flag.filters).to_vec();
        let mut read = Vec::new();
        for (at, mut group) in groups.into_iter().enumerate() {
            let properties = group["properties"].as_array().unwrap().clone();
            let mut fits = true;
            for (nth, property) in properties.iter().enumerate() {
                let probe = probe_of_flag(&flag.key, at, nth);
                // The SDK skips a condition that it cannot decide.
                fits &= self.reads(property, &probe)?.unwrap_or(false);
            }
            group["properties"] = if fits { json!([]) } else { json!([never(&group)]) };
            read.push(group);
        }
        flag.filters.insert("groups".into(), Value::Array(read));
        let scenario = compile(&[flag]);
        let follows = our_results(&scenario, self.case);
        match follows.values().next() {
            Some(follows) if follows == value => Ok(()),
            follows => Err(format!("from its readings follows {follows:?}")),
        }
    }

    fn result(&self, probe: &str) -> Option<bool> {
        self.theirs.get(probe).map(|value| *value != json!(false))
    }

    fn reads(&self, property: &Value, probe: &str) -> Read {
        let read = match property["type"].as_str() {
            Some("cohort") => {
                let member = self.belongs(&property["value"].to_string())?;
                member.map(|member| member != (property["operator"] == "not_in"))
            }
            Some("flag") => self.depends(property),
            _ => return self.reads_value(property, probe),
        };
        match self.result(probe) {
            theirs if theirs == read => Ok(read),
            theirs => Err(format!("{probe} is {theirs:?}, but {read:?} follows: {property}")),
        }
    }

    fn reads_value(&self, property: &Value, probe: &str) -> Read {
        let of = match property["type"].as_str() {
            Some("group") => &self.case["group_properties"]["company"],
            _ => &self.case["person_properties"],
        };
        let Some(theirs) = self.result(probe) else { return Ok(None) };
        // A condition on groups is skipped if the group is missing.
        let Some(held) = of.get(property["key"].as_str().unwrap()) else { return Ok(Some(theirs)) };
        let (operator, wanted) = (property["operator"].as_str().unwrap(), &property["value"]);
        if ours(operator, wanted, held) == theirs {
            return Ok(Some(theirs));
        }
        let dates = self.theirs.get("$dates").unwrap_or(&Value::Null);
        match reading(self.sdk, operator, wanted, held, dates) {
            Some(Reading { result, .. }) if result == theirs => Ok(Some(theirs)),
            other => Err(format!("{held} read as {theirs}, not {other:?}: {property}")),
        }
    }

    /// Cohort membership, computed from the SDK's property results.
    fn belongs(&self, cohort: &str) -> Read {
        let Some(tree) = self.cohorts.get(cohort) else { return Ok(None) };
        self.fits(tree, cohort, &mut 0)
    }

    fn fits(&self, tree: &Value, cohort: &str, leaf: &mut usize) -> Read {
        let Some(values) = tree["values"].as_array() else {
            let read = self.reads(tree, &probe_of_cohort(cohort, *leaf))?;
            *leaf += 1;
            return Ok(read.map(|read| read != (tree["negation"] == true)));
        };
        let all = tree["type"] == "AND";
        let mut fits = Some(all);
        for value in values {
            match self.fits(value, cohort, leaf)? {
                Some(one) if one != all => fits = Some(!all),
                None if fits == Some(all) => fits = None,
                _ => {}
            }
        }
        Ok(fits)
    }

    /// The dependency's condition, computed from the SDK's result of the other flag.
    fn depends(&self, property: &Value) -> Option<bool> {
        let value = self.theirs.get(property["key"].as_str()?)?;
        Some(match &property["value"] {
            Value::Bool(wanted) => (*value != json!(false)) == *wanted,
            variant => variant == value,
        })
    }
}

/// A property that no generated person or group has.
fn never(group: &Value) -> Value {
    let index = &group["aggregation_group_type_index"];
    let kind = if index.is_null() { "person" } else { "group" };
    json!({"key": "nowhere", "type": kind, "operator": "is_set", "value": "is_set",
        "group_type_index": index})
}

#[test]
fn local_evaluation_of_sdks_agrees_with_ours() {
    let seed = testing::seed_or(SEED);
    let mut rng = seed.rng();
    let scenarios: Vec<Scenario> = (0..SCENARIOS).map(|_| any_scenario(&mut rng)).collect();
    let input: Vec<Value> = scenarios
        .iter()
        .map(|scenario| json!({"definitions": scenario.definitions, "cases": scenario.cases}))
        .collect();
    let input = serde_json::to_string(&input).unwrap();
    let directory = testing::test_deps();
    let scripts = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/sdks");
    let mut python = Command::new(directory.join("venv/bin/python"));
    python.arg(scripts.join("evaluate.py"));
    let mut node = Command::new("node");
    node.arg(scripts.join("evaluate.mjs")).arg(&directory).env("TZ", "UTC");
    for (sdk, command) in [(Sdk::Python, python), (Sdk::Node, node)] {
        let theirs = run(command, &input);
        let (mut compared, mut differences) = (0, Vec::new());
        for (scenario, rows) in scenarios.iter().zip(theirs) {
            for (case, row) in scenario.cases.iter().zip(rows) {
                let ours = our_results(&scenario.set, case);
                let cohorts = &scenario.definitions["cohorts"];
                let comparison = Comparison { sdk, case, theirs: &row, cohorts };
                for flag in &scenario.local {
                    let Some(value) = row.get(&flag.key) else { continue };
                    compared += 1;
                    let own = ours.get(&flag.key).cloned().unwrap_or(json!(false));
                    if own == *value {
                        continue;
                    }
                    if let Err(why) = comparison.explain(flag, value) {
                        let flag = json!(flag);
                        differences
                            .push(format!("{sdk:?} {value}, we {own}, {why}: {flag} for {case}"));
                    }
                }
            }
        }
        assert!(compared > SCENARIOS * CASES * 20, "{sdk:?} decided only {compared}");
        assert!(
            differences.is_empty(),
            "{} of {compared}:\n{}",
            differences.len(),
            differences[..differences.len().min(8)].join("\n")
        );
    }
}
