//! What a failure is to be blamed on.

use std::mem::discriminant;

use catalog::{Error, IngestBatch, NewDeadLetter};

use crate::store::Place;

/// Statements that fail, and whether their values are to blame.
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

pub async fn only_refused_values_are_blamed_on_them(place: Place) {
    for (statements, blamed) in if place.is_postgres() { POSTGRES } else { SQLITE } {
        let error = Error::from(place.failure(statements).await);
        assert_eq!(error.is_data_error(), *blamed, "{statements:?}: {error:?}");
        if !place.is_postgres() {
            let direct = Error::from(direct_failure(statements));
            assert_eq!(direct.is_data_error(), *blamed, "{statements:?}: {direct:?}");
            assert_eq!(discriminant(&direct), discriminant(&error), "{direct:?}: {error:?}");
        }
    }
}

/// What the last statement fails with when SQLite is asked without the driver.
fn direct_failure(statements: &[&str]) -> rusqlite::Error {
    let connection = rusqlite::Connection::open_in_memory().unwrap();
    let [before @ .., last] = statements else { panic!("no statements") };
    before.iter().for_each(|sql| connection.execute_batch(sql).unwrap());
    connection.execute_batch(last).unwrap_err()
}

pub async fn what_may_pass_is_no_failure_for_good(place: Place) {
    let passing: &[&str] = if place.is_postgres() {
        &["SET default_transaction_read_only = on", "CREATE TABLE w (x TEXT)"]
    } else {
        &["PRAGMA query_only = 1", "CREATE TABLE w (x TEXT)"]
    };
    let error = Error::from(place.failure(passing).await);
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
}

pub async fn a_transaction_that_ended_by_itself_is_in_nobodys_way(place: Place) {
    let home = place.home().await;
    let letter = NewDeadLetter {
        project: Some(home.project.id),
        position: 1,
        step: "apply",
        reason: "it failed".into(),
        event: None,
        distinct_id: None,
        record: vec![1],
    };
    let batch = IngestBatch { reach: 1, dead_letters: vec![letter], ..IngestBatch::default() };
    // As SQLite does by itself when its disk is full.
    let (broken, mended): (&[&str], &str) = match place.is_postgres() {
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
        place.sql(statement).await;
    }
    home.catalog.ingest().apply(&batch).await.unwrap_err();
    home.catalog.ingest().apply(&batch).await.unwrap_err();
    place.sql(mended).await;
    home.catalog.ingest().apply(&batch).await.unwrap();
}
