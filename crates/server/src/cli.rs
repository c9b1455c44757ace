//! The command line: subcommands, their arguments, and a flag for each setting.

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, EffectiveConfig};
use crate::settings::{Setting, TABLE};
use crate::{
    admin, backup, copy, demo, export, health, import, manual, repair, serve, statement, verify,
};

/// The settings that commands need to open the catalog.
const CATALOG_SETTINGS: [&str; 3] = ["data_dir", "catalog_url", "secret_key"];
/// What the names of the settings begin with that commands need to open ClickHouse.
const WAREHOUSE_SETTINGS: &str = "warehouse_";

pub(crate) fn command() -> Command {
    Command::new("hedgerow")
        .about("Product analytics and feature flags that speak PostHog's wire API.")
        .version(env!("BUILT_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .after_help("Exit codes: 0 success, 1 failure (reason on standard error), 2 invalid usage.")
        .subcommand(
            with_settings(Command::new("serve").about("Starts the server"), |_| true)
                .after_help(PRECEDENCE),
        )
        .subcommand(
            Command::new("config")
                .about("Shows the settings")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(with_settings(
                    Command::new("show").about(
                        "Shows the effective value and source of each setting, secrets hidden",
                    ),
                    |_| true,
                ))
                .subcommand(
                    Command::new("reference").about("Prints all settings as a Markdown table"),
                )
                .subcommand(with_settings(
                    Command::new("sample").about(
                        "Prints a settings file; settings given as flags are set in it, the others \
                         are comments with their defaults",
                    ),
                    |setting| !setting.secret,
                )),
        )
        .subcommand(with_settings(
            Command::new("health").about("Checks whether a running server is ready").arg(
                Arg::new("for")
                    .long("for")
                    .value_parser(["capture", "query"])
                    .help("Check only this part; default: all"),
            ),
            |setting| setting.key == "listen",
        ))
        .subcommand(
            Command::new("schema").about("Prints the OpenAPI document that /api/schema serves"),
        )
        .subcommands(manual::commands())
        .subcommand(administration())
        .subcommands(store_commands().map(with_catalog_settings))
        .subcommands(event_commands().map(with_catalog_settings))
        .subcommand(with_settings(copy::command(), |setting| setting.key == "listen"))
        .subcommand(with_settings(statement::command(), |setting| setting.key == "listen"))
}

/// Commands that work on the whole data directory.
fn store_commands() -> [Command; 4] {
    let directory =
        |name: &'static str| Arg::new(name).long(name).value_name("DIRECTORY").required(true);
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    [
        Command::new("backup")
            .about("Takes a consistent backup; the server may run")
            .arg(directory("to").help("New or empty directory")),
        Command::new("restore")
            .about("Restores a backup into an empty data directory")
            .arg(directory("from").help("Directory that `hedgerow backup` wrote")),
        Command::new("verify")
            .about(
                "Reads all stores and reports corruption and inconsistencies; changes nothing, \
                 and the server may run",
            )
            .after_help("Exit codes: 0 no problems, 1 problems found.")
            .arg(flag("json").help("Print the report as JSON")),
        Command::new("repair")
            .about(
                "Salvages a corrupted journal and makes it consistent with the other stores; stop \
                 the server first",
            )
            .arg(flag("yes").help("Execute the plan; without it the plan is only printed"))
            .arg(flag("dry-run").id("dry_run").help("Only print the plan"))
            .arg(
                Arg::new("drop_segment")
                    .long("drop-segment")
                    .value_name("FILE")
                    .action(ArgAction::Append)
                    .help(
                        "Remove this segment and its events from the warehouse (the name that \
                         verify prints); may be repeated",
                    ),
            )
            .arg(
                flag("drop-damaged")
                    .id("drop_damaged")
                    .help("Remove every segment that verify finds corrupted, with its events"),
            ),
    ]
}

/// Commands that read or write events.
fn event_commands() -> [Command; 4] {
    let project = Arg::new("project")
        .long("project")
        .value_name("ID")
        .value_parser(clap::value_parser!(i64))
        .default_value("1");
    [
        Command::new("files")
            .about("Lists the Parquet files with a project's events")
            .arg(project.clone())
            .arg(
                Arg::new("json")
                    .long("json")
                    .action(ArgAction::SetTrue)
                    .help("With row counts, sizes, and the files that mask deleted rows"),
            ),
        Command::new("export")
            .about("Exports a project's events, oldest first, in the format that import reads")
            .arg(project.clone())
            .arg(
                Arg::new("format")
                    .long("format")
                    .value_parser(["jsonl", "parquet"])
                    .default_value("jsonl"),
            )
            .arg(
                Arg::new("output")
                    .long("output")
                    .value_name("FILE")
                    .help("A new file; default: standard output"),
            ),
        Command::new("import")
            .about("Imports events from JSON lines or Parquet; stop the server first")
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .help("For example events.jsonl, events.jsonl.gz or events.parquet"),
            )
            .arg(project),
        Command::new("demo")
            .about(
                "Creates the project \"Demo shop\" with thirty days of made-up events; stop the \
                 server first",
            )
            .arg(
                Arg::new("remove")
                    .long("remove")
                    .action(ArgAction::SetTrue)
                    .conflicts_with("until")
                    .help("Delete the project instead"),
            )
            .arg(Arg::new("until").long("until").value_name("TIME").help(
                "End of the events, for example 2025-09-17T15:00:00Z; insights then name absolute \
                 dates; default: now",
            )),
    ]
}

const PRECEDENCE: &str = "Precedence: flag, environment variable, settings file, default. Pass \
    secrets through the …_FILE variables: flags are visible to every user of the machine.";

fn administration() -> Command {
    let email =
        Arg::new("email").long("email").value_name("EMAIL").help("E-mail address of the user");
    let stdin = Arg::new("password_stdin")
        .long("password-stdin")
        .action(ArgAction::SetTrue)
        .help("Read the password from standard input; default: generate and print one");
    let commands = [
        Command::new("create-user")
            .about("Adds a user to the first organization")
            .arg(email.clone().required(true).help("The new user's e-mail address"))
            .arg(Arg::new("first_name").long("first-name").value_name("NAME").default_value(""))
            .arg(
                Arg::new("level")
                    .long("level")
                    .value_parser(["member", "admin", "owner"])
                    .default_value("member"),
            )
            .arg(stdin.clone()),
        Command::new("reset-password")
            .about("Sets a new password and ends the user's sessions")
            .arg(email.clone().required(true))
            .arg(stdin),
        Command::new("setup-link")
            .about("Prints a link that sets a new password; it works once, for 24 hours")
            .arg(email.clone().help(
                "E-mail address of the user; default: the oldest account of the instance's staff",
            )),
        Command::new("deactivate-user")
            .about("Disables a user's sessions and keys until activate-user")
            .arg(email.clone().required(true)),
        Command::new("activate-user")
            .about("Reactivates a deactivated user")
            .arg(email.clone().required(true)),
        Command::new("confirm-email")
            .about("Confirms a user's changed e-mail address, so that organizations can add them")
            .arg(email.clone().required(true)),
        Command::new("grant-staff")
            .about("Lets a user create organizations and add existing accounts to any of them")
            .arg(email.clone().required(true)),
        Command::new("revoke-staff")
            .about("Revokes the rights of grant-staff")
            .arg(email.clone().required(true)),
        Command::new("create-key")
            .about("Creates a personal API key and prints it")
            .arg(email.clone().required(true))
            .arg(Arg::new("label").long("label").value_name("TEXT").default_value("admin"))
            .arg(
                Arg::new("scopes")
                    .long("scopes")
                    .value_name("LIST")
                    .default_value("*")
                    .help("For example feature_flag:read,query:read"),
            ),
        Command::new("list-keys").about("Lists personal API keys, masked").arg(email),
        Command::new("list-dead-letters")
            .about("Lists the records that the pipeline could not apply, with the reason"),
        Command::new("replay-dead-letters")
            .about("Replays dead letters; a running server does it within seconds")
            .arg(Arg::new("id").long("id").value_name("ID").help("Only this dead letter")),
    ];
    Command::new("admin")
        .about("Manages users, keys and dead letters; the server may run")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(|command| {
            // Links name the server's address.
            let listens = command.get_name() == "setup-link";
            with_settings(command, |setting| {
                CATALOG_SETTINGS.contains(&setting.key) || listens && setting.key == "listen"
            })
        }))
}

