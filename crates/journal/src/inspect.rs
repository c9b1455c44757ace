use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use crate::format::HEADER_BYTES;
use crate::recover::{damage, open_all, read_tail};
use crate::scan::{Found, Scan};
use crate::segment::Segment;
use crate::{Error, JournalId, Position, Result};

/// Reads the journal in a folder without owning it: for tools and tests. It changes nothing and
/// sees the journal as it was when it was opened; of a journal in use it may show records at the
/// end that are not durable yet.
pub struct Inspection {
    id: Option<JournalId>,
    segments: VecDeque<(Arc<Segment>, u64)>,
    scan: Option<Scan>,
}

impl Inspection {
    pub fn open(folder: impl AsRef<Path>) -> Result<Inspection> {
        let all = open_all(folder.as_ref(), OpenOptions::new().read(true))?;
        let mut segments = VecDeque::with_capacity(all.len());
        for (index, segment) in all.iter().enumerate() {
            let end = match all.get(index + 1) {
                Some(next) => next.header.previous.offset,
                None => read_tail(segment)?.end.offset,
            };
            segments.push_back((segment.clone(), end.max(HEADER_BYTES)));
        }
        Ok(Inspection { id: all.first().map(|one| one.header.journal), segments, scan: None })
    }

    /// None for a folder without a journal.
    pub fn id(&self) -> Option<JournalId> {
        self.id
    }

    fn read(&mut self) -> Result<Option<(Position, Vec<u8>)>> {
        while let Some((segment, end)) = self.segments.front() {
            let scan = self.scan.get_or_insert_with(|| Scan::new(segment.clone(), *end));
            match scan.next()? {
                Found::Group { .. } => {}
                Found::Record { position, record } => {
                    return Ok(Some((position, record.to_vec())));
                }
                Found::End(_) => {
                    self.scan = None;
                    self.segments.pop_front();
                }
                Found::Bad(fault) => {
                    let later = self.segments.iter().skip(1).map(|(one, _)| one.bytes()).sum();
                    return Err(damage(segment, fault, *end, later));
                }
            }
        }
        Ok(None)
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
