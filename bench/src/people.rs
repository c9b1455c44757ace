//! Many persons: loading them, sending their events again, restart, first query, memory, disk, flags
//! over all of them, and search. `BENCH_PERSONS` is their number. Rates are compared with those of the
//! reference set in the same run. The catalog is SQLite, or PostgreSQL under `tools/with-postgres`.

use std::env;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::client::Client;
use crate::pipeline::{
    applied_events, batches, reference_batches, send_batches, stored_bytes, wait_until_applied,
    wait_until_idle,
};
use crate::reference::{START_MICROS, time_text, uuid_text};
use crate::report::{Bound, Report, Row};
use crate::server_process::{PROJECT_KEY, ServerProcess, hedgerow};

/// Ten million take about an hour.
pub const PERSONS: u64 = 1_000_000;
const MILLION: u64 = 1_000_000;
/// Events of the reference set that give the rate to compare with, and events that are sent again.
const COMPARED_EVENTS: u64 = 300_000;
/// Flags are also evaluated over a project of this many persons.
const FEW_PERSONS: u64 = 100_000;
const PLANS: [&str; 4] = ["free", "free", "team", "enterprise"];
/// Time between the events of two persons.
const STEP_MICROS: u64 = 250_000;
const ROUNDS: usize = 5;
/// `ms_max` of 200, and the rest of the request.
const FIRST_FIGURES_SECONDS: f64 = 0.5;
/// As `tools/with-postgres` sets it.
const POSTGRES_URL: &str = "HEDGEROW_TEST_POSTGRES_URL";

pub async fn run(report: &mut Report, dir: &Path, persons: u64) -> Result<()> {
    let is_postgres = uses_postgres();
    report.begin(if is_postgres { "Many persons, catalog in PostgreSQL" } else { "Many persons" });
    let compared = COMPARED_EVENTS.min(persons);
    let reference =
        Rates::measure(&dir.join("reference"), compared, || reference_batches(compared)).await?;
    rate(report, "events sent again, reference set", reference.again, ("new", reference.new), 0.5);

    let data = dir.join("people");
    create_database(&data)?;
    let server = ServerProcess::start(&mut serve(&data)?)?;
    let new = rate_of(&server, persons, person_batches(PROJECT_KEY, 0..persons)).await?;
    rate(report, "events with a new person each", new, ("reference set", reference.new), 0.4);
    let server = flushed(server, &data).await?;
    let sent_again = 0..compared;
    let again = rate_of(&server, compared, person_batches(PROJECT_KEY, sent_again)).await?;
    rate(report, "  sent again", again, ("new", new), 0.5);
    wait_until_idle(&server).await?;
    server.stop()?;
    on_disk(report, &data, persons)?;

    let started = Instant::now();
    // Columns of events that the server caches would count as memory of ids.
    let cache = ["--column-cache-bytes-max", "1 MiB"];
    let server = ServerProcess::start(serve(&data)?.args(cache))?;
    seconds(report, "restart until ready", started, Bound::None);
    let mut client = Client::new(&server).await?;
    memory(report, &server, "ready", persons, Bound::None)?;
    let started = Instant::now();
    let trend = client.json("/api/projects/1/query/", &trend_by_plan()).await?;
    let bound = if persons <= MILLION { 1.0 } else { 5.0 };
    seconds(report, "first query: trend by a person property", started, Bound::AtMost(bound));
    check_trend(&trend, persons)?;
    let per_id = if persons >= 10 * MILLION { Bound::AtMost(16.0) } else { Bound::None };
    memory(report, &server, "after it", persons, per_id)?;
    search(report, &mut client, persons).await?;
    flags(report, &mut client, 1, persons).await?;
    if persons > FEW_PERSONS {
        let few = fill_second_project(&server, &mut client).await?;
        flags(report, &mut client, few, FEW_PERSONS).await?;
    }
    server.stop().map(drop)
}

/// Events a second until they are queryable.
struct Rates {
    new: f64,
    /// The same events once more, when they are in files.
    again: f64,
}

