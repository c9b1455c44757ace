//! Byte access to a segment: opens the file on demand and verifies checksums on every read.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};

use crate::manifest::SegmentEntry;
use crate::segment::cache::Cache;
use crate::segment::checksums::BlockChecksums;
use crate::{Error, Result};

/// Bytes per read where the caller gives no length.
const READ_BYTES: usize = 64 << 10;

type Parquet<T> = std::result::Result<T, ParquetError>;

/// Positioned reads of a segment, so that readers share it without sharing a file offset. It holds no
/// file descriptor: the cache has at most [`crate::segment::cache::OPEN_FILES_MAX`] for all segments.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    id: u64,
    path: Arc<PathBuf>,
    cache: Arc<Cache>,
    length: u64,
    /// `None` for a segment of an older version, without checksums.
    blocks: Option<Arc<BlockChecksums>>,
}

impl Source {
    /// Opens the segment and reads Parquet's metadata.
    pub fn open(
        entry: &SegmentEntry,
        path: &Path,
        cache: &Arc<Cache>,
    ) -> Result<(Source, ParquetMetaData)> {
        let file = cache.file(entry.id, path)?;
        let length = file.metadata().map_err(Error::io("read the metadata of a segment"))?.len();
        if length != entry.bytes {
            let what = format!("it has {length} bytes, but {} were written", entry.bytes);
            return Err(Error::corrupt(path, what));
        }
        let mut source = Source {
            id: entry.id,
            path: Arc::new(path.to_owned()),
            cache: cache.clone(),
            length,
            blocks: None,
        };
        let Some(checks) = &entry.checks else {
            let metadata = parse(&source, path)?;
            return Ok((source, metadata));
        };
        let tail_bytes = length.checked_sub(checks.tail_at);
        let tail_bytes = tail_bytes.and_then(|bytes| usize::try_from(bytes).ok());
        let tail_bytes =
            tail_bytes.ok_or_else(|| Error::corrupt(path, "it ends before its footer"))?;
        let tail = source.read(checks.tail_at, tail_bytes).map_err(Error::parquet(path))?;
        let blocks = BlockChecksums::read(checks, &tail).ok_or_else(|| {
            let what = format!("the checksum of its footer, from byte {}, differs", checks.tail_at);
            Error::corrupt(path, what)
        })?;
        let metadata = parse(&TailReader { at: checks.tail_at, bytes: tail }, path)?;
        source.blocks = Some(Arc::new(blocks));
        Ok((source, metadata))
    }

    pub fn blocks(&self) -> Option<&BlockChecksums> {
        self.blocks.as_deref()
    }

    /// Reads bytes without checking them.
    pub fn read(&self, start: u64, length: usize) -> Parquet<Bytes> {
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF("past the end of the file".into()));
        }
        let file = self.cache.file(self.id, &self.path).map_err(|error| match error {
            Error::Io { source, .. } => ParquetError::External(Box::new(source)),
            other => ParquetError::General(other.to_string()),
        })?;
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, start).map_err(|error| {
            if error.kind() != io::ErrorKind::UnexpectedEof {
                // An I/O or permission error does not mean that the file is corrupted.
                return ParquetError::External(Box::new(error));
            }
            let end = start + length as u64;
            ParquetError::General(format!("bytes {start} to {end} cannot be read: {error}"))
        })?;
        Ok(bytes.into())
    }
}

impl Length for Source {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Source {
    type T = CheckedReader;

    fn get_read(&self, offset: u64) -> Parquet<CheckedReader> {
        Ok(CheckedReader { source: self.clone(), offset, bytes: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Parquet<Bytes> {
        let Some(blocks) = &self.blocks else { return self.read(start, length) };
        let around = blocks.align_to_blocks(start, length);
        let (from, length_read) = around
            .ok_or_else(|| ParquetError::EOF("past the last row group of the file".into()))?;
        let bytes = self.read(from, length_read)?;
        if let Some(at) = blocks.first_mismatch(from, &bytes) {
            return Err(ParquetError::General(format!("the checksum of byte {at} on differs")));
        }
        let first = (start - from) as usize;
        Ok(bytes.slice(first..first + length))
    }
}

/// Sequential reads with checked blocks.
pub(crate) struct CheckedReader {
    source: Source,
    offset: u64,
    bytes: Bytes,
}

impl Read for CheckedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() {
            let end = self.source.blocks().map_or(self.source.length, BlockChecksums::end);
            let left = end.saturating_sub(self.offset).min(READ_BYTES as u64) as usize;
            self.bytes = self.source.get_bytes(self.offset, left).map_err(|error| match error {
                ParquetError::External(inner) => match inner.downcast::<io::Error>() {
                    Ok(inner) => *inner,
                    Err(other) => io::Error::other(other),
                },
                other => io::Error::other(other),
            })?;
            self.offset += left as u64;
        }
        let read = buffer.len().min(self.bytes.len());
        self.bytes.copy_to_slice(&mut buffer[..read]);
        Ok(read)
    }
}

/// The tail of a segment, in memory.
struct TailReader {
    at: u64,
    bytes: Bytes,
}

impl Length for TailReader {
    fn len(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl ChunkReader for TailReader {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, offset: u64) -> Parquet<Self::T> {
        let length = self.len().saturating_sub(offset) as usize;
        Ok(self.get_bytes(offset, length)?.reader())
    }

    fn get_bytes(&self, start: u64, length: usize) -> Parquet<Bytes> {
        let first = start.checked_sub(self.at).map(|first| first as usize);
        let end = first.and_then(|first| first.checked_add(length));
        match (first, end) {
            (Some(first), Some(end)) if end <= self.bytes.len() => Ok(self.bytes.slice(first..end)),
            _ => Err(ParquetError::EOF("outside of the footer".into())),
        }
    }
}

fn parse(from: &impl ChunkReader, path: &Path) -> Result<ParquetMetaData> {
    ParquetMetaDataReader::new()
        .with_page_index_policy(PageIndexPolicy::Optional)
        .parse_and_finish(from)
        .map_err(Error::parquet(path))
}

/// A spill file: columns of a segment under construction, private to this process.
pub(crate) struct Spill {
    file: Arc<File>,
    length: u64,
}

impl Spill {
    pub fn open(path: &Path) -> Result<Spill> {
        let file = File::open(path).map_err(Error::io("open a spill file"))?;
        let length = file.metadata().map_err(Error::io("read the metadata of a spill file"))?.len();
        Ok(Spill { file: Arc::new(file), length })
    }
}

impl Length for Spill {
    fn len(&self) -> u64 {
        self.length
    }
}

pub(crate) struct SpillReader {
    file: Arc<File>,
    offset: u64,
}

impl Read for SpillReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

impl ChunkReader for Spill {
    type T = io::BufReader<SpillReader>;

    fn get_read(&self, offset: u64) -> Parquet<Self::T> {
        let from = SpillReader { file: self.file.clone(), offset };
        Ok(io::BufReader::with_capacity(READ_BYTES, from))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Parquet<Bytes> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}
