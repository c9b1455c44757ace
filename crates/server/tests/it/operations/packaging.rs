//! Packaging: systemd unit, container image, and what the program writes for packages.
//! `tools/test-dist` tests the packages themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
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
    let others = ["HEDGEROW_COMMIT", "HEDGEROW_CONFIG"];
    let known = |name: &str| table.contains(&format!("`{name}`")) || others.contains(&name);
    for text in [UNIT, image] {
        for part in text.split("HEDGEROW_").skip(1) {
            let end = part.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap();
            let name = format!("HEDGEROW_{}", &part[..end]);
            assert!(known(&name) || name == "HEDGEROW_NAME", "{name}");
        }
    }
}

#[test]
fn manual_and_completions_cover_every_command() {
    let instance = Store::Sqlite.instance();
    let (_, help, _) = instance.run(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // The second line of a description is indented further.
    let commands = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<&str> = commands.filter(|name| !name.is_empty() && *name != "help").collect();
    assert!(commands.contains(&"serve") && !commands.contains(&"man"), "{help}");
    let pages = instance.data_dir.path().join("man");
    let (ok, _, stderr) = instance.run(&["man", "--to", &pages.display().to_string()]);
    assert!(ok, "{stderr}");
    let page = fs::read_to_string(pages.join("hedgerow-serve.1")).unwrap();
    assert!(page.contains("HEDGEROW_CAPTURE_DURABILITY"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let (ok, script, stderr) = instance.run(&["completions", shell]);
        assert!(ok, "{stderr}");
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
            assert!(pages.join(format!("hedgerow-{command}.1")).is_file(), "{command}");
        }
    }
}

#[test]
fn sample_settings_are_the_defaults_until_uncommented_or_given() {
    let mut instance = Store::Sqlite.instance();
    // A variable belongs to the caller, and its value may be secret.
    instance.set("HEDGEROW_CONNECTIONS_MAX", "7");
    let given = ["config", "sample", "--data-dir", "/srv/hedgerow", "--events-days-max", "90"];
    let (ok, sample, stderr) = instance.run(&given);
    assert!(ok, "{stderr}");
    let active: Vec<&str> =
        sample.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(active, ["data_dir = \"/srv/hedgerow\"", "events_days_max = 90"]);
    assert!(sample.contains("\n#connections_max = 4096\n"), "{sample}");
    assert!(!sample.contains("phx_test"), "{sample}");
    let setting = |line: &str| line.split(" = ").next().is_some_and(|key| !key.contains(' '));
    let every = sample.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if rest.contains(" = ") && setting(rest) => rest,
        _ => line,
    });
    let file = instance.data_dir.path().join("hedgerow.toml");
    fs::write(&file, every.collect::<Vec<&str>>().join("\n")).unwrap();
    let (ok, shown, stderr) =
        instance.run(&["config", "show", "--config", &file.display().to_string()]);
    assert!(ok, "{stderr}");
    let words = |line: &str| line.split_whitespace().take(3).collect::<Vec<&str>>().join(" ");
    assert!(shown.lines().any(|line| words(line) == "query_memory_bytes_max 512 MiB"), "{shown}");
}

#[test]
fn first_start_writes_its_secrets_to_a_private_file_instead_of_standard_output() {
    let mut instance = Store::Sqlite.instance();
    for name in ["PROJECT_API_KEY", "PERSONAL_API_KEY", "ADMIN_EMAIL", "ADMIN_PASSWORD"] {
        instance.unset(&format!("HEDGEROW_{name}"));
    }
    let file = instance.data_dir.path().join("first-start");
    // Readable by others: the server must not keep it so.
    fs::write(&file, "").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    instance.set("HEDGEROW_FIRST_START_OUTPUT", &file.display().to_string());
    let server = instance.serve();
    let written = || fs::read_to_string(&file).unwrap();
    let links = || written().matches("/setup#").count();
    assert!(written().contains("phc_") && written().contains("phx_") && links() == 1);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let server = server.restart();
    assert_eq!(links(), 2, "nobody has opened the first link");
    assert!(written().contains("phx_"), "the keys stay in the file");
    for secret in ["phc_", "phx_", "/setup#"] {
        assert!(!server.output().contains(secret), "{secret}");
    }
}
