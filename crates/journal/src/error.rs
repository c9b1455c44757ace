//! Errors of the journal, by what the caller can do about them.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Position;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Backpressure: the queue stayed full for `queue_wait_max`. Retry later.
    #[error("the journal's queue stayed full for {} ms", waited.as_millis())]
    Busy { waited: Duration },
    /// Retry when records were released or the disk has space.
    #[error("the journal is full: {0}")]
    Full(FullCause),
    /// The log's servers did not acknowledge in time: no connection, no leader or no quorum. Nothing of
    /// the request was acknowledged; retry later.
    #[error("the journal's servers did not acknowledge within {} ms ({why})", waited.as_millis())]
    Away { waited: Duration, why: String },
    /// The append can never fit; retrying does not help.
    #[error("{bytes} bytes are more than the journal takes at once ({bytes_max})")]
    TooLarge { bytes: u64, bytes_max: u64 },
    #[error("the journal is closed")]
    Closed,
    /// The position was released, or belongs to another journal.
    #[error("position {asked} is not in the journal, which holds {oldest} up to {next}")]
    OutOfRange { asked: Position, oldest: Position, next: Position },
    /// Nothing of the request was acknowledged.
    #[error("could not {doing}: {source}")]
    Io { doing: &'static str, source: Arc<io::Error> },
    #[error("the journal in {} belongs to another running process", dir.display())]
    Locked { dir: PathBuf },
    #[error(
        "{} has journal format {found}, this version knows formats up to {known}; \
         a newer version wrote it (or its header is damaged)", file.display()
    )]
    Version { file: PathBuf, found: u32, known: u32 },
    #[error("journal segment {} is missing, but later ones exist", file.display())]
    Missing { file: PathBuf },
    #[error("{0}")]
    Corrupt(Box<Corruption>),
    /// No crash does this: a segment has its full length before it gets its name.
    #[error(
        "{} ends at byte {bytes}, in or right behind the last record before position {position}, \
         shorter than it was made: acknowledged records may be missing behind it", file.display()
    )]
    Truncated { file: PathBuf, bytes: u64, position: Position },
    /// The servers lost messages, or hold others than were acknowledged. Reading stops here.
    #[error(
        "{stream}: {what}; acknowledged events are lost (or the stream is another one): restore \
             the stream from a server or backup that has them"
    )]
    Lost { stream: String, what: String },
    /// The log cannot keep what capture promises, or is not ours.
    #[error("{0}")]
    Unsuitable(String),
    /// Another server uses the journal.
    #[error("{0}")]
    Owned(String),
    #[error("journal setting {name} {why}")]
    Setting { name: &'static str, why: &'static str },
    #[error("a journal id is 32 hexadecimal digits")]
    Id,
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullCause {
    Disk,
    Limit,
}

impl fmt::Display for FullCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FullCause::Disk => "no space on the disk",
            FullCause::Limit => "journal_disk_bytes_max is reached and nothing can be released",
        })
    }
}

/// Where and how a journal is corrupted, for a person to inspect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    pub file: PathBuf,
    pub offset: u64,
    pub position: Position,
    /// What should be at `offset`.
    pub expected: String,
    pub actual: String,
    /// Bytes after `offset`, in this file and later ones: what truncating here would lose.
    pub bytes_after: u64,
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is damaged at byte {} (position {}): expected {}, found {}; {} bytes of journal follow",
            self.file.display(),
            self.offset,
            self.position,
            self.expected,
            self.actual,
            self.bytes_after
        )
    }
}

impl Error {
    /// Whether the files are corrupted, so that retrying does not help.
    pub const fn is_corruption(&self) -> bool {
        matches!(self, Error::Corrupt(_) | Error::Missing { .. } | Error::Truncated { .. })
    }

    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Error::Full(FullCause::Disk)
            }
            _ => Error::Io { doing, source: Arc::new(source) },
        }
    }
}
