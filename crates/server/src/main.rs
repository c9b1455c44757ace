//! The program: settings, wiring, start and stop, and the commands beside the server.
//!
//! It is the only crate that names concrete parts; what they do is theirs.

mod admin;
mod backup;
mod cli;
mod config;
mod export;
mod folder;
mod health;
mod http;
mod import;
mod ingest;
mod intake;
mod logs;
mod memory;
mod process;
mod repair;
mod runtimes;
mod scrub;
mod serve;
mod settings;
mod stores;
mod values;
mod verify;

use std::process::ExitCode;

fn main() -> ExitCode {
    memory::start();
    match cli::run(&cli::command().get_matches()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, whatever a library's message looks like.
            eprintln!("hedgerow: {}", format!("{error:#}").replace('\n', " "));
            ExitCode::FAILURE
        }
    }
}
