//! The Makefile's targets, held against the workspace without building anything: what each would
//! run (`make -n`) must exist, and a program that starts others must find them built.
//!
//! `cargo run` builds one program only. What it starts beside itself has to be built by a line
//! before it, which nobody notices in a clone where it was built once.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// How a program names another one that was built beside it.
const BESIDE: &str = "beside(\"";

/// A package of the workspace, as far as a Makefile can name parts of it.
#[derive(Debug, Default)]
struct Package {
    name: String,
    folder: PathBuf,
    bins: BTreeSet<String>,
    tests: BTreeSet<String>,
    default_run: Option<String>,
    /// Programs that its own start.
    starts: BTreeSet<String>,
}

/// Complains about what the Makefile in `root` names and nobody has.
pub(crate) fn check(root: &Path, metadata: &Value, complaints: &mut Vec<String>) -> Result<()> {
    let packages = packages(metadata)?;
    let targets = targets(&fs::read_to_string(root.join("Makefile")).context("Makefile")?);
    ensure!(!targets.is_empty(), "the Makefile has no .PHONY targets");
    for target in targets {
        let output = Command::new("make")
            .args(["--dry-run", "--no-print-directory", &target])
            .current_dir(root)
            // Those of a make around this one.
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
    let own = all.iter().filter(|package| package["source"].is_null());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    own.map(|package| {
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        let folder = manifest.parent().context("a manifest lies in a folder")?.to_owned();
        let of_kind = |kind: &str| {
            let targets = package["targets"].as_array().into_iter().flatten();
            let wanted = targets.filter(|target| target["kind"][0] == *kind);
            wanted.map(|target| text(&target["name"])).collect()
        };
        let starts = started(&folder.join("src"))?;
        let default_run = package["default_run"].as_str().map(str::to_owned);
        let (bins, tests) = (of_kind("bin"), of_kind("test"));
        Ok(Package { name: text(&package["name"]), folder, bins, tests, default_run, starts })
    })
    .collect()
}

fn started(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(started(&path)?);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path)?;
            let names = text.split(BESIDE).skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(names.map(str::to_owned));
        }
    }
    Ok(found)
}

/// What is wrong with the lines that a target would run.
fn faults(root: &Path, lines: &str, packages: &[Package]) -> impl Iterator<Item = String> + use<> {
    let mut faults = Vec::new();
    // Programs that are there for release and for debugging.
    let mut built: BTreeSet<(bool, String)> = BTreeSet::new();
    for command in lines.lines().flat_map(|line| line.split("||")).flat_map(|part| part.split("&&"))
    {
        let words: Vec<&str> = command.split_whitespace().collect();
        for script in words.iter().filter(|word| word.starts_with("tools/")) {
            if !is_executable(&root.join(script)) {
                faults.push(format!("{script} is no script that can be run"));
            }
        }
        let Some(at) = words.iter().position(|word| *word == "cargo") else { continue };
        let words = &words[at + 1..];
        let own = words.iter().position(|word| *word == "--").map_or(words, |end| &words[..end]);
        let Some((verb, options)) = own.split_first() else { continue };
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

/// What is wrong with what a command wants of a package; notes the programs that it builds.
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
        faults.push(format!("{name} has no program {bin}"));
    }
    if let Some(test) = value_of(options, "--test") {
        faults.extend(no_such_test(package, test, options));
    }
    match verb {
        "build" => {
            let some = |one: &String| bin.is_none_or(|bin| bin == one);
            let made = package.bins.iter().filter(|one| some(one));
            built.extend(made.map(|made| (release, made.clone())));
        }
        "run" => {
            let only = package.bins.iter().next().filter(|_| package.bins.len() == 1);
            match bin.or(package.default_run.as_deref()).or(only.map(String::as_str)) {
                Some(run) => built.extend([(release, run.to_owned())]),
                None => faults.push(format!("{name} has several programs; name one")),
            }
            let missing = |one: &&String| !built.contains(&(release, (*one).clone()));
            let missing: Vec<&String> = package.starts.iter().filter(missing).collect();
            faults.extend(
                missing.into_iter().map(|program| {
                    format!("{name} starts {program}, which nothing before it builds")
                }),
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

/// A filter that names a module which is gone runs no test, and passes.
fn no_such_test(package: &Package, test: &str, options: &[&str]) -> Option<String> {
    if !package.tests.contains(test) {
        return Some(format!("{} has no tests {test}", package.name));
    }
    let module = options.iter().find_map(|option| option.strip_suffix("::"))?;
    let folder = package.folder.join("tests").join(test);
    let there = folder.join(format!("{module}.rs")).is_file() || folder.join(module).is_dir();
    (!there).then(|| format!("{} has no module {module} in its tests {test}", package.name))
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

    fn named(name: &str, bins: &[&str], starts: &[&str]) -> Package {
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Package {
            name: name.into(),
            folder: root().join("crates").join(name),
            bins: all(bins),
            tests: all(&["it"]),
            default_run: None,
            starts: all(starts),
        }
    }

    #[test]
    fn every_target_of_the_makefile_names_what_exists_and_builds_what_it_starts() {
        let mut complaints = Vec::new();
        let metadata = crate::tidy::metadata().unwrap();
        check(&root(), &metadata, &mut complaints).unwrap();
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    #[test]
    fn a_makefile_is_blamed_for_what_is_missing_in_a_fresh_clone() {
        let bench = Package {
            default_run: Some("bench".into()),
            ..named("bench", &["bench", "bare"], &["bare", "hedgerow"])
        };
        let packages = [named("server", &["hedgerow"], &[]), bench];
        let faults = |lines: &str| faults(&root(), lines, &packages).collect::<Vec<String>>();
        let server = "cargo build --release --locked -p server\n";
        let run = "cargo run --release --locked -p bench -- start -p nothing\n";
        assert_eq!(
            faults(&format!("{server}{run}")),
            ["bench starts bare, which nothing before it builds"]
        );
        let all = "cargo build --release -p bench --bins\n";
        assert_eq!(faults(&format!("{server}{all}{run}")), [] as [String; 0]);
        let both = "cargo build --release -p server -p bench --bins\n";
        assert_eq!(faults(&format!("{both}{run}")), [] as [String; 0]);
        let debug = "cargo build -p bench --bins\n";
        assert_eq!(faults(&format!("{server}{debug}{run}")).len(), 1, "another profile");
        for (line, fault) in [
            ("cargo build -p nothing", "there is no package nothing"),
            ("A=1 cargo run -p bench --bin attack -- x", "bench has no program attack"),
            ("cargo test -p server --test them", "server has no tests them"),
            (
                "tools/with-postgres cargo test -p server --test it gone::",
                "server has no module gone in its tests it",
            ),
            ("tools/gone || echo no", "tools/gone is no script that can be run"),
            ("cargo fmt --manifest-path gone/Cargo.toml", "gone/Cargo.toml is missing"),
        ] {
            assert!(faults(line).contains(&fault.to_owned()), "{line}: {:?}", faults(line));
        }
        assert_eq!(faults("cargo test -p server --test it schema::"), [] as [String; 0]);
    }
}
