//! `hedgerow copy`: copies a project from PostHog, or from another Hedgerow, into a running server.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use clap::builder::RangedU64ValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use copy::Project;
use copy::check::{SAMPLE_MAX, Sample};

use crate::cli::print;
use crate::health::connectable;
use crate::settings::Settings;

/// Something could not be taken, or differs. Errors exit with 1, wrong arguments with 2.
const INCOMPLETE: u8 = 3;
/// A key is one line.
const KEY_FILE_BYTES_MAX: u64 = 4 << 10;
const IDS_FILE_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn command() -> Command {
    let arg = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("copy")
        .about(
            "Copies flags, cohorts, actions, definitions, annotations, insights, dashboards and \
             settings from a project of PostHog into a running server",
        )
        .after_help(
            "Run it again after an interruption, or to take over what changed. Exits with 3 if \
             something could not be taken, or if values differ.",
        )
        .args([
            arg("from", "URL", "Where PostHog's API is, for example https://us.posthog.com")
                .required(true),
            arg("project", "ID", "The project to copy").required(true),
            arg("personal-api-key-file", "FILE", "A file with a key that may read the project")
                .required(true),
            arg("to", "URL", "The server to copy into; default: the one on this machine"),
            arg("to-project", "ID", "The project to copy into").default_value("1"),
            arg(
                "to-personal-api-key-file",
                "FILE",
                "A file with a key that may write there; default: the setting personal_api_key",
            ),
            arg(
                "state",
                "FILE",
                "What became what; default: hedgerow-copy-<project>-to-<project>.jsonl here",
            ),
            arg("check", "", "Copy nothing: compare the flags of a sample of users on both sides")
                .action(ArgAction::SetTrue),
            arg("sample", "NUMBER", "How many of the source's persons to compare")
                .value_parser(RangedU64ValueParser::<usize>::new().range(1..=SAMPLE_MAX as u64))
                .default_value("200")
                .requires("check"),
            arg("distinct-ids", "FILE", "The users to compare, one in a line")
                .requires("check")
                .conflicts_with("sample"),
            arg("from-flags", "URL", "Where the source evaluates flags, if not at --from")
                .requires("check"),
        ])
}

pub(crate) fn run(args: &ArgMatches, settings: &Settings) -> Result<ExitCode> {
    let text = |name: &str| args.get_one::<String>(name).cloned();
    let from = Project {
        base: text("from").unwrap_or_default(),
        id: id(text("project").unwrap_or_default())?,
        personal_api_key: key(&text("personal-api-key-file").unwrap_or_default())?,
    };
    let here = || format!("http://{}", connectable(settings.listen));
    let to = Project {
        base: text("to").unwrap_or_else(here),
        id: id(text("to-project").unwrap_or_default())?,
        personal_api_key: match (text("to-personal-api-key-file"), &settings.personal_api_key) {
            (Some(file), _) => key(&file)?,
            (None, Some(key)) => key.reveal().to_owned(),
            (None, None) => bail!(
                "name a key that may write: --to-personal-api-key-file; hedgerow admin create-key \
                 makes one"
            ),
        },
    };
    let mut lines = Lines::default();
    let lines = std::cell::RefCell::new(&mut lines);
    let progress = |line: &str| lines.borrow_mut().print(line);
    if args.get_flag("check") {
        let sample = match text("distinct-ids") {
            Some(file) => Sample::DistinctIds(distinct_ids(Path::new(&file))?),
            None => Sample::Persons(args.get_one::<usize>("sample").copied().unwrap_or_default()),
        };
        let flags = text("from-flags");
        let compared = copy::check::check(&from, &to, flags.as_deref(), sample, &progress)?;
        print(&compared.to_string())?;
        return Ok(exit(compared.differences.is_empty()));
    }
    let state = text("state").map_or_else(
        || PathBuf::from(format!("hedgerow-copy-{}-to-{}.jsonl", from.id, to.id)),
        PathBuf::from,
    );
    let report = copy::copy(&from, &to, &state, &progress)?;
    print(&report.to_string())?;
    Ok(exit(report.is_complete()))
}

fn exit(is_complete: bool) -> ExitCode {
    if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INCOMPLETE) }
}

/// The ids of projects are numbers; they become parts of paths.
fn id(text: String) -> Result<String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    ensure!(is_number, "the id of a project is a number, not {text:?}");
    Ok(text)
}

/// The key in a file.
pub(crate) fn key(file: &str) -> Result<String> {
    Ok(read(Path::new(file), KEY_FILE_BYTES_MAX)?.trim().to_owned())
}

fn distinct_ids(file: &Path) -> Result<Vec<String>> {
    let text = read(file, IDS_FILE_BYTES_MAX)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let ids: Vec<String> = lines.map(str::to_owned).collect();
    ensure!(ids.len() <= SAMPLE_MAX, "{} has more than {SAMPLE_MAX} lines", file.display());
    Ok(ids)
}

fn read(file: &Path, bytes_max: u64) -> Result<String> {
    let mut text = String::new();
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let read = opened.take(bytes_max + 1).read_to_string(&mut text);
    let bytes = read.with_context(|| file.display().to_string())?;
    ensure!(bytes as u64 <= bytes_max, "{} has more than {bytes_max} bytes", file.display());
    Ok(text)
}

/// Lines on standard error, each once.
#[derive(Default)]
struct Lines {
    last: String,
}

impl Lines {
    fn print(&mut self, line: &str) {
        if self.last != line {
            // Progress must not end the copy when nobody reads it.
            writeln!(std::io::stderr(), "{line}").ok();
            line.clone_into(&mut self.last);
        }
    }
}
