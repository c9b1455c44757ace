use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::{Durability, Journal, Position, Settings};
use testing::Rng;

use crate::{batch, inspect, read_all, tiny};

const CHILD: &str = "JOURNAL_KILLED_CHILD";
const ROUNDS: u64 = 32;
const TASKS: u64 = 8;
/// Records are released at this lag, so that files are recycled under load too.
const KEPT: u64 = 400;

/// Runs itself as the child to be killed, which appends under load and prints what is acknowledged.
#[test]
fn every_acknowledged_record_survives_kill_9_under_load() {
    if let Ok(dir) = std::env::var(CHILD) {
        append_until_killed(Path::new(&dir));
    }
    let seed = testing::seed();
    let mut rng = seed.rng();
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut known = BTreeMap::new();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let (printed, released) = run_and_kill(dir.path(), round, &mut rng);
        for (last, records) in printed {
            let first = last + 1 - records.len() as u64;
            for (position, record) in (first..).zip(records) {
                acknowledged += 1;
                let before = known.insert(Position::from_u64(position), record);
                assert_eq!(before, None, "round {round}: {position} comes twice");
            }
        }
        let inspected = inspect(dir.path());
        let found = runtime.block_on(async {
            let journal = Journal::open(dir.path(), settings(round)).await.unwrap();
            let found = read_all(&journal, journal.stats().oldest).await;
            journal.close().await;
            found
        });
        assert_eq!(found, inspected, "round {round}");

        known.retain(|position, _| *position >= released);
        let mut found: BTreeMap<Position, Vec<u8>> = found.into_iter().collect();
        for (position, record) in &known {
            assert_eq!(found.get(position), Some(record), "round {round}, position {position}");
        }
        known.append(&mut found);
    }
    assert!(acknowledged > 50 * ROUNDS, "too little load: {acknowledged} acknowledged");
}

fn settings(round: u64) -> Settings {
    let durability = if round % 4 == 3 { Durability::Os } else { Durability::Fsync };
    Settings { durability, ..tiny() }
}

type Acknowledged = Vec<(u64, Vec<Vec<u8>>)>;

/// What the child printed before it was killed: batches by last position, and the last release.
fn run_and_kill(dir: &Path, round: u64, rng: &mut Rng) -> (Acknowledged, Position) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::killing::every_acknowledged_record_survives_kill_9_under_load"])
        .args(["--nocapture", "--test-threads=1"])
        .env(CHILD, dir)
        .env("ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let (mut acknowledged, mut released) = (Vec::new(), Position::START);
    let mut killer = None;
    let mut line = String::new();
    // The kill may have truncated the last line.
    while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["ack", last, ids @ ..] => {
                let records = ids.iter().map(|id| record(id)).collect();
                acknowledged.push((last.parse().unwrap(), records));
            }
            ["release", before] => released = Position::from_u64(before.parse().unwrap()),
            _ => {}
        }
        if killer.is_none() && words.first() == Some(&"ack") {
            let pid = child.id().to_string();
            let wait = Duration::from_micros(rng.range(0..60_000));
            killer = Some(std::thread::spawn(move || {
                std::thread::sleep(wait);
                Command::new("kill").args(["-9", &pid]).status().unwrap()
            }));
        }
        line.clear();
    }
    assert!(killer.expect("nothing was acknowledged").join().unwrap().success());
    child.wait().unwrap();
    (acknowledged, released)
}

/// A record of varying size, filled with its id.
fn record(id: &str) -> Vec<u8> {
    let times = id.bytes().map(usize::from).sum::<usize>() % 97 + 1;
    id.repeat(times).into_bytes()
}

fn append_until_killed(dir: &Path) -> ! {
    let round: u64 = std::env::var("ROUND").unwrap().parse().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let journal = Journal::open(dir, settings(round)).await.unwrap();
        for task in 0..TASKS {
            let journal = journal.clone();
            tokio::spawn(async move {
                for number in 0u64.. {
                    let ids: Vec<String> = (0..number % 4 + 1)
                        .map(|n| format!("{round}:{task}:{number}:{n}"))
                        .collect();
                    let last =
                        journal.append(batch(ids.iter().map(|id| record(id)))).await.unwrap();
                    say(&format!("ack {last} {}\n", ids.join(" ")));
                    if task == 0 && number % 10 == 9 {
                        let before = last.as_u64().saturating_sub(KEPT);
                        say(&format!("release {before}\n"));
                        journal.release(Position::from_u64(before)).await.unwrap();
                    }
                }
            });
        }
        std::future::pending().await
    })
}

fn say(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}
