//! Read-only integrity checks of a catalog file, which a server may be using or which may be
//! corrupted.

use std::path::{Path, PathBuf};

use model::Clock;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::db::secret::Secret;
use crate::db::vault::Vault;
use crate::db::{Db, migrate};
use crate::ingest::CONSUMER;
use crate::{Catalog, Error, Location, Result};

/// Limit on reported faults.
const FAULTS_MAX: usize = 100;

/// The result of an integrity check.
#[derive(Debug, Default)]
pub struct FileCheck {
    /// The schema version.
    pub schema: i64,
    /// The journal's id and the first unapplied position.
    pub offset: Option<(u128, u64)>,
    /// SQLite's messages.
    pub faults: Vec<String>,
}

/// Checks the pages, indexes and foreign keys of an SQLite file.
pub fn check_file(file: &Path) -> Result<FileCheck> {
    let connection = open(file)?;
    let mut checked = FileCheck::default();
    let mut integrity = connection.prepare(&format!("PRAGMA integrity_check({FAULTS_MAX})"))?;
    for line in integrity.query_map([], |row| row.get::<_, String>(0))? {
        checked.faults.extend(Some(line?).filter(|line| line != "ok"));
    }
    let mut references = connection.prepare("PRAGMA foreign_key_check")?;
    let broken = references.query_map([], |row| {
        let (table, row_id): (String, Option<i64>) = (row.get(0)?, row.get(1)?);
        let parent: String = row.get(2)?;
        let row_id = row_id.map_or_else(String::new, |id| format!(" {id}"));
        Ok(format!("row{row_id} of {table} refers to a row of {parent} that is not there"))
    })?;
    for line in broken.take(FAULTS_MAX) {
        checked.faults.push(line?);
    }
    checked.schema =
        connection.query_row(migrate::VERSION, [], |row| row.get(0)).optional()?.unwrap_or(0);
    if checked.schema > migrate::KNOWN {
        return Err(Error::NewerSchema { found: checked.schema, known: migrate::KNOWN });
    }
    let sql = "SELECT journal_id, position FROM journal_offsets WHERE consumer = ?";
    let offset = connection
        .query_row(sql, [CONSUMER], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))
        .optional()?;
    if let Some((id, position)) = offset {
        let id = u128::from_str_radix(&id, 16).map_err(|why| Error::corrupt("journal_id", why))?;
        checked.offset = Some((id, position as u64));
    }
    Ok(checked)
}

/// Opens read-only. Without a write-ahead log nothing is writing the file, so it is opened as
/// immutable and SQLite creates no log.
fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let wal = PathBuf::from(format!("{}-wal", file.display()));
    let immutable = if wal.exists() { "" } else { "&immutable=1" };
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    Ok(Connection::open_with_flags(format!("{uri}?mode=ro{immutable}"), flags)?)
}

impl Catalog {
    /// Opens a catalog of the current or an older schema without migrating it, for commands that
    /// read its progress. Sealed values cannot be read.
    pub async fn inspect(location: Location<'_>, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, Vault::new(&Secret::random("")), clock).await?;
        let found = migrate::version(&catalog.core.db).await?;
        if found > migrate::KNOWN {
            return Err(Error::NewerSchema { found, known: migrate::KNOWN });
        }
        Ok(catalog)
    }

    /// The schema version.
    pub async fn schema(&self) -> Result<i64> {
        let db: &Db = &self.core.db;
        migrate::version(db).await
    }
}
