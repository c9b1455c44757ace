use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use crate::cursor::Fault;
use crate::format::End;
use crate::recover::{damage, ends_elsewhere, open_all, read_tail};
use crate::scan::{Found, Scan};
use crate::segment::Segment;
use crate::{Error, JournalId, Position, Result};

/// Reads the journal in a folder without owning it: for tools and tests. It changes nothing and
/// sees the journal as it was when it was opened; of a journal in use it may show records at the
/// end that are not durable yet.
pub struct Inspection {
    id: Option<JournalId>,
    segments: VecDeque<(Arc<Segment>, End)>,
    scan: Option<Scan>,
}

impl Inspection {
    pub fn open(folder: impl AsRef<Path>) -> Result<Inspection> {
        let all = open_all(folder.as_ref(), OpenOptions::new().read(true))?;
        let mut segments = VecDeque::with_capacity(all.len());
        for (index, segment) in all.iter().enumerate() {
            let end = match all.get(index + 1) {
                Some(next) => next.header.previous,
                None => read_tail(segment)?.end,
            };
            segments.push_back((segment.clone(), end));
        }
        Ok(Inspection { id: all.first().map(|one| one.header.journal), segments, scan: None })
    }

    /// None for a folder without a journal.
    pub fn id(&self) -> Option<JournalId> {
        self.id
    }

    fn read(&mut self) -> Result<Option<(Position, Vec<u8>)>> {
        while let Some((segment, end)) = self.segments.front() {
            let scan = self.scan.get_or_insert_with(|| Scan::new(segment.clone(), end.offset));
            match scan.next()? {
                Found::Group { .. } => {}
                Found::Record { position, record } => {
                    return Ok(Some((position, record.to_vec())));
                }
                Found::End(found) if found == *end => {
                    self.scan = None;
                    self.segments.pop_front();
                }
                Found::End(found) => return Err(self.damaged(ends_elsewhere(found, *end))),
                Found::Bad(fault) => return Err(self.damaged(fault)),
            }
        }
        Ok(None)
    }

    fn damaged(&self, fault: Fault) -> Error {
        let (segment, end) = &self.segments[0];
        let later = self.segments.iter().skip(1).map(|(one, _)| one.bytes()).sum();
        damage(segment, fault, end.offset, later)
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
