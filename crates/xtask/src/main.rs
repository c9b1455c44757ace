//! Checks that no compiler makes: `cargo run -p xtask -- tidy`.

mod areas;
mod contract;
mod makefile;
mod tidy;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("tidy") => tidy::run(),
        _ => bail!("usage: xtask tidy"),
    }
}
