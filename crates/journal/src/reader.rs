use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use crate::cursor::{Cursor, Fault, Step};
use crate::format::FRAME_BYTES;
use crate::journal::{Shared, blocking};
use crate::recover::damage;
use crate::scan::{WINDOW_BYTES, read_to};
use crate::segment::{Extent, Segment, lock};
use crate::{Error, Position, Result};

/// Reads durable records in order. Any number of readers may read at once; none holds up the
/// writer.
pub struct Reader {
    shared: Arc<Shared>,
    extent: watch::Receiver<Extent>,
    next: Position,
    place: Option<Place>,
    /// Of records that were read before.
    spare: Vec<u8>,
}

/// Where reading goes on. Cloned into each read, so that a dropped future loses nothing.
#[derive(Clone)]
struct Place {
    segment: Arc<Segment>,
    cursor: Cursor,
}

/// Records read together, in order.
#[derive(Debug, Default)]
pub struct Records {
    /// More than was read, perhaps.
    bytes: Vec<u8>,
    index: Vec<(Position, Range<usize>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub position: Position,
    pub bytes: &'a [u8],
}

impl Records {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Record<'_>> {
        self.index.iter().map(|(position, range)| Record {
            position: *position,
            bytes: &self.bytes[range.clone()],
        })
    }
}

impl Reader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        extent: watch::Receiver<Extent>,
        next: Position,
    ) -> Reader {
        Reader { shared, extent, next, place: None, spare: Vec::new() }
    }

    /// The position reading goes on from: what a consumer that applied everything so far keeps.
    pub fn position(&self) -> Position {
        self.next
    }

    /// The first position that is not there to be read yet.
    pub fn end(&self) -> Position {
        self.extent.borrow().end
    }

    /// The next records, at least one, and no more than `records_max` with `bytes_max` bytes
    /// altogether (one larger record comes alone). Waits if there are none yet. Dropping the future
    /// loses no record.
    pub async fn next_batch(&mut self, records_max: usize, bytes_max: usize) -> Result<Records> {
        let next = self.next;
        if self.end() <= next {
            self.spare = Vec::new();
        }
        if self.extent.wait_for(|extent| extent.end > next).await.is_err() {
            return Err(Error::Closed);
        }
        let (shared, place) = (self.shared.clone(), self.place.clone());
        let bounds = Bounds { from: next, records_max: records_max.max(1), bytes_max };
        let spare = std::mem::take(&mut self.spare);
        let (place, records) = blocking(move || read(&shared, place, spare, &bounds)).await?;
        self.place = Some(place);
        if let Some((last, _)) = records.index.last() {
            self.next = last.next();
        }
        Ok(records)
    }

    /// Takes the memory of records that nobody needs any more for the next ones: to ask the system
    /// for it costs as much as to read them. Kept only while there is much to read.
    pub fn reuse(&mut self, records: Records) {
        if records.index.last().is_some_and(|(_, last)| last.end > WINDOW_BYTES) {
            self.spare = records.bytes;
        }
    }
}

struct Bounds {
    from: Position,
    records_max: usize,
    bytes_max: usize,
}

/// Called only when a record at or after `bounds.from` is durable.
fn read(
    shared: &Shared,
    place: Option<Place>,
    spare: Vec<u8>,
    bounds: &Bounds,
) -> Result<(Place, Records)> {
    let mut records = Records { bytes: spare, index: Vec::new() };
    if let Some(mut place) = place {
        place.read(bounds, &mut records)?;
        if !records.is_empty() {
            return Ok((place, records));
        }
    }
    let mut place = find(shared, bounds.from)?;
    place.read(bounds, &mut records)?;
    Ok((place, records))
}

/// The segment `from` stands in, or the first record after it.
fn find(shared: &Shared, from: Position) -> Result<Place> {
    let segments = lock(&shared.segments);
    let found = segments.find(from);
    let oldest = segments.oldest();
    match found {
        Some(segment) if from >= oldest => {
            let cursor = Cursor::new(&segment.header);
            Ok(Place { segment, cursor })
        }
        _ => {
            let next = segments.list.back().map_or(oldest, |last| last.visible().position);
            Err(Error::OutOfRange { asked: from, oldest, next })
        }
    }
}

impl Place {
    /// Adds what the segment still holds, within bounds; nothing if it is exhausted. What is damaged
    /// is told of when nothing stands before it.
    fn read(&mut self, bounds: &Bounds, found: &mut Records) -> Result<()> {
        let limit = self.segment.visible().offset;
        let mut base = self.cursor.at().offset;
        let (mut read, mut more) = (0, bounds.bytes_max.clamp(4096, WINDOW_BYTES));
        loop {
            let part = read..read + (limit - base - read as u64).min(more as u64) as usize;
            match read_to(&self.segment.file, base, &mut found.bytes, part.clone()) {
                Ok(bytes) if bytes == part.len() => read = part.end,
                _ if !found.is_empty() => return Ok(()),
                Ok(_) => {
                    let bytes = format!("{} bytes", part.len());
                    let fault = self.cursor.fault(bytes, "the end of the file");
                    return Err(self.damaged(fault, limit));
                }
                Err(error) => return Err(error),
            }
            let Some(wanted) = self.decode(base..base + read as u64, limit, bounds, found)? else {
                return Ok(());
            };
            let at = self.cursor.at().offset;
            // What was only passed on the way is not kept.
            if found.is_empty() {
                (base, read) = (at, 0);
            }
            let unread = read - (at - base) as usize;
            more = (wanted - unread).max(WINDOW_BYTES);
        }
    }

    /// Finds the records in what was read of the segment; answers how many bytes the next step takes
    /// if they are not all there.
    fn decode(
        &mut self,
        read: Range<u64>,
        limit: u64,
        bounds: &Bounds,
        found: &mut Records,
    ) -> Result<Option<usize>> {
        let Records { bytes: window, index } = found;
        let (base, window) = (read.start, &window[..(read.end - read.start) as usize]);
        let mut bytes: usize = index.iter().map(|(_, range)| range.len()).sum();
        loop {
            let before = self.cursor.clone();
            let seen = (before.at().offset - base) as usize;
            match self.cursor.step(&window[seen..], limit) {
                Step::Group { .. } => {}
                Step::Record { position, .. } if position < bounds.from => {}
                Step::Record { position, range } => {
                    bytes += range.len();
                    if bytes > bounds.bytes_max && !index.is_empty() {
                        self.cursor = before;
                        return Ok(None);
                    }
                    index.push((position, seen + range.start..seen + range.end));
                    if index.len() == bounds.records_max {
                        return Ok(None);
                    }
                }
                Step::Need(wanted) => {
                    // Beside the record a frame has its header.
                    let fits = bytes + wanted <= bounds.bytes_max + FRAME_BYTES;
                    return Ok((fits || index.is_empty()).then_some(wanted));
                }
                Step::End => return Ok(None),
                Step::Bad(_) if !index.is_empty() => {
                    self.cursor = before;
                    return Ok(None);
                }
                Step::Bad(fault) => return Err(self.damaged(fault, limit)),
            }
        }
    }

    fn damaged(&self, fault: Fault, limit: u64) -> Error {
        damage(&self.segment, fault, limit, 0)
    }
}
