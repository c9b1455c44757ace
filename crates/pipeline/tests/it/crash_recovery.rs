//! Kills a process that appends, applies, flushes and compacts, at every fault point and at random
//! times. Its final state must equal that of an uninterrupted process.

use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use catalog::Catalog;
use geoip::GeoIp;
use journal::{Batch, Journal, Position};
use model::edit::{DeleteScope, Edit};
use model::person::PersonNo;
use model::{Clock, Timestamp};
use pipeline::{Parts, Pipeline};
use serde_json::json;
use tempfile::TempDir;
use testing::Rng;
use warehouse::{CompactionKind, FaultInjector, FaultPoint, Warehouse};

use crate::harness::{Database, Harness, START_MICROS, Sent, bootstrap, numbered_uuid, open};

/// Set in the child process: the locations of its catalog and its other stores.
const CATALOG: &str = "PIPELINE_KILLED_CATALOG";
const STORES: &str = "PIPELINE_KILLED_STORES";
/// `point n`: the process aborts when it reaches this fault point for the n-th time.
const POINT: &str = "PIPELINE_KILLED_AT";
/// The process sends records up to this position, applies them all and exits.
const LAST: &str = "PIPELINE_KILLED_LAST";
const TEST: &str = "sqlite::killed_process_recovers_to_the_uninterrupted_state";

/// Fault point: the catalog has committed a batch, the warehouse has not.
const COMMITTED: &str = "Committed";
/// Each fault point aborts at its first occurrence, and at a later one.
const TIMES: [usize; 2] = [1, 3];
/// With the fault points, more than fifty kills per engine.
const RANDOM_KILLS: usize = 28;
const LIFE_US_MAX: u64 = 120_000;
/// A process that sends this many did not reach its fault point.
const LIFE_RECORDS_MAX: u64 = 4_000;
const BATCH_RECORDS_MAX: usize = 24;
const IDS: u32 = 12;
/// Retry interval until PostgreSQL has released the killed owner's lock.
const OWNED_PAUSE: Duration = Duration::from_millis(5);

pub async fn killed_process_recovers_to_the_uninterrupted_state(database: Database) {
    if let Ok(location) = std::env::var(CATALOG) {
        run_child(&location).await;
        std::process::exit(0);
    }
    let seed = testing::seed();
    let mut rng = seed.rng();
    let (killed, uninterrupted) = (Stores::new(database.another()), Stores::new(database));
    let mut points: Vec<String> = FaultPoint::ALL.iter().map(|step| format!("{step:?}")).collect();
    points.push(COMMITTED.into());
    let mut acknowledged = 0;
    for (times, point) in TIMES.iter().flat_map(|times| points.iter().map(move |p| (times, p))) {
        let output = killed.start(&mut rng, &[(POINT, format!("{point} {times}"))]).run(None);
        assert!(!output.ended, "{point} was not reached {times} times");
        acknowledged = output.follows(acknowledged);
    }
    for _ in 0..RANDOM_KILLS {
        let delay = Duration::from_micros(rng.range(0..LIFE_US_MAX));
        acknowledged = killed.start(&mut rng, &[]).run(Some(delay)).follows(acknowledged);
    }
    // Applies what the journal has, acknowledged or not, and sends nothing more.
    let last = killed.start(&mut rng, &[(LAST, "0".into())]).run(None);
    assert!(last.ended);
    let records = last.follows(acknowledged);
    assert!(records > 1_000, "only {records} records");
    assert!(uninterrupted.start(&mut rng, &[(LAST, records.to_string())]).run(None).ended);

    let (killed, uninterrupted) = (killed.harness().await, uninterrupted.harness().await);
    let (found, expected) = (killed.facts().await, uninterrupted.facts().await);
    for (what, expected) in &expected {
        assert_eq!(&found[what], expected, "{what} of {records} records");
        assert!(!expected.is_empty() || *what == "dead", "no {what}");
    }
}

/// The stores of a process.
struct Stores {
    database: Database,
    stores: TempDir,
}

impl Stores {
    fn new(database: Database) -> Self {
        Self { database, stores: tempfile::tempdir().unwrap() }
    }

    fn start(&self, rng: &mut Rng, environment: &[(&str, String)]) -> ChildProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .env(CATALOG, self.database.location())
            .env(testing::SEED, rng.next_u64().to_string())
            .env(STORES, self.stores.path())
            // So that temporary files of a killed process are deleted with its stores.
            .env("TMPDIR", self.stores.path())
            .stdout(Stdio::piped());
        ChildProcess(command.spawn().unwrap())
    }

    async fn harness(self) -> Harness {
        Harness::at(self.database, self.stores).await
    }
}

