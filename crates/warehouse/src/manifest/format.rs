//! The manifest: which files are the warehouse, and up to where it holds the journal.
//!
//! One text file, replaced as a whole. The first line is `hedgerow warehouse <format> <crc32c>`,
//! the checksum being of everything behind that line; the rest is JSON.

use std::collections::HashSet;
use std::path::Path;

use model::ProjectId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::manifest::Partition;
use crate::{Error, Result};

pub(crate) const FILE: &str = "manifest";

/// The newest format this code reads and the one it writes.
const FORMAT: u32 = 1;
const MAGIC: &str = "hedgerow warehouse ";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// 32 hexadecimal digits.
    pub journal: String,
    /// The first journal position that is not in the segments.
    pub position: u64,
    pub next_id: u64,
    pub segments: Vec<SegmentEntry>,
    /// Deletes that rows still to be replayed must obey.
    pub masks: Vec<DeleteMask>,
    pub retired: Vec<Retired>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SegmentEntry {
    pub id: u64,
    pub project: ProjectId,
    pub month: Partition,
    /// Relative to the warehouse's folder.
    pub file: String,
    pub rows: u64,
    pub bytes: u64,
    pub column_bytes_max: u64,
    pub from: i64,
    pub to: i64,
    pub uuids: UuidRanges,
    /// Empty when there are more than [`EVENTS_MAX`].
    pub events: Vec<EventSpan>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<DeadEntry>,
    /// `None` for a segment of an older version, which the next merge replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checks: Option<SegmentChecksums>,
}

/// More events than this are not listed in the manifest; such a segment is not pruned by event.
pub(crate) const EVENTS_MAX: usize = 1_024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct EventSpan {
    pub event: String,
    pub rows: u64,
    pub from: i64,
    pub to: i64,
}

/// Rows of a segment that are deleted or replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeadEntry {
    pub file: String,
    pub rows: u64,
    /// When the first of them died, in microseconds.
    pub since: i64,
    /// CRC32C of the file; older versions wrote none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<u32>,
}

/// Where the checksums of a segment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SegmentChecksums {
    /// Offset of the tail, which begins with one little-endian CRC32C a block before it.
    pub tail_at: u64,
    pub tail_crc: u32,
}

/// The smallest and largest uuids. Version 7 ones are apart, since they are in the order of time
/// and others would expand their range over everything.
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DeleteMask {
    pub project: ProjectId,
    pub selection: DeleteSelection,
    /// Rows at this position and behind it are not meant.
    pub before: u64,
}

/// Which events of a project are deleted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteSelection {
    /// By the numbers of their distinct ids.
    DistinctNos(std::collections::BTreeSet<u32>),
    Uuids(std::collections::BTreeSet<Uuid>),
    /// From `from` on and before `to`, in microseconds; an open end is `None`.
    Time {
        from: Option<i64>,
        to: Option<i64>,
    },
    All,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Retired {
    pub file: String,
    /// In microseconds.
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
