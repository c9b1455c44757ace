//! The commands, and the flags that the table of settings gives them.

use std::env;
use std::io::{self, Write as _};

use anyhow::{Result, bail};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::config::{self, Effective};
use crate::settings::{Setting, TABLE};
use crate::{admin, backup, export, health, import, repair, serve, verify};

/// What finds and opens the catalog.
const CATALOG: [&str; 3] = ["data_dir", "catalog_url", "secret_key"];

pub(crate) fn command() -> Command {
    Command::new("hedgerow")
        .about("Product analytics and feature flags that speak PostHog's wire API.")
        .version(env!("BUILT_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .after_help("Exit codes: 0 done, 1 it failed and says why, 2 the command was misspelt.")
        .subcommand(
            with(Command::new("serve").about("Starts the server"), |_| true).after_help(PRECEDENCE),
        )
        .subcommand(
            Command::new("config")
                .about("Tells about settings")
                .subcommand_required(true)
                .arg_required_else_help(true)
                .subcommand(with(
                    Command::new("show")
                        .about("Shows each setting's value and where it came from, secrets hidden"),
                    |_| true,
                ))
                .subcommand(
                    Command::new("reference").about("Prints all settings as a Markdown table"),
                ),
        )
        .subcommand(with(
            Command::new("health").about("Asks a running server whether it is ready").arg(
                Arg::new("for")
                    .long("for")
                    .value_parser(["capture", "query"])
                    .help("Only what this needs has to be ready; everything unless given"),
            ),
            |setting| setting.key == "listen",
        ))
        .subcommand(administration())
        .subcommands(copies().map(|command| with(command, |x| CATALOG.contains(&x.key))))
        .subcommands(events().map(|command| with(command, |x| CATALOG.contains(&x.key))))
}

/// Commands about everything that is kept.
fn copies() -> [Command; 4] {
    let folder = |name: &'static str| Arg::new(name).long(name).value_name("FOLDER").required(true);
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    [
        Command::new("backup")
            .about("Copies everything that is kept, beside a running server")
            .arg(folder("to").help("A new or empty folder")),
        Command::new("restore")
            .about("Puts a backup into an empty data folder")
            .arg(folder("from").help("A folder that backup made")),
        Command::new("verify")
            .about(
                "Reads everything that is kept, beside a running server or without one, and says \
                 what is damaged",
            )
            .after_help("Exit codes: 0 everything is whole, 1 something is damaged.")
            .arg(flag("json").help("As JSON")),
        Command::new("repair")
            .about(
                "Makes a damaged journal readable and stores agree with it; the server must not \
                 run meanwhile",
            )
            .arg(flag("yes").help("Do it; without this it only says what it would do"))
            .arg(flag("dry-run").id("dry_run").help("Only say what it would do"))
            .arg(
                Arg::new("drop_segment")
                    .long("drop-segment")
                    .value_name("FILE")
                    .action(ArgAction::Append)
                    .help(
                        "Give up the events of this segment, named as verify does; may be repeated",
                    ),
            )
            .arg(
                flag("drop-damaged")
                    .id("drop_damaged")
                    .help("Give up the events of every segment that verify finds damaged"),
            ),
    ]
}

/// Commands about events.
fn events() -> [Command; 3] {
    let project = Arg::new("project")
        .long("project")
        .value_name("NUMBER")
        .value_parser(clap::value_parser!(i64))
        .default_value("1");
    [
        Command::new("files")
            .about("Lists the Parquet files that are a project's events")
            .arg(project.clone())
            .arg(
                Arg::new("json")
                    .long("json")
                    .action(ArgAction::SetTrue)
                    .help("With rows, bytes, and where deleted rows are listed"),
            ),
        Command::new("export")
            .about("Writes a project's events, the oldest first, as import reads them")
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
                    .help("A new file; standard output unless given"),
            ),
        Command::new("import")
            .about(
                "Takes in events from lines of JSON or Parquet; the server must not run meanwhile",
            )
            .arg(
                Arg::new("file")
                    .value_name("FILE")
                    .required(true)
                    .help("Such as events.jsonl, events.jsonl.gz or events.parquet"),
            )
            .arg(project),
    ]
}

const PRECEDENCE: &str = "Each setting is taken from its flag, else its environment variable, else \
    its key in the settings file, else its default. A secret is safer in the file that its \
    variable's …_FILE twin names: flags are visible to every user of the machine.";

fn administration() -> Command {
    let email = Arg::new("email").long("email").value_name("EMAIL").help("Whose");
    let stdin = Arg::new("password_stdin")
        .long("password-stdin")
        .action(ArgAction::SetTrue)
        .help("Read the password from standard input; otherwise one is made up and printed");
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
            .about("Gives a user another password and ends their sessions")
            .arg(email.clone().required(true))
            .arg(stdin),
        Command::new("deactivate-user")
            .about("Ends a user's sessions and keys until they are activated again")
            .arg(email.clone().required(true)),
        Command::new("activate-user")
            .about("Lets a deactivated user in again")
            .arg(email.clone().required(true)),
        Command::new("confirm-email")
            .about("Confirms the e-mail address that a user changed, so that others may add them")
            .arg(email.clone().required(true)),
        Command::new("grant-staff")
            .about("Lets a user create organizations and add accounts of one to another")
            .arg(email.clone().required(true)),
        Command::new("revoke-staff")
            .about("Takes that right away")
            .arg(email.clone().required(true)),
        Command::new("create-key")
            .about("Makes a personal API key and prints it")
            .arg(email.clone().required(true))
            .arg(Arg::new("label").long("label").value_name("TEXT").default_value("admin"))
            .arg(
                Arg::new("scopes")
                    .long("scopes")
                    .value_name("LIST")
                    .default_value("*")
                    .help("Such as feature_flag:read,query:read"),
            ),
        Command::new("list-keys").about("Lists personal API keys, masked").arg(email),
        Command::new("list-dead-letters").about("Lists records that could not be applied, and why"),
        Command::new("replay-dead-letters")
            .about("Has the server send dead letters again, within seconds or at its next start")
            .arg(Arg::new("id").long("id").value_name("ID").help("Only this one")),
    ];
    Command::new("admin")
        .about("Changes users and keys, beside a running server")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(commands.map(|command| with(command, |x| CATALOG.contains(&x.key))))
}

