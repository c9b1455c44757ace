//! Checks the Makefile against the workspace without building anything: the packages, binaries,
//! tests and scripts that `make -n` prints must exist.
//!
//! `cargo run` builds only its own binary. Binaries that it spawns must be built by an earlier line
//! of the target, or the target fails in a fresh clone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The call by which a program locates a sibling binary.
const SIBLING_CALL: &str = "sibling(\"";

/// A package of the workspace: what a Makefile can name.
#[derive(Debug, Default)]
struct Package {
    name: String,
    dir: PathBuf,
    bins: BTreeSet<String>,
    tests: BTreeSet<String>,
    default_run: Option<String>,
    /// Sibling binaries that its binaries spawn.
    spawns: BTreeSet<String>,
}

/// Reports what the Makefile in `root` names and does not exist.
pub(crate) fn check(root: &Path, metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    let packages = packages(metadata)?;
    let targets = targets(&fs::read_to_string(root.join("Makefile")).context("Makefile")?);
    ensure!(!targets.is_empty(), "the Makefile has no .PHONY targets");
    for target in targets {
        let output = Command::new("make")
            .args(["--dry-run", "--no-print-directory", &target])
            .current_dir(root)
            // Variables of an outer make.
            .env_remove("MAKEFLAGS")
            .env_remove("MFLAGS")
            .env_remove("MAKELEVEL")
            .output()
            .context("make")?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            complaints.push(format!("make {target}: {}", why.trim()));
            continue;
        }
        let lines = String::from_utf8(output.stdout)?;
        complaints
            .extend(faults(root, &lines, &packages).map(|fault| format!("make {target}: {fault}")));
    }
    Ok(())
}

fn targets(makefile: &str) -> Vec<String> {
    let phony = makefile.lines().filter_map(|line| line.strip_prefix(".PHONY:"));
    phony.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let all = metadata["packages"].as_array().context("packages")?;
    let members = all.iter().filter(|package| package["source"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    members
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let dir = manifest.parent().context("a manifest has a parent directory")?.to_owned();
            let of_kind = |kind: &str| {
                let targets = package["targets"].as_array().into_iter().flatten();
                let matching = targets.filter(|target| target["kind"][0] == *kind);
                matching.map(|target| text(&target["name"])).collect()
            };
            let spawns = spawned_binaries(&dir.join("src"))?;
            let default_run = package["default_run"].as_str().map(str::to_owned);
            let (bins, tests) = (of_kind("bin"), of_kind("test"));
            Ok(Package { name: text(&package["name"]), dir, bins, tests, default_run, spawns })
        })
        .collect()
}

fn spawned_binaries(dir: &Path) -> Result<BTreeSet<String>> {
    let mut binaries = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            binaries.extend(spawned_binaries(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path)?;
            let names = text.split(SIBLING_CALL).skip(1).filter_map(|rest| rest.split('"').next());
            binaries.extend(names.map(str::to_owned));
        }
    }
    Ok(binaries)
}

/// The faults of the lines that a target would run.
fn faults(root: &Path, lines: &str, packages: &[Package]) -> impl Iterator<Item = String> + use<> {
    let mut faults = Vec::new();
    // Binaries built so far, with whether for release.
    let mut built: BTreeSet<(bool, String)> = BTreeSet::new();
    for command in lines.lines().flat_map(|line| line.split("||")).flat_map(|part| part.split("&&"))
    {
        let words: Vec<&str> = command.split_whitespace().collect();
        for script in words.iter().filter(|word| word.starts_with("tools/")) {
            if !is_executable(&root.join(script)) {
                faults.push(format!("{script} is not an executable script"));
            }
        }
        let Some(at) = words.iter().position(|word| *word == "cargo") else { continue };
        let words = &words[at + 1..];
        let cargo_args =
            words.iter().position(|word| *word == "--").map_or(words, |end| &words[..end]);
        let Some((verb, options)) = cargo_args.split_first() else { continue };
        if let Some(manifest) = value_of(options, "--manifest-path") {
            if !root.join(manifest).is_file() {
                faults.push(format!("{manifest} is missing"));
            }
            continue;
        }
        let names = options.windows(2).filter(|pair| pair[0] == "-p").map(|pair| pair[1]);
        for name in names {
            let Some(package) = packages.iter().find(|package| package.name == name) else {
                faults.push(format!("there is no package {name}"));
                continue;
            };
            faults.extend(package_faults(package, verb, options, &mut built));
        }
    }
    faults.into_iter()
}

