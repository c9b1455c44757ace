//! What the binary contains besides Hedgerow: the licence texts that go with it, and a list in
//! CycloneDX's format (software bill of materials).
//!
//! Crates come from `cargo tree`, which resolves the features of `server` alone, and npm packages from
//! the two lockfiles. A package without a licence text, or with a licence that is not allowed, fails.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::tidy;

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// npm packages whose files end up in the binary: of the interface, and of the browser SDK.
const LOCKFILES: [&str; 2] = ["web", "assets/npm"];
/// A build tool, but its style sheet for all elements is in the interface's CSS.
const EMBEDDED_TOOLS: [&str; 1] = ["node_modules/tailwindcss"];
/// Licences that `tidy` does not allow for code: the GeoIP database, with attribution in NOTICE.
const DATA_LICENSES: [&str; 1] = ["CC-BY-4.0"];
/// Vendored C sources keep their licences below the crate's directory.
const DEPTH_MAX: usize = 4;
const LICENSE_FILES: [&str; 6] =
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
const SOURCE_SUFFIXES: [&str; 6] = [".rs", ".py", ".js", ".json", ".html", ".h"];

#[derive(Debug)]
struct Component {
    name: String,
    version: String,
    license: String,
    /// Package URL: the name by which vulnerability databases know it.
    purl: String,
    sha256: Option<String>,
    texts: Vec<String>,
}

/// Writes `THIRD-PARTY-LICENSES` and `sbom.cdx.json` to `directory`.
pub(crate) fn run(directory: &Path, version: &str) -> Result<()> {
    let metadata = tidy::metadata()?;
    let root = PathBuf::from(metadata["workspace_root"].as_str().context("workspace_root")?);
    let mut components = crates(&metadata, &root)?;
    components.push(standard_library()?);
    for folder in LOCKFILES {
        components.extend(npm_packages(&root.join(folder))?);
    }
    components.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    components.dedup_by(|a, b| a.purl == b.purl);
    for component in &components {
        let allowed = tidy::is_allowed(&component.license)
            || DATA_LICENSES.contains(&component.license.as_str());
        ensure!(allowed, "{} has the license {:?}", component.purl, component.license);
    }
    borrow_texts(&mut components)?;
    fs::create_dir_all(directory)?;
    fs::write(directory.join("THIRD-PARTY-LICENSES"), licenses(&components))?;
    let list = format!("{:#}\n", bill_of_materials(&components, version));
    fs::write(directory.join("sbom.cdx.json"), list)?;
    println!("third-party: {} components", components.len());
    Ok(())
}

fn crates(metadata: &Value, root: &Path) -> Result<Vec<Component>> {
    let output = Command::new("cargo")
        .args(["tree", "--locked", "-p", "server", "-e", "normal,no-proc-macro"])
        .args(["--target", TARGET, "--prefix", "none", "-f", "{p}"])
        .current_dir(root)
        .output()
        .context("cargo tree")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let linked = linked(&String::from_utf8(output.stdout)?);
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?);
    let packages = metadata["packages"].as_array().context("packages")?;
    let mut components = Vec::new();
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        let key = (text("name"), text("version"));
        if !linked.contains(&key) {
            continue;
        }
        let manifest = PathBuf::from(text("manifest_path"));
        components.push(Component {
            license: text("license").replace('/', " OR "),
            purl: format!("pkg:cargo/{}@{}", key.0, key.1.replace('+', "%2B")),
            sha256: checksums.get(&key).cloned(),
            texts: texts(manifest.parent().context("a manifest has a directory")?, DEPTH_MAX)?,
            name: key.0,
            version: key.1,
        });
    }
    Ok(components)
}

/// Names and versions in the output of `cargo tree`.
fn linked(tree: &str) -> BTreeSet<(String, String)> {
    let pair = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
    };
    tree.lines().filter_map(pair).collect()
}

/// The checksums of the packages in Cargo.lock.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let packages = lock.split("[[package]]").skip(1);
    let checksum = |package: &str| {
        let value = |key: &str| {
            let mut lines = package.lines();
            let quoted = lines.find_map(|line| line.strip_prefix(&format!("{key} = \"")));
            quoted.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    };
    packages.filter_map(checksum).collect()
}

