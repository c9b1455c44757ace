//! Schema versions, applied in order at start. Released migrations are only ever added to.

use model::Clock;

use crate::db::{Db, args};
use crate::{Error, Result};

/// Position is version: the first is 1.
const MIGRATIONS: &[&str] = &[include_str!("migrations/0001_accounts.sql")];
const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Brings the schema up to this program's, each step in a transaction of its own.
pub(crate) async fn run(db: &Db, clock: &Clock) -> Result<()> {
    let mut tx = db.begin().await?;
    tx.script(
        "CREATE TABLE IF NOT EXISTS schema_migrations (version BIGINT PRIMARY KEY, applied_at BIGINT NOT NULL)"
            .into(),
    )
    .await?;
    tx.commit().await?;
    let found = version(db).await?;
    if found > KNOWN {
        return Err(Error::NewerSchema { found, known: KNOWN });
    }
    for (version, script) in (1..).zip(MIGRATIONS).skip(found as usize) {
        apply(db, clock, version, script)
            .await
            .map_err(|source| Error::Migration { version, source: Box::new(source) })?;
        tracing::info!(schema.version = version, "migrated the catalog");
    }
    Ok(())
}

/// For commands beside a server: they never migrate, so the schema must fit already.
pub(crate) async fn check(db: &Db) -> Result<()> {
    match version(db).await? {
        found if found > KNOWN => Err(Error::NewerSchema { found, known: KNOWN }),
        found if found < KNOWN => Err(Error::OlderSchema { found, known: KNOWN }),
        _ => Ok(()),
    }
}

async fn apply(db: &Db, clock: &Clock, version: i64, script: &str) -> Result<()> {
    let mut tx = db.begin().await?;
    tx.script(db.dialect().expand(script)).await?;
    tx.run(
        "INSERT INTO schema_migrations (version, applied_at) VALUES ($1, $2)",
        args![version, clock.now()],
    )
    .await?;
    tx.commit().await
}

async fn version(db: &Db) -> Result<i64> {
    db.one("SELECT COALESCE(MAX(version), 0) AS version FROM schema_migrations", args![])
        .await?
        .get("version")
}
