//! Walks the groups and frames of one segment, without I/O: the only code that trusts stored bytes.

use std::ops::Range;

use crate::Position;
use crate::files::format::{
    End, FRAME_BYTES, GROUP_BYTES, GroupHeader, Salt, SegmentHeader, u32_at,
};

/// A position between two frames, and the group around it.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    salt: Salt,
    at: End,
    group: Option<Group>,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    start: End,
    end: u64,
    records_left: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A group begins; the cursor is after its header.
    Group {
        start: End,
        header: GroupHeader,
    },
    /// An intact record; `range` locates its bytes in the window that was passed in.
    Record {
        position: Position,
        range: Range<usize>,
    },
    /// The window must have this many bytes after the cursor.
    Need(usize),
    /// Nothing follows before the limit.
    End,
    Bad(Fault),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Where the last intact group ends.
    pub cut: End,
    pub offset: u64,
    pub expected: String,
    pub actual: String,
}

impl Cursor {
    pub(crate) fn new(header: &SegmentHeader) -> Cursor {
        Cursor { salt: header.salt(), at: header.start(), group: None }
    }

    pub(crate) fn at(&self) -> End {
        self.at
    }

    /// `window` begins at the cursor and ends no later than `limit`, where the content ends.
    pub(crate) fn step(&mut self, window: &[u8], limit: u64) -> Step {
        if self.group.is_some_and(|group| group.records_left == 0) {
            if let Some(group) = self.group.filter(|group| group.end != self.at.offset) {
                return self.bad(format!("a group's end at byte {}", group.end), "more bytes");
            }
            self.group = None;
        }
        match self.group {
            None => self.group(window, limit),
            Some(group) => self.record(window, group),
        }
    }

    fn group(&mut self, window: &[u8], limit: u64) -> Step {
        let left = limit.saturating_sub(self.at.offset);
        if left == 0 {
            return Step::End;
        }
        if left < GROUP_BYTES as u64 {
            return self.bad("a group header".to_owned(), &format!("{left} bytes"));
        }
        let Some(block) = window.first_chunk::<GROUP_BYTES>() else {
            return Step::Need(GROUP_BYTES);
        };
        let start = self.at;
        let header = match GroupHeader::decode(block, self.salt, start.offset) {
            Ok(header) => header,
            Err((expected, actual)) => return self.bad(expected, &actual),
        };
        if header.first != start.position {
            return self.bad(format!("position {}", start.position), &header.first.to_string());
        }
        let body = start.offset + GROUP_BYTES as u64;
        let end = body + u64::from(header.bytes);
        if end > limit {
            return self.bad(format!("a group up to byte {end}"), &format!("its end at {limit}"));
        }
        self.group = Some(Group { start, end, records_left: header.records });
        self.at.offset = body;
        Step::Group { start, header }
    }

    fn record(&mut self, window: &[u8], group: Group) -> Step {
        let left = group.end - self.at.offset;
        if left < FRAME_BYTES as u64 {
            return self.bad("a frame".to_owned(), &format!("{left} bytes"));
        }
        if window.len() < FRAME_BYTES {
            return Step::Need(FRAME_BYTES);
        }
        let (len, actual) = (u32_at(window, 0), u32_at(window, 4));
        if u64::from(len) > left - FRAME_BYTES as u64 {
            return self.bad(format!("a record within {left} bytes"), &format!("length {len}"));
        }
        let frame = FRAME_BYTES + len as usize;
        if window.len() < frame {
            return Step::Need(frame);
        }
        let position = self.at.position;
        let record = crc32c::crc32c(&window[FRAME_BYTES..frame]);
        let expected = self.salt.frame_checksum(record, len, position);
        if expected != actual {
            return self.bad(format!("record checksum {expected:08x}"), &format!("{actual:08x}"));
        }
        self.at = End { offset: self.at.offset + frame as u64, position: position.next() };
        self.group = Some(Group { records_left: group.records_left - 1, ..group });
        Step::Record { position, range: FRAME_BYTES..frame }
    }

    fn bad(&self, expected: String, actual: &str) -> Step {
        Step::Bad(self.fault(expected, actual))
    }

    pub(crate) fn fault(&self, expected: String, actual: &str) -> Fault {
        let cut = self.group.map_or(self.at, |group| group.start);
        Fault { cut, offset: self.at.offset, expected, actual: actual.to_owned() }
    }
}
