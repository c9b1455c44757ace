//! Read-only access to a journal's directory, for tools and tests.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use crate::files::cursor::Fault;
use crate::files::format::End;
use crate::files::recover::{corruption_at, open_all, read_tail, wrong_end};
use crate::files::scan::{Scan, ScanItem};
use crate::files::segment::Segment;
use crate::{Error, JournalId, Position, Result};

/// Reads the journal in a directory without locking it. It changes nothing and sees the journal as of
/// its opening. If a server is running, the last records may not be durable yet.
pub struct Inspection {
    id: Option<JournalId>,
    segments: VecDeque<(Arc<Segment>, End)>,
    scan: Option<Scan>,
}

impl Inspection {
    pub fn open(dir: impl AsRef<Path>) -> Result<Inspection> {
        let all = open_all(dir.as_ref(), OpenOptions::new().read(true))?;
        let mut segments = VecDeque::with_capacity(all.len());
        for (index, segment) in all.iter().enumerate() {
            let end = match all.get(index + 1) {
                Some(next) => next.header.previous,
                None => read_tail(segment)?.end,
            };
            segments.push_back((segment.clone(), end));
        }
        Ok(Inspection {
            id: all.first().map(|segment| segment.header.journal),
            segments,
            scan: None,
        })
    }

    /// None for a directory without a journal.
    pub fn id(&self) -> Option<JournalId> {
        self.id
    }

    fn read(&mut self) -> Result<Option<(Position, Vec<u8>)>> {
        while let Some((segment, end)) = self.segments.front() {
            let scan = self.scan.get_or_insert_with(|| Scan::new(segment.clone(), end.offset));
            match scan.next()? {
                ScanItem::Group { .. } => {}
                ScanItem::Record { position, record } => {
                    return Ok(Some((position, record.to_vec())));
                }
                ScanItem::End(actual) if actual == *end => {
                    self.scan = None;
                    self.segments.pop_front();
                }
                ScanItem::End(actual) => return Err(self.corruption(wrong_end(actual, *end))),
                ScanItem::Bad(fault) => return Err(self.corruption(fault)),
            }
        }
        Ok(None)
    }

    fn corruption(&self, fault: Fault) -> Error {
        let (segment, end) = &self.segments[0];
        let later = self.segments.iter().skip(1).map(|(segment, _)| segment.bytes()).sum();
        corruption_at(segment, fault, end.offset, later)
    }
}

impl Iterator for Inspection {
    type Item = Result<(Position, Vec<u8>), Error>;

    /// Ends after the first error.
    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read();
        if read.is_err() {
            self.segments.clear();
        }
        read.transpose()
    }
}
