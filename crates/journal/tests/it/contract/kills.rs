use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use journal::Position;
use testing::Rng;
use tokio::task::JoinSet;

use super::Adapter;
use crate::{batch, read_all, tiny};

const CHILD: &str = "JOURNAL_CONTRACT_CHILD";
const ROUNDS: u64 = 5;
const TASKS: u64 = 8;
/// A child that acknowledges nothing for this long is killed, and the test fails.
const FIRST_ACK_MAX: Duration = Duration::from_secs(60);

/// Runs itself as the child to be killed, which appends under load and prints what is acknowledged.
pub async fn acknowledged_records_survive_kill_9<A: Adapter>(adapter: A) {
    if let Ok(name) = std::env::var(CHILD) {
        append_until_killed(A::from_name(&name)).await;
    }
    let mut rng = testing::seed().rng();
    let mut known: BTreeMap<Position, String> = BTreeMap::new();
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill::<A>(&adapter.name(), round, &mut rng);
        assert!(!acknowledged.is_empty(), "nothing was acknowledged");
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
    // Ends the loop below too, whatever the child does.
    let (acknowledge, first) = mpsc::sync_channel(1);
    let killer = std::thread::spawn(move || {
        let _ = first.recv_timeout(FIRST_ACK_MAX);
        std::thread::sleep(wait);
        child.kill().unwrap();
        child.wait().unwrap()
    });
    let (mut acknowledged, mut line) = (BTreeMap::new(), String::new());
    // The kill may have truncated the last line.
    while lines.read_line(&mut line).unwrap() > 0 && line.ends_with('\n') {
        if let Some((position, record)) =
            line.trim_end().strip_prefix("ack ").and_then(|rest| rest.split_once(' '))
        {
            let position = Position::from_u64(position.parse().unwrap());
            acknowledged.insert(position, record.to_owned());
            let _ = acknowledge.try_send(());
        }
        line.clear();
    }
    drop(acknowledge);
    let status = killer.join().unwrap();
    assert_eq!(status.signal(), Some(9), "an append of the child failed: {status}");
    acknowledged
}

async fn append_until_killed<A: Adapter>(adapter: A) -> ! {
    let round = std::env::var("ROUND").unwrap();
    let journal = adapter.open(tiny()).await.unwrap();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (journal, round) = (journal.clone(), round.clone());
        tasks.spawn(async move {
            for number in 0u64.. {
                let records: Vec<_> =
                    (0..number % 4 + 1).map(|n| format!("{round}:{task}:{number}:{n}")).collect();
                let last = journal.append(batch(&records)).await.unwrap();
                let line = format!("ack {last} {}\n", records.last().unwrap());
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
            }
        });
    }
    // Only a panic ends a task.
    tasks.join_next().await;
    std::process::abort()
}
