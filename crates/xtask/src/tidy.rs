//! Repository checks that the compiler does not make: allowed dependencies between crates
//! and between areas of a crate, file length, where routes are registered, licenses and sources of dependencies, and the Makefile.
//!
//! `cargo deny` checks licenses too, but building it takes longer than building Hedgerow.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{areas, contract, makefile};

const LINES_MAX: usize = 800;

/// The workspace crates that each crate may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("threads", &[]),
    ("copy", &["model"]),
    ("demo", &["model"]),
    ("journal", &["model"]),
    ("decode", &["model"]),
    ("capture", &["model", "decode", "journal"]),
    ("geoip", &["model"]),
    ("hogql", &["model"]),
    ("catalog", &["model"]),
    ("warehouse", &["model"]),
    ("pipeline", &["model", "journal", "catalog", "warehouse", "geoip"]),
    ("flags", &["model", "catalog", "geoip"]),
    ("facts", &["model", "warehouse"]),
    ("clickhouse", &["model", "warehouse", "hogql", "facts"]),
    ("eval", &["model", "hogql"]),
    ("sql", &["model", "threads", "warehouse", "hogql", "facts", "eval"]),
    ("insights", &["model", "warehouse", "facts", "hogql", "eval"]),
    (
        "query",
        &[
            "model",
            "threads",
            "catalog",
            "warehouse",
            "clickhouse",
            "facts",
            "hogql",
            "eval",
            "sql",
            "insights",
        ],
    ),
    ("api", &["model", "decode", "demo", "capture", "catalog", "flags", "query"]),
    (
        "server",
        &[
            "model",
            "threads",
            "journal",
            "decode",
            "capture",
            "copy",
            "geoip",
            "catalog",
            "warehouse",
            "clickhouse",
            "pipeline",
            "flags",
            "hogql",
            "sql",
            "query",
            "api",
        ],
    ),
    (
        "bench",
        &[
            "model",
            "threads",
            "journal",
            "geoip",
            "catalog",
            "warehouse",
            "pipeline",
            "flags",
            "query",
        ],
    ),
    // Only in dev-dependencies, so no row lists it.
    ("testing", &[]),
    ("xtask", &[]),
];

/// Licenses that are compatible with Hedgerow's own.
const LICENSES: &[&str] = &[
    "MIT",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "CC0-1.0",
    "MIT-0",
    "0BSD",
    "Unlicense",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
];

pub(crate) fn run() -> Result<()> {
    let metadata = metadata()?;
    let root = PathBuf::from(metadata["workspace_root"].as_str().context("workspace_root")?);
    let mut complaints = Vec::new();
    arrows(&metadata, &mut complaints)?;
    dependencies(&metadata, &mut complaints)?;
    makefile::check(&root, &metadata, &mut complaints)?;
    let mut files = Vec::new();
    for file in sources(&root)? {
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        files.push((name, fs::read_to_string(&file)?));
    }
    contract::check(&root, &files, &mut complaints)?;
    areas::check(&files, &mut complaints)?;
    for (name, text) in &files {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{name} has {lines} lines, more than {LINES_MAX}; split it"));
        }
        if name.starts_with("crates/api/src")
            && !name.ends_with("/routes.rs")
            && text.contains(".route(")
        {
            complaints.push(format!("{name} registers a route outside of Routes, undocumented"));
        }
    }
    ensure!(complaints.is_empty(), "tidy:\n  {}", complaints.join("\n  "));
    println!("tidy: ok");
    Ok(())
}

pub(crate) fn metadata() -> Result<Value> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cargo metadata")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("no {field}"))
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("")
}

/// Packages of the workspace have no registry.
fn is_member(package: &Value) -> bool {
    package["source"].is_null()
}

fn arrows(metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    let packages = list(metadata, "packages")?;
    let ours: BTreeSet<&str> = packages
        .iter()
        .filter(|package| is_member(package))
        .map(|package| text(package, "name"))
        .collect();
    for package in packages.iter().filter(|package| is_member(package)) {
        let name = text(package, "name");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("crate {name} is missing in the table ARROWS of xtask"));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let used = text(dependency, "name");
            // Dev-dependencies are unrestricted.
            let in_tests = dependency["kind"] == "dev";
            if ours.contains(used) && !in_tests && !allowed.contains(&used) {
                complaints.push(format!("{name} must not depend on {used}"));
            }
        }
    }
    Ok(())
}

fn dependencies(metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    for package in list(metadata, "packages")?.iter().filter(|package| !is_member(package)) {
        let (name, source) = (text(package, "name"), text(package, "source"));
        if !source.starts_with("registry+") {
            complaints.push(format!("{name} comes from {source}, not from the registry"));
        }
        let license = text(package, "license");
        if !is_allowed(license) {
            complaints.push(format!("{name} has the license {license:?}, which is not allowed"));
        }
    }
    Ok(())
}

/// Evaluates an SPDX expression: any operand of an `OR`, every operand of an `AND`.
pub(crate) fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    or_expression(&mut words) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn or_expression(words: &mut Words<'_>) -> bool {
    let mut free = and_expression(words);
    while words.next_if_eq(&"OR").is_some() {
        free |= and_expression(words);
    }
    free
}

fn and_expression(words: &mut Words<'_>) -> bool {
    let mut free = operand(words);
    while words.next_if_eq(&"AND").is_some() {
        free &= operand(words);
    }
    free
}

fn operand(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => {
            let free = or_expression(words);
            words.next() == Some(")") && free
        }
        Some(license) => {
            // An exception only grants further permissions.
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            LICENSES.contains(&license)
        }
        None => false,
    }
}

fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .current_dir(root)
        .output()
        .context("git ls-files")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    let names = String::from_utf8(output.stdout)?;
    Ok(names.lines().map(|name| root.join(name)).filter(|file| file.is_file()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_dev_dependencies_may_name_the_testing_crate() {
        let complaints = |kind: Value| {
            let testing = json!({ "name": "testing", "source": null, "dependencies": [] });
            let used = json!([{ "name": "testing", "kind": kind }]);
            let server = json!({ "name": "server", "source": null, "dependencies": used });
            let mut complaints = Vec::new();
            arrows(&json!({ "packages": [testing, server] }), &mut complaints).unwrap();
            complaints
        };
        assert_eq!(complaints(json!("dev")), [""; 0]);
        for kind in [Value::Null, json!("build")] {
            assert_eq!(complaints(kind), ["server must not depend on testing"]);
        }
    }

    #[test]
    fn license_expressions_are_evaluated_as_spdx() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
            "(GPL-3.0 AND MIT) OR ISC",
        ] {
            assert!(is_allowed(expression), "{expression}");
        }
        for expression in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "(MIT", "MIT ISC"]
        {
            assert!(!is_allowed(expression), "{expression}");
        }
    }
}
