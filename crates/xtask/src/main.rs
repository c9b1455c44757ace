//! Checks that no compiler makes, and what packages list about the binary:
//! `cargo run -p xtask -- tidy`, `cargo run -p xtask -- third-party DIRECTORY VERSION`.

mod areas;
mod contract;
mod makefile;
mod third_party;
mod tidy;

use std::path::Path;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<&str>>()[..] {
        ["tidy"] => tidy::run(),
        ["third-party", directory, version] => third_party::run(Path::new(directory), version),
        _ => bail!("usage: xtask tidy | xtask third-party DIRECTORY VERSION"),
    }
}
