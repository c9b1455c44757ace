//! The program: settings, wiring, start and stop.

mod serve;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Arg, Command, value_parser};

fn main() -> ExitCode {
    let command = Command::new("hedgerow")
        .about("Product analytics and feature flags that speak PostHog's wire API")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .subcommand(
            Command::new("serve")
                .about("Starts the server")
                .arg(Arg::new("listen").long("listen").value_name("ADDRESS"))
                .arg(
                    Arg::new("data_dir")
                        .long("data-dir")
                        .value_name("FOLDER")
                        .value_parser(value_parser!(PathBuf)),
                ),
        );
    let found = command.get_matches();
    let outcome = match found.subcommand() {
        Some(("serve", given)) => serve::run(
            given.get_one::<String>("listen").cloned(),
            given.get_one::<PathBuf>("data_dir").cloned(),
        ),
        _ => Ok(()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hedgerow: {error:#}");
            ExitCode::FAILURE
        }
    }
}
