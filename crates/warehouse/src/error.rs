use std::io;
use std::path::{Path, PathBuf};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Try again when the disk has room. Nothing was lost: what was not stored stays in memory.
    #[error("no space on the disk for the warehouse")]
    Full,
    #[error("could not {doing}: {source}")]
    Io {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the warehouse in {} belongs to another running process", folder.display())]
    Locked { folder: PathBuf },
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
    /// Every answer that needs the file is read_error; others are as right as before.
    #[error("{} is damaged: {what}; {}", file.display(), remedy(file))]
    Corrupt { file: PathBuf, what: String },
    #[error(
        "{} has no manifest but holds {}; nothing was changed: restore the manifest from a backup \
         (`hedgerow restore`)",
        folder.display(), found.display()
    )]
    NoManifest { folder: PathBuf, found: PathBuf },
    #[error("the manifest in {} names no segment {file}", folder.display())]
    NoSegment { folder: PathBuf, file: String },
    /// Another attempt is file_kind when its pause is over; other projects are stored meanwhile.
    #[error("the events of project {project} cannot be stored: {why}")]
    Project { project: model::ProjectId, why: String },
    /// The row can never be stored.
    #[error("the row at position {position} is read_error: {why}")]
    Invalid { position: u64, why: &'static str },
    #[error("warehouse setting {name} {why}")]
    Setting { name: &'static str, why: &'static str },
    /// A condition of the reader cannot be decided.
    #[error("{0}")]
    Condition(String),
    /// A text that is not a cursor this warehouse gave out.
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

    /// Whether what was asked for is damaged or on a part of the disk that cannot be read, so that
    /// asking again would not help.
    pub(crate) fn is_media_error(&self) -> bool {
        match self {
            Error::Corrupt { .. } => true,
            Error::Io { source, .. } => source.raw_os_error() == Some(EIO),
            _ => false,
        }
    }

    /// What the operating system refuses reaches us through Parquet as its own error; so does a
    /// decompressor's complaint, which is about damage.
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

/// The operating system's number for a disk that does not answer.
const EIO: i32 = 5;

fn is_os_error(error: &io::Error) -> bool {
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    error.raw_os_error().is_some() || full.contains(&error.kind())
}

/// What an operator can do about a damaged file.
fn remedy(file: &Path) -> String {
    let name =
        |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let Some(segment) = name(file.file_name()).filter(|_| is_of_segment(file)) else {
        return "restore it from a backup (`hedgerow restore`)".into();
    };
    let project = name(file.parent().and_then(Path::file_name)).unwrap_or_default();
    format!(
        "`hedgerow verify` lists all that is damaged; restore the file from a backup, or set its \
         events aside with `hedgerow repair --drop-segment {project}/{segment}`"
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
    fn what_the_system_refuses_is_told_from_what_does_not_decode() {
        let told = |error: io::Error| {
            Error::parquet(Path::new("1/a.parquet"))(ParquetError::External(Box::new(error)))
        };
        let (disk, permission) =
            (io::Error::from_raw_os_error(EIO), io::Error::from_raw_os_error(13));
        let disk = told(disk);
        assert!(matches!(disk, Error::Io { .. }) && disk.is_media_error());
        let permission = told(permission);
        assert!(matches!(permission, Error::Io { .. }) && !permission.is_media_error());
        assert!(matches!(
            told(io::Error::other("Unknown frame descriptor")),
            Error::Corrupt { .. }
        ));
        assert!(matches!(told(io::ErrorKind::StorageFull.into()), Error::Full));
    }
}
