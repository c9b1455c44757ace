//! `make soak`: attacks on a release build by strangers and by a key's holder, each on a server of
//! its own, watched from outside: memory, `/_livez`, and the events of an honest sender.
//!
//! The honest sender, the probes and the attackers come from different loopback addresses, so that
//! a limit by address has somebody to tell apart.

pub mod queries;
pub mod strangers;
mod victim;
mod watch;

use std::fmt::Write as _;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

pub use victim::Victim;
pub use watch::Seen;

/// What must hold while and after strangers attack.
const STRANGERS_MEGABYTES_MAX: f64 = 700.0;
/// A key's holder may make queries hold more.
const QUERIES_MEGABYTES_MAX: f64 = 1_200.0;
const REST_MEGABYTES_MAX: f64 = 350.0;
/// How long memory may take to come back.
const REST_MAX: Duration = Duration::from_secs(60);
const LIVEZ_SECONDS_MAX: f64 = 2.0;

/// One line of the table.
pub struct Outcome {
    name: String,
    megabytes_max: f64,
    seen: Seen,
    /// What the attack itself saw, or why the server failed under it.
    note: Result<String>,
}

impl Outcome {
    pub fn holds(&self) -> bool {
        self.note.is_ok()
            && self.seen.peak_megabytes <= self.megabytes_max
            && self.seen.rest_megabytes <= REST_MEGABYTES_MAX
            && self.seen.livez_seconds_max <= LIVEZ_SECONDS_MAX
            && self.seen.captured > 0
            && self.seen.visible >= self.seen.captured
            && self.seen.given_up == 0
    }

    fn row(&self) -> String {
        let seen = &self.seen;
        let note = match &self.note {
            Ok(note) => note.clone(),
            Err(error) => format!("FAILED: {error:#}").replace('\n', " "),
        };
        format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.2} | {}/{}/{} | {} | {note} |",
            self.name,
            seen.peak_megabytes,
            seen.rest_megabytes,
            seen.rest_seconds,
            seen.livez_seconds_max,
            seen.captured,
            seen.visible,
            seen.given_up,
            if self.holds() { "holds" } else { "BROKEN" },
        )
    }
}

/// Runs one attack on a fresh server and watches it.
async fn watched<F>(
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
    let watch = watch::Watch::begin(&victim);
    let note = attack(victim.clone()).await;
    let seen = watch.end(&victim, REST_MEGABYTES_MAX, REST_MAX).await?;
    let outcome = Outcome { name: name.to_owned(), megabytes_max, seen, note };
    eprintln!("{}", outcome.row());
    Ok(outcome)
}

/// Every attack, or those whose names are given.
pub async fn run(named: &[String], persons: u64, results: &Path) -> Result<bool> {
    if let Some(unknown) = named.iter().find(|name| !NAMES.contains(&name.as_str())) {
        anyhow::bail!("there is no attack {unknown}; there are {}", NAMES.join(", "));
    }
    let folder = tempfile::tempdir()?;
    let template = match persons {
        0 => None,
        _ => Some(victim::fill(&folder.path().join("template"), persons).await?),
    };
    let template: Option<&Path> = template.as_deref();
    let mut outcomes = Vec::new();
    for name in NAMES.into_iter().filter(|name| named.is_empty() || named.iter().any(|n| n == name))
    {
        let strangers = STRANGERS_MEGABYTES_MAX;
        let queries = QUERIES_MEGABYTES_MAX;
        outcomes.push(match name {
            "quiet" => watched(name, strangers, template, strangers::quiet).await?,
            "months" => watched(name, strangers, template, strangers::months).await?,
            "tokens" => watched(name, strangers, template, strangers::tokens).await?,
            "flags" => watched(name, strangers, template, strangers::flags).await?,
            "inflating" => watched(name, strangers, template, strangers::inflating).await?,
            "half-sent" => watched(name, strangers, template, strangers::half_sent).await?,
            "management" => watched(name, strangers, template, strangers::management).await?,
            "slow-readers" => watched(name, strangers, template, strangers::slow_readers).await?,
            "names" => watched(name, strangers, template, strangers::names).await?,
            "wide" => watched(name, queries, template, queries::wide).await?,
            "endless" => watched(name, queries, template, queries::endless).await?,
            "regexes" => watched(name, queries, template, queries::regexes).await?,
            "everybody" => watched(name, queries, template, queries::everybody).await?,
            "flag-regexes" => watched(name, queries, template, queries::flag_regexes).await?,
            "split" => watched(name, queries, template, queries::split).await?,
            "blast-radius" => watched(name, queries, template, queries::blast_radius).await?,
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
        "Attacks with {persons} persons stored. Peak: strangers at most {STRANGERS_MEGABYTES_MAX} MB, \
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

/// The most that was resident within each second.
fn samples(outcomes: &[Outcome]) -> String {
    let mut lines = String::from("attack,second,resident_megabytes\n");
    for outcome in outcomes {
        let mut seconds = std::collections::BTreeMap::<u64, f64>::new();
        for (at, megabytes) in &outcome.seen.samples {
            let most = seconds.entry(*at as u64).or_default();
            *most = most.max(*megabytes);
        }
        for (second, megabytes) in seconds {
            let _ = writeln!(lines, "{},{second},{megabytes:.0}", outcome.name);
        }
    }
    lines
}

/// The program under attack: `ATTACK_PROGRAM`, or the one built beside this.
fn program() -> Result<PathBuf> {
    match std::env::var_os("ATTACK_PROGRAM") {
        Some(path) => {
            let path = PathBuf::from(path);
            ensure!(path.is_file(), "ATTACK_PROGRAM is no file");
            Ok(path)
        }
        None => crate::running::sibling("hedgerow"),
    }
}

/// What a count in an answer of HogQL is.
fn count(answer: &serde_json::Value) -> Result<u64> {
    answer["results"][0][0].as_u64().with_context(|| format!("no count in {answer}"))
}
