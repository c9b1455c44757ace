//! `make soak`: attacks on a release build, unauthenticated and with a key, each on a fresh server. A
//! monitor records memory, the latency of `/_livez`, and the events of an honest client.
//!
//! The honest client, the probes and the attackers use different loopback addresses, so that
//! per-address limits can distinguish them.

mod monitor;
pub mod queries;
pub mod unauthenticated;
mod victim;

use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use monitor::Observations;
pub use victim::Victim;

/// Bounds during and after unauthenticated attacks.
const UNAUTHENTICATED_MEGABYTES_MAX: f64 = 700.0;
/// Memory bound of attacks with a key, which may run queries.
const QUERIES_MEGABYTES_MAX: f64 = 1_200.0;
const REST_MEGABYTES_MAX: f64 = 350.0;
/// Timeout for memory to be released after an attack.
const REST_MAX: Duration = Duration::from_secs(60);
const LIVEZ_SECONDS_MAX: f64 = 2.0;

/// One row of the table.
pub struct Outcome {
    name: String,
    megabytes_max: f64,
    observations: Observations,
    /// The observations of the attack, or why the server failed.
    note: Result<String>,
}

impl Outcome {
    pub fn holds(&self) -> bool {
        self.note.is_ok()
            && self.observations.peak_megabytes <= self.megabytes_max
            && self.observations.rest_megabytes <= REST_MEGABYTES_MAX
            && self.observations.livez_seconds_max <= LIVEZ_SECONDS_MAX
            && self.observations.captured > 0
            && self.observations.visible >= self.observations.captured
            && self.observations.given_up == 0
    }

    fn row(&self) -> String {
        let observed = &self.observations;
        let note = match &self.note {
            Ok(note) => note.clone(),
            Err(error) => format!("FAILED: {error:#}").replace('\n', " "),
        };
        format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {}/{}/{} | {} | {note} |",
            self.name,
            observed.peak_megabytes,
            observed.rest_megabytes,
            observed.rest_seconds,
            observed.livez_seconds_max,
            observed.captured,
            observed.visible,
            observed.given_up,
            if self.holds() { "holds" } else { "BROKEN" },
        )
    }
}

/// Runs one attack on a fresh server and monitors it.
async fn monitored<F>(
    name: &str,
    megabytes_max: f64,
    template: Option<&Path>,
    attack: impl FnOnce(Victim) -> F,
) -> Result<Outcome>
where
    F: Future<Output = Result<String>>,
{
    eprintln!("attack: {name}");
    let victim = Victim::start(name, template).await?;
    let monitor = monitor::Monitor::begin(&victim);
    let note = attack(victim.clone()).await;
    let observations = monitor.end(&victim, REST_MEGABYTES_MAX, REST_MAX).await?;
    let outcome = Outcome { name: name.to_owned(), megabytes_max, observations, note };
    eprintln!("{}", outcome.row());
    Ok(outcome)
}