/// The faults of a cargo command on one package; adds the binaries that it builds to `built`.
fn package_faults(
    package: &Package,
    verb: &str,
    options: &[&str],
    built: &mut BTreeSet<(bool, String)>,
) -> Vec<String> {
    let (name, mut faults) = (&package.name, Vec::new());
    let release = options.contains(&"--release");
    let bin = value_of(options, "--bin");
    if let Some(bin) = bin.filter(|bin| !package.bins.contains(*bin)) {
        faults.push(format!("{name} has no binary {bin}"));
    }
    if let Some(test) = value_of(options, "--test") {
        faults.extend(no_such_test(package, test, options));
    }
    match verb {
        "build" => {
            let selected = package.bins.iter().filter(|name| bin.is_none_or(|bin| bin == *name));
            built.extend(selected.map(|name| (release, name.clone())));
        }
        "run" => {
            let only = package.bins.iter().next().filter(|_| package.bins.len() == 1);
            match bin.or(package.default_run.as_deref()).or(only.map(String::as_str)) {
                Some(run) => built.extend([(release, run.to_owned())]),
                None => faults.push(format!("{name} has several binaries; select one with --bin")),
            }
            let missing = |binary: &&String| !built.contains(&(release, (*binary).clone()));
            let missing: Vec<&String> = package.spawns.iter().filter(missing).collect();
            faults.extend(
                missing
                    .into_iter()
                    .map(|binary| format!("{name} spawns {binary}, which no earlier line builds")),
            );
        }
        _ => {}
    }
    faults
}

fn value_of<'a>(options: &[&'a str], name: &str) -> Option<&'a str> {
    let at = options.iter().position(|option| *option == name)?;
    options.get(at + 1).copied()
}

/// A filter on a module that does not exist would run no test, and pass.
fn no_such_test(package: &Package, test: &str, options: &[&str]) -> Option<String> {
    if !package.tests.contains(test) {
        return Some(format!("{} has no tests {test}", package.name));
    }
    let module = options.iter().find_map(|option| option.strip_suffix("::"))?;
    let (dir, path) = (package.dir.join("tests").join(test), module.replace("::", "/"));
    let exists = dir.join(format!("{path}.rs")).is_file() || dir.join(path).is_dir();
    (!exists).then(|| format!("{} has no module {module} in its tests {test}", package.name))
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    fn package(name: &str, bins: &[&str], spawns: &[&str]) -> Package {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Package {
            name: name.into(),
            dir: root().join("crates").join(name),
            bins: all(bins),
            tests: all(&["it"]),
            default_run: None,
            spawns: all(spawns),
        }
    }

    #[test]
    fn makefile_targets_name_what_exists_and_build_what_they_spawn() {
        let mut complaints = Vec::new();
        let metadata = crate::tidy::metadata().unwrap();
        check(&root(), &metadata, &mut complaints).unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    #[test]
    fn makefile_check_reports_what_is_missing_in_a_fresh_clone() {
        let bench = Package {
            default_run: Some("bench".into()),
            ..package("bench", &["bench", "bare"], &["bare", "hedgerow"])
        };
        let packages = [package("server", &["hedgerow"], &[]), bench];
        let faults = |lines: &str| faults(&root(), lines, &packages).collect::<Vec<String>>();
        let server = "cargo build --release --locked -p server\n";
        let run = "cargo run --release --locked -p bench -- start -p nothing\n";
        assert_eq!(
            faults(&format!("{server}{run}")),
            ["bench spawns bare, which no earlier line builds"]
        );
        let all = "cargo build --release -p bench --bins\n";
        assert_eq!(faults(&format!("{server}{all}{run}")), [] as [String; 0]);
        let both = "cargo build --release -p server -p bench --bins\n";
        assert_eq!(faults(&format!("{both}{run}")), [] as [String; 0]);
        let debug = "cargo build -p bench --bins\n";
        assert_eq!(faults(&format!("{server}{debug}{run}")).len(), 1, "another profile");
        for (line, fault) in [
            ("cargo build -p nothing", "there is no package nothing"),
            ("A=1 cargo run -p bench --bin attack -- x", "bench has no binary attack"),
            ("cargo test -p server --test them", "server has no tests them"),
            (
                "tools/with-postgres cargo test -p server --test it gone::",
                "server has no module gone in its tests it",
            ),
            ("tools/gone || echo no", "tools/gone is not an executable script"),
            ("cargo fmt --manifest-path gone/Cargo.toml", "gone/Cargo.toml is missing"),
        ] {
            assert!(faults(line).contains(&fault.to_owned()), "{line}: {:?}", faults(line));
        }
        assert_eq!(
            faults("cargo test -p server --test it http::schemathesis::"),
            [] as [String; 0]
        );
    }
}
