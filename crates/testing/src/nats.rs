//! NATS servers with JetStream: the cluster that `tools/with-nats` starts, and clusters whose servers
//! a test may kill and freeze.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

use crate::test_deps;

const NATS_URL: &str = "HEDGEROW_TEST_NATS_URL";
const MONITOR_URLS: &str = "HEDGEROW_TEST_NATS_MONITOR_URLS";
const DEBIAN: &str = "/usr/sbin/nats-server";

/// The servers of `tools/with-nats`, which all tests share.
#[derive(Clone, Debug)]
pub struct Nats {
    /// With a journal's name that no other test has.
    pub url: String,
    pub monitor_urls: Vec<String>,
}

impl Nats {
    /// `None` without servers: the test prints that it is skipped. CI requires them.
    pub fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if !nats_available() {
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let (servers, monitors) = (std::env::var(NATS_URL), std::env::var(MONITOR_URLS));
        Some(Self {
            url: format!("{}/test-{}-{number}", servers.unwrap(), std::process::id()),
            monitor_urls: monitors.unwrap().split(',').map(str::to_owned).collect(),
        })
    }
}

fn nats_available() -> bool {
    if std::env::var_os(NATS_URL).is_some() {
        return true;
    }
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "{NATS_URL} is not set; run the tests under tools/with-nats");
    println!("skipped: {NATS_URL} is not set (tools/with-nats sets it)");
    false
}

/// Which program a cluster runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// As Debian has it: 2.9, without `sync_interval`.
    Debian,
    /// As `tools/install-test-deps` installs it.
    Current,
}

/// Three servers of one test, which are killed with it.
pub struct Cluster {
    release: Release,
    /// User and password.
    user: Option<(&'static str, &'static str)>,
    ports: Vec<u16>,
    servers: Vec<Option<Child>>,
    dir: TempDir,
}

impl Cluster {
    /// `None` if tests do not run under `tools/with-nats`.
    pub fn start(release: Release) -> Option<Self> {
        Self::start_with(release, None)
    }

    /// Whose servers want this user and password.
    pub fn start_with_password(user: &'static str, password: &'static str) -> Option<Self> {
        Self::start_with(Release::Current, Some((user, password)))
    }

    fn start_with(release: Release, user: Option<(&'static str, &'static str)>) -> Option<Self> {
        if !nats_available() {
            return None;
        }
        // Bound together, so that they differ; another process could take one until the servers do.
        let listeners: Vec<TcpListener> =
            (0..9).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports = listeners.iter().map(|one| one.local_addr().unwrap().port()).collect();
        drop(listeners);
        let parent = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
        let dir = TempDir::with_prefix_in("hedgerow-nats.", parent).unwrap();
        let mut cluster = Self { release, user, ports, servers: vec![None, None, None], dir };
        (0..3).for_each(|server| cluster.restart(server));
        Some(cluster)
    }

    pub fn url(&self) -> String {
        let hosts: Vec<_> =
            (0..3).map(|server| format!("127.0.0.1:{}", self.ports[server])).collect();
        format!("nats://{}", hosts.join(","))
    }

    pub fn monitor_urls(&self) -> Vec<String> {
        (3..6).map(|port| format!("http://127.0.0.1:{}", self.ports[port])).collect()
    }

    /// Servers are named `n0`, `n1` and `n2`.
    pub fn number_of(name: &str) -> usize {
        name.strip_prefix('n').unwrap().parse().unwrap()
    }

    /// Starts a server that was killed.
    pub fn restart(&mut self, server: usize) {
        let program = match self.release {
            Release::Debian => PathBuf::from(DEBIAN),
            Release::Current => test_deps().join("venv-nats/bin/nats-server"),
        };
        let sync = if self.release == Release::Current { ", sync_interval: always" } else { "" };
        let [client, monitor, cluster] = [0, 3, 6].map(|kind| self.ports[kind + server]);
        let store = self.dir.path().join(format!("store{server}"));
        let routes: Vec<_> =
            (6..9).map(|port| format!("nats://127.0.0.1:{}", self.ports[port])).collect();
        let authorization = self.user.map_or(String::new(), |(user, password)| {
            format!("authorization {{ user: {user:?}, password: {password:?} }}\n")
        });
        let config = format!(
            "server_name: n{server}\nlisten: 127.0.0.1:{client}\nhttp: 127.0.0.1:{monitor}\n\
             max_payload: 16MB\n\
             jetstream {{ store_dir: {store:?}, max_file_store: 4TB{sync} }}\n\
             cluster {{ name: test, listen: 127.0.0.1:{cluster}, routes: [{}] }}\n\
             {authorization}",
            routes.join(", ")
        );
        let file = self.dir.path().join(format!("{server}.conf"));
        fs::write(&file, config).unwrap();
        let log = self.dir.path().join(format!("{server}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        // Killed with the test, however that ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .arg("-c")
            .arg(file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("run tools/install-test-deps first");
        self.servers[server] = Some(child);
    }

    pub fn kill(&mut self, server: usize) {
        if let Some(mut child) = self.servers[server].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn freeze(&self, server: usize) {
        self.signal(server, "-STOP");
    }

    pub fn thaw(&self, server: usize) {
        self.signal(server, "-CONT");
    }

    fn signal(&self, server: usize, signal: &str) {
        let pid = self.servers[server].as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..3).for_each(|server| self.kill(server));
    }
}
