//! Servers whose warehouse is ClickHouse. Each has a database of its own; without ClickHouse
//! (`tools/with-clickhouse`) the tests are skipped.

mod answers;
mod commands;
mod feed;
mod outages;
mod starts;

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testing::clickhouse::Database;

use crate::harness::{Instance, PROJECT_KEY, Relay, Server, Store};

/// Longer waits count as a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server's settings and its database.
struct Fixture {
    database: Database,
    instance: Instance,
}

impl Fixture {
    /// None if there is no ClickHouse.
    fn new() -> Option<Self> {
        let database = Database::new()?;
        let mut instance = Store::Sqlite.instance();
        instance.set("HEDGEROW_WAREHOUSE_URL", &database.url);
        Some(Self { database, instance })
    }

    /// The server reaches ClickHouse through a relay.
    fn with_relay() -> Option<(Self, Relay)> {
        let mut fixture = Self::new()?;
        let (_, rest) = fixture.database.url.split_once('@').unwrap();
        let (address, database) = rest.split_once('/').unwrap();
        let real: SocketAddr = address.to_socket_addrs().unwrap().next().unwrap();
        let relay = Relay::to(real);
        let url = format!("http://default:@{}/{database}", relay.address);
        fixture.instance.set("HEDGEROW_WAREHOUSE_URL", &url);
        Some((fixture, relay))
    }
}

/// Waits until a statement answers this.
fn wait_for(database: &Database, sql: &str, expected: &str) {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let found = database.sql(sql);
        if found == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{sql}: {found} instead of {expected}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

const COUNT: &str = "SELECT count(), uniqExact(uuid) FROM events FINAL FORMAT CSV";

fn wait_for_events(database: &Database, events: usize) {
    wait_for(database, COUNT, &format!("{events},{events}"));
}

fn events(numbers: std::ops::Range<usize>) -> Vec<Value> {
    let event = |number: usize| {
        json!({ "event": "opened", "distinct_id": format!("person {}", number % 7),
            "properties": { "number": number, "$set": { "last": number } } })
    };
    numbers.map(event).collect()
}

/// Sends events; returns once the journal has them.
fn capture(server: &Server, events: &[Value]) {
    let body = json!({ "api_key": PROJECT_KEY, "batch": events });
    server.call("POST", "/batch").no_key().json(body).send().expect(200);
}
