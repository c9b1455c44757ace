//! Immutable files of the person index: written once, checksummed, then memory-mapped.
//!
//! ```text
//! content, CRC32C of the content (u32), magic
//! ```
//! Numbers are little-endian. Strings and properties of mapped files live in the page cache, not in
//! the process's own memory.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use memmap2::Mmap;

const MAGIC: &[u8; 4] = b"HPI1";
const TRAILER_BYTES: usize = 8;
const BUFFER_BYTES: usize = 1 << 20;

/// The content of a file, if its checksum holds.
pub(crate) fn open(path: &Path) -> io::Result<Bytes> {
    let all = Bytes::from_owner(map(&File::open(path)?)?);
    if all.len() < TRAILER_BYTES {
        return Err(damaged(path));
    }
    let (content, trailer) = all.split_at(all.len() - TRAILER_BYTES);
    let (sum, magic) = trailer.split_at(4);
    if magic != MAGIC || sum != crc32c::crc32c(content).to_le_bytes() {
        return Err(damaged(path));
    }
    Ok(all.slice(..all.len() - TRAILER_BYTES))
}

/// The content of a file, which may be damaged.
pub(crate) fn open_unverified(path: &Path) -> io::Result<Bytes> {
    let all = Bytes::from_owner(map(&File::open(path)?)?);
    let length = all.len().checked_sub(TRAILER_BYTES).ok_or_else(|| damaged(path))?;
    Ok(all.slice(..length))
}

#[allow(unsafe_code, reason = "a mapping is only sound while nobody truncates the file")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: only this crate names these files. It writes each once, renames it into place and never
    // changes it again; unlinking keeps the mapping valid.
    unsafe { Mmap::map(file) }
}

fn damaged(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()))
}

/// Writes a file under a temporary name; [`FileWriter::finish`] gives it its own.
pub(crate) struct FileWriter {
    out: BufWriter<File>,
    path: PathBuf,
    temporary: PathBuf,
    checksum: u32,
    position: u64,
}

/// Suffix of files that are being written. A killed process leaves them; the next one removes them.
pub(crate) const TEMPORARY: &str = "tmp";

impl FileWriter {
    pub fn create(path: PathBuf) -> io::Result<Self> {
        let temporary = path.with_added_extension(TEMPORARY);
        let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(&temporary)?);
        Ok(Self { out, path, temporary, checksum: 0, position: 0 })
    }

    /// Bytes written so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Syncs the file and renames it into place.
    pub fn finish(mut self) -> io::Result<()> {
        let trailer = [self.checksum.to_le_bytes(), *MAGIC].concat();
        self.out.write_all(&trailer)?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        fs::rename(&self.temporary, &self.path)?;
        match self.path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl Write for FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.checksum = crc32c::crc32c_append(self.checksum, &bytes[..written]);
        self.position += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Reads numbers and byte strings from the front of a slice; `None` past its end.
pub(crate) struct Cursor<'a>(pub &'a [u8]);

impl<'a> Cursor<'a> {
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    /// A string with its length before it.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

pub(crate) fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_le_bytes())?;
    out.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_file_with_any_flipped_bit_or_missing_byte_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut out = FileWriter::create(path.clone()).unwrap();
        out.write_all(b"persons").unwrap();
        assert_eq!(out.position(), 7);
        assert!(!path.exists(), "not visible before it is complete");
        out.finish().unwrap();
        assert_eq!(&open(&path).unwrap()[..], b"persons");
        let intact = fs::read(&path).unwrap();
        for bit in 0..intact.len() * 8 {
            let mut damaged = intact.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, damaged).unwrap();
            assert!(open(&path).is_err(), "{bit}");
        }
        for length in 0..intact.len() {
            fs::write(&path, &intact[..length]).unwrap();
            assert!(open(&path).is_err(), "{length}");
        }
    }
}
