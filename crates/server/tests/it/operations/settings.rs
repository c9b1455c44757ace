//! Precedence and validation of settings.

use std::fs;

use crate::harness::{Instance, Store};

/// The value and source of a key in `config show`.
fn shown(instance: &Instance, arguments: &[&str], key: &str) -> (String, String) {
    let (ok, printed, stderr) = instance.run(&[&["config", "show"], arguments].concat());
    assert!(ok, "{stderr}");
    let line = printed.lines().find(|line| line.split_whitespace().next() == Some(key)).unwrap();
    let mut words = line.split("  ").map(str::trim).filter(|word| !word.is_empty()).skip(1);
    (words.next().unwrap().into(), words.next().unwrap().into())
}

#[test]
fn settings_precedence_is_flag_environment_file_default() {
    let mut instance = Store::Sqlite.instance();
    let file = instance.data_dir.path().join("hedgerow.toml").display().to_string();
    fs::write(&file, "log_format = \"json\"\nconnections_max = 7\nrate_limits = true\n").unwrap();
    assert_eq!(shown(&instance, &[], "log_format"), ("pretty".into(), "default".into()));
    instance.set("HEDGEROW_CONFIG", &file);
    assert_eq!(shown(&instance, &[], "log_format"), ("json".into(), file.clone()));
    assert_eq!(shown(&instance, &[], "connections_max"), ("7".into(), file.clone()));
    assert_eq!(shown(&instance, &[], "rate_limits"), ("on".into(), file.clone()));
    instance.set("HEDGEROW_CONNECTIONS_MAX", "8");
    let variable = "HEDGEROW_CONNECTIONS_MAX".to_owned();
    assert_eq!(shown(&instance, &[], "connections_max"), ("8".into(), variable));
    let flag = ["--connections-max", "9"];
    assert_eq!(
        shown(&instance, &flag, "connections_max"),
        ("9".into(), "--connections-max".into())
    );
    let other = instance.data_dir.path().join("other.toml").display().to_string();
    fs::write(&other, "trusted_proxies = [\"10.0.0.0/8\", \"192.0.2.7\"]").unwrap();
    let flag = ["--config", &other];
    assert_eq!(shown(&instance, &flag, "log_format"), ("pretty".into(), "default".into()));
    assert_eq!(
        shown(&instance, &flag, "trusted_proxies"),
        ("10.0.0.0/8, 192.0.2.7".into(), other.clone())
    );
}

#[test]
fn secret_setting_is_read_from_a_file_and_never_printed() {
    let mut instance = Store::Sqlite.instance();
    let file = instance.data_dir.path().join("secret").display().to_string();
    fs::write(&file, "a-very-secret-key\n").unwrap();
    instance.set("HEDGEROW_SECRET_KEY_FILE", &file);
    let source = "HEDGEROW_SECRET_KEY_FILE".to_owned();
    assert_eq!(shown(&instance, &[], "secret_key"), ("(hidden)".into(), source));
    instance.set("HEDGEROW_CATALOG_URL", "postgres://me:hunter22@db/x");
    let (_, printed, stderr) = instance.run(&["config", "show"]);
    for secret in ["a-very-secret-key", "hunter22", "phx_test", "phc_test", "correct horse"] {
        assert!(!printed.contains(secret) && !stderr.contains(secret), "{secret}");
    }
    instance.set("HEDGEROW_SECRET_KEY", "another-secret-key");
    let (ok, _, stderr) = instance.run(&["config", "show"]);
    assert!(!ok && stderr.contains("are both set"), "{stderr}");
    instance.unset("HEDGEROW_SECRET_KEY");
    instance.set("HEDGEROW_SECRET_KEY_FILE", "/nowhere");
    let (ok, _, stderr) = instance.run(&["config", "show"]);
    assert!(!ok && stderr.contains("HEDGEROW_SECRET_KEY_FILE: cannot read /nowhere"));
}

