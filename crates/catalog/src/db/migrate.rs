//! Schema migrations, applied in order at start. Released migrations never change.

use std::cmp::Ordering;

use model::Clock;

use super::{Db, Tx, args};
use crate::{Error, Result};

/// The index plus one is the version.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/0001_accounts.sql"),
    include_str!("migrations/0002_ingest.sql"),
    include_str!("migrations/0003_flags.sql"),
    include_str!("migrations/0004_boards.sql"),
    include_str!("migrations/0005_cohorts.sql"),
    include_str!("migrations/0006_usage.sql"),
    include_str!("migrations/0007_access.sql"),
    include_str!("migrations/0008_tiles.sql"),
    include_str!("migrations/0009_tokens.sql"),
    include_str!("migrations/0010_expired_tokens.sql"),
    include_str!("migrations/0011_people.sql"),
    include_str!("migrations/0012_setup.sql"),
    include_str!("migrations/0013_versions.sql"),
    include_str!("migrations/0014_variables.sql"),
    include_str!("migrations/0015_feed.sql"),
];
pub(crate) const KNOWN: i64 = MIGRATIONS.len() as i64;

const TABLE: &str = "CREATE TABLE IF NOT EXISTS schema_migrations \
                     (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)";
pub(crate) const VERSION: &str =
    "SELECT COALESCE(MAX(version), 0) AS version FROM schema_migrations";

/// Migrates to the current version, in one transaction.
pub(crate) async fn run(db: &Db, clock: &Clock) -> Result<()> {
    let mut tx = db.begin().await?;
    tx.script(TABLE.into()).await?;
    let found: i64 = tx.one(VERSION, args![]).await?.get("version")?;
    match found.cmp(&KNOWN) {
        Ordering::Greater => return Err(Error::NewerSchema { found, known: KNOWN }),
        Ordering::Equal => return Ok(()),
        Ordering::Less => {}
    }
    for (version, script) in (1..).zip(MIGRATIONS).skip(found as usize) {
        apply(&mut tx, clock, version, script)
            .await
            .map_err(|source| Error::Migration { version, source: Box::new(source) })?;
    }
    tx.commit().await?;
    tracing::info!(schema.version = KNOWN, "migrated the catalog");
    Ok(())
}

/// Checks that the schema is current. Commands next to a running server never migrate.
pub(crate) async fn check(db: &Db) -> Result<()> {
    match version(db).await? {
        found if found > KNOWN => Err(Error::NewerSchema { found, known: KNOWN }),
        found if found < KNOWN => Err(Error::OlderSchema { found, known: KNOWN }),
        _ => Ok(()),
    }
}

async fn apply(tx: &mut Tx, clock: &Clock, version: i64, script: &str) -> Result<()> {
    tx.script(tx.dialect().expand(script)).await?;
    tx.run(
        "INSERT INTO schema_migrations (version, applied_at) VALUES ($1, $2)",
        args![version, clock.now()],
    )
    .await
    .map(drop)
}

pub(crate) async fn version(db: &Db) -> Result<i64> {
    db.one(VERSION, args![]).await?.get("version")
}