struct ChildProcess(Child);

/// What a process printed before it ended.
struct Output {
    /// The journal's next position at the start, and the last acknowledged one.
    found: Option<u64>,
    acknowledged: u64,
    /// Whether it exited by itself.
    ended: bool,
}

impl Output {
    /// Asserts that the journal has all records that were acknowledged before.
    fn follows(&self, acknowledged: u64) -> u64 {
        let found = self.found.expect("it does not start");
        assert!(found >= acknowledged, "{found} of {acknowledged} are there");
        self.acknowledged.max(found)
    }
}

impl ChildProcess {
    /// Runs it until it ends, or kills it `kill` after it started its work.
    fn run(mut self, kill: Option<Duration>) -> Output {
        let mut output = Output { found: None, acknowledged: 0, ended: false };
        let mut lines = BufReader::new(self.0.stdout.take().unwrap());
        let (mut line, mut killer) = (String::new(), None);
        // A line without a newline was truncated by the kill.
        while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
            match *line.split_whitespace().collect::<Vec<_>>().as_slice() {
                ["found", position] => {
                    output.found = Some(position.parse().unwrap());
                    let id = self.0.id().to_string();
                    killer = kill.map(|delay| {
                        std::thread::spawn(move || {
                            std::thread::sleep(delay);
                            Command::new("kill").args(["-9", &id]).status().unwrap()
                        })
                    });
                }
                ["acknowledged", position] => output.acknowledged = position.parse().unwrap(),
                ["ended"] => output.ended = true,
                _ => {}
            }
            line.clear();
        }
        if let Some(killer) = killer {
            killer.join().unwrap();
        }
        let status = self.0.wait().unwrap();
        assert_eq!(status.success(), output.ended, "{status}");
        output
    }
}

fn say(line: String) {
    std::io::stdout().lock().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// The record at a position; the same in every run.
fn record(position: u64) -> Sent {
    let mut rng = Rng::new(position);
    let id = |rng: &mut Rng| format!("d{}", rng.range(0..IDS));
    let uuid = numbered_uuid(position);
    let sent = |name: &str, distinct_id, properties| Sent::Event {
        name: name.into(),
        distinct_id,
        uuid,
        properties,
    };
    let me = id(&mut rng);
    let numbered = json!({ format!("p{}", rng.range(0..6)): position });
    match rng.range(0..24) {
        0..8 => sent("viewed", me, json!({ "$set": numbered, "n": position, "page": "/ü" })),
        8..10 => sent("anonymous", me, json!({ "$process_person_profile": false })),
        10..12 => sent(
            "$identify",
            me,
            json!({ "$anon_distinct_id": id(&mut rng), "$set_once": numbered }),
        ),
        12 => sent("$create_alias", me, json!({ "alias": id(&mut rng) })),
        13 => sent("$merge_dangerously", me, json!({ "alias": id(&mut rng) })),
        14 => sent("$set", me, json!({ "$set": numbered, "$unset": ["p1"] })),
        15..17 => {
            let kind = format!("kind {}", rng.range(0..3));
            let key = format!("key {}", rng.range(0..4));
            sent(
                "$groupidentify",
                me,
                json!({ "$group_type": kind, "$group_key": key, "$group_set": numbered }),
            )
        }
        17 => sent("grouped", me, json!({ "$groups": { "kind 0": "key 1" } })),
        // A client's retry without a response; or the same uuid with other properties.
        18..21 if position > 200 => self::record(position - rng.range(1..=200)),
        21 if position > 200 => match self::record(position - rng.range(1..=200)) {
            Sent::Event { name, distinct_id, uuid, .. } => {
                Sent::Event { name, distinct_id, uuid, properties: json!({ "told": "again" }) }
            }
            other => other,
        },
        22 => {
            let scope =
                [DeleteScope::Person, DeleteScope::Events, DeleteScope::Both][rng.range(0..3)];
            let persons = vec![PersonNo(rng.range(1..=IDS))];
            Sent::Edit(Edit::DeletePersons { persons, scope })
        }
        _ => sent(
            &format!("rare {}", rng.range(0..40)),
            me,
            json!({ format!("q{}", rng.range(0..40)): true }),
        ),
    }
}

async fn open_owned(location: &str, clock: &Clock) -> Catalog {
    loop {
        match open(location, clock.clone()).await {
            Err(catalog::Error::Owned) => tokio::time::sleep(OWNED_PAUSE).await,
            opened => return opened.unwrap(),
        }
    }
}

/// Aborts the process when it reaches the configured fault point.
fn fault() -> impl Fn(&str) + Clone + Send + Sync + 'static {
    let given = std::env::var(POINT).ok();
    let set = given.and_then(|point| {
        let (name, times) = point.split_once(' ')?;
        Some((name.to_owned(), times.parse::<usize>().unwrap()))
    });
    let reached = Arc::new(AtomicUsize::new(0));
    move |at| {
        if let Some((name, times)) = &set
            && name == at
            && reached.fetch_add(1, Ordering::Relaxed) + 1 == *times
        {
            std::process::abort();
        }
    }
}

