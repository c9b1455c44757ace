use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::Position;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Try again: the queue stayed full for the whole wait.
    #[error("the journal's queue stayed full for {} ms", waited.as_millis())]
    Busy { waited: Duration },
    /// Try again when records were released or the disk has room.
    #[error("the journal is full: {0}")]
    Full(Room),
    /// This append never fits.
    #[error("{bytes} bytes are more than the journal takes at once ({bytes_max})")]
    TooLarge { bytes: u64, bytes_max: u64 },
    #[error("the journal is closed")]
    Closed,
    /// The position was released, or belongs to another or a lost journal.
    #[error("position {asked} is not in the journal, which holds {oldest} up to {next}")]
    OutOfRange { asked: Position, oldest: Position, next: Position },
    /// Nothing of the request was acknowledged.
    #[error("could not {doing}: {source}")]
    Io { doing: &'static str, source: Arc<io::Error> },
    #[error("the journal in {} belongs to another running process", folder.display())]
    Locked { folder: PathBuf },
    #[error(
        "{} has journal format {found}, this version knows formats up to {known}; \
         a newer version wrote it (or its header is damaged)", file.display()
    )]
    Version { file: PathBuf, found: u32, known: u32 },
    #[error("journal segment {} is missing, but later ones exist", file.display())]
    Missing { file: PathBuf },
    #[error("{0}")]
    Corrupt(Box<Damage>),
    /// No crash does this: a segment has its whole length before it has its name.
    #[error(
        "{} ends at byte {bytes}, in or right behind the last record before position {position}, \
         shorter than it was made: acknowledged records may be missing behind it", file.display()
    )]
    CutShort { file: PathBuf, bytes: u64, position: Position },
    #[error("journal setting {name} {why}")]
    Setting { name: &'static str, why: &'static str },
    #[error("a journal id is 32 hexadecimal digits")]
    Id,
}

/// Which room ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Disk,
    Bound,
}

impl fmt::Display for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Room::Disk => "no space on the disk",
            Room::Bound => "disk_bytes_max is reached and nothing was released",
        })
    }
}

/// What a person needs to look at a damaged journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    pub offset: u64,
    pub position: Position,
    /// What should stand at `offset`.
    pub expected: String,
    pub actual: String,
    /// Bytes behind `offset`, in this file and later ones: what cutting here would lose.
    pub bytes_behind: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is damaged at byte {} (position {}): expected {}, found {}; {} bytes of journal follow",
            self.file.display(),
            self.offset,
            self.position,
            self.expected,
            self.actual,
            self.bytes_behind
        )
    }
}

impl Error {
    /// Whether the files themselves are to blame, so that trying again does not help.
    pub const fn is_damage(&self) -> bool {
        matches!(self, Error::Corrupt(_) | Error::Missing { .. } | Error::CutShort { .. })
    }

    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full(Room::Disk),
            _ => Error::Io { doing, source: Arc::new(source) },
        }
    }
}