impl Rates {
    async fn measure<I>(data: &Path, events: u64, batches: impl Fn() -> I) -> Result<Self>
    where
        I: Iterator<Item = String> + Send + 'static,
    {
        create_database(data)?;
        let server = ServerProcess::start(&mut serve(data)?)?;
        let new = rate_of(&server, events, batches()).await?;
        let server = flushed(server, data).await?;
        let again = rate_of(&server, events, batches()).await?;
        server.stop()?;
        Ok(Self { new, again })
    }
}

/// The server with its catalog in the data directory, or in a database with the name of it.
fn serve(data: &Path) -> Result<Command> {
    let mut command = hedgerow(data)?;
    if let Some(url) = catalog_url(data)? {
        command.args(["--catalog-url", &url]);
    }
    Ok(command)
}

fn catalog_url(data: &Path) -> Result<Option<String>> {
    let Some(url) = postgres_url() else { return Ok(None) };
    let (cluster, _) = url.rsplit_once('/').context("a URL without database")?;
    let name = data.file_name().context("no name")?.to_string_lossy();
    Ok(Some(format!("{cluster}/{name}")))
}

fn create_database(data: &Path) -> Result<()> {
    let (Some(url), Some(name)) = (postgres_url(), data.file_name()) else { return Ok(()) };
    let create = format!("CREATE DATABASE {}", name.to_string_lossy());
    let status = Command::new("psql").args(["-q", "-c", &create, &url]).status()?;
    ensure!(status.success(), "psql cannot create a database");
    Ok(())
}

pub fn uses_postgres() -> bool {
    postgres_url().is_some()
}

fn postgres_url() -> Option<String> {
    env::var(POSTGRES_URL).ok()
}

/// Restarts the server, which moves events from memory to files.
async fn flushed(server: ServerProcess, data: &Path) -> Result<ServerProcess> {
    wait_until_idle(&server).await?;
    server.stop()?;
    ServerProcess::start(&mut serve(data)?)
}

async fn rate_of(
    server: &ServerProcess,
    events: u64,
    batches: impl Iterator<Item = String> + Send + 'static,
) -> Result<f64> {
    let before = applied_events(&mut Client::new(server).await?).await?;
    let started = Instant::now();
    send_batches(server, batches).await?;
    wait_until_applied(server, before + events as f64, || Ok(())).await?;
    Ok(events as f64 / started.elapsed().as_secs_f64())
}

/// Request bodies in which every event brings a person with an e-mail address and a plan.
fn person_batches(
    api_key: &str,
    persons: std::ops::Range<u64>,
) -> impl Iterator<Item = String> + Send + use<> {
    batches(api_key, persons.map(person_event))
}

fn person_event(person: u64) -> String {
    // SplitMix64: ids are not in order, as those of real visitors are not.
    let mut mixed = person.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let micros = START_MICROS + (person * STEP_MICROS) as i64;
    let millis = (micros / 1_000) as u128;
    let uuid = millis << 80 | 7 << 76 | 2 << 62 | u128::from(mixed >> 2);
    format!(
        r#"{{"event":"signed up","distinct_id":"{mixed:016x}-{person}","uuid":"{}","timestamp":"{}","properties":{{"$set":{{"email":"{}","plan":"{}"}}}}}}"#,
        uuid_text(uuid),
        time_text(micros),
        email(person),
        plan(person),
    )
}

fn email(person: u64) -> String {
    format!("person{person}@example.com")
}

fn plan(person: u64) -> &'static str {
    PLANS[person as usize % PLANS.len()]
}

fn with_plan(plan_wanted: &str, persons: u64) -> u64 {
    (0..persons).filter(|person| plan(*person) == plan_wanted).count() as u64
}

fn trend_by_plan() -> Value {
    json!({
        "query": {
            "kind": "TrendsQuery",
            "series": [{ "kind": "EventsNode", "event": "signed up", "math": "total" }],
            "interval": "month",
            "dateRange": { "date_from": "2026-01-01", "date_to": "2026-04-30" },
            "breakdownFilter": { "breakdown": "plan", "breakdown_type": "person" },
        },
        "refresh": "force_blocking",
    })
}