fn with_catalog_settings(command: Command) -> Command {
    with_settings(command, |setting| {
        CATALOG_SETTINGS.contains(&setting.key) || setting.key.starts_with(WAREHOUSE_SETTINGS)
    })
}

/// Adds `--config` and the flags of the settings that `selected` accepts.
fn with_settings(command: Command, selected: impl Fn(&Setting) -> bool) -> Command {
    let config = Arg::new(config::CONFIG)
        .long("config")
        .value_name("FILE")
        .help("Settings file in TOML [env: HEDGEROW_CONFIG]");
    TABLE.iter().filter(|setting| selected(setting)).fold(
        command.arg(config),
        |command, setting| {
            let mut help = format!("{} [env: {}]", setting.help, setting.variable());
            if let Some(default) = setting.default.filter(|default| !default.is_empty()) {
                help.push_str(&format!(" [default: {default}]"));
            }
            command.arg(
                Arg::new(setting.key)
                    .long(setting.flag())
                    .value_name(setting.value_name)
                    .help_heading(setting.heading)
                    .help(help),
            )
        },
    )
}

pub(crate) fn run(args: &ArgMatches) -> Result<ExitCode> {
    if let Some(("copy", flags)) = args.subcommand() {
        return copy::run(flags, &EffectiveConfig::resolve(flags, env::vars_os())?.settings()?);
    }
    run_to_end(args).map(|()| ExitCode::SUCCESS)
}

