//! First start, restart, and the lock on the data directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::harness::{ADMIN_EMAIL, ADMIN_PASSWORD, PERSONAL_KEY, Store, on_both_stores};

on_both_stores! {
    first_start_uses_the_configured_keys,
    first_start_generates_and_prints_missing_credentials_once,
    restart_changes_nothing,
    second_server_refuses_the_data_directory,
    wrong_secret_key_refuses_to_start,
}

fn first_start_uses_the_configured_keys(store: Store) {
    let server = store.start();
    let key = server.get("/api/personal_api_keys/@current/").expect(200).json();
    assert_eq!(key["scopes"], serde_json::json!(["*"]));
    server.call("GET", "/api/personal_api_keys/").no_key().send().expect(401);
    let narrow = server.key(&["dashboard:read"]);
    server.call("GET", "/api/personal_api_keys/").key(&narrow).send().expect(403);
    for given in [PERSONAL_KEY, ADMIN_PASSWORD] {
        assert!(!server.output().contains(given), "{given}");
    }
}

const GIVEN: [&str; 4] = [
    "HEDGEROW_PROJECT_API_KEY",
    "HEDGEROW_PERSONAL_API_KEY",
    "HEDGEROW_ADMIN_EMAIL",
    "HEDGEROW_ADMIN_PASSWORD",
];

fn first_start_generates_and_prints_missing_credentials_once(store: Store) {
    let mut instance = store.instance();
    GIVEN.iter().for_each(|name| instance.unset(name));
    instance.set("HEDGEROW_LOG_LEVEL", "trace");
    let server = instance.serve();
    let printed = server.process().printed();
    let value = |label: &str| {
        let line = printed.lines().find(|line| line.trim().starts_with(label)).unwrap();
        line.split_whitespace().last().unwrap().to_owned()
    };
    let (project, personal) = (value("project API key"), value("personal API key"));
    assert!(project.starts_with("phc_") && project.len() == 47, "{project}");
    server.call("GET", "/api/personal_api_keys/").key(&personal).send().expect(200);
    assert_eq!(value("admin "), "admin@hedgerow.local");
    let link = printed.lines().find(|line| line.contains("/setup#")).unwrap().trim();
    assert!(link.starts_with(&format!("http://{}/setup#", server.address())), "{link}");
    let token = link.split_once('#').unwrap().1.to_owned();
    assert_eq!(token.len(), 43, "{token}");
    let secrets = [project, personal.clone(), token];
    for secret in &secrets {
        assert!(!server.process().logged().contains(secret), "{secret} is in the log");
    }
    let server = server.restart();
    server.call("GET", "/api/personal_api_keys/").key(&personal).send().expect(200);
    for secret in &secrets {
        assert!(!server.output().contains(secret), "{secret} was shown again");
    }
}

fn restart_changes_nothing(store: Store) {
    let server = store.start();
    let made = server.key(&["dashboard:read"]);
    let keys = server.get("/api/personal_api_keys/").expect(200).json();
    let (_, _, mut instance) = server.stop();
    instance.set("HEDGEROW_PERSONAL_API_KEY", "phx_other");
    instance.set("HEDGEROW_ADMIN_EMAIL", "other@example.com");
    let server = instance.serve();
    let after = server.get("/api/personal_api_keys/").expect(200).json();
    assert_eq!(after, keys);
    server.call("GET", "/api/personal_api_keys/").key("phx_other").send().expect(401);
    server.call("GET", "/api/personal_api_keys/@current/").key(&made).send().expect(200);
    let log_in = serde_json::json!({ "email": ADMIN_EMAIL, "password": ADMIN_PASSWORD });
    server.call("POST", "/api/login").no_key().json(log_in).send().expect(200);
}

fn second_server_refuses_the_data_directory(store: Store) {
    let server = store.start();
    let (ok, _, stderr) = server.instance().run(&["serve"]);
    assert!(!ok);
    let pid = server.process().id();
    assert!(stderr.contains(&format!("another server (process {pid})")), "{stderr}");
    // With PostgreSQL a separate data directory is not enough.
    if store == Store::Postgres {
        let other = tempfile::tempdir().unwrap();
        let dir = other.path().display().to_string();
        let key = fs::read(server.file("secret.key")).unwrap();
        fs::write(other.path().join("secret.key"), key).unwrap();
        let (ok, _, stderr) = server.instance().run(&["serve", "--data-dir", &dir]);
        assert!(!ok && stderr.contains("another server owns this catalog"), "{stderr}");
    }
    server.get("/api/personal_api_keys/").expect(200);
}

fn wrong_secret_key_refuses_to_start(store: Store) {
    let (_, _, mut instance) = store.start().stop();
    instance.set(
        "HEDGEROW_SECRET_KEY",
        "some other key than that of the file".replace(' ', "-").as_str(),
    );
    let (ok, _, stderr) = instance.run(&["serve"]);
    assert!(!ok && stderr.contains("another secret key"), "{stderr}");
}

#[test]
fn data_directory_is_private_to_its_owner() {
    let mut instance = Store::Sqlite.instance();
    let dir = instance.data_dir.path().join("new/data");
    instance.set("HEDGEROW_DATA_DIR", &dir.display().to_string());
    let server = instance.serve();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.ends_with("secret.key")));
    for file in files {
        let own = if file.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&file), own, "{}", file.display());
    }
    let key = dir.join("secret.key");
    let (_, _, instance) = server.stop();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let server = instance.serve();
    assert_eq!(mode(&key), 0o600);
    assert!(server.process().logged().contains("others could read the secret key"));
}

#[test]
fn failed_start_prints_one_line() {
    let server = Store::Sqlite.start();
    let taken = server.address().to_string();
    let file = server.file("a-file");
    fs::write(&file, "").unwrap();
    let file = file.display().to_string();
    let nobody = "postgres://nobody@127.0.0.1:1/x";
    for (arguments, why) in [
        (["--data-dir", file.as_str()], "cannot create the data directory"),
        (["--listen", taken.as_str()], "cannot listen on"),
        (["--catalog-url", nobody], "cannot open the catalog: the catalog is unavailable"),
    ] {
        let instance = Store::Sqlite.instance();
        let (ok, printed, stderr) = instance.run(&[&["serve"], arguments.as_slice()].concat());
        assert!(!ok && stderr.contains(why), "{stderr}");
        assert_eq!((stderr.lines().count(), printed.as_str()), (1, ""), "{stderr}");
    }
}

#[test]
fn version_includes_the_commit() {
    let (told, printed, _) = Store::Sqlite.instance().run(&["--version"]);
    let git = std::process::Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = git.ok().filter(|git| git.status.success());
    let version = match commit.map(|git| String::from_utf8(git.stdout).unwrap()) {
        Some(commit) => format!("{} ({})", env!("CARGO_PKG_VERSION"), commit.trim()),
        None => env!("CARGO_PKG_VERSION").to_owned(),
    };
    assert!(told && printed == format!("hedgerow {version}"), "{printed}");
}
