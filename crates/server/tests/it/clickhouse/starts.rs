//! A server starts only on stores that belong together.

use super::{Fixture, capture, events, wait_for_events};
use crate::harness::{Instance, Process, Store};

/// What a server says that does not start.
fn refusal(instance: &Instance) -> String {
    let mut process = Process::start(instance.command(&["serve"]));
    assert!(!process.wait().success(), "{}", process.output());
    process.logged()
}

#[test]
fn events_in_the_data_directory_are_not_forgotten() {
    let Some(Fixture { database, .. }) = Fixture::new() else { return };
    let server = Store::Sqlite.start();
    server.ingest(&events(0..5));
    let (_, _, mut instance) = server.stop();
    instance.set("HEDGEROW_WAREHOUSE_URL", &database.url);
    let why = refusal(&instance);
    assert!(why.contains("that ClickHouse lacks"), "{why}");
    instance.unset("HEDGEROW_WAREHOUSE_URL");
    instance.serve().wait_until_applied();
}

#[test]
fn a_lost_database_or_setting_is_not_taken_for_an_empty_warehouse() {
    let Some(Fixture { database, instance }) = Fixture::new() else { return };
    let server = instance.serve();
    capture(&server, &events(0..5));
    wait_for_events(&database, 5);
    let (_, _, mut instance) = server.stop();
    instance.unset("HEDGEROW_WAREHOUSE_URL");
    let why = refusal(&instance);
    assert!(why.contains("the warehouse is missing") && why.contains("warehouse_url"), "{why}");
    instance.set("HEDGEROW_WAREHOUSE_URL", &database.url);
    database.sql("TRUNCATE TABLE lanes");
    let why = refusal(&instance);
    assert!(why.contains("the warehouse is missing"), "{why}");
    // Nor is the database of another server.
    let other = Store::Sqlite.start_with(&[("HEDGEROW_WAREHOUSE_URL", &database.url)]);
    capture(&other, &events(0..3));
    wait_for_events(&database, 8);
    let why = refusal(&instance);
    assert!(why.contains("filled from journal") || why.contains("different servers"), "{why}");
}