/// The standard library is linked statically, and is in no lockfile.
fn standard_library() -> Result<Component> {
    let asked = |argument: &[&str]| -> Result<String> {
        let output = Command::new("rustc").args(argument).output().context("rustc")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let version = asked(&["--version"])?;
    let version = version.split(' ').nth(1).context("rustc has no version")?.to_owned();
    let documents = Path::new(&asked(&["--print", "sysroot"])?).join("share/doc/rust/licenses");
    // Toolchains of distributions have no such directory: the texts are then another crate's.
    let known = |name: &str| fs::read_to_string(documents.join(name)).ok();
    Ok(Component {
        name: "rust".into(),
        license: "MIT OR Apache-2.0".into(),
        purl: format!("pkg:generic/rust@{version}"),
        version,
        sha256: None,
        texts: ["MIT.txt", "Apache-2.0.txt"].into_iter().filter_map(known).collect(),
    })
}

fn npm_packages(folder: &Path) -> Result<Vec<Component>> {
    let lockfile = fs::read_to_string(folder.join("package-lock.json"))?;
    let lockfile: Value = serde_json::from_str(&lockfile)?;
    let packages = lockfile["packages"].as_object().context("packages")?;
    let mut components = Vec::new();
    for (path, package) in packages.iter().filter(|(path, package)| is_embedded(path, package)) {
        let installed = folder.join(path);
        ensure!(
            installed.is_dir(),
            "{} is missing: run npm ci --prefix {}",
            installed.display(),
            folder.display()
        );
        let name = path.rsplit("node_modules/").next().unwrap_or(path);
        let version = package["version"].as_str().context("version")?;
        let license = package["license"].as_str().unwrap_or_default();
        components.push(Component {
            name: name.into(),
            version: version.into(),
            // The database's package names a file of its own, and the licence in brackets.
            license: match license.split_once("SEE LICENSE IN DBIP-LICENSE") {
                Some((_, named)) => named.trim().trim_matches(['(', ')']).to_owned(),
                None => license.to_owned(),
            },
            purl: format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
            sha256: None,
            texts: texts(&installed, 0)?,
        });
    }
    Ok(components)
}

/// Types have no code, and optional packages are those of other platforms.
fn is_embedded(path: &str, package: &Value) -> bool {
    let marked = |mark: &str| package[mark] == true;
    let build_only = marked("dev") || marked("devOptional") || marked("optional");
    EMBEDDED_TOOLS.contains(&path) || !path.is_empty() && !build_only && !path.contains("/@types/")
}

/// The licence files of a package, in the order of their paths.
fn texts(directory: &Path, depth: usize) -> Result<Vec<String>> {
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        entries.push(entry?.path());
    }
    entries.sort();
    let mut found = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let is_source = SOURCE_SUFFIXES.iter().any(|end| name.ends_with(&end.to_uppercase()));
        if path.is_dir() {
            if depth > 0 {
                found.extend(texts(&path, depth - 1)?);
            }
        } else if !is_source && LICENSE_FILES.iter().any(|word| name.contains(word)) {
            let text = String::from_utf8_lossy(&fs::read(&path)?).replace("\r\n", "\n");
            found.push(text.trim_end().trim_start_matches('\n').to_owned());
        }
    }
    found.retain(|text| !text.is_empty());
    Ok(found)
}

/// A package without a text gets those of the package under the same licence whose name is most like
/// its own: nearly always a sibling of the same repository.
fn borrow_texts(components: &mut [Component]) -> Result<()> {
    for at in 0..components.len() {
        if !components[at].texts.is_empty() {
            continue;
        }
        let (name, license) = (&components[at].name, &components[at].license);
        let shared = |other: &&Component| {
            let pairs = name.bytes().zip(other.name.bytes());
            pairs.take_while(|(a, b)| a == b).count()
        };
        let with_text = components.iter().filter(|other| !other.texts.is_empty());
        let Some(like) = with_text.filter(|other| other.license == *license).max_by_key(shared)
        else {
            bail!("{name} has no licence text, and nothing else is under {license}");
        };
        components[at].texts = like.texts.clone();
    }
    Ok(())
}