/// The child process: sends, applies, flushes, compacts and sweeps until it is killed or done.
async fn run_child(location: &str) {
    let stores = PathBuf::from(std::env::var_os(STORES).unwrap());
    let last: Option<u64> = std::env::var(LAST).ok().map(|last| last.parse().unwrap());
    let clock = Clock::at(Timestamp::from_micros(START_MICROS));
    let catalog = open_owned(location, &clock).await;
    let project = bootstrap(&catalog).await;
    let settings = journal::Settings { segment_bytes: 16 << 10, ..Default::default() };
    let journal = Journal::open(stores.join("journal"), settings).await.unwrap();
    let found = journal.stats().next.as_u64();
    // libtest prints the test's name without a newline.
    say(format!("\nfound {found}"));
    let fault = fault();
    let fault_on_commit = fault.clone();
    catalog.ingest().on_apply(move |_| fault_on_commit(COMMITTED));
    let (warehouse, mut pipeline) = stores_of(&stores, &catalog, &journal, &clock, fault).await;
    let mut reader = journal.reader(pipeline.start()).unwrap();
    let reach = last.map_or(found + LIFE_RECORDS_MAX, |last| last.max(found));
    let seed = testing::seed();
    let mut rng = seed.rng();
    loop {
        let from = journal.stats().next.as_u64();
        let to = reach.min(from + rng.range(1..=BATCH_RECORDS_MAX) as u64);
        let mut batch = Batch::new();
        for position in from..to {
            let at = START_MICROS + position as i64 * 1_000_000;
            batch.push(&record(position).record(project, Timestamp::from_micros(at)));
        }
        if from < to {
            journal.append(batch).await.unwrap();
            say(format!("acknowledged {to}"));
        }
        while reader.position() < journal.stats().next {
            let records = reader.next_batch(BATCH_RECORDS_MAX, 1 << 20).await.unwrap();
            pipeline.apply(&records).await.unwrap();
        }
        maintain(&warehouse, &catalog, &journal, &mut rng).await;
        if from == reach {
            break;
        }
    }
    warehouse.flush().unwrap();
    journal.close().await;
    catalog.close().await;
    say("ended".into());
}

async fn stores_of(
    stores: &Path,
    catalog: &Catalog,
    journal: &Journal,
    clock: &Clock,
    fault: impl Fn(&str) + Send + Sync + 'static,
) -> (Warehouse, Pipeline) {
    let faults = FaultInjector::new(move |step| {
        fault(&format!("{step:?}"));
        Ok(())
    });
    let settings = warehouse::Settings {
        memory_rows_max: 200,
        row_group_rows: 64,
        merge_segments_min: 3,
        retired_keep: Duration::ZERO,
        faults,
        ..Default::default()
    };
    let (folder, id) = (stores.join("warehouse"), journal.id());
    let warehouse = Warehouse::open(&folder, id.as_u128(), settings, clock.clone()).unwrap();
    let parts = Parts {
        catalog: catalog.clone(),
        warehouse: Arc::new(warehouse.clone()),
        journal: id,
        geoip: GeoIp::disabled(),
        counters: Arc::default(),
    };
    (warehouse, Pipeline::open(parts).await.unwrap())
}

/// The server's scheduled maintenance, much more often.
async fn maintain(warehouse: &Warehouse, catalog: &Catalog, journal: &Journal, rng: &mut Rng) {
    match rng.range(0..4) {
        0 => warehouse.flush().unwrap(),
        1 => _ = warehouse.compact(CompactionKind::Minor).unwrap(),
        2 => _ = warehouse.sweep().unwrap(),
        _ => {
            let before: Position = Pipeline::releasable(catalog, warehouse);
            journal.release(before).await.unwrap();
        }
    }
}
