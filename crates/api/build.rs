//! Embeds the browser SDK's scripts and the web interface, if `tools/fetch-assets` and
//! `tools/build-web` provided them. No network access.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let assets = Path::new(&root).join("../../assets");
    let out = PathBuf::from(env::var("OUT_DIR").map_err(io::Error::other)?);
    println!("cargo::rerun-if-changed=build.rs");
    fs::write(out.join("scripts.rs"), scripts(&assets.join("static"))?)?;
    fs::write(out.join("web.rs"), web(&assets.join("web"))?)
}

fn scripts(directory: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", directory.display());
    // tools/fetch-assets writes `version` last: without it the directory may be incomplete.
    let version = fs::read_to_string(directory.join("version")).unwrap_or_default();
    let is_script = |name: &str| name.ends_with(".js");
    let files = match version.is_empty() {
        true => Vec::new(),
        false => names(directory)?.into_iter().filter(|name| is_script(name)).collect(),
    };
    let mut code = format!("const VERSION: &str = {:?};\n", version.trim());
    embed(&mut code, "SCRIPTS", directory, files);
    Ok(code)
}

fn web(directory: &Path) -> io::Result<String> {
    println!("cargo::rerun-if-changed={}", directory.display());
    // tools/build-web writes `checksum` last: without it the directory may be incomplete.
    if !directory.join("checksum").exists() {
        return Ok("const PAGE: Option<&str> = None;\nconst FILES: &[EmbeddedFile] = &[];\n\
                   const SHARED: Option<SharedFiles> = None;\n"
            .into());
    }
    let page = directory.join("app.html");
    let mut code = format!("const PAGE: Option<&str> = Some(include_str!({page:?}));\n");
    let shared = fs::read_to_string(directory.join("shared"))?;
    if let Some((script, style)) = shared.trim_end().split_once('\n') {
        let files = format!("SharedFiles {{ script: {script:?}, style: {style:?} }}");
        let _ = writeln!(code, "const SHARED: Option<SharedFiles> = Some({files});");
    }
    let directory = directory.join("assets");
    let files = names(&directory)?.into_iter();
    let plain = files.filter(|name| !name.ends_with(".gz") && !name.ends_with(".br"));
    embed(&mut code, "FILES", &directory, plain.collect());
    Ok(code)
}

/// The names of a directory's files, sorted.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(directory)?;
    let name =
        |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().into_string().unwrap_or_default());
    let mut names = entries.map(name).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// A constant with the files and their compressed copies.
fn embed(code: &mut String, constant: &str, directory: &Path, names: Vec<String>) {
    let _ = writeln!(code, "const {constant}: &[EmbeddedFile] = &[");
    for name in names {
        let include =
            |suffix: &str| format!("include_bytes!({:?})", directory.join(name.clone() + suffix));
        let copy = |suffix: &str| match directory.join(name.clone() + suffix).exists() {
            true => format!("Some({})", include(suffix)),
            false => "None".into(),
        };
        let (plain, gzip, brotli) = (include(""), copy(".gz"), copy(".br"));
        let _ = writeln!(
            code,
            "    EmbeddedFile {{ name: {name:?}, plain: {plain}, gzip: {gzip}, brotli: {brotli} }},"
        );
    }
    code.push_str("];\n");
}