fn check_trend(trend: &Value, persons: u64) -> Result<()> {
    let series = trend["results"].as_array().context("no series")?;
    for plan in ["free", "team", "enterprise"] {
        let one = series.iter().find(|one| one["breakdown_value"] == plan);
        let count = one.and_then(|one| one["count"].as_f64()).unwrap_or_default();
        let expected = with_plan(plan, persons) as f64;
        ensure!(count == expected, "{count} events with plan {plan} instead of {expected}");
    }
    Ok(())
}

async fn search(report: &mut Report, client: &mut Client, persons: u64) -> Result<()> {
    let wanted = email(persons / 2);
    let filter =
        json!([{ "key": "email", "type": "person", "operator": "exact", "value": wanted }]);
    let encoded: String = filter.to_string().bytes().map(|byte| format!("%{byte:02X}")).collect();
    for (name, query) in [
        ("search of a person by e-mail address", format!("search={}", wanted.replace('@', "%40"))),
        ("persons with an e-mail address, by filter", format!("properties={encoded}")),
    ] {
        let path = format!("/api/projects/1/persons/?{query}");
        let mut fastest = f64::MAX;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let page: Value = serde_json::from_slice(client.get(&path).await?)?;
            fastest = fastest.min(started.elapsed().as_secs_f64());
            let found = page["results"].as_array().map_or(0, Vec::len);
            ensure!(found == 1, "{name}: {found} persons");
        }
        report.add(row(name, "s", fastest, Bound::None));
    }
    Ok(())
}

/// Blast radius and dry run of a condition on a person property.
async fn flags(report: &mut Report, client: &mut Client, project: u64, persons: u64) -> Result<()> {
    let bound = scan_bound(persons);
    let properties =
        json!([{ "key": "plan", "type": "person", "operator": "exact", "value": "team" }]);
    let path = format!("/api/projects/{project}/feature_flags/");
    let started = Instant::now();
    let body = json!({ "condition": { "properties": properties } });
    let radius = client.json(&format!("{path}user_blast_radius/"), &body).await?;
    seconds(report, &format!("blast radius over {persons} persons"), started, bound);
    let (affected, total) = (radius["affected"].as_u64(), radius["total"].as_u64());
    let expected = (Some(with_plan("team", persons)), Some(persons));
    ensure!((affected, total) == expected, "blast radius {radius}");
    let everybody = json!({ "groups": [{ "properties": [], "rollout_percentage": 100 }] });
    let flag = client.json(&path, &json!({ "key": "probe", "filters": everybody })).await?;
    let id = flag["id"].as_u64().context("a flag without id")?;
    let team = json!({ "groups": [{ "properties": properties, "rollout_percentage": 100 }] });
    let started = Instant::now();
    let run = client.json(&format!("{path}{id}/dry_run/"), &json!({ "filters": team })).await?;
    seconds(report, &format!("dry run over {persons} persons"), started, bound);
    if run["complete"] == json!(true) {
        let changed = persons - with_plan("team", persons);
        ensure!(run["changed"].as_u64() == Some(changed), "dry run {run}");
    } else {
        let subjects = run["subjects"].as_f64().unwrap_or_default();
        report.add(row("  of whom it evaluated, in its time", "persons", subjects, Bound::None));
    }
    draft(report, client, (project, id), persons).await
}

fn scan_bound(persons: u64) -> Bound {
    if persons <= FEW_PERSONS {
        Bound::AtMost(1.0)
    } else if persons <= MILLION {
        Bound::AtMost(5.0)
    } else {
        Bound::None
    }
}

