//! Starts the `hedgerow` binary and sends requests to it.

mod http;
mod relay;

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

pub use http::{Request, Response, raw};
pub use relay::Relay;

use crate::database::{PostgresDatabase, execute_sqlite};

pub const PROJECT_KEY: &str = "phc_test";
pub const PERSONAL_KEY: &str = "phx_test";
pub const ADMIN_EMAIL: &str = "admin@example.com";
pub const ADMIN_PASSWORD: &str = "correct horse battery";

/// Longer waits count as a hang, also on a loaded machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The server of one test; killed when dropped.
pub struct Server {
    process: Process,
    address: SocketAddr,
    instance: Instance,
}

/// Data directory, settings and database of a server; another server can be started on them.
pub struct Instance {
    binary: PathBuf,
    pub data_dir: TempDir,
    pub environment: Vec<(String, String)>,
    pub database: Option<PostgresDatabase>,
}

impl Instance {
    /// On SQLite without a database. `binary` is the path of `hedgerow`.
    pub fn new(binary: impl Into<PathBuf>, database: Option<PostgresDatabase>) -> Self {
        let data_dir = tempfile::tempdir().unwrap();
        let mut environment: Vec<(String, String)> = [
            ("HEDGEROW_LISTEN", "127.0.0.1:0"),
            ("HEDGEROW_PROJECT_API_KEY", PROJECT_KEY),
            ("HEDGEROW_PERSONAL_API_KEY", PERSONAL_KEY),
            ("HEDGEROW_ADMIN_EMAIL", ADMIN_EMAIL),
            ("HEDGEROW_ADMIN_PASSWORD", ADMIN_PASSWORD),
            // Small, since tests read whole journals.
            ("HEDGEROW_JOURNAL_SEGMENT_BYTES", "1 MiB"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        environment.push(("HEDGEROW_DATA_DIR".into(), data_dir.path().display().to_string()));
        if let Some(database) = &database {
            environment.push(("HEDGEROW_CATALOG_URL".into(), database.url.clone()));
        }
        Self { binary: binary.into(), data_dir, environment, database }
    }

    /// Executes SQL on the catalog, to create states that are slow or impossible over HTTP.
    pub fn write(&self, sql: &str) {
        match &self.database {
            Some(database) => database.execute(sql),
            None => execute_sqlite(&self.data_dir.path().join("catalog.sqlite"), sql),
        }
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.environment.push((name.into(), value.into()));
    }

    pub fn get(&self, name: &str) -> String {
        let variable = self.environment.iter().find(|(known, _)| known == name);
        variable.unwrap().1.clone()
    }

    /// A new data directory with the same settings.
    pub fn sibling(&self) -> Self {
        let mut other = Self::new(&self.binary, None);
        let data_dir = other.data_dir.path().display().to_string();
        other.environment.clone_from(&self.environment);
        other.set("HEDGEROW_DATA_DIR", &data_dir);
        other
    }

    pub fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// The binary with this instance's settings and no inherited `HEDGEROW_` variables.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        let inherited = std::env::vars().filter(|(name, _)| name.starts_with("HEDGEROW_"));
        for (name, _) in inherited {
            command.env_remove(name);
        }
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.data_dir.path());
        command
    }

    /// Runs a command; returns success, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (bool, String, String) {
        let mut process = Process::start(self.command(arguments));
        let status = process.wait();
        (status.success(), process.printed(), process.logged())
    }

    /// As [`Self::run`], with standard input.
    pub fn run_with_input(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let mut command = self.command(arguments);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    pub fn serve(self) -> Server {
        let process = Process::start(self.command(&["serve"]));
        let Some(address) = process.address() else {
            panic!("the server did not start:\n{}", process.output());
        };
        Server { process, address, instance: self }
    }
}

/// A child process with captured output.
pub struct Process {
    child: Child,
    printed: Lines,
    logged: Lines,
}

type Lines = Arc<Mutex<Vec<String>>>;

impl Process {
    pub fn start(mut command: Command) -> Self {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (printed, logged) = (Lines::default(), Lines::default());
        collect(child.stdout.take().unwrap(), &printed);
        collect(child.stderr.take().unwrap(), &logged);
        Self { child, printed, logged }
    }

    /// Standard output and error so far.
    pub fn output(&self) -> String {
        format!("{}\n{}", self.printed(), self.logged())
    }

    /// Its standard output so far.
    pub fn printed(&self) -> String {
        self.printed.lock().unwrap().join("\n")
    }