fn licenses(components: &[Component]) -> String {
    let mut written = String::from(
        "Hedgerow contains the following software and data, each under its own licence. Of several\n\
         licences joined by OR, Hedgerow uses MIT where that is one of them. The texts follow the list.\n\n",
    );
    let mut users: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for component in components {
        let Component { name, version, license, .. } = component;
        written.push_str(&format!("{name} {version}: {license}\n"));
        for text in &component.texts {
            users.entry(text).or_default().push(name);
        }
    }
    // In the order of the list.
    let mut ordered: Vec<(&str, Vec<&str>)> = users.into_iter().collect();
    ordered.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, mut names) in ordered {
        names.dedup();
        written.push_str(&format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join(", ")));
    }
    written
}

fn bill_of_materials(components: &[Component], version: &str) -> Value {
    let listed = |component: &Component| {
        let mut entry = json!({
            "type": "library",
            "bom-ref": component.purl,
            "name": component.name,
            "version": component.version,
            "licenses": [{ "expression": component.license }],
            "purl": component.purl,
        });
        if let Some(sha256) = &component.sha256 {
            entry["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
        }
        entry
    };
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "hedgerow",
                "name": "hedgerow",
                "version": version,
                "licenses": [{ "expression": "MIT" }],
            },
        },
        "components": components.iter().map(listed).collect::<Vec<Value>>(),
        "dependencies": [{
            "ref": "hedgerow",
            "dependsOn": components.iter().map(|component| &component.purl).collect::<Vec<_>>(),
        }],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, license: &str, texts: &[&str]) -> Component {
        Component {
            name: name.into(),
            version: "1.0.0".into(),
            license: license.into(),
            purl: format!("pkg:cargo/{name}@1.0.0"),
            sha256: None,
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
        }
    }

    #[test]
    fn package_without_a_licence_text_borrows_its_siblings_or_fails() {
        let mut components = [
            component("alloc-no-stdlib", "BSD-3-Clause", &["by Daniel"]),
            component("alloc-stdlib", "BSD-3-Clause", &[]),
            component("zoo", "BSD-3-Clause", &["by Zoe"]),
        ];
        borrow_texts(&mut components).unwrap();
        assert_eq!(components[1].texts, ["by Daniel"]);
        let error = borrow_texts(&mut [component("alone", "ISC", &[])]).unwrap_err();
        assert!(error.to_string().contains("alone has no licence text"), "{error}");
    }

    #[test]
    fn each_licence_text_is_printed_once_with_the_packages_that_have_it() {
        let components = [component("a", "MIT", &["text"]), component("b", "MIT", &["text"])];
        let written = licenses(&components);
        assert!(written.ends_with("\na, b\n\ntext\n"), "{written}");
        assert!(written.contains("a 1.0.0: MIT\nb 1.0.0: MIT\n"), "{written}");
    }

    #[test]
    fn linked_crates_and_their_checksums_are_read_from_cargo() {
        let tree =
            "server v0.1.0 (/src)\nahash v0.8.12\nzstd-sys v2.0.16+zstd.1.5.7\nahash v0.8.12\n";
        let names: Vec<String> = linked(tree).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ahash", "server", "zstd-sys"]);
        let lock = "[[package]]\nname = \"ahash\"\nversion = \"0.8.12\"\nchecksum = \"5a1\"\n\n\
                    [[package]]\nname = \"server\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&("ahash".to_owned(), "0.8.12".to_owned())], "5a1");
    }

    #[test]
    fn only_npm_packages_whose_code_is_embedded_count() {
        for (path, package, embedded) in [
            ("", json!({}), false),
            ("node_modules/react", json!({}), true),
            ("node_modules/vite", json!({ "dev": true }), false),
            ("node_modules/typescript", json!({ "devOptional": true }), false),
            ("node_modules/@types/trusted-types", json!({ "optional": true }), false),
            ("node_modules/tailwindcss", json!({ "dev": true }), true),
        ] {
            assert_eq!(is_embedded(path, &package), embedded, "{path}");
        }
    }
}
