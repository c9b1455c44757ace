//! Databases of the ClickHouse server that `tools/with-clickhouse` starts.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

const CLICKHOUSE_URL: &str = "HEDGEROW_TEST_CLICKHOUSE_URL";

/// False without a ClickHouse server: the test prints that it is skipped. CI requires one.
pub fn clickhouse_available() -> bool {
    if std::env::var_os(CLICKHOUSE_URL).is_some() {
        return true;
    }
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "{CLICKHOUSE_URL} is not set; run the tests under tools/with-clickhouse");
    println!("skipped: {CLICKHOUSE_URL} is not set (tools/with-clickhouse sets it)");
    false
}

/// A name for a database that is dropped with its handle. The test creates it.
pub struct Database {
    pub url: String,
    pub name: String,
}

impl Database {
    /// `None` if [`clickhouse_available`] is false.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        clickhouse_available().then(|| {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("test_{}_{number}", std::process::id());
            let server = std::env::var(CLICKHOUSE_URL).unwrap();
            Self { url: format!("{}/{name}", server.trim_end_matches('/')), name }
        })
    }

    /// Runs a statement outside of the code under test, and returns what ClickHouse answers.
    pub fn sql(&self, sql: &str) -> String {
        post(&format!("/?database={}", self.name), sql)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        post("/", &format!("DROP DATABASE IF EXISTS {} SYNC", self.name));
    }
}

/// HTTP/1.0 over a connection of its own: the answer ends with the connection.
fn post(path: &str, body: &str) -> String {
    let url = std::env::var(CLICKHOUSE_URL).unwrap();
    let (_, rest) = url.split_once("://").unwrap();
    let authority = rest.split('/').next().unwrap();
    let (user, address) = authority.rsplit_once('@').unwrap_or(("default:", authority));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let mut connection = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {address}\r\nX-ClickHouse-User: {user}\r\n\
         X-ClickHouse-Key: {password}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(body.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.split(' ').nth(1) == Some("200"), "{head}\n{body}");
    body.trim_end().to_owned()
}
