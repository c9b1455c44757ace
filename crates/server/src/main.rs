//! The `hedgerow` binary: settings, wiring, startup and shutdown, and the other CLI commands.
//!
//! The only crate that constructs the concrete stores and services; their logic lives in their own
//! crates.

mod admin;
mod allocator;
mod backup;
mod cli;
mod clickhouse_store;
mod config;
mod copy;
mod data_dir;
mod demo;
mod export;
mod health;
mod http;
mod import;
mod ingest;
mod instance;
mod journal_location;
mod logs;
mod manual;
mod process;
mod repair;
mod runtimes;
mod scrub;
mod serve;
mod settings;
mod statement;
mod stores;
mod values;
mod verify;
mod write_path;

use std::process::ExitCode;

fn main() -> ExitCode {
    allocator::init();
    match cli::run(&cli::command().get_matches()) {
        Ok(code) => code,
        Err(error) => {
            // Library messages may span lines; scripts expect one.
            eprintln!("hedgerow: {}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}
