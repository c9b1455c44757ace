//! Checks the dependencies between the areas of a crate: its top-level modules.
//!
//! The compiler accepts import cycles within a crate. The tables below forbid them: a file may use
//! `crate::other_area` only if the row of its own area lists that area, and the rows must be
//! acyclic. A name that `lib.rs` re-exports counts as a use of the area it comes from. `lib.rs`
//! itself wires the areas together and may use all of them, and tests may use anything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

type Rows = &'static [(&'static str, &'static [&'static str])];

/// Per crate, the areas that each area may use.
const AREAS: &[(&str, Rows)] = &[("catalog", CATALOG), ("api", API)];

const CATALOG: Rows = &[
    ("db", &[]),
    ("access", &["db"]),
    ("activity", &["db", "access"]),
    ("projects", &["db", "access", "activity"]),
    ("accounts", &["db", "access", "activity", "projects"]),
    ("objects", &["db", "activity"]),
    ("dashboards", &["db", "access", "activity", "projects", "objects"]),
    ("persons", &["db", "activity", "objects"]),
    ("activity_scopes", &["activity", "projects", "accounts", "dashboards", "persons"]),
    ("feed", &["db", "persons"]),
    ("cohorts", &["db", "activity", "objects", "persons", "feed"]),
    ("definitions", &["db", "activity", "objects", "cohorts"]),
    ("flags", &["db", "activity", "projects", "objects", "dashboards", "persons", "cohorts"]),
    ("ingest", &["db", "cohorts", "definitions", "feed", "flags"]),
    ("integrity", &["db", "ingest"]),
];

const API: Rows = &[
    ("http", &[]),
    ("auth", &["http"]),
    ("routes", &["http", "auth"]),
    ("activity", &["http", "auth", "routes"]),
    ("ingestion", &["http", "auth", "routes"]),
    ("persons", &["http", "auth", "routes", "activity", "ingestion"]),
    ("groups", &["http", "auth", "routes", "ingestion", "persons"]),
    ("accounts", &["http", "auth", "routes", "activity", "groups"]),
    ("cohorts", &["http", "auth", "routes", "activity", "persons"]),
    ("sdk", &["http", "routes"]),
    (
        "feature_flags",
        &["http", "auth", "routes", "activity", "ingestion", "accounts", "cohorts", "sdk"],
    ),
    ("queries", &["http", "auth", "routes"]),
    ("insights", &["http", "auth", "routes", "activity", "queries"]),
    ("mcp_tools", &["http", "auth", "routes", "queries", "insights"]),
    ("instance", &["http", "auth", "routes"]),
    ("access_controls", &["http", "auth", "routes", "feature_flags", "insights"]),
    ("dashboards", &["http", "auth", "routes", "activity", "insights"]),
    ("data_management", &["http", "auth", "routes", "activity"]),
    (
        "demo",
        &[
            "http",
            "auth",
            "routes",
            "accounts",
            "cohorts",
            "feature_flags",
            "dashboards",
            "data_management",
        ],
    ),
    ("events", &["http", "auth", "routes"]),
    ("ops", &["http", "routes"]),
    ("management", &["http", "auth", "ops"]),
    ("search", &["http", "auth", "routes"]),
    ("web", &["http", "auth", "routes"]),
    ("sharing", &["http", "auth", "routes", "insights", "dashboards", "web"]),
    (
        "router",
        &[
            "http",
            "routes",
            "activity",
            "ingestion",
            "persons",
            "groups",
            "accounts",
            "cohorts",
            "sdk",
            "feature_flags",
            "queries",
            "insights",
            "mcp_tools",
            "instance",
            "access_controls",
            "dashboards",
            "data_management",
            "demo",
            "events",
            "ops",
            "management",
            "search",
            "sharing",
            "web",
        ],
    ),
    ("fast_path", &["http", "sdk", "router"]),
];

/// Adds a complaint for each use of an area that the tables do not allow, and for each cycle.
pub(crate) fn check(files: &[(String, String)], complaints: &mut Vec<String>) -> Result<()> {
    for (name, rows) in AREAS {
        complaints.extend(cycle(rows).map(|areas| {
            format!("the areas of {name} use each other in a cycle: {}", areas.join(" -> "))
        }));
        let src = format!("crates/{name}/src/");
        let own = || files.iter().filter_map(|(file, code)| Some((file.strip_prefix(&src)?, code)));
        let lib = own().find(|(path, _)| *path == "lib.rs").context("no lib.rs")?;
        let exports = re_exports(lib.1);
        for (path, code) in own() {
            if path == "lib.rs" || is_test(path) {
                continue;
            }
            let area = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
            let Some((_, allowed)) = rows.iter().find(|(row, _)| *row == area) else {
                complaints.push(format!("area {area} of {name} has no row in areas.rs"));
                continue;
            };
            for used in used_areas(code, depth(path), &exports) {
                let is_area = rows.iter().any(|(row, _)| *row == used);
                if is_area && used != area && !allowed.contains(&used.as_str()) {
                    complaints.push(format!(
                        "{src}{path} uses the area {used}, which the row of {area} in areas.rs does \
                         not list"
                    ));
                }
            }
        }
    }
    Ok(())
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// How many `super::` lead from a file to the root of its crate.
fn depth(path: &str) -> usize {
    let folders = path.matches('/').count();
    if path.ends_with("/mod.rs") { folders } else { folders + 1 }
}

/// The areas that code names, by path or by a name that `lib.rs` re-exports.
fn used_areas(code: &str, depth: usize, exports: &BTreeMap<String, String>) -> BTreeSet<String> {
    let code = without_tests_and_comments(code);
    let mut used = BTreeSet::new();
    for root in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|letter| letter.is_alphanumeric() || "_:$".contains(letter)) {
                continue;
            }
            for name in first_names(&code[at + root.len()..]) {
                used.insert(exports.get(name).map_or(name, String::as_str).to_owned());
            }
        }
    }
    used
}