#[test]
fn invalid_setting_is_rejected_with_its_name_and_source() {
    for (variable, value, stderr) in [
        ("LISTEN", "8000", "listen (HEDGEROW_LISTEN): \"8000\" is not an address and port"),
        ("DATA_DIR", "", "data_dir (HEDGEROW_DATA_DIR): the path is empty"),
        ("CATALOG_URL", "mysql://u:hunter22@x", "it must begin with postgres://"),
        ("SECRET_KEY", "hunter2", "it must have 8 to 1024 characters and no spaces"),
        ("PROJECT_API_KEY", "phx_hunter22", "not begin with phx_"),
        ("ADMIN_EMAIL", "admin", "\"admin\" is not an e-mail address"),
        ("ADMIN_PASSWORD", "hunter2", "it must have 8 to 1024 characters"),
        ("RATE_LIMITS", "yes", "\"yes\" is not one of off, on"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, x", "\"x\" is no address or range"),
        ("BODY_BYTES_MAX", "1 lot", "\"1 lot\" is not a size such as 20 MiB"),
        ("BODY_BYTES_MAX", "2 GiB", "\"2 GiB\" is not between 1 KiB and 1 GiB"),
        ("BODY_BYTES_MAX", "99999999999 TiB", "is not a size"),
        ("REQUEST_SECONDS_MAX", "0", "\"0\" is not an integer from 1 to 3600"),
        ("REQUEST_SECONDS_MAX", "-1", "\"-1\" is not an integer"),
        ("CAPTURE_DURABILITY", "maybe", "\"maybe\" is not one of fsync, os"),
        ("LOG_FORMAT", "xml", "\"xml\" is not one of pretty, json"),
        ("LOG_LEVEL", "loud", "\"loud\" is not a level"),
    ] {
        let mut instance = Store::Sqlite.instance();
        instance.set(&format!("HEDGEROW_{variable}"), value);
        for command in [&["config", "show"][..], &["serve"]] {
            let (ok, _, said) = instance.run(command);
            assert!(!ok && said.contains(stderr), "{variable}={value}: {said}");
            assert!(said.contains(&variable.to_lowercase()), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}

#[test]
fn unknown_setting_is_named() {
    for (text, stderr) in [
        ("lisen = \"x\"", ": \"lisen\" is not a setting"),
        ("[server]\nlisten = \"x\"", ": \"server\" is not a setting"),
        ("listen = { a = 1 }", "listen in"),
        ("listen = \"a\"\nlisten = \"b\"", "line 2"),
        ("secret_key = hunter2", "line 1"),
    ] {
        let instance = Store::Sqlite.instance();
        let file = instance.data_dir.path().join("hedgerow.toml").display().to_string();
        fs::write(&file, text).unwrap();
        let (ok, _, said) = instance.run(&["serve", "--config", &file]);
        assert!(!ok && said.contains(stderr) && !said.contains("hunter2"), "{text}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    // An unknown variable only causes a warning: Kubernetes sets such variables.
    let mut instance = Store::Sqlite.instance();
    instance.set("HEDGEROW_LISEN", "x");
    let (ok, _, said) = instance.run(&["config", "show"]);
    assert!(ok && said.contains("HEDGEROW_LISEN is not a setting"), "{said}");
    let server = instance.serve();
    assert!(server.process().logged().contains("HEDGEROW_LISEN"));
}

#[test]
fn size_setting_accepts_every_unit() {
    let instance = Store::Sqlite.instance();
    for size in ["2048", "2 KiB", "2KiB", "3 kB", "1 MB", "1MiB", "1 GB", "5000 B"] {
        shown(&instance, &["--body-bytes-max", size], "body_bytes_max");
    }
}

#[test]
fn documentation_has_the_table_of_settings() {
    let written = include_str!("../../../../../docs/SETTINGS.md");
    let instance = Store::Sqlite.instance();
    let (ok, table, _) = instance.run(&["config", "reference"]);
    assert!(ok && written.contains(&table), "put this into docs/SETTINGS.md:\n\n{table}\n");
}