/// Adds the flags of some settings, and the one that names the file.
fn with(command: Command, wanted: impl Fn(&Setting) -> bool) -> Command {
    let config = Arg::new(config::CONFIG)
        .long("config")
        .value_name("FILE")
        .help("Settings file in TOML [env: HEDGEROW_CONFIG]");
    TABLE.iter().filter(|setting| wanted(setting)).fold(command.arg(config), |command, setting| {
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
    })
}

pub(crate) fn run(given: &ArgMatches) -> Result<()> {
    let gather = |flags| Effective::gather(flags, env::vars_os());
    match given.subcommand() {
        Some(("serve", flags)) => serve::run(gather(flags)?),
        Some(("health", flags)) => health::run(flags, &gather(flags)?.settings()?),
        Some(("config", what)) => match what.subcommand() {
            Some(("show", flags)) => {
                let effective = gather(flags)?;
                effective.settings()?;
                for name in &effective.unknown_variables {
                    eprintln!("hedgerow: {name} is no setting");
                }
                say(&effective.shown())
            }
            _ => say(&config::reference()),
        },
        Some(("admin", what)) => match what.subcommand() {
            Some((name, flags)) => admin::run(name, flags, &gather(flags)?.settings()?),
            None => bail!("admin does nothing by itself"),
        },
        Some(("backup", flags)) => backup::backup(flags, &gather(flags)?.settings()?),
        Some(("restore", flags)) => backup::restore(flags, &gather(flags)?.settings()?),
        Some(("verify", flags)) => verify::run(flags, &gather(flags)?.settings()?),
        Some(("repair", flags)) => repair::run(flags, &gather(flags)?.settings()?),
        Some(("files", flags)) => export::files(flags, &gather(flags)?.settings()?),
        Some(("export", flags)) => export::export(flags, &gather(flags)?.settings()?),
        Some(("import", flags)) => import::run(flags, &gather(flags)?.settings()?),
        _ => bail!("there is no such command"),
    }
}

/// Standard output may be a closed pipe; that is an error, not a panic.
pub(crate) fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}
