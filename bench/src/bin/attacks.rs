//! `make soak`: runs every attack, or those given as arguments. `ATTACK_PERSONS` sets the stored persons,
//! `ATTACK_PROGRAM` the binary to attack.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};

const PERSONS: u64 = 1_000_000;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let persons = match std::env::var("ATTACK_PERSONS") {
        Ok(persons) => persons.parse().context("ATTACK_PERSONS is not a number")?,
        Err(_) => PERSONS,
    };
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    Ok(match bench::attacks::run(&named, persons, &results).await? {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
