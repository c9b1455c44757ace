//! Runs Schemathesis (`compat/schema.py`) against the OpenAPI document at `/api/schema/`.

use std::process::Command;

use testing::test_deps;

use crate::harness::Store;

#[test]
fn responses_conform_to_the_openapi_schema() {
    let server = Store::Sqlite.start();
    // `make soak` sets a time budget.
    let seconds = std::env::var("HEDGEROW_SOAK_SECONDS").ok();
    let tried = Command::new(test_deps().join("venv/bin/python"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../compat/schema.py"))
        .arg(format!("http://{}", server.address()))
        .args(seconds)
        .output()
        .unwrap_or_else(|why| panic!("{why}: tools/install-test-deps brings Schemathesis"));
    let said = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success(), "{said}{}", String::from_utf8_lossy(&tried.stderr));
    let logged = server.output();
    let panics: Vec<&str> = logged.lines().filter(|line| line.contains("panicked")).collect();
    assert!(panics.is_empty(), "{panics:?}\n{said}");
    server.get("/api/projects/1/").expect(200);
}
