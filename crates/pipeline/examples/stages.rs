//! What an event of the reference set costs on its way from the journal into both stores, by thread:
//! `cargo run --release -p pipeline --example stages`, with the number of events and the records of a
//! batch as arguments.

#![allow(clippy::unwrap_used, reason = "a measurement that fails says where")]

use std::collections::BTreeMap;
use std::fs;

use catalog::{Catalog, FirstStart, Location, Secret, Vault};
use geoip::GeoIp;
use journal::{Batch, Journal};
use model::event::{AcceptedEvent, EventUuid, RawTime};
use model::{Clock, ProjectId, Timestamp};
use pipeline::{Parts, Pipeline};
use uuid::Uuid;
use warehouse::{Effort, Warehouse};

#[path = "../../../bench/src/reference.rs"]
#[allow(dead_code, reason = "only what makes JSON is needed")]
mod reference;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH_BYTES_MAX: usize = 8 << 20;

/// Seconds of processor by name of thread.
fn spent() -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap() {
        let task = task.unwrap().path();
        let name = fs::read_to_string(task.join("comm")).unwrap().trim().to_owned();
        let stat = fs::read_to_string(task.join("schedstat")).unwrap();
        let nanos: f64 = stat.split(' ').next().unwrap().parse().unwrap();
        *all.entry(name).or_default() += nanos / 1e9;
    }
    all
}

fn main() {
    let number = |text: String| text.parse::<u64>().expect("arguments are numbers");
    let mut given = std::env::args().skip(1).map(number);
    let events = given.next().unwrap_or(400_000);
    let batch_records = given.next().unwrap_or(2_000) as usize;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(events, batch_records));
}

async fn run(events: u64, batch_records: usize) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::at(Timestamp::from_micros(reference::START_MICROS + 91 * 86_400_000_000));
    let vault = Vault::new(&Secret::given("secret"));
    let file = folder.path().join("catalog.sqlite");
    let catalog = Catalog::open(Location::Sqlite(&file), vault, clock.clone()).await.unwrap();
    let first = FirstStart {
        project_api_key: Some(Secret::given("phc_test")),
        personal_api_key: Some(Secret::given("phx_test")),
        admin_email: Some("admin@example.com".into()),
        admin_password: Some(Secret::given("correct horse battery")),
    };
    catalog.bootstrap(first).await.unwrap();
    let settings = journal::Settings { disk_bytes_max: 64 << 30, ..Default::default() };
    let journal = Journal::open(folder.path().join("journal"), settings).await.unwrap();
    fill(&journal, events).await;
    let warehouse = Warehouse::open(
        &folder.path().join("events"),
        journal.id().as_u128(),
        warehouse::Settings::default(),
        clock,
    )
    .unwrap();
    let parts = Parts {
        catalog: catalog.clone(),
        warehouse: warehouse.clone(),
        journal: journal.id(),
        geoip: GeoIp::built_in().unwrap(),
    };
    let mut pipeline = Pipeline::open(parts).await.unwrap();
    let mut reader = journal.reader(pipeline.start()).unwrap();
    let (before, mut compaction, mut done, mut looked) = (spent(), 0.0, 0, 0);
    let own = || spent().remove("stages").unwrap();
    while done < events {
        let records = reader.next_batch(batch_records, BATCH_BYTES_MAX).await.unwrap();
        pipeline.apply(&records).await.unwrap();
        done += records.len() as u64;
        if done - looked > 50_000 {
            looked = done;
            let begun = own();
            while warehouse.compact(Effort::Due).unwrap().is_some() {}
            compaction += own() - begun;
        }
    }
    let begun = own();
    warehouse.flush().unwrap();
    let last = own() - begun;
    while warehouse.compact(Effort::Due).unwrap().is_some() {}
    compaction += own() - begun - last;
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
    let catalog_bytes = fs::metadata(&file).unwrap().len();
    println!("catalog {:.1} MB", catalog_bytes as f64 / 1e6);
}

async fn fill(journal: &Journal, events: u64) {
    let mut set = reference::Reference::new(events);
    let mut json = String::new();
    let mut batch = Batch::new();
    while let Some(event) = set.next_event() {
        json.clear();
        set.json(&event, &mut json);
        let start = json.find(r#""properties":"#).unwrap() + 13;
        let at = json.find(r#""timestamp":""#).unwrap() + 13;
        let time = &json[at..at + 27];
        let accepted = AcceptedEvent {
            project: ProjectId(1),
            received_at: Timestamp::from_micros(reference::START_MICROS + 90 * 86_400_000_000),
            client_ip: Some([127, 0, 0, 1].into()),
            sent_at: None,
            historical_migration: false,
            uuid: EventUuid::Given(Uuid::from_u128(event.uuid)),
            name: &event.name,
            distinct_id: &event.distinct_id,
            timestamp: Some(RawTime::Text(time.into())),
            offset_ms: None,
            properties: &json[start..json.len() - 1],
            set: None,
            set_once: None,
            unset: None,
            v1: None,
        };
        batch.push_with(|out| accepted.encode(out));
        if batch.len() == 1_000 {
            journal.append(std::mem::take(&mut batch)).await.unwrap();
        }
    }
    if !batch.is_empty() {
        journal.append(batch).await.unwrap();
    }
}