/// Unit tests are at the end of a file.
fn without_tests_and_comments(code: &str) -> String {
    let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or(code);
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    code.lines().filter(is_code).collect::<Vec<_>>().join("\n")
}

/// The first segment of a path, or of each path of a group `{a::b, c}`.
fn first_names(path: &str) -> Vec<&str> {
    match path.strip_prefix('{') {
        None => vec![name(path)],
        Some(group) => entries(group).into_iter().map(name).collect(),
    }
}

fn name(path: &str) -> &str {
    let path = path.trim_start();
    let end = path.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &path[..end.unwrap_or(path.len())]
}

/// The entries of a group up to its closing brace.
fn entries(group: &str) -> Vec<&str> {
    let (mut found, mut open, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => open += 1,
            '}' if open == 0 => {
                found.push(&group[start..at]);
                break;
            }
            '}' => open -= 1,
            ',' if open == 0 => {
                found.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.retain(|entry| !entry.trim().is_empty());
    found
}

/// Names that `lib.rs` re-exports, and the areas they come from.
fn re_exports(lib: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in without_tests_and_comments(lib).split(';') {
        let statement = statement.trim();
        let Some(path) =
            statement.strip_prefix("pub use ").or(statement.strip_prefix("pub(crate) use "))
        else {
            continue;
        };
        leaves(path, name(path), &mut exports);
    }
    exports
}

fn leaves(path: &str, area: &str, exports: &mut BTreeMap<String, String>) {
    if let Some((_, group)) = path.split_once('{') {
        entries(group).into_iter().for_each(|entry| leaves(entry.trim(), area, exports));
        return;
    }
    let last = path.rsplit("::").next().unwrap_or(path);
    let last = last.split(" as ").last().unwrap_or(last).trim();
    exports.insert(last.to_owned(), area.to_owned());
}

/// A cycle of the table, if there is one.
fn cycle(rows: Rows) -> Option<Vec<&'static str>> {
    fn visit(
        area: &'static str,
        rows: Rows,
        path: &mut Vec<&'static str>,
        done: &mut BTreeSet<&'static str>,
    ) -> Option<Vec<&'static str>> {
        if let Some(at) = path.iter().position(|visited| *visited == area) {
            return Some([&path[at..], &[area]].concat());
        }
        if done.contains(area) {
            return None;
        }
        path.push(area);
        let used = rows.iter().find(|(row, _)| *row == area).map_or(&[][..], |(_, used)| used);
        let cycle_path = used.iter().find_map(|used| visit(used, rows, path, done));
        path.pop();
        done.insert(area);
        cycle_path
    }
    let mut done = BTreeSet::new();
    rows.iter().find_map(|(area, _)| visit(area, rows, &mut Vec::new(), &mut done))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(code: &str, depth: usize) -> Vec<String> {
        let lib = "pub use flags::{lists::{FlagFilter, Order as FlagOrder}, FLAGS_MAX};\n\
                   pub(crate) use http::error::Error;\npub struct Catalog;";
        used_areas(code, depth, &re_exports(lib)).into_iter().collect()
    }

    #[test]
    fn areas_are_found_in_use_groups_paths_and_re_exports() {
        let code = "use crate::db::{Tx, args};\nuse crate::{Catalog, FlagOrder, users};\n\
                    // crate::comment::ignored\nfn f() { crate::activity::log() }\n\
                    #[cfg(test)]\nmod tests { use crate::ingest::x; }";
        assert_eq!(used(code, 1), ["Catalog", "activity", "db", "flags", "users"]);
    }

    #[test]
    fn a_path_of_supers_that_reaches_the_crate_root_names_an_area() {
        assert_eq!(used("use super::super::persons::Persons;", 2), ["persons"]);
        assert_eq!(used("use super::rows;", 2), [""; 0]);
        assert_eq!((depth("flags.rs"), depth("flags/mod.rs"), depth("flags/rows.rs")), (1, 1, 2));
    }

    #[test]
    fn a_cycle_in_a_table_is_found() {
        assert_eq!(cycle(&[("a", &["b"]), ("b", &["c"]), ("c", &[])]), None);
        let found = cycle(&[("x", &["a"]), ("a", &["b"]), ("b", &["c"]), ("c", &["a"])]);
        assert_eq!(found.unwrap(), ["a", "b", "c", "a"]);
    }
}
