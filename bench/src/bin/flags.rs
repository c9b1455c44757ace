//! What deciding fifty flags costs, beside the same number of bare SHA-1 hashes, in turns within
//! one run. The mix is below; every flag reaches exactly one hash.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flags::{Context, Environment, FlagSet, Selection, Stored, Subject};
use model::flag::FlagDefinition;
use model::{FlagId, ProjectId, Timestamp};
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};

const ROUNDS: usize = 30;
const ROUND: Duration = Duration::from_millis(20);
const BOUND: f64 = 3.0;
/// Between two rounds another id asks, as in life.
const IDS: usize = 64;
/// As many as a project may have, and half of them: both are larger than the nearest cache.
const MANY: usize = 2_000;
const LINEAR_BOUND: f64 = 2.5;

fn main() -> Result<ExitCode> {
    let fifty = Subjects::of(50)?;
    let many = Subjects::of(MANY)?;
    let half = Subjects::of(MANY / 2)?;
    let (mut decided, mut hashed) = (f64::MAX, f64::MAX);
    let (mut many_decided, mut half_decided) = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        decided = decided.min(time(|id| fifty.decide(id)));
        hashed = hashed.min(time(|id| fifty.hash(id)));
        many_decided = many_decided.min(time(|id| many.decide(id)));
        half_decided = half_decided.min(time(|id| half.decide(id)));
    }
    let ratio = decided / hashed;
    println!(
        "50 flags decided in {:.2} µs; 50 bare hashes in {:.2} µs",
        decided * 1e6,
        hashed * 1e6
    );
    println!("  ratio {ratio:.2} (bound {BOUND}): {}", verdict(ratio <= BOUND));
    let growth = many_decided / half_decided;
    println!(
        "{MANY} flags in {:.0} µs, half of them in {:.0} µs",
        many_decided * 1e6,
        half_decided * 1e6
    );
    println!("  ratio {growth:.2} (bound {LINEAR_BOUND}): {}", verdict(growth <= LINEAR_BOUND));
    let held = ratio <= BOUND && growth <= LINEAR_BOUND;
    Ok(if held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

const fn verdict(holds: bool) -> &'static str {
    if holds { "holds" } else { "BROKEN" }
}

/// Seconds a call takes, warm.
fn time(mut call: impl FnMut(usize) -> usize) -> f64 {
    let (begun, mut calls) = (Instant::now(), 0_usize);
    while begun.elapsed() < ROUND {
        for id in 0..IDS {
            black_box(call(id));
        }
        calls += IDS;
    }
    begun.elapsed().as_secs_f64() / calls as f64
}

struct Subjects {
    set: FlagSet,
    keys: Vec<String>,
    ids: Vec<String>,
    person: Map<String, Value>,
    now: Timestamp,
}

impl Subjects {
    fn of(count: usize) -> Result<Self> {
        let definitions: Vec<FlagDefinition> = (0..count).map(definition).collect::<Result<_>>()?;
        let person = json!({
            "email": "ada@acme.example", "plan": "pro", "age": 36, "$browser": "Firefox",
            "$os": "Linux", "country": "DE", "name": "Ada", "visits": 12,
        });
        let subjects = Self {
            set: FlagSet::compile(&definitions, &Environment::default()),
            keys: definitions.into_iter().map(|flag| flag.key).collect(),
            ids: (0..IDS).map(|id| format!("0192f0c1-2345-7000-8000-{id:012}")).collect(),
            person: person.as_object().context("a person is an object")?.clone(),
            now: Timestamp::parse("2026-01-15T12:00:00Z").context("a date")?,
        };
        ensure!(subjects.decide(0) == count, "every flag is decided");
        Ok(subjects)
    }

    fn decide(&self, id: usize) -> usize {
        let context = Context {
            person: Subject::new(Map::new(), Stored::Known(&self.person)),
            ..Context::stranger(&self.ids[id], self.now)
        };
        self.set.evaluate(&context, &Selection::default()).answers.len()
    }

    fn hash(&self, id: usize) -> usize {
        let hashes = self.keys.iter().map(|key| {
            let hasher = Sha1::new_with_prefix(key).chain_update(".");
            let digest = hasher.chain_update(&self.ids[id]).finalize();
            usize::from(digest[0])
        });
        hashes.sum()
    }
}

/// Two rollouts, a property, variants and a pattern, over and over.
fn definition(number: usize) -> Result<FlagDefinition> {
    let property = |key: &str, operator: &str, value: &str| json!([{ "key": key, "type": "person", "operator": operator, "value": value }]);
    let group = |properties: Value| json!([{ "properties": properties, "rollout_percentage": 40 }]);
    let filters = match number % 5 {
        0 | 1 => json!({ "groups": group(json!([])) }),
        2 => json!({ "groups": group(property("plan", "exact", "pro")) }),
        3 => json!({ "groups": [{ "properties": [], "rollout_percentage": 100 }],
            "multivariate": { "variants": [
                { "key": "control", "rollout_percentage": 50 },
                { "key": "test", "rollout_percentage": 50 },
            ] } }),
        _ => json!({ "groups": group(property("email", "regex", "@acme\\.(example|io)$")) }),
    };
    Ok(FlagDefinition {
        id: FlagId(number as i64 + 1),
        team_id: ProjectId(1),
        name: String::new(),
        key: format!("feature-{number}"),
        filters: filters.as_object().context("filters are an object")?.clone(),
        deleted: false,
        active: true,
        ensure_experience_continuity: false,
        version: 1,
        evaluation_runtime: None,
        bucketing_identifier: None,
        evaluation_contexts: Vec::new(),
        has_experiment: false,
        has_encrypted_payloads: false,
    })
}
