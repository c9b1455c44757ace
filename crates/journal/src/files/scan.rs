//! A sequential scan of one segment, a window of [`WINDOW_BYTES`] at a time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::files::cursor::{Cursor, Fault, Step};
use crate::files::format::{End, GroupHeader};
use crate::files::segment::Segment;
use crate::{Error, Position, Result};

pub(crate) const WINDOW_BYTES: usize = 1 << 20;

pub(crate) struct Scan {
    segment: Arc<Segment>,
    cursor: Cursor,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

#[derive(Debug)]
pub(crate) enum ScanItem<'a> {
    Group { start: End, header: GroupHeader },
    Record { position: Position, record: &'a [u8] },
    End(End),
    Bad(Fault),
}

impl Scan {
    pub(crate) fn new(segment: Arc<Segment>, limit: u64) -> Scan {
        let cursor = Cursor::new(&segment.header);
        Scan { segment, cursor, limit, window: Vec::new(), window_at: 0 }
    }

    pub(crate) fn next(&mut self) -> Result<ScanItem<'_>> {
        loop {
            let at = self.cursor.at();
            let consumed = at.offset.saturating_sub(self.window_at).min(self.window.len() as u64);
            match self.cursor.step(&self.window[consumed as usize..], self.limit) {
                Step::Need(bytes) => {
                    self.fill(at, bytes)?;
                    if self.window.len() < bytes {
                        let actual = format!("{} before the file ends", self.window.len());
                        let fault = self.cursor.fault(format!("{bytes} bytes"), &actual);
                        return Ok(ScanItem::Bad(fault));
                    }
                }
                Step::Group { start, header } => return Ok(ScanItem::Group { start, header }),
                Step::End => return Ok(ScanItem::End(at)),
                Step::Bad(fault) => return Ok(ScanItem::Bad(fault)),
                Step::Record { position, range } => {
                    let record = &self.window[consumed as usize..][range];
                    return Ok(ScanItem::Record { position, record });
                }
            }
        }
    }

    fn fill(&mut self, at: End, bytes: usize) -> Result<()> {
        let left = self.limit - at.offset;
        let needed = (bytes.max(WINDOW_BYTES) as u64).min(left);
        self.window = read_at(&self.segment.file, at.offset, needed as usize)?;
        self.window_at = at.offset;
        Ok(())
    }
}

/// Reads `bytes` bytes, fewer only at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, bytes: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let filled = read_to(file, offset, &mut buffer, 0..bytes)?;
    buffer.truncate(filled);
    Ok(buffer)
}

/// Fills the range `part` of `buffer`, whose first byte is at `offset` in the file, growing it if
/// needed. Returns how many bytes it read, fewer only at the end of the file.
pub(crate) fn read_to(
    file: &File,
    offset: u64,
    buffer: &mut Vec<u8>,
    part: Range<usize>,
) -> Result<usize> {
    if buffer.len() < part.end {
        buffer.resize(part.end, 0);
    }
    let mut filled = part.start;
    while filled < part.end {
        match file.read_at(&mut buffer[filled..part.end], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("read a journal segment")(error)),
        }
    }
    Ok(filled - part.start)
}