/// Every attack, or the named ones.
pub async fn run(named: &[String], persons: u64, results: &Path) -> Result<bool> {
    if let Some(unknown) = named.iter().find(|name| !NAMES.contains(&name.as_str())) {
        anyhow::bail!("there is no attack {unknown}; there are {}", NAMES.join(", "));
    }
    let dir = tempfile::tempdir()?;
    let template = match persons {
        0 => None,
        _ => Some(victim::fill(&dir.path().join("template"), persons).await?),
    };
    let template: Option<&Path> = template.as_deref();
    let mut outcomes = Vec::new();
    for name in NAMES.into_iter().filter(|name| named.is_empty() || named.iter().any(|n| n == name))
    {
        let unauthenticated_max = UNAUTHENTICATED_MEGABYTES_MAX;
        let queries_max = QUERIES_MEGABYTES_MAX;
        outcomes.push(match name {
            "quiet" => {
                monitored(name, unauthenticated_max, template, unauthenticated::quiet).await?
            }
            "months" => {
                monitored(name, unauthenticated_max, template, unauthenticated::months).await?
            }
            "tokens" => {
                monitored(name, unauthenticated_max, template, unauthenticated::tokens).await?
            }
            "flags" => {
                monitored(name, unauthenticated_max, template, unauthenticated::flags).await?
            }
            "inflating" => {
                monitored(name, unauthenticated_max, template, unauthenticated::inflating).await?
            }
            "half-sent" => {
                monitored(name, unauthenticated_max, template, unauthenticated::half_sent).await?
            }
            "management" => {
                monitored(name, unauthenticated_max, template, unauthenticated::management).await?
            }
            "slow-readers" => {
                monitored(name, unauthenticated_max, template, unauthenticated::slow_readers)
                    .await?
            }
            "names" => {
                monitored(name, unauthenticated_max, template, unauthenticated::names).await?
            }
            "wide" => monitored(name, queries_max, template, queries::wide).await?,
            "endless" => monitored(name, queries_max, template, queries::endless).await?,
            "regexes" => monitored(name, queries_max, template, queries::regexes).await?,
            "everybody" => monitored(name, queries_max, template, queries::everybody).await?,
            "flag-regexes" => monitored(name, queries_max, template, queries::flag_regexes).await?,
            "split" => monitored(name, queries_max, template, queries::split).await?,
            "blast-radius" => monitored(name, queries_max, template, queries::blast_radius).await?,
            other => anyhow::bail!("{other} has no attack"),
        });
    }
    let table = table(&outcomes, persons);
    println!("{table}");
    std::fs::create_dir_all(results)?;
    let part = if named.is_empty() { String::new() } else { format!("-{}", named.join("-")) };
    std::fs::write(results.join(format!("attacks{part}.md")), &table)?;
    std::fs::write(results.join(format!("attacks{part}-memory.csv")), samples(&outcomes))?;
    Ok(outcomes.iter().all(Outcome::holds))
}

const NAMES: [&str; 16] = [
    "quiet",
    "months",
    "tokens",
    "flags",
    "inflating",
    "half-sent",
    "management",
    "slow-readers",
    "names",
    "wide",
    "endless",
    "regexes",
    "everybody",
    "flag-regexes",
    "split",
    "blast-radius",
];

fn table(outcomes: &[Outcome], persons: u64) -> String {
    let mut table = format!(
        "Attacks with {persons} persons stored. Peak: unauthenticated at most {UNAUTHENTICATED_MEGABYTES_MAX} MB, \
         queries {QUERIES_MEGABYTES_MAX} MB; at rest {REST_MEGABYTES_MAX} MB.\n\n\
         | attack | peak MB | rest MB | rest after s | /_livez worst s | honest events captured/visible/given up | | what it saw |\n\
         |---|---|---|---|---|---|---|---|\n"
    );
    for outcome in outcomes {
        // Writing to a String cannot fail.
        let _ = writeln!(table, "{}", outcome.row());
    }
    table
}

/// Peak resident memory per second.
fn samples(outcomes: &[Outcome]) -> String {
    let mut lines = String::from("attack,second,resident_megabytes\n");
    for outcome in outcomes {
        let mut seconds = std::collections::BTreeMap::<u64, f64>::new();
        for (at, megabytes) in &outcome.observations.samples {
            let most = seconds.entry(*at as u64).or_default();
            *most = most.max(*megabytes);
        }
        for (second, megabytes) in seconds {
            let _ = writeln!(lines, "{},{second},{megabytes:.0}", outcome.name);
        }
    }
    lines
}

/// The binary under attack: `ATTACK_PROGRAM`, or the sibling binary.
fn program() -> Result<PathBuf> {
    match std::env::var_os("ATTACK_PROGRAM") {
        Some(path) => {
            let path = PathBuf::from(path);
            ensure!(path.is_file(), "ATTACK_PROGRAM is no file");
            Ok(path)
        }
        None => crate::server_process::sibling("hedgerow"),
    }
}

/// The count in a HogQL result.
fn count(answer: &serde_json::Value) -> Result<u64> {
    answer["results"][0][0].as_u64().with_context(|| format!("no count in {answer}"))
}
