//! Sets `BUILT_VERSION` to the version and the git commit; without git (a tarball) to the version.

use std::env;
use std::path::Path;
use std::process::Command;

/// Overrides the commit, for packagers whose checkout has no history.
const COMMIT: &str = "HEDGEROW_COMMIT";

fn main() {
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let configured = env::var(COMMIT).ok().filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    match configured.or_else(checked_out) {
        Some(commit) => println!("cargo::rustc-env=BUILT_VERSION={version} ({commit})"),
        None => println!("cargo::rustc-env=BUILT_VERSION={version}"),
    }
}

fn checked_out() -> Option<String> {
    // Sources unpacked inside another repository must not report that repository's commit.
    if git(&["rev-parse", "--show-prefix"])? != "crates/server/" {
        return None;
    }
    // Cargo reruns the script every time for a missing file, so only existing ones are watched. The
    // reflog changes with every commit, whether the branch's ref is loose or packed.
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
