//! `hedgerow query`: runs a HogQL statement on the server of this machine, and prints its rows or its
//! physical plan.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde_json::{Value, json};

use crate::cli::print;
use crate::copy::key;
use crate::health::{connectable, exchange};
use crate::settings::Settings;

/// Longer than any query runs.
const TIMEOUT: Duration = Duration::from_secs(120);
const RESPONSE_BYTES_MAX: u64 = 256 << 20;

pub(crate) fn command() -> Command {
    Command::new("query")
        .about("Runs a HogQL statement on the server of this machine; prints a JSON array per row")
        .arg(Arg::new("statement").value_name("STATEMENT").required(true))
        .arg(
            Arg::new("explain")
                .long("explain")
                .action(ArgAction::SetTrue)
                .help("Print the physical plan instead, and what the query read"),
        )
        .arg(
            Arg::new("project")
                .long("project")
                .value_name("ID")
                .value_parser(clap::value_parser!(i64))
                .default_value("1"),
        )
        .arg(
            Arg::new("personal-api-key-file")
                .long("personal-api-key-file")
                .value_name("FILE")
                .help("A file with a key that may query; default: the setting personal_api_key"),
        )
}

pub(crate) fn run(args: &ArgMatches, settings: &Settings) -> Result<()> {
    let text = |name: &str| args.get_one::<String>(name).map(String::as_str);
    let key = match (text("personal-api-key-file"), &settings.personal_api_key) {
        (Some(file), _) => key(file)?,
        (None, Some(key)) => key.reveal().to_owned(),
        (None, None) => bail!(
            "name a key that may query: --personal-api-key-file; hedgerow admin create-key makes one"
        ),
    };
    ensure!(key.bytes().all(|byte| byte.is_ascii_graphic()), "the file holds no personal API key");
    let explains = args.get_flag("explain");
    let query = json!({ "kind": "HogQLQuery", "query": text("statement"), "explain": explains });
    let body = json!({ "query": query, "refresh": "force_blocking" }).to_string();
    let project = args.get_one::<i64>("project").copied().unwrap_or(1);
    let address = connectable(settings.listen);
    let request = format!(
        "POST /api/projects/{project}/query/ HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len(),
    );
    let response = exchange(address, &request, TIMEOUT, RESPONSE_BYTES_MAX)
        .with_context(|| format!("nothing answers at {address}"))?;
    let (head, body) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
    let answer: Value = serde_json::from_str(body)
        .with_context(|| format!("the server's response, of {} bytes", response.len()))?;
    if head.split(' ').nth(1) != Some("200") {
        bail!("{}", answer["detail"].as_str().unwrap_or("the server refuses the query"));
    }
    print(&if explains { explained(&answer) } else { rows(&answer) })
}

fn rows(answer: &Value) -> String {
    let rows = answer["results"].as_array().into_iter().flatten();
    std::iter::once(&answer["columns"]).chain(rows).map(|row| format!("{row}\n")).collect()
}

fn explained(answer: &Value) -> String {
    let lines = answer["explain"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let read = answer["query_metadata"].as_object().into_iter().flatten();
    let lines =
        lines.map(str::to_owned).chain(read.map(|(name, value)| format!("{name}: {value}")));
    lines.map(|line| line + "\n").collect()
}
