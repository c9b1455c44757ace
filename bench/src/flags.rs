//! Evaluation of fifty flags, alternating with as many bare SHA-1 hashes. The mix is
//! below; every flag computes exactly one hash.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use flags::{Context, Environment, FlagSet, Selection, Stored, Subject};
use model::flag::FlagDefinition;
use model::{FlagId, ProjectId, Timestamp};
use serde_json::{Map, Value, json};
use sha1::{Digest as _, Sha1};

use crate::client::Client;
use crate::load::{self, post};
use crate::report::{Bound, Report, Row};
use crate::server_process::{PROJECT_KEY, ServerProcess, hedgerow, sibling};

const CONNECTIONS: usize = 64;
const SERVED_ROUND: Duration = Duration::from_secs(4);
const FEW: usize = 50;
const ROUNDS: usize = 30;
const ROUND: Duration = Duration::from_millis(20);
/// Each round uses another distinct id, as real traffic does.
const IDS: usize = 64;
/// The maximum of a project, and half of it: both exceed the L1 cache.
const MANY: usize = 2_000;

pub async fn run(report: &mut Report) -> Result<()> {
    report.begin("Flags");
    core(report)?;
    served(report).await
}

fn core(report: &mut Report) -> Result<()> {
    let fifty = Subjects::of(FEW)?;
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
    report.add(Row {
        name: format!("{FEW} mixed flags decided, against as many bare hashes"),
        unit: "µs",
        ours: decided * 1e6,
        reference: Some(("SHA-1", hashed * 1e6)),
        bound: Bound::RatioAtMost(3.0),
    });
    report.add(Row {
        name: format!("{MANY} flags decided, against half of them"),
        unit: "µs",
        ours: many_decided * 1e6,
        reference: Some(("half", half_decided * 1e6)),
        bound: Bound::RatioAtMost(2.5),
    });
    Ok(())
}

/// `/flags?v=2` for stored persons, against a constant response of the same size.
async fn served(report: &mut Report) -> Result<()> {
    let mut rates = Vec::new();
    for count in [FEW, MANY / 2, MANY] {
        let data = tempfile::tempdir()?;
        let server = ServerProcess::start(&mut hedgerow(&data.path().join("data"))?)?;
        let mut client = Client::new(&server).await?;
        for number in 0..count {
            let flag = definition(number)?;
            let body = json!({ "key": flag.key, "filters": flag.filters, "active": true });
            client.post("/api/projects/1/feature_flags/", &body).await?;
        }
        let persons: Vec<String> = (0..IDS).map(|id| format!("person-{id}")).collect();
        let people: Vec<Value> = persons.iter().map(|id| json!({
            "event": "$identify", "distinct_id": id,
            "properties": { "$set": { "email": format!("{id}@acme.example"), "plan": "pro" } },
        })).collect();
        let body = json!({ "api_key": PROJECT_KEY, "batch": people });
        client.post("/batch/", &body).await?;
        let requests: Vec<Vec<u8>> = persons
            .iter()
            .map(|id| {
                let body = json!({ "api_key": PROJECT_KEY, "distinct_id": id });
                post("/flags/?v=2", "", body.to_string().as_bytes())
            })
            .collect();
        let answered = settled(&mut client, &requests).await?;
        let connections = if count == FEW { CONNECTIONS } else { 8 };
        let ours =
            load::round(&server, &requests, connections, SERVED_ROUND, ServerProcess::cpu_seconds)
                .await?;
        if count == FEW {
            let mut bare = Command::new(sibling("bare")?);
            bare.env("BARE_ANSWER_BYTES", answered.to_string());
            let bare = ServerProcess::start(&mut bare)?;
            let bare = load::round(
                &bare,
                &requests,
                connections,
                SERVED_ROUND,
                ServerProcess::cpu_seconds,
            )
            .await?;
            report.add(Row {
                name: format!(
                    "/flags?v=2, {count} flags, known persons, {connections} connections"
                ),
                unit: "req/s",
                ours: ours.rate(),
                reference: Some(("bare axum, same size", bare.rate())),
                bound: Bound::RatioAtLeast(0.4),
            });
            report.add(Row {
                name: "  p99".into(),
                unit: "µs",
                ours: ours.p99,
                reference: Some(("bare axum, same size", bare.p99)),
                bound: Bound::RatioAtMost(3.0),
            });
            report.add(Row {
                name: "  CPU a million requests".into(),
                unit: "s",
                ours: ours.cpu_per_million(1),
                reference: Some(("bare axum, same size", bare.cpu_per_million(1))),
                bound: Bound::None,
            });
        } else {
            rates.push(ours.cpu_per_million(1));
        }
    }
    report.add(Row {
        name: format!("/flags?v=2 with {MANY} flags: CPU a million, against half of them"),
        unit: "s",
        ours: rates[1],
        reference: Some(("half", rates[0])),
        bound: Bound::RatioAtMost(2.5),
    });
    Ok(())
}

/// Waits until the persons are stored; returns the bytes of a response.
async fn settled(client: &mut Client, requests: &[Vec<u8>]) -> Result<usize> {
    let started = Instant::now();
    loop {
        let body = client.ask(requests.last().context("nobody asks")?).await?;
        // The flags on plan and e-mail compute their hash only with stored properties.
        let missing = String::from_utf8_lossy(body).contains("no_condition_match");
        if !missing {
            return Ok(body.len());
        }
        ensure!(started.elapsed() < Duration::from_secs(20), "the persons are not stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Seconds a call takes, warm.
fn time(mut call: impl FnMut(usize) -> usize) -> f64 {
    let (started, mut calls) = (Instant::now(), 0_usize);
    while started.elapsed() < ROUND {
        for id in 0..IDS {
            black_box(call(id));
        }
        calls += IDS;
    }
    started.elapsed().as_secs_f64() / calls as f64
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
            ..Context::unknown_person(&self.ids[id], self.now)
        };
        self.set.evaluate(&context, &Selection::default()).results.len()
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

/// Two rollouts, a property, variants and a regex, repeated.
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
