//! The manifest: the list of live segments and the journal position that they reach.
//!
//! One text file, replaced atomically. The first line is `hedgerow warehouse <format> <crc32c>`; the
//! checksum covers everything after that line, which is JSON.

use std::collections::HashSet;
use std::path::Path;

use model::ProjectId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::Partition;
use crate::{Error, Result};

pub(crate) const FILE: &str = "manifest";

/// The format that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;
const MAGIC: &str = "hedgerow warehouse ";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// The id of the journal that the store was filled from, as 32 hexadecimal digits.
    pub journal: String,
    /// The durable position: the first journal position that is not in the segments.
    pub position: u64,
    pub next_id: u64,
    pub segments: Vec<SegmentEntry>,
    /// Deletes that also apply to rows that a replay of the journal will append.
    pub masks: Vec<DeleteMask>,
    pub retired: Vec<Retired>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SegmentEntry {
    pub id: u64,
    pub project: ProjectId,
    #[serde(rename = "month")]
    pub partition: Partition,
    /// Relative to the store's directory.
    pub file: String,
    pub rows: u64,
    pub bytes: u64,
    pub column_bytes_max: u64,
    pub from: i64,
    pub to: i64,
    pub uuids: UuidRanges,
    /// Empty if there are more than [`EVENTS_MAX`].
    pub events: Vec<EventSpan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<DeadEntry>,
    /// `None` for a segment of an older version, until a merge rewrites it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<SegmentChecksums>,
}

/// A segment with more distinct event names lists none, and cannot be pruned by event.
pub(crate) const EVENTS_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventSpan {
    pub event: String,
    pub rows: u64,
    pub from: i64,
    pub to: i64,
}

/// The tombstones of a segment: a file with the numbers of deleted and replaced rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeadEntry {
    pub file: String,
    pub rows: u64,
    /// When the first row died, in microseconds.
    pub since: i64,
    /// CRC32C of the file; `None` from older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// The location of a segment's checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentChecksums {
    /// Offset of the tail, which starts with one little-endian CRC32C for each block before it.
    pub tail_at: u64,
    pub tail_crc: u32,
}

/// The smallest and largest uuids. Version 7 uuids are ordered by time and have a range of their own;
/// random ones would widen it to everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct UuidRanges {
    pub timed: Option<(Uuid, Uuid)>,
    pub other: Option<(Uuid, Uuid)>,
}

impl UuidRanges {
    pub fn of(uuids: &[[u8; 16]]) -> UuidRanges {
        let mut ranges = UuidRanges::default();
        for uuid in uuids {
            let uuid = Uuid::from_bytes(*uuid);
            let range = if is_timed(&uuid) { &mut ranges.timed } else { &mut ranges.other };
            let (low, high) = range.get_or_insert((uuid, uuid));
            *low = (*low).min(uuid);
            *high = (*high).max(uuid);
        }
        ranges
    }

    pub fn may_hold(&self, uuid: &Uuid) -> bool {
        let range = if is_timed(uuid) { &self.timed } else { &self.other };
        range.as_ref().is_some_and(|(low, high)| low <= uuid && uuid <= high)
    }
}

fn is_timed(uuid: &Uuid) -> bool {
    uuid.get_version_num() == 7
}

/// A delete that also applies to rows that are appended later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeleteMask {
    pub project: ProjectId,
    pub selection: DeleteSelection,
    /// Rows at this journal position or later are not deleted.
    pub before: u64,
}

/// Which events of a project are deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteSelection {
    /// Events of these distinct ids, given as dense ids.
    DistinctNos(std::collections::BTreeSet<u32>),
    Uuids(std::collections::BTreeSet<Uuid>),
    /// Timestamps in `from..to`, in microseconds; `None` is unbounded.
    Time {
        from: Option<i64>,
        to: Option<i64>,
    },
    All,
}

/// A file that no longer counts but stays for readers of the open format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Retired {
    pub file: String,
    /// When it was replaced, in microseconds.
    pub at: i64,
}

impl Manifest {
    pub fn new(journal: u128) -> Manifest {
        Manifest {
            journal: format!("{journal:032x}"),
            position: 0,
            next_id: 1,
            segments: Vec::new(),
            masks: Vec::new(),
            retired: Vec::new(),
        }
    }

    pub fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_vec(self).expect("names and numbers always become JSON");
        let mut bytes = format!("{MAGIC}{FORMAT} {:08x}\n", crc32c::crc32c(&body)).into_bytes();
        bytes.extend_from_slice(&body);
        bytes
    }

    pub fn from_bytes(bytes: &[u8], file: &Path) -> Result<Manifest> {
        let corrupt = |what: &str| Error::corrupt(file, what);
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let end = end.ok_or_else(|| corrupt("it has no first line"))?;
        let line = std::str::from_utf8(&bytes[..end]).ok();
        let line = line.and_then(|line| line.strip_prefix(MAGIC));
        let line = line.ok_or_else(|| corrupt("it is no manifest"))?;
        let (format, checksum) =
            line.split_once(' ').ok_or_else(|| corrupt("its first line is cut short"))?;
        let found = format.parse().map_err(|_| corrupt("its format is no number"))?;
        if found > FORMAT {
            return Err(Error::Version { file: file.to_owned(), found, known: FORMAT });
        }
        let body = &bytes[end + 1..];
        if u32::from_str_radix(checksum, 16) != Ok(crc32c::crc32c(body)) {
            return Err(corrupt("its checksum does not match"));
        }
        serde_json::from_slice(body).map_err(|error| Error::corrupt(file, error))
    }

    pub fn check_journal(&self, given: u128, file: &Path) -> Result<()> {
        let stored = u128::from_str_radix(&self.journal, 16)
            .map_err(|_| Error::corrupt(file, "its journal id is no number"))?;
        if stored == given { Ok(()) } else { Err(Error::Journal { stored, given }) }
    }

    /// Every file that the manifest names, retired ones included.
    pub fn known_files(&self) -> HashSet<&str> {
        let segments = self.segments.iter().map(|entry| entry.file.as_str());
        let dead =
            self.segments.iter().filter_map(|entry| Some(entry.dead.as_ref()?.file.as_str()));
        let retired = self.retired.iter().map(|retired| retired.file.as_str());
        segments.chain(dead).chain(retired).collect()
    }
}
