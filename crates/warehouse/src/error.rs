//! Errors of the warehouse, by what the caller or the operator can do.

use std::io;
use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Retry when the disk has space. Nothing is lost: unflushed rows stay in memory.
    #[error("no space on the disk for the warehouse")]
    Full,
    #[error("could not {doing}: {source}")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the warehouse in {} belongs to another running process", dir.display())]
    Locked { dir: PathBuf },
    #[error(
        "{} has warehouse format {found}, this version knows formats up to {known}; \
         a newer version wrote it", file.display()
    )]
    Version { file: PathBuf, found: u32, known: u32 },
    #[error(
        "the warehouse was filled from journal {stored:032x}, but the journal here is {given:032x}; \
         their positions do not belong together"
    )]
    Journal { stored: u128, given: u128 },
    /// Queries that need the file fail; all others stay correct.
    #[error("{} is damaged: {what}; {}", file.display(), remedy(file))]
    Corrupt { file: PathBuf, what: String },
    #[error(
        "{} has no manifest but holds {}; nothing was changed: restore the manifest from a backup \
         (`hedgerow restore`)",
        dir.display(), found.display()
    )]
    NoManifest { dir: PathBuf, found: PathBuf },
    #[error("the manifest in {} names no segment {file}", dir.display())]
    NoSegment { dir: PathBuf, file: String },
    /// A flush retries the project after a backoff; other projects are flushed meanwhile.
    #[error("the events of project {project} cannot be stored: {why}")]
    Project { project: model::ProjectId, why: String },
    /// The row can never be stored.
    #[error("the row at position {position} is refused: {why}")]
    Invalid { position: u64, why: &'static str },
    #[error("warehouse setting {name} {why}")]
    Setting { name: &'static str, why: &'static str },
    /// A reader's [`crate::RowPredicate`] failed.
    #[error("{0}")]
    Condition(String),
    /// Another engine than the embedded one failed. What was written may have arrived; the caller
    /// repeats it.
    #[error(transparent)]
    Engine(Box<dyn std::error::Error + Send + Sync>),
    /// As [`Error::Engine`], where the repetition may succeed without anybody's doing.
    #[error(transparent)]
    Away(Box<dyn std::error::Error + Send + Sync>),
    /// The string is not a cursor of this warehouse.
    #[error("not a cursor of an event list")]
    Cursor,
}

impl Error {
    pub(crate) fn io(doing: &'static str) -> impl Fn(io::Error) -> Error {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full,
            _ => Error::Io { doing, source },
        }
    }

    pub(crate) fn corrupt(file: &Path, what: impl ToString) -> Error {
        Error::Corrupt { file: file.to_owned(), what: what.to_string() }
    }

    /// Whether the data is corrupted or on an unreadable part of the disk, so that a retry does not
    /// help.
    pub(crate) fn is_media_error(&self) -> bool {
        match self {
            Error::Corrupt { .. } => true,
            Error::Io { source, .. } => source.raw_os_error() == Some(EIO),
            _ => false,
        }
    }

    /// Parquet wraps both errors of the operating system and errors of the decompressor. The latter
    /// mean corruption.
    pub(crate) fn parquet(file: &Path) -> impl Fn(parquet::errors::ParquetError) -> Error {
        move |error| match error {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                Ok(source) if is_os_error(&source) => Error::io("read or write a segment")(*source),
                Ok(other) => Error::corrupt(file, other),
                Err(other) => Error::corrupt(file, other),
            },
            other => Error::corrupt(file, other),
        }
    }
}

/// `errno` of an I/O error of the device.
const EIO: i32 = 5;

fn is_os_error(error: &io::Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    error.raw_os_error().is_some() || full.contains(&error.kind())
}

/// What an operator can do about a corrupted file.
fn remedy(file: &Path) -> String {
    let name =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let Some(segment) = name(file.file_name()).filter(|_| is_of_segment(file)) else {
        return "restore it from a backup (`hedgerow restore`)".into();
    };
    let project = name(file.parent().and_then(Path::file_name)).unwrap_or_default();
    format!(
        "`hedgerow verify` lists all that is damaged; restore the file from a backup, or drop its \
         events with `hedgerow repair --drop-segment {project}/{segment}`"
    )
}

fn is_of_segment(file: &Path) -> bool {
    file.extension().is_some_and(|ending| ending == "parquet" || ending == "dead")
}

#[cfg(test)]
mod tests {
    use parquet::errors::ParquetError;

    use super::*;

    #[test]
    fn parquet_errors_of_the_system_are_io_and_others_corruption() {
        let convert = |error: io::Error| {
            Error::parquet(Path::new("1/a.parquet"))(ParquetError::External(Box::new(error)))
        };
        let (disk, permission) =
            (io::Error::from_raw_os_error(EIO), io::Error::from_raw_os_error(13));
        let disk = convert(disk);
        assert!(matches!(disk, Error::Io { .. }) && disk.is_media_error());
        let permission = convert(permission);
        assert!(matches!(permission, Error::Io { .. }) && !permission.is_media_error());
        assert!(matches!(
            convert(io::Error::other("Unknown frame descriptor")),
            Error::Corrupt { .. }
        ));
        assert!(matches!(convert(io::ErrorKind::StorageFull.into()), Error::Full));
    }
}
