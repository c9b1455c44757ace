//! Starts server processes and measures their CPU time and memory through `/proc`.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Names of the background threads, which apply captured events.
const BACKGROUND_THREADS: [&str; 3] = ["pipeline", "upkeep", "sqlx"];
const POLL: Duration = Duration::from_micros(200);
const TIMEOUT: Duration = Duration::from_secs(30);
pub const PROJECT_KEY: &str = "phc_bench";
pub const PERSONAL_KEY: &str = "phx_bench_bench_bench_bench_bench_bench";
/// Clock ticks per second in `/proc`.
const TICKS_PER_SECOND: f64 = 100.0;

/// The path of a binary in the directory of this one.
pub fn sibling(name: &str) -> Result<PathBuf> {
    let here = env::current_exe()?;
    let program = here.parent().context("the program is in no folder")?.join(name);
    ensure!(program.is_file(), "build it first: cargo build --release -p server -p bench");
    Ok(program)
}

/// `hedgerow serve` on a data directory with fixed keys.
pub fn hedgerow(data: &Path) -> Result<Command> {
    let mut command = Command::new(sibling("hedgerow")?);
    command.arg("serve").arg("--data-dir").arg(data);
    command.args(["--project-api-key", PROJECT_KEY, "--personal-api-key", PERSONAL_KEY]);
    Ok(command)
}

/// Resident memory of a process.
pub struct MemoryBytes {
    /// Not backed by a file, so it cannot be evicted.
    pub anonymous: u64,
    /// All of it, with mapped files.
    pub resident: u64,
}

/// A server process, Hedgerow or the baseline; killed when dropped.
pub struct ServerProcess {
    process: Child,
    address: SocketAddr,
}

impl ServerProcess {
    /// Starts it on a free port and waits until it is ready.
    pub fn start(command: &mut Command) -> Result<Self> {
        for (name, _) in env::vars_os() {
            if name.to_string_lossy().starts_with("HEDGEROW_") {
                command.env_remove(name);
            }
        }
        command.env("HEDGEROW_LISTEN", "127.0.0.1:0").stdout(Stdio::piped()).stderr(Stdio::null());
        let started = Instant::now();
        let mut process = command.spawn()?;
        let address = match address(&mut process) {
            Ok(address) => address,
            Err(error) => {
                process.kill()?;
                return Err(error);
            }
        };
        let running = Self { process, address };
        while !is_ready(address) {
            ensure!(started.elapsed() < TIMEOUT, "{address} is not ready");
            sleep(POLL);
        }
        Ok(running)
    }

    /// Stops it with SIGTERM and returns its total CPU seconds.
    pub fn stop(mut self) -> Result<f64> {
        let before = children_cpu_seconds()?;
        self.signal("-TERM")?;
        self.process.wait()?;
        Ok(children_cpu_seconds()? - before)
    }

    /// Runs `work` while the server is stopped with SIGSTOP.
    pub fn while_stopped<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.signal("-STOP")?;
        let done = work();
        self.signal("-CONT")?;
        done
    }

    fn signal(&self, name: &str) -> Result<()> {
        let sent = Command::new("kill").arg(name).arg(self.process.id().to_string()).status()?;
        ensure!(sent.success(), "cannot send {name}");
        Ok(())
    }

    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn resident_megabytes(&self) -> Result<f64> {
        self.megabytes("VmRSS:")
    }

    pub fn peak_megabytes(&self) -> Result<f64> {
        self.megabytes("VmHWM:")
    }

    fn megabytes(&self, field: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()).context("no size")?;
        Ok(kilobytes.parse::<f64>()? * 1_024.0 / 1e6)
    }

    /// The process's memory now. Freed pages that the allocator keeps count as resident.
    pub fn memory_bytes(&self) -> Result<MemoryBytes> {
        let sums = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process.id()))?;
        let bytes = |field: &str| -> Result<u64> {
            let line = sums.lines().find_map(|line| line.strip_prefix(field));
            let size = line.and_then(|line| line.split_whitespace().next()).context("no size")?;
            Ok(size.parse::<u64>()? * 1_024)
        };
        Ok(MemoryBytes { anonymous: bytes("Anonymous:")?, resident: bytes("Rss:")? })
    }

    /// User and system CPU time so far.
    pub fn cpu_seconds(&self) -> Result<f64> {
        Ok(times(&format!("/proc/{}/stat", self.process.id()))?.1)
    }

    /// CPU time by thread name, of the threads that exist now.
    pub fn cpu_by_thread(&self) -> Result<BTreeMap<String, f64>> {
        let mut all = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{}/task", self.process.id()))? {
            // A thread may exit meanwhile.
            if let Ok((name, seconds)) = times(&thread?.path().join("stat").to_string_lossy()) {
                *all.entry(name).or_default() += seconds;
            }
        }
        Ok(all)
    }

    /// CPU seconds of capture, without the background threads.
    pub fn capture_seconds(&self) -> Result<f64> {
        let background: f64 = self
            .cpu_by_thread()?
            .into_iter()
            .filter_map(|(name, seconds)| {
                BACKGROUND_THREADS.iter().any(|prefix| name.starts_with(prefix)).then_some(seconds)
            })
            .sum();
        Ok(self.cpu_seconds()? - background)
    }
}

/// CPU seconds of child processes that have exited.
fn children_cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("no name")?;
    let mut fields = fields.split_whitespace().skip(13);
    let mut next = || -> Result<f64> { Ok(fields.next().context("no time")?.parse()?) };
    // Includes the `kill` processes, which are negligible.
    Ok((next()? + next()?) / TICKS_PER_SECOND)
}

/// Name and CPU seconds of a process or thread.
fn times(path: &str) -> Result<(String, f64)> {
    let stat = fs::read_to_string(path)?;
    let (name, fields) = stat.rsplit_once(')').context("no name")?;
    let (_, name) = name.split_once('(').context("no name")?;
    let field = |at: usize| -> Result<f64> {
        Ok(fields.split_whitespace().nth(at).context("no time")?.parse()?)
    };
    Ok((name.to_owned(), (field(11)? + field(12)?) / TICKS_PER_SECOND))
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn address(process: &mut Child) -> Result<SocketAddr> {
    let printed = process.stdout.take().context("no standard output")?;
    for line in BufReader::new(printed).lines() {
        if let Some(address) = line?.strip_prefix("listening on http://") {
            return Ok(address.parse()?);
        }
    }
    bail!("it ended without listening")
}

fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.write_all(b"GET /_readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(head.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}