/// The commands that succeed or fail.
fn run_to_end(args: &ArgMatches) -> Result<()> {
    let resolve = |flags| EffectiveConfig::resolve(flags, env::vars_os());
    match args.subcommand() {
        Some(("serve", flags)) => serve::run(resolve(flags)?),
        Some(("health", flags)) => health::run(flags, &resolve(flags)?.settings()?),
        Some(("config", subcommand)) => match subcommand.subcommand() {
            Some(("show", flags)) => {
                let effective = resolve(flags)?;
                effective.settings()?;
                for name in &effective.unknown_variables {
                    eprintln!("hedgerow: {name} is not a setting");
                }
                print(&effective.render())
            }
            Some(("sample", flags)) => {
                let effective = resolve(flags)?;
                effective.settings()?;
                print(&effective.sample())
            }
            _ => print(&config::reference()),
        },
        Some(("completions", args)) => manual::completions(args, command()),
        Some(("man", args)) => manual::man_pages(args, command()),
        Some(("schema", _)) => print(&format!("{:#}\n", api::schema())),
        Some(("admin", subcommand)) => match subcommand.subcommand() {
            Some((name, flags)) => admin::run(name, flags, &resolve(flags)?.settings()?),
            None => bail!("admin needs a subcommand"),
        },
        Some(("backup", flags)) => backup::backup(flags, &resolve(flags)?.settings()?),
        Some(("restore", flags)) => backup::restore(flags, &resolve(flags)?.settings()?),
        Some(("verify", flags)) => verify::run(flags, &resolve(flags)?.settings()?),
        Some(("repair", flags)) => repair::run(flags, &resolve(flags)?.settings()?),
        Some(("files", flags)) => export::files(flags, &resolve(flags)?.settings()?),
        Some(("export", flags)) => export::export(flags, &resolve(flags)?.settings()?),
        Some(("demo", flags)) => demo::run(flags, &resolve(flags)?.settings()?),
        Some(("query", flags)) => statement::run(flags, &resolve(flags)?.settings()?),
        Some(("import", flags)) => import::run(flags, &resolve(flags)?.settings()?),
        _ => bail!("there is no such command"),
    }
}

/// Writes to standard output. Unlike `print!`, a closed pipe is an error, not a panic.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