    /// Its standard error so far.
    pub fn logged(&self) -> String {
        self.logged.lock().unwrap().join("\n")
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address that it prints; `None` if it exited.
    fn address(&self) -> Option<SocketAddr> {
        let said = self.wait_for("listening on http://")?;
        said.rsplit_once("http://")?.1.trim_end_matches('/').parse().ok()
    }

    /// The first line of output that contains `words`; `None` after the timeout.
    pub fn wait_for(&self, words: &str) -> Option<String> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            // When the reader thread has dropped its reference, the stream has ended.
            let ended = [&self.printed, &self.logged].map(Arc::strong_count) == [1, 1];
            let output = self.output();
            let said = output.lines().find(|line| line.contains(words)).map(str::to_owned);
            if said.is_some() || ended {
                return said;
            }
            if Instant::now() > deadline {
                return None;
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits for its exit and the end of its output.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let whole = [&self.printed, &self.logged].map(Arc::strong_count) == [1, 1];
            if let Some(status) = self.child.try_wait().unwrap()
                && whole
            {
                return status;
            }
            assert!(Instant::now() < deadline, "still running:\n{}", self.output());
            thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status();
        assert!(sent.unwrap().success());
    }
}

fn collect(stream: impl std::io::Read + Send + 'static, lines: &Lines) {
    let lines = Arc::clone(lines);
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            lines.lock().unwrap().push(line);
        }
    });
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn data_dir(&self) -> &Path {
        self.instance.data_dir.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.data_dir().join(name)
    }

    pub fn process(&self) -> &Process {
        &self.process
    }

    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// Standard output and error so far.
    pub fn output(&self) -> String {
        self.process.output()
    }

    /// Sends SIGTERM, waits for the exit, and returns the instance.
    pub fn stop(self) -> (ExitStatus, String, Instance) {
        self.process.signal("TERM");
        self.wait_for_exit()
    }

    /// Waits for its exit.
    pub fn wait_for_exit(self) -> (ExitStatus, String, Instance) {
        let Self { mut process, instance, .. } = self;
        let status = process.wait();
        (status, process.output(), instance)
    }

    /// Sends SIGKILL and returns the instance.
    pub fn kill(self) -> Instance {
        let Self { mut process, instance, .. } = self;
        process.child.kill().unwrap();
        process.wait();
        instance
    }

    pub fn restart(self) -> Self {
        let (status, output, instance) = self.stop();
        assert!(status.success(), "{output}");
        instance.serve()
    }

    /// A request with the key that has scope `*`.
    pub fn call(&self, method: &str, path: &str) -> Request {
        Request::new(self.address, method, path).key(PERSONAL_KEY)
    }

    pub fn get(&self, path: &str) -> Response {
        self.call("GET", path).send()
    }

    pub fn post(&self, path: &str, body: Value) -> Response {
        self.call("POST", path).json(body).send()
    }

    pub fn patch(&self, path: &str, body: Value) -> Response {
        self.call("PATCH", path).json(body).send()
    }

    pub fn put(&self, path: &str, body: Value) -> Response {
        self.call("PUT", path).json(body).send()
    }

    pub fn delete(&self, path: &str) -> Response {
        self.call("DELETE", path).send()
    }

    /// Captures events in project 1 and waits until they are applied.
    pub fn ingest(&self, events: &[Value]) {
        let body = json!({ "api_key": PROJECT_KEY, "batch": events });
        self.call("POST", "/batch").no_key().json(body).send().expect(200);
        self.wait_until_applied();
    }

    /// Waits until the pipeline has applied the whole journal.
    pub fn wait_until_applied(&self) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let metrics = self.call("GET", "/metrics").no_key().send().expect(200).text();
            if metrics.lines().any(|line| line == "hedgerow_pipeline_lag_records 0") {
                return;
            }
            assert!(Instant::now() < deadline, "events are not applied:\n{}", self.output());
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Polls `path` until `right` holds; fails after the timeout.
    #[track_caller]
    pub fn wait_until(&self, path: &str, right: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let read = self.get(path).expect(200).json();
            if right(&read) {
                return read;
            }
            assert!(Instant::now() < deadline, "{path} is still {read}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A new personal key with these scopes.
    pub fn key(&self, scopes: &[&str]) -> String {
        let body = json!({ "label": "test", "scopes": scopes });
        let made = self.post("/api/personal_api_keys/", body).expect(201).json();
        made["value"].as_str().unwrap().to_owned()
    }
}
