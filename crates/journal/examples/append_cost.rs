//! Benchmark: the cost of an append compared with a bare fdatasync.
//!
//! `cargo run --release -p journal --example append_cost [dir]`, on the disk that matters.

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use journal::{Batch, Durability, Journal, Position, Settings};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const RECORD: [u8; 1000] = [7; 1000];
const ROUNDS: usize = 3000;
const APPENDERS: usize = 64;
const THROUGHPUT_RECORDS: usize = 1_000_000;
const RECORDS_PER_APPEND: usize = 100;

#[tokio::main]
async fn main() -> Result<()> {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let parent = given.unwrap_or_else(std::env::temp_dir);
    let dir = parent.join(format!("append-cost-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let outcome = run(&dir).await;
    fs::remove_dir_all(&dir)?;
    outcome
}

async fn run(dir: &Path) -> Result<()> {
    print("fdatasync of 1 kB, preallocated", bare(&dir.join("bare"))?);
    let journal = Journal::open(dir.join("latency"), Settings::default()).await?;
    print("append of 1 record, 1 appender", appenders(&journal, 1, ROUNDS, 1).await?);
    print("append of 1 record, 64 appenders", appenders(&journal, APPENDERS, ROUNDS, 1).await?);
    let stats = journal.stats();
    println!("{:36} {:>8.1} records a sync", "", stats.records as f64 / stats.syncs as f64);
    journal.close().await;

    for (name, durability) in [("fsync", Durability::Fsync), ("os", Durability::Os)] {
        for tasks in [1, 8] {
            throughput(&dir.join(format!("{name}-{tasks}")), durability, name, tasks).await?;
        }
    }
    Ok(())
}

/// The reference: a bare fdatasync of 1 kB.
fn bare(path: &Path) -> Result<Vec<Duration>> {
    let file = OpenOptions::new().create_new(true).write(true).open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 64 << 20)?;
    file.sync_all()?;
    let mut times = Vec::with_capacity(ROUNDS);
    for round in 0..ROUNDS {
        let began = Instant::now();
        file.write_all_at(&RECORD, (round * RECORD.len()) as u64)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(times)
}

async fn appenders(
    journal: &Journal,
    tasks: usize,
    appends: usize,
    records: usize,
) -> Result<Vec<Duration>> {
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let mut times = Vec::with_capacity(appends);
                for _ in 0..appends {
                    let began = Instant::now();
                    journal.append(batch(&journal, records)).await?;
                    times.push(began.elapsed());
                }
                Ok::<_, journal::Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in running {
        times.extend(task.await??);
    }
    Ok(times)
}

/// A million records: appended alone, then read back, then appended next to a reader that releases
/// what it has read, so that segments are recycled.
async fn throughput(dir: &Path, durability: Durability, name: &str, tasks: usize) -> Result<()> {
    let settings = Settings { durability, ..Settings::default() };
    let journal = Journal::open(dir, settings).await?;
    let title = format!("{RECORDS_PER_APPEND} x 1 kB an append, {name}, {tasks} appenders");
    let meter = Meter::start()?;
    let times = append_many(&journal, tasks).await?;
    meter.stop(&title)?;
    print("", times);

    let meter = Meter::start()?;
    consume(&journal, Position::START, journal.stats().next).await?;
    meter.stop("    read back and release")?;

    let meter = Meter::start()?;
    let from = journal.stats().next;
    let until = Position::from_u64(from.as_u64() + THROUGHPUT_RECORDS as u64);
    let (times, consumed) =
        tokio::join!(append_many(&journal, tasks), consume(&journal, from, until));
    consumed?;
    meter.stop("    append, read and release")?;
    print("", times?);
    journal.close().await;
    Ok(fs::remove_dir_all(dir)?)
}

async fn append_many(journal: &Journal, tasks: usize) -> Result<Vec<Duration>> {
    let appends = THROUGHPUT_RECORDS / RECORDS_PER_APPEND / tasks;
    appenders(journal, tasks, appends, RECORDS_PER_APPEND).await
}

async fn consume(journal: &Journal, from: Position, until: Position) -> Result<()> {
    let mut reader = journal.reader(from)?;
    while reader.position() < until {
        reader.next_batch(5000, 1 << 20).await?;
        journal.release(reader.position()).await?;
    }
    Ok(())
}

struct Meter {
    began: Instant,
    cpu: f64,
}

impl Meter {
    fn start() -> Result<Meter> {
        Ok(Meter { began: Instant::now(), cpu: cpu_seconds()? })
    }

    fn stop(self, what: &str) -> Result<()> {
        let (wall, cpu) = (self.began.elapsed().as_secs_f64(), cpu_seconds()? - self.cpu);
        let millions = THROUGHPUT_RECORDS as f64 / 1e6;
        println!("{what}: {:.2} CPU s a million, {:.2} s", cpu / millions, wall / millions);
        Ok(())
    }
}

fn batch(journal: &Journal, records: usize) -> Batch {
    let mut batch = Batch::with_capacity(journal.buffers(), records, records * RECORD.len());
    (0..records).for_each(|_| batch.push(&RECORD));
    batch
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e6;
    println!("{what:36} p50 {:>7.0} us   p99 {:>7.0} us", at(50), at(99));
}

/// User and system time of all threads, in seconds.
fn cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<f64> =
        fields.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}
