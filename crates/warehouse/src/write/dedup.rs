//! Deduplication against segments: finds the stored rows of a batch of events.
//!
//! The manifest rules out most segments: new v7 uuids are beyond the uuid range of every older one.
//! For the rest, the cached bloom filter of each row group is checked. Only a hit reads uuids, and
//! only pages whose bounds include them.

use std::collections::HashMap;

use crate::Result;
use crate::columns::{Field, Identity};
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
) -> Result<Vec<(usize, u32)>> {
    let segment = &live.segment;
    let mut by_uuid: HashMap<[u8; 16], Vec<usize>> = HashMap::new();
    for index in hits {
        by_uuid.entry(identities[*index].uuid.into_bytes()).or_default().push(*index);
    }
    let mut sorted: Vec<[u8; 16]> = by_uuid.keys().copied().collect();
    sorted.sort_unstable();
    let first = segment.group_rows(group)?.start;
    let mut true_hits = Vec::new();
    for page in segment.uuid_pages(group, &sorted)? {
        let uuids = segment.uuids(group, page.clone())?;
        let few = sorted.len() <= LINEAR_SEARCH_MAX;
        let mut rest_of_identity = None;
        for (at, uuid) in uuids.iter().enumerate() {
            if few && !sorted.contains(uuid) {
                continue;
            }
            let Some(indexes) = by_uuid.get(uuid) else { continue };
            let row = (first + page.start + at) as u32;
            if live.dead.contains(row) {
                continue;
            }
            let (events, distinct_nos) = match &mut rest_of_identity {
                Some(columns) => columns,
                unknown => unknown.insert((
                    segment.column(group, &Field::Event, page.clone())?,
                    segment.distinct_nos(group, page.clone())?,
                )),
            };
            let event = events.as_ref().and_then(|events| events.value(at));
            let event = event.ok_or_else(|| segment.undecodable())?.text();
            let same = |index: &&usize| {
                let identity = &identities[**index];
                *identity.event == *event && identity.distinct_no == distinct_nos[at]
            };
            true_hits.extend(indexes.iter().filter(same).map(|index| (*index, row)));
        }
    }
    Ok(true_hits)
}
