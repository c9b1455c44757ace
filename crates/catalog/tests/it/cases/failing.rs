//! Classification of database errors.

use std::mem::discriminant;

use catalog::{Error, IngestBatch, NewDeadLetter};

use crate::store::TestDatabase;

/// Failing statements, and whether their values are at fault.
const SQLITE: &[(&[&str], bool)] = &[
    (&["CREATE TABLE t (x INTEGER NOT NULL) STRICT", "INSERT INTO t VALUES ('text')"], true),
    (&["CREATE TABLE u (x INTEGER NOT NULL)", "INSERT INTO u VALUES (NULL)"], true),
    (&["CREATE TABLE k (x INTEGER UNIQUE)", "INSERT INTO k VALUES (1), (1)"], true),
    (&["CREATE TABLE v (x TEXT)", "INSERT INTO v VALUES (zeroblob(2000000000))"], true),
    (&["INSERT INTO nowhere VALUES (1)"], false),
    (&["PRAGMA query_only = 1", "CREATE TABLE w (x TEXT)"], false),
    (
        &[
            "CREATE TABLE y (x BLOB)",
            "PRAGMA max_page_count = 1",
            "INSERT INTO y VALUES (zeroblob(1000000))",
        ],
        false,
    ),
];
const POSTGRES: &[(&[&str], bool)] = &[
    (&["SELECT 'text'::integer"], true),
    (&["SELECT '\"\\u0000\"'::jsonb ->> 0"], true),
    (&["CREATE TABLE u (x INTEGER NOT NULL)", "INSERT INTO u VALUES (NULL)"], true),
    (&["DO $$ BEGIN RAISE EXCEPTION 'by a trigger'; END $$"], true),
    (&["INSERT INTO nowhere VALUES (1)"], false),
    (&["SET default_transaction_read_only = on", "CREATE TABLE w (x TEXT)"], false),
    (&["SET statement_timeout = 1", "SELECT pg_sleep(10)"], false),
    (&["DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"], false),
    (&["DO $$ BEGIN RAISE EXCEPTION 'serialize' USING ERRCODE = '40001'; END $$"], false),
    (&["DO $$ BEGIN RAISE EXCEPTION 'its disk' USING ERRCODE = '58030'; END $$"], false),
];

pub async fn only_rejected_values_are_data_errors(database: TestDatabase) {
    for (statements, blamed) in if database.is_postgres() { POSTGRES } else { SQLITE } {
        let fills_disk =
            statements.iter().any(|sql| sql.contains("max_page") || sql.contains("no space"));
        let error = Error::from(database.failure(statements).await);
        assert_eq!(error.is_data_error(), *blamed, "{statements:?}: {error:?}");
        assert_eq!(is_disk_full(&error), fills_disk, "{statements:?}: {error:?}");
        if !database.is_postgres() {
            let direct = Error::from(direct_failure(statements));
            assert_eq!(direct.is_data_error(), *blamed, "{statements:?}: {direct:?}");
            assert_eq!(is_disk_full(&direct), fills_disk, "{statements:?}: {direct:?}");
            assert_eq!(discriminant(&direct), discriminant(&error), "{direct:?}: {error:?}");
        }
    }
}

fn is_disk_full(error: &Error) -> bool {
    matches!(error, Error::Unavailable(cause) if cause.is_disk_full())
}

/// The error of the last statement when it bypasses sqlx.
fn direct_failure(statements: &[&str]) -> rusqlite::Error {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let [before @ .., last] = statements else { panic!("no statements") };
    before.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
    connection.execute_batch(last).unwrap_err()
}

pub async fn transient_errors_are_reported_as_unavailable(database: TestDatabase) {
    let passing: &[&str] = if database.is_postgres() {
        &["SET default_transaction_read_only = on", "CREATE TABLE w (x TEXT)"]
    } else {
        &["PRAGMA query_only = 1", "CREATE TABLE w (x TEXT)"]
    };
    let error = Error::from(database.failure(passing).await);
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

pub async fn a_transaction_rolled_back_by_the_engine_blocks_no_later_one(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let letter = NewDeadLetter {
        project: Some(fixture.project.id),
        position: 1,
        step: "apply",
        reason: "it failed".into(),
        event: None,
        distinct_id: None,
        record: vec![1],
    };
    let batch = IngestBatch { reach: 1, dead_letters: vec![letter], ..IngestBatch::default() };
    // What SQLite does when its disk is full.
    let (broken, mended): (&[&str], &str) = match database.is_postgres() {
        false => (
            &["CREATE TRIGGER broken BEFORE INSERT ON dead_letters \
                BEGIN SELECT RAISE(ROLLBACK, 'disk'); END"],
            "DROP TRIGGER broken",
        ),
        true => (
            &[
                "CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION 'disk'; END $$",
                "CREATE TRIGGER broken BEFORE INSERT ON dead_letters \
                 FOR EACH ROW EXECUTE FUNCTION broken()",
            ],
            "DROP TRIGGER broken ON dead_letters",
        ),
    };
    for statement in broken {
        database.sql(statement).await;
    }
    fixture.catalog.ingest().apply(&batch).await.unwrap_err();
    fixture.catalog.ingest().apply(&batch).await.unwrap_err();
    database.sql(mended).await;
    fixture.catalog.ingest().apply(&batch).await.unwrap();
}
