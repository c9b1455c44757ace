use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use journal::Position;
use testing::Rng;

use super::Adapter;
use crate::{batch, read_all, tiny};

const CHILD: &str = "JOURNAL_CONTRACT_CHILD";
const ROUNDS: u64 = 5;
const TASKS: u64 = 8;

/// Runs itself as the child to be killed, which appends under load and prints what is acknowledged.
pub async fn acknowledged_records_survive_kill_9<A: Adapter>(adapter: A) {
    if let Ok(name) = std::env::var(CHILD) {
        append_until_killed(A::from_name(&name)).await;
    }
    let mut rng = testing::seed().rng();
    let mut known: BTreeMap<Position, String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill::<A>(&adapter.name(), round, &mut rng);
        assert!(!acknowledged.is_empty());
        let journal = adapter.open(tiny()).await.unwrap();
        let found: BTreeMap<Position, String> = read_all(&journal, Position::START)
            .await
            .into_iter()
            .map(|(position, record)| (position, String::from_utf8(record).unwrap()))
            .collect();
        for (position, record) in known.iter().chain(&acknowledged) {
            assert_eq!(found.get(position), Some(record), "round {round}, position {position}");
        }
        let mut records: Vec<&String> = found.values().collect();
        records.sort();
        assert!(records.is_sorted_by(|a, b| a < b), "round {round}: a record comes twice");
        known = found;
        journal.close().await;
    }
}

/// What the child printed before it was killed.
fn run_and_kill<A: Adapter>(name: &str, round: u64, rng: &mut Rng) -> BTreeMap<Position, String> {
    let case = format!("{}::acknowledged_records_survive_kill_9", A::MODULE);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &case, "--nocapture", "--test-threads=1"])
        .env(CHILD, name)
        .env("ROUND", round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let wait = Duration::from_millis(rng.range(20..300));
    let (mut acknowledged, mut line, mut killer) = (BTreeMap::new(), String::new(), None);
    // The kill may have truncated the last line.
    while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        if let Some((position, record)) =
            line.trim_end().strip_prefix("ack ").and_then(|rest| rest.split_once(' '))
        {
            let position = Position::from_u64(position.parse().unwrap());
            acknowledged.insert(position, record.to_owned());
            killer.get_or_insert_with(|| {
                let pid = child.id().to_string();
                std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    Command::new("kill").args(["-9", &pid]).status().unwrap()
                })
            });
        }
        line.clear();
    }
    assert!(killer.expect("nothing was acknowledged").join().unwrap().success());
    child.wait().unwrap();
    acknowledged
}

async fn append_until_killed<A: Adapter>(adapter: A) -> ! {
    let round = std::env::var("ROUND").unwrap();
    let journal = adapter.open(tiny()).await.unwrap();
    for task in 0..TASKS {
        let (journal, round) = (journal.clone(), round.clone());
        tokio::spawn(async move {
            for number in 0u64.. {
                let records: Vec<_> =
                    (0..number % 4 + 1).map(|n| format!("{round}:{task}:{number}:{n}")).collect();
                let last = journal.append(batch(&records)).await.unwrap();
                let line = format!("ack {last} {}\n", records.last().unwrap());
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        });
    }
    std::future::pending().await
}
