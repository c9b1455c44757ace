//! Readers of segment files.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use crate::blocking;
use crate::files::cursor::{Cursor, Fault, Step};
use crate::files::format::FRAME_BYTES;
use crate::files::journal::Shared;
use crate::files::recover::corruption_at;
use crate::files::scan::{WINDOW_BYTES, read_to};
use crate::files::segment::{LogEnd, Segment};
use crate::{Error, Position, Records, Result, lock};

/// Readers run concurrently and never block the writer.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    log_end: watch::Receiver<LogEnd>,
    next: Position,
    at_position: Option<ReadPosition>,
    /// Memory of earlier records, to be reused.
    buffer: Vec<u8>,
}

/// Where the next read starts. Each read works on a clone, so a dropped future loses nothing.
#[derive(Clone)]
struct ReadPosition {
    segment: Arc<Segment>,
    cursor: Cursor,
}

impl Reader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        log_end: watch::Receiver<LogEnd>,
        next: Position,
    ) -> Reader {
        Reader { shared, log_end, next, at_position: None, buffer: Vec::new() }
    }

    pub(crate) fn position(&self) -> Position {
        self.next
    }

    pub(crate) fn end(&self) -> Position {
        self.log_end.borrow().end
    }

    pub(crate) async fn next_batch(
        &mut self,
        records_max: usize,
        bytes_max: usize,
    ) -> Result<Records> {
        let next = self.next;
        if self.end() <= next {
            self.buffer = Vec::new();
        }
        if self.log_end.wait_for(|log_end| log_end.end > next).await.is_err() {
            return Err(Error::Closed);
        }
        let (shared, at_position) = (self.shared.clone(), self.at_position.clone());
        let bounds = Bounds { from: next, records_max: records_max.max(1), bytes_max };
        let buffer = std::mem::take(&mut self.buffer);
        let (at_position, records) =
            blocking(move || read(&shared, at_position, buffer, &bounds)).await?;
        self.at_position = Some(at_position);
        if let Some((last, _)) = records.index.last() {
            self.next = last.next();
        }
        Ok(records)
    }

    /// Only large buffers are retained, and only until the reader has caught up.
    pub(crate) fn reuse(&mut self, records: Records) {
        if records.index.last().is_some_and(|(_, last)| last.end > WINDOW_BYTES) {
            self.buffer = records.bytes;
        }
    }
}

struct Bounds {
    from: Position,
    records_max: usize,
    bytes_max: usize,
}

/// Call only when a record at or after `bounds.from` is durable.
fn read(
    shared: &Shared,
    at_position: Option<ReadPosition>,
    buffer: Vec<u8>,
    bounds: &Bounds,
) -> Result<(ReadPosition, Records)> {
    let mut records = Records { bytes: buffer, index: Vec::new() };
    if let Some(mut at_position) = at_position {
        at_position.read(bounds, &mut records)?;
        if !records.is_empty() {
            return Ok((at_position, records));
        }
    }
    let mut at_position = find(shared, bounds.from)?;
    at_position.read(bounds, &mut records)?;
    Ok((at_position, records))
}

/// Positions at the start of the segment that holds `from`, or the first record after it.
fn find(shared: &Shared, from: Position) -> Result<ReadPosition> {
    let segments = lock(&shared.segments);
    let records = segments.find(from);
    let oldest = segments.oldest();
    match records {
        Some(segment) if from >= oldest => {
            let cursor = Cursor::new(&segment.header);
            Ok(ReadPosition { segment, cursor })
        }
        _ => {
            let next = segments.list.back().map_or(oldest, |last| last.visible().position);
            Err(Error::OutOfRange { asked: from, oldest, next })
        }
    }
}

impl ReadPosition {
    /// Adds records of this segment, within bounds; none if it is exhausted. Reports corruption only
    /// when no intact record precedes it.
    fn read(&mut self, bounds: &Bounds, records: &mut Records) -> Result<()> {
        let limit = self.segment.visible().offset;
        let mut base = self.cursor.at().offset;
        let (mut read, mut more) = (0, bounds.bytes_max.clamp(4096, WINDOW_BYTES));
        loop {
            let part = read..read + (limit - base - read as u64).min(more as u64) as usize;
            match read_to(&self.segment.file, base, &mut records.bytes, part.clone()) {
                Ok(bytes) if bytes == part.len() => read = part.end,
                _ if !records.is_empty() => return Ok(()),
                Ok(_) => {
                    let bytes = format!("{} bytes", part.len());
                    let fault = self.cursor.fault(bytes, "the end of the file");
                    return Err(self.corruption(fault, limit));
                }
                Err(error) => return Err(error),
            }
            let Some(needed) = self.decode(base..base + read as u64, limit, bounds, records)?
            else {
                return Ok(());
            };
            let at = self.cursor.at().offset;
            // Discard bytes that were only skipped.
            if records.is_empty() {
                (base, read) = (at, 0);
            }
            let unread = read - (at - base) as usize;
            more = (needed - unread).max(WINDOW_BYTES);
        }
    }

    /// Decodes records from the bytes read so far. Returns how many bytes the next step needs if they
    /// are incomplete, `None` when the batch is done.
    fn decode(
        &mut self,
        read: Range<u64>,
        limit: u64,
        bounds: &Bounds,
        records: &mut Records,
    ) -> Result<Option<usize>> {
        let Records { bytes: window, index } = records;
        let (base, window) = (read.start, &window[..(read.end - read.start) as usize]);
        let mut bytes: usize = index.iter().map(|(_, range)| range.len()).sum();
        loop {
            let before = self.cursor.clone();
            let consumed = (before.at().offset - base) as usize;
            match self.cursor.step(&window[consumed..], limit) {
                Step::Group { .. } => {}
                Step::Record { position, .. } if position < bounds.from => {}
                Step::Record { position, range } => {
                    bytes += range.len();
                    if bytes > bounds.bytes_max && !index.is_empty() {
                        self.cursor = before;
                        return Ok(None);
                    }
                    index.push((position, consumed + range.start..consumed + range.end));
                    if index.len() == bounds.records_max {
                        return Ok(None);
                    }
                }
                Step::Need(needed) => {
                    // A frame is its header and the record.
                    let fits = bytes + needed <= bounds.bytes_max + FRAME_BYTES;
                    return Ok((fits || index.is_empty()).then_some(needed));
                }
                Step::End => return Ok(None),
                Step::Bad(_) if !index.is_empty() => {
                    self.cursor = before;
                    return Ok(None);
                }
                Step::Bad(fault) => return Err(self.corruption(fault, limit)),
            }
        }
    }

    fn corruption(&self, fault: Fault, limit: u64) -> Error {
        corruption_at(&self.segment, fault, limit, 0)
    }
}
