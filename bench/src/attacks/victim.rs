//! The server under attack, and clients from several addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::{count, program};
use crate::load::{answer, post};
use crate::server_process::{PERSONAL_KEY, PROJECT_KEY, ServerProcess};

/// Timeout of one response.
pub const ANSWER_MAX: Duration = Duration::from_secs(120);
/// Number of attacking addresses, from 127.0.0.2 on; the honest client uses 127.0.0.1.
const ATTACKERS: u8 = 8;
/// The default descriptor limit of many distributions, as hard limit.
const DESCRIPTORS: u32 = 1_024;
const PERSONS_A_BATCH: u64 = 2_000;

#[derive(Clone)]
pub struct Victim(Arc<Inner>);

struct Inner {
    running: ServerProcess,
    other: Project,
    dir: tempfile::TempDir,
}

/// A second project on the same server.
pub struct Project {
    pub id: u64,
    pub key: String,
}

impl Victim {
    pub async fn start(attack: &str, template: Option<&Path>) -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let data = dir.path().join("data");
        if let Some(template) = template {
            copy(template, &data)?;
        }
        let running = ServerProcess::start(&mut serve(&data, attack == "months")?)?;
        let address = running.address();
        let other = project(address, "other").await?;
        if template.is_some() {
            // Loads the person index, as the first insight does.
            let query = "select count() from events where person.properties.plan = 'pro'";
            hogql(address, 1, query).await?;
        }
        Ok(Self(Arc::new(Inner { running, other, dir })))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.running.address()
    }

    pub fn megabytes(&self) -> Result<f64> {
        self.0.running.resident_megabytes()
    }

    /// The number of segment files of the first project.
    pub fn event_files(&self) -> Result<usize> {
        let dir = self.0.dir.path().join("data/warehouse/1");
        let names = std::fs::read_dir(dir)?.map(|file| Ok(file?.file_name()));
        let names: Vec<_> = names.collect::<std::io::Result<_>>()?;
        Ok(names.iter().filter(|name| name.to_string_lossy().ends_with(".parquet")).count())
    }

    pub fn other(&self) -> &Project {
        &self.0.other
    }

    /// A connection of attacker `number`.
    pub async fn connect(&self, number: usize) -> Result<TcpStream> {
        let host = 2 + (number % usize::from(ATTACKERS)) as u8;
        connect(self.address(), host).await
    }

    /// Sends a request as attacker `number` and reads its response.
    pub async fn ask(&self, number: usize, request: &[u8]) -> Result<(u16, Vec<u8>)> {
        let request = async {
            let mut stream = self.connect(number).await?;
            let mut body = Vec::new();
            // The server may respond and close before it has read everything.
            let sent = stream.write_all(request).await;
            match answer(&mut stream, &mut body).await {
                Ok(status) => Ok((status, body)),
                Err(error) => Err(sent.err().map_or(error, Into::into)),
            }
        };
        timeout(ANSWER_MAX, request).await.context("no answer in time")?
    }

    pub async fn hogql(&self, project: u64, query: &str) -> Result<(u16, Value)> {
        hogql(self.address(), project, query).await
    }

    pub async fn manage(&self, method: &str, path: &str, body: &Value) -> Result<(u16, Value)> {
        manage(self.address(), method, path, body).await
    }

    pub async fn new_project(&self, name: &str) -> Result<Project> {
        project(self.address(), name).await
    }

    /// The number of events of a project, once it is `expected` or after the timeout.
    pub async fn events(&self, project: u64, expected: u64, wait_max: Duration) -> Result<u64> {
        let started = std::time::Instant::now();
        loop {
            let counted = match self.hogql(project, "select count() from events").await? {
                (200, answer) => count(&answer)?,
                (status, answer) => anyhow::bail!("counting events answered {status}: {answer}"),
            };
            if counted >= expected || started.elapsed() > wait_max {
                return Ok(counted);
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

pub async fn connect(address: SocketAddr, host: u8) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, host)), 0))?;
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn hogql(address: SocketAddr, project: u64, query: &str) -> Result<(u16, Value)> {
    let body =
        json!({ "query": { "kind": "HogQLQuery", "query": query }, "refresh": "force_blocking" });
    manage(address, "POST", &format!("/api/projects/{project}/query/"), &body).await
}

async fn manage(
    address: SocketAddr,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value)> {
    let headers = format!("Authorization: Bearer {PERSONAL_KEY}\r\nConnection: close\r\n");
    let request = post(path, &headers, body.to_string().as_bytes());
    let request = [method.as_bytes(), &request[b"POST".len()..]].concat();
    let request = async {
        let mut stream = connect(address, 1).await?;
        stream.write_all(&request).await?;
        let mut body = Vec::new();
        let status = answer(&mut stream, &mut body).await?;
        anyhow::Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    };
    timeout(ANSWER_MAX, request).await.with_context(|| format!("{path}: no answer in time"))?
}

async fn project(address: SocketAddr, name: &str) -> Result<Project> {
    let path = "/api/organizations/@current/projects/";
    let (status, made) = manage(address, "POST", path, &json!({ "name": name })).await?;
    ensure!(status == 201, "a project was answered {status}: {made}");
    let id = made["id"].as_u64().context("a project without id")?;
    let key = made["api_token"].as_str().context("a project without key")?.to_owned();
    Ok(Project { id, key })
}

fn serve(data: &Path, few_descriptors: bool) -> Result<Command> {
    let program = program()?;
    let mut command = if few_descriptors {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\"")).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.arg("serve").arg("--data-dir").arg(data);
    command.args(["--project-api-key", PROJECT_KEY, "--personal-api-key", PERSONAL_KEY]);
    Ok(command)
}

/// A data directory with `persons` persons, each with an e-mail address and a plan.
pub async fn fill(dir: &Path, persons: u64) -> Result<PathBuf> {
    eprintln!("storing {persons} persons");
    let running = ServerProcess::start(&mut serve(dir, false)?)?;
    let mut stream = connect(running.address(), 1).await?;
    let mut body = Vec::new();
    let mut first = 0;
    while first < persons {
        let last = (first + PERSONS_A_BATCH).min(persons);
        let batch: Vec<Value> = (first..last)
            .map(|person| {
                json!({
                    "event": "signed up",
                    "distinct_id": format!("person-{person}"),
                    "properties": { "$set": {
                        "email": format!("person{person}@example.com"),
                        "plan": if person % 3 == 0 { "pro" } else { "free" },
                    } },
                })
            })
            .collect();
        let sent = json!({ "api_key": PROJECT_KEY, "batch": batch }).to_string();
        stream.write_all(&post("/batch/", "", sent.as_bytes())).await?;
        let status = answer(&mut stream, &mut body).await?;
        ensure!(status == 200, "a batch was answered {status}");
        first = last;
    }
    loop {
        let (_, answer) =
            hogql(running.address(), 1, "select count() from events where event = 'signed up'")
                .await?;
        if count(&answer).is_ok_and(|stored| stored >= persons) {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    running.stop()?;
    Ok(dir.to_owned())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status()?;
    ensure!(copied.success(), "the template cannot be copied");
    Ok(())
}
