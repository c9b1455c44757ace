//! Embeds the country database if `tools/fetch-assets` downloaded it. Never uses the network.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?;
    let directory = Path::new(&root).join("../../assets/geoip");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", directory.display());
    // `tools/fetch-assets` writes this file last.
    let bytes = match directory.join("version").exists() {
        true => format!("Some(include_bytes!({:?}))", directory.join("countries.mmdb")),
        false => "None".into(),
    };
    let code = format!("const BUILT_IN: Option<&[u8]> = {bytes};\n");
    let out = env::var("OUT_DIR").map_err(io::Error::other)?;
    fs::write(Path::new(&out).join("built_in.rs"), code)
}
