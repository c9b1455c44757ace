//! Packaging: systemd unit and container image.

use std::process::Command;

use crate::harness::Store;

const UNIT: &str = include_str!("../../../../../packaging/hedgerow.service");
const INSTALLED: &str = "/usr/local/bin/hedgerow";

/// Needs systemd, which `tools/install-test-deps` installs.
#[test]
fn systemd_accepts_the_unit() {
    let instance = Store::Sqlite.instance();
    let file = instance.data_dir.path().join("hedgerow.service");
    // systemd reports a missing program as an error.
    assert!(UNIT.contains(INSTALLED));
    std::fs::write(&file, UNIT.replace(INSTALLED, env!("CARGO_BIN_EXE_hedgerow"))).unwrap();
    let verify = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file).output();
    let verify = match verify {
        Ok(verify) => verify,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{why}");
            println!("skipped: {why}; systemd-analyze is not here");
            return;
        }
    };
    let complaints = String::from_utf8_lossy(&verify.stderr);
    // It also checks other units of the machine.
    let ours: Vec<&str> = complaints.lines().filter(|line| line.contains("hedgerow")).collect();
    assert!(ours.is_empty(), "{complaints}");
    assert!(verify.status.success(), "{complaints}");
}

/// The settings in the unit and the image exist.
#[test]
fn packaging_uses_existing_settings() {
    let (_, table, _) = Store::Sqlite.instance().run(&["config", "reference"]);
    let image = include_str!("../../../../../packaging/Dockerfile");
    let known = |name: &str| table.contains(&format!("`{name}`")) || name == "HEDGEROW_COMMIT";
    for text in [UNIT, image] {
        for part in text.split("HEDGEROW_").skip(1) {
            let end = part.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap();
            let name = format!("HEDGEROW_{}", &part[..end]);
            assert!(known(&name) || name == "HEDGEROW_NAME", "{name}");
        }
    }
}
