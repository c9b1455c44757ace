//! The house rules: who may use whom, how long a file may be, where a route may be added, which
//! licences and sources dependencies may have, and what the Makefile may name.
//!
//! Licences are what `cargo deny` is for; building that takes longer than building Hedgerow.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{contract, makefile};

const LINES_MAX: usize = 500;

/// Which of our crates each crate may use. An arrow that is missing here must not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("threads", &[]),
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
    ("eval", &["model", "hogql"]),
    ("sql", &["model", "threads", "warehouse", "hogql", "facts", "eval"]),
    ("insights", &["model", "warehouse", "facts", "hogql", "eval"]),
    (
        "query",
        &["model", "threads", "catalog", "warehouse", "facts", "hogql", "eval", "sql", "insights"],
    ),
    ("api", &["model", "decode", "capture", "catalog", "flags", "query"]),
    (
        "server",
        &[
            "model",
            "threads",
            "journal",
            "decode",
            "capture",
            "geoip",
            "catalog",
            "warehouse",
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
    ("xtask", &[]),
];

/// Licences that let Hedgerow stay under its own.
const LICENCES: &[&str] = &[
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
    for (name, text) in &files {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{name} has {lines} lines; {LINES_MAX} fit on a few screens"));
        }
        if name.starts_with("crates/api/src")
            && !name.ends_with("/routes.rs")
            && text.contains(".route(")
        {
            complaints.push(format!("{name} adds a route past Routes, which documents them"));
        }
    }
    ensure!(complaints.is_empty(), "tidy:\n  {}", complaints.join("\n  "));
    println!("tidy: nothing to complain about");
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

/// Ours are the packages without a registry.
fn is_ours(package: &Value) -> bool {
    package["source"].is_null()
}

fn arrows(metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    let packages = list(metadata, "packages")?;
    let ours: BTreeSet<&str> = packages
        .iter()
        .filter(|package| is_ours(package))
        .map(|package| text(package, "name"))
        .collect();
    for package in packages.iter().filter(|package| is_ours(package)) {
        let name = text(package, "name");
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == name) else {
            complaints.push(format!("crate {name} has no line in the table of arrows"));
            continue;
        };
        for dependency in list(package, "dependencies")? {
            let used = text(dependency, "name");
            // Tests may start whatever they need.
            let in_tests = dependency["kind"] == "dev";
            if ours.contains(used) && !in_tests && !allowed.contains(&used) {
                complaints.push(format!("{name} uses {used}, which points the wrong way"));
            }
        }
    }
    Ok(())
}

fn dependencies(metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    for package in list(metadata, "packages")?.iter().filter(|package| !is_ours(package)) {
        let (name, source) = (text(package, "name"), text(package, "source"));
        if !source.starts_with("registry+") {
            complaints.push(format!("{name} comes from {source}, not from the registry"));
        }
        let licence = text(package, "license");
        if !is_free(licence) {
            complaints.push(format!("{name} has the licence {licence:?}"));
        }
    }
    Ok(())
}

/// One way through the expression is enough: any side of an `OR`, every side of an `AND`.
fn is_free(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    any_side(&mut words) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any_side(words: &mut Words<'_>) -> bool {
    let mut free = every_side(words);
    while words.next_if_eq(&"OR").is_some() {
        free |= every_side(words);
    }
    free
}

fn every_side(words: &mut Words<'_>) -> bool {
    let mut free = one_side(words);
    while words.next_if_eq(&"AND").is_some() {
        free &= one_side(words);
    }
    free
}

fn one_side(words: &mut Words<'_>) -> bool {
    match words.next() {
        Some("(") => {
            let free = any_side(words);
            words.next() == Some(")") && free
        }
        Some(licence) => {
            // An exception only ever allows more.
            if words.next_if_eq(&"WITH").is_some() {
                words.next();
            }
            LICENCES.contains(&licence)
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
    use super::*;

    #[test]
    fn a_licence_passes_when_one_way_through_it_does() {
        for expression in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "(MIT OR GPL-3.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
            "(GPL-3.0 AND MIT) OR ISC",
        ] {
            assert!(is_free(expression), "{expression}");
        }
        for expression in
            ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "(MIT", "MIT ISC"]
        {
            assert!(!is_free(expression), "{expression}");
        }
    }
}
