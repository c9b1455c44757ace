use std::ops::Range;
use std::sync::Arc;

use tokio::sync::watch;

use crate::cursor::{Cursor, Fault, Step};
use crate::journal::{Shared, blocking};
use crate::recover::damage;
use crate::scan::{WINDOW_BYTES, read_at};
use crate::segment::{Extent, Segment, lock};
use crate::{Error, Position, Result};

/// Reads durable records in order. Any number of readers may read at once; none holds up the
/// writer.
pub struct Reader {
    shared: Arc<Shared>,
    extent: watch::Receiver<Extent>,
    next: Position,
    place: Option<Place>,
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
        Reader { shared, extent, next, place: None }
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
        if self.extent.wait_for(|extent| extent.end > next).await.is_err() {
            return Err(Error::Closed);
        }
        let (shared, place) = (self.shared.clone(), self.place.clone());
        let bounds = Bounds { from: next, records_max: records_max.max(1), bytes_max };
        let (place, records) = blocking(move || read(&shared, place, &bounds)).await?;
        self.place = Some(place);
        if let Some((last, _)) = records.index.last() {
            self.next = last.next();
        }
        Ok(records)
    }
}

struct Bounds {
    from: Position,
    records_max: usize,
    bytes_max: usize,
}

/// Called only when a record at or after `bounds.from` is durable.
fn read(shared: &Shared, place: Option<Place>, bounds: &Bounds) -> Result<(Place, Records)> {
    if let Some(mut place) = place {
        let records = place.read(bounds)?;
        if !records.is_empty() {
            return Ok((place, records));
        }
    }
    let mut place = find(shared, bounds.from)?;
    let records = place.read(bounds)?;
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
    /// What the segment still holds, within bounds; nothing if it is exhausted.
    fn read(&mut self, bounds: &Bounds) -> Result<Records> {
        let limit = self.segment.visible().offset;
        let mut window_bytes = bounds.bytes_max.clamp(4096, WINDOW_BYTES);
        loop {
            let at = self.cursor.at().offset;
            let bytes = (limit - at).min(window_bytes as u64) as usize;
            let window = read_at(&self.segment.file, at, bytes)?;
            if window.len() < bytes {
                let fault = self.cursor.fault(format!("{bytes} bytes"), "the end of the file");
                return Err(self.damaged(fault, limit));
            }
            match self.decode(&window, limit, bounds)? {
                Decoded { index, need } if index.is_empty() && need.is_some() => {
                    window_bytes = need.unwrap_or(0).max(window_bytes);
                }
                Decoded { index, .. } => return Ok(Records { bytes: window, index }),
            }
        }
    }

    fn decode(&mut self, window: &[u8], limit: u64, bounds: &Bounds) -> Result<Decoded> {
        let base = self.cursor.at().offset;
        let mut index = Vec::new();
        let mut bytes = 0;
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
                        return Ok(Decoded { index, need: None });
                    }
                    index.push((position, seen + range.start..seen + range.end));
                    if index.len() == bounds.records_max {
                        return Ok(Decoded { index, need: None });
                    }
                }
                Step::Need(bytes) => return Ok(Decoded { index, need: Some(bytes) }),
                Step::End => return Ok(Decoded { index, need: None }),
                Step::Bad(fault) => return Err(self.damaged(fault, limit)),
            }
        }
    }

    fn damaged(&self, fault: Fault, limit: u64) -> Error {
        damage(&self.segment, fault, limit, 0)
    }
}

struct Decoded {
    index: Vec<(Position, Range<usize>)>,
    /// The next frame needs a window of this size.
    need: Option<usize>,
}
