//! Embeds the browser SDK's scripts if `tools/fetch-assets` downloaded them. No network access.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let directory = Path::new(&root).join("../../assets/static");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", directory.display());
    // tools/fetch-assets writes `version` last: without it the directory may be incomplete.
    let version = fs::read_to_string(directory.join("version")).unwrap_or_default();
    let mut scripts = Vec::new();
    if !version.is_empty() {
        for entry in fs::read_dir(&directory)? {
            let name = entry?.file_name().into_string().unwrap_or_default();
            if name.ends_with(".js") {
                scripts.push(name);
            }
        }
    }
    scripts.sort();
    let mut code = format!("const VERSION: &str = {:?};\n", version.trim());
    code.push_str("const SCRIPTS: &[Script] = &[\n");
    for name in scripts {
        let bytes = |suffix: &str| {
            format!("include_bytes!({:?})", directory.join(format!("{name}{suffix}")))
        };
        let (plain, gzip, brotli) = (bytes(""), bytes(".gz"), bytes(".br"));
        let _ = writeln!(
            code,
            "    Script {{ name: {name:?}, plain: {plain}, gzip: {gzip}, brotli: {brotli} }},"
        );
    }
    code.push_str("];\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("scripts.rs"), code)
}
