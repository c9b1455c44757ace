//! CPU time per event from the journal into both stores, by thread:
//! `cargo run --release -p bench --example stages`, with the number of events and the records of a
//! batch as arguments.

#![allow(clippy::unwrap_used, reason = "a measurement that fails says where")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bench::stores::Stores;
use model::ProjectId;
use warehouse::CompactionKind;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// CPU seconds by thread name.
fn spent() -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap().trim().to_owned();
        *all.entry(name).or_default() += seconds(task);
    }
    all
}

/// CPU seconds of one thread; of a process, its main thread.
fn seconds(of: impl AsRef<Path>) -> f64 {
    let stat = fs::read_to_string(of.as_ref().join("schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn main() {
    let number = |text: String| text.parse::<u64>().expect("arguments are numbers");
    let mut given = std::env::args().skip(1).map(number);
    let events = given.next().unwrap_or(400_000);
    let batch_records = given.next().unwrap_or(8_000) as usize;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(events, batch_records));
}

async fn run(events: u64, batch_records: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut stores = Stores::open(dir.path(), events).await.unwrap();
    let warehouse = stores.warehouse.clone();
    let (before, mut compaction, mut done, mut looked) = (spent(), 0.0, 0, 0);
    let own = || seconds("/proc/self");
    while done < events {
        done += stores.apply(batch_records).await.unwrap();
        if done - looked > 50_000 {
            looked = done;
            let started = own();
            while warehouse.compact(CompactionKind::Minor).unwrap().is_some() {}
            compaction += own() - started;
        }
    }
    let started = own();
    warehouse.flush().unwrap();
    let last = own() - started;
    while warehouse.compact(CompactionKind::Minor).unwrap().is_some() {}
    compaction += own() - started - last;
    let millions = events as f64 / 1e6;
    let mut total = 0.0;
    for (name, seconds) in spent() {
        let mut seconds = seconds - before.get(&name).copied().unwrap_or_default();
        total += seconds;
        if name == "stages" {
            seconds -= compaction + last;
        }
        println!("{name:20} {:6.2} s/M", seconds / millions);
    }
    println!("{:20} {:6.2} s/M", "the last flush", last / millions);
    println!("{:20} {:6.2} s/M", "compaction", compaction / millions);
    println!("{:20} {:6.2} s/M", "all", total / millions);
    let files = warehouse.files(ProjectId(1));
    let bytes: u64 = files.files.iter().map(|file| file.bytes).sum();
    println!("{} files, {:.1} bytes an event", files.files.len(), bytes as f64 / events as f64);
    let catalog_bytes = fs::metadata(dir.path().join("catalog.sqlite")).unwrap().len();
    println!("catalog {:.1} MB", catalog_bytes as f64 / 1e6);
}
