//! Tells the program which commit it was built from. Without git, as in a tarball, it says nothing.

use std::env;
use std::path::Path;
use std::process::Command;

/// Given by packagers whose checkout has no history.
const GIVEN: &str = "HEDGEROW_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={GIVEN}");
    let given = env::var(GIVEN).ok().filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    match given.or_else(checked_out) {
        Some(commit) => println!("cargo::rustc-env=BUILT_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=BUILT_VERSION={version}"),
    }
}

fn checked_out() -> Option<String> {
    // Sources unpacked somewhere inside another repository are not at its commit.
    if git(&["rev-parse", "--show-prefix"])? != "crates/server/" {
        return None;
    }
    // A file that is missing would have this run every time. The log changes where the branch does,
    // be it a file of its own or packed.
    for name in ["HEAD", "logs/HEAD"] {
        let file = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let ran = Command::new("git").args(arguments).output().ok()?;
    let printed = String::from_utf8(ran.stdout).ok()?;
    ran.status.success().then(|| printed.trim().to_owned())
}