/// The review of a draft as the interface asks for it: first figures, then all. The draft has
/// variants, a cohort, a condition on two properties, and partial rollouts.
async fn draft(
    report: &mut Report,
    client: &mut Client,
    (project, id): (u64, u64),
    persons: u64,
) -> Result<()> {
    let property = |key: &str, operator: &str, value: &str| json!({ "key": key, "type": "person", "operator": operator, "value": value });
    let enterprise = property("plan", "exact", "enterprise");
    let tree = json!({ "type": "OR", "values": [{ "type": "AND", "values": [enterprise] }] });
    let cohort = json!({ "name": "enterprise", "filters": { "properties": tree } });
    let cohort = client.json(&format!("/api/projects/{project}/cohorts/"), &cohort).await?;
    let member = json!({ "key": "id", "type": "cohort", "value": cohort["id"] });
    let (team, mail) = (property("plan", "exact", "team"), property("email", "icontains", "1@"));
    let variant = |key: &str| json!({ "key": key, "rollout_percentage": 50 });
    let draft = json!({ "filters": {
        "groups": [
            { "properties": [member], "rollout_percentage": 80 },
            { "properties": [team, mail], "rollout_percentage": 50, "variant": "test" },
            { "properties": [], "rollout_percentage": 10 },
        ],
        "multivariate": { "variants": [variant("control"), variant("test")] },
    } });
    let path = format!("/api/projects/{project}/feature_flags/{id}/dry_run/");
    for (what, query, bound) in [
        ("dry run of a draft with variants", "", scan_bound(persons)),
        ("  its first figures", "?ms_max=200", Bound::AtMost(FIRST_FIGURES_SECONDS)),
    ] {
        let started = Instant::now();
        let run = client.json(&format!("{path}{query}"), &draft).await?;
        seconds(report, &format!("{what} over {persons} persons"), started, bound);
        let counts = run["matrix"].as_array().context("no matrix")?;
        let counted: u64 = counts.iter().filter_map(|cell| cell["count"].as_u64()).sum();
        let (subjects, is_complete) = (run["subjects"].as_u64(), run["complete"] == json!(true));
        ensure!(subjects == Some(counted) && run["total"] == json!(persons), "dry run {run}");
        ensure!(counted > 0 && (!is_complete || counted == persons), "dry run {run}");
    }
    Ok(())
}

async fn fill_second_project(server: &ServerProcess, client: &mut Client) -> Result<u64> {
    let path = "/api/organizations/@current/projects/";
    let project = client.json(path, &json!({ "name": "few" })).await?;
    let key = project["api_token"].as_str().context("a project without key")?;
    rate_of(server, FEW_PERSONS, person_batches(key, 0..FEW_PERSONS)).await?;
    project["id"].as_u64().context("a project without id")
}

fn on_disk(report: &mut Report, data: &Path, persons: u64) -> Result<()> {
    let mut add = |name, bytes: u64| {
        report.add(row(name, "bytes", bytes as f64 / persons as f64, Bound::None));
    };
    if !uses_postgres() {
        let catalog = std::fs::metadata(data.join("catalog.sqlite"))?.len();
        add("on disk, a person: catalog", catalog);
    }
    add("on disk, a person's event: warehouse", stored_bytes(data, catalog_url(data)?.as_deref())?);
    Ok(())
}

fn memory(
    report: &mut Report,
    server: &ServerProcess,
    when: &str,
    persons: u64,
    bound: Bound,
) -> Result<()> {
    let sizes = server.memory_bytes()?;
    for (kind, bytes, bound) in [
        ("anonymous memory", sizes.anonymous, bound),
        ("resident memory", sizes.resident, Bound::None),
    ] {
        let name = format!("{kind} an id, {when}");
        report.add(row(&name, "bytes", bytes as f64 / persons as f64, bound));
    }
    Ok(())
}

fn rate(report: &mut Report, name: &str, ours: f64, reference: (&'static str, f64), at_least: f64) {
    report.add(Row {
        name: name.into(),
        unit: "/s",
        ours,
        reference: Some(reference),
        bound: Bound::RatioAtLeast(at_least),
    });
}

fn seconds(report: &mut Report, name: &str, started: Instant, bound: Bound) {
    report.add(row(name, "s", started.elapsed().as_secs_f64(), bound));
}

fn row(name: &str, unit: &'static str, ours: f64, bound: Bound) -> Row {
    Row { name: name.into(), unit, ours, reference: None, bound }
}
