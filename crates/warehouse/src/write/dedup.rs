//! Deduplication against segments: finds the stored rows of a batch of events.
//!
//! The manifest rules out most segments: new v7 uuids are beyond the uuid range of every older one.
//! For the rest, the cached bloom filter of each row group is checked. Only a hit reads uuids, and
//! only those of its event's rows in pages whose bounds include it.

use std::ops::Range;

use hashbrown::HashMap;

use crate::Result;
use crate::columns::{Field, Identity, Value};
use crate::segment::LiveSegment;
use crate::write::warehouse::unless_corrupt;

/// Up to this many uuids are searched linearly: hashing every row's uuid is slower.
const LINEAR_SEARCH_MAX: usize = 4;

/// The location of a live row: index of the segment, and row in it.
pub(crate) type RowLocation = (usize, u32);

/// Finds events, skipping corrupted segments. An event in a corrupted segment is then stored again:
/// that row is unreadable, and one flipped bit must not block the appends of every project.
pub(crate) fn find_in_readable(
    segments: &[LiveSegment],
    identities: &[Identity],
) -> Result<Vec<Option<RowLocation>>> {
    search(segments, identities, |rows| Ok(unless_corrupt(rows)?.unwrap_or_default()))
}

/// Finds events. A corrupted segment is an error: the caller would otherwise resurrect dead rows.
pub(crate) fn find(
    segments: &[LiveSegment],
    identities: &[Identity],
) -> Result<Vec<Option<RowLocation>>> {
    search(segments, identities, |rows| rows)
}

type FoundRows = Vec<(usize, u32)>;

fn search(
    segments: &[LiveSegment],
    identities: &[Identity],
    handle_errors: impl Fn(Result<FoundRows>) -> Result<FoundRows>,
) -> Result<Vec<Option<RowLocation>>> {
    let mut locations = vec![None; identities.len()];
    for (at, live) in segments.iter().enumerate() {
        let ranges = &live.segment.entry.uuids;
        let candidates: Vec<usize> = (0..identities.len())
            .filter(|index| {
                locations[*index].is_none() && ranges.may_hold(&identities[*index].uuid)
            })
            .collect();
        if candidates.is_empty() {
            continue;
        }
        let rows = live.segment.catch_decoder_panics(|| find_in(live, identities, &candidates));
        for (index, row) in handle_errors(rows)? {
            locations[index] = Some((at, row));
        }
    }
    Ok(locations)
}

/// Finds the candidates in one segment.
fn find_in(live: &LiveSegment, identities: &[Identity], candidates: &[usize]) -> Result<FoundRows> {
    let mut locations = Vec::new();
    for group in 0..live.segment.groups()? {
        let filter = live.segment.filter(group)?;
        let hits = candidates.iter().copied();
        let hits: Vec<usize> = hits
            .filter(|index| filter.check(identities[*index].uuid.as_bytes().as_slice()))
            .collect();
        if !hits.is_empty() {
            locations.extend(verify(live, group, identities, &hits)?);
        }
    }
    Ok(locations)
}

/// Compares bloom filter hits with the rows; returns the true ones and their rows in the segment.
fn verify(
    live: &LiveSegment,
    group: usize,
    identities: &[Identity],
    hits: &[usize],
) -> Result<FoundRows> {
    let segment = &live.segment;
    let (uuid_column, _) = segment.column_number("uuid")?.ok_or_else(|| segment.undecodable())?;
    let rows = segment.group_rows(group)?;
    let (mut found, mut rows_found) = (Vec::new(), Vec::new());
    let mut collect = |wanted: &Wanted, range: Range<usize>| -> Result<()> {
        for part in segment.uuid_pages(group, range, &wanted.sorted)? {
            let page = segment.page_at(group, uuid_column, part.start)?;
            let (uuids, first) = page.uuids();
            let uuids = uuids.get(part.start - first..part.end - first);
            for (row, uuid) in part.zip(uuids.ok_or_else(|| segment.undecodable())?) {
                let indexes = wanted.indexes(uuid);
                if !indexes.is_empty() && !live.dead.contains((rows.start + row) as u32) {
                    found.extend_from_slice(indexes);
                    rows_found.resize(found.len(), row);
                }
            }
        }
        Ok(())
    };
    let runs = segment.runs(group)?;
    if runs.is_empty() {
        collect(&Wanted::new(identities, hits.iter().copied()), 0..rows.len())?;
    } else {
        let mut by_event: HashMap<&str, Vec<usize>> = HashMap::new();
        for index in hits {
            by_event.entry(&identities[*index].event).or_default().push(*index);
        }
        let wanted: HashMap<&str, Wanted> = by_event
            .into_iter()
            .map(|(event, indexes)| (event, Wanted::new(identities, indexes.into_iter())))
            .collect();
        let mut start = 0;
        for run in runs {
            let range = start..start + run.rows as usize;
            start = range.end;
            if let Some(wanted) = wanted.get(&*run.event) {
                collect(wanted, range)?;
            }
        }
    }
    if found.is_empty() {
        return Ok(Vec::new());
    }
    // A run names its event.
    let events = match runs.is_empty() {
        true => segment.column_at(group, &Field::Event, &rows_found)?,
        false => None,
    };
    let distinct_nos = segment.distinct_nos_at(group, &rows_found)?;
    let is_same = |at: &usize| {
        let identity = &identities[found[*at]];
        let event = events.as_ref().map(|events| events.value(*at).map(Value::text));
        identity.distinct_no == distinct_nos[*at]
            && event.is_none_or(|event| event == Some(&*identity.event))
    };
    let location = |at: usize| (found[at], (rows.start + rows_found[at]) as u32);
    Ok((0..found.len()).filter(is_same).map(location).collect())
}

/// Events to find, by uuid.
struct Wanted {
    sorted: Vec<[u8; 16]>,
    by_uuid: HashMap<[u8; 16], Vec<usize>>,
}

impl Wanted {
    fn new(identities: &[Identity], indexes: impl Iterator<Item = usize>) -> Self {
        let mut by_uuid: HashMap<[u8; 16], Vec<usize>> = HashMap::new();
        for index in indexes {
            by_uuid.entry(identities[index].uuid.into_bytes()).or_default().push(index);
        }
        let mut sorted: Vec<[u8; 16]> = by_uuid.keys().copied().collect();
        sorted.sort_unstable();
        Self { sorted, by_uuid }
    }

    /// The events with this uuid.
    fn indexes(&self, uuid: &[u8; 16]) -> &[usize] {
        if self.sorted.len() <= LINEAR_SEARCH_MAX && !self.sorted.contains(uuid) {
            return &[];
        }
        self.by_uuid.get(uuid).map_or(&[], Vec::as_slice)
    }
}
