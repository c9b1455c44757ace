//! Whether a catalog's file is whole, seen without changing anything: a server may be using it, and
//! a damaged one must stay as it is.

use std::path::{Path, PathBuf};

use model::Clock;
use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::db::secret::Secret;
use crate::db::vault::Vault;
use crate::db::{Db, migrate};
use crate::ingest::CONSUMER;
use crate::{Catalog, Error, Location, Result};

/// Lines that SQLite gives of a file that is damaged all over.
const FAULTS_MAX: usize = 100;

/// What a catalog says of itself.
#[derive(Debug, Default)]
pub struct FileCheck {
    /// Which migrations it has.
    pub schema: i64,
    /// The journal that was applied, and the first position of it that was not.
    pub offset: Option<(u128, u64)>,
    /// In SQLite's words.
    pub faults: Vec<String>,
}

/// Reads a whole SQLite file: its pages, its indexes and what refers to what.
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

/// For reading alone. Where no server and no crash left a log beside the file, nothing can change
/// it, and SQLite need not make one either.
fn open(file: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let log = PathBuf::from(format!("{}-wal", file.display()));
    let still = if log.exists() { "" } else { "&immutable=1" };
    let mut uri = String::from("file:");
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte));
            }
            other => uri.push_str(&format!("%{other:02x}")),
        }
    }
    Ok(Connection::open_with_flags(format!("{uri}?mode=ro{still}"), flags)?)
}

impl Catalog {
    /// Opens a catalog of this release's schema or an older one, which stays as it is: for commands
    /// that only ask how far it came. What is sealed in it cannot be read.
    pub async fn inspect(location: Location<'_>, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, Vault::new(&Secret::random("")), clock).await?;
        let found = migrate::version(&catalog.core.db).await?;
        if found > migrate::KNOWN {
            return Err(Error::NewerSchema { found, known: migrate::KNOWN });
        }
        Ok(catalog)
    }

    /// Which migrations it has.
    pub async fn schema(&self) -> Result<i64> {
        let db: &Db = &self.core.db;
        migrate::version(db).await
    }
}
