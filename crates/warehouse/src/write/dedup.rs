//! Finds events that segments already have, for a batch at a time.
//!
//! Most batches end at the manifest: fresh v7 uuids are beyond the range of every older segment.
//! What is left asks each row group's filter, which stays in the cache, and only a hit there reads
//! uuids, page by page where the range of a page allows it.

use std::collections::HashMap;

use crate::Result;
use crate::columns::Field;
use crate::columns::Identity;
use crate::segment::LiveSegment;
use crate::write::warehouse::unless_corrupt;

/// Where a live copy is: which of the segments, and which row of it.
pub(crate) type RowLocation = (usize, u32);

/// For new events. One whose first copy is in a damaged segment is stored once more: nobody can read
/// that copy, and one flipped bit must not keep every project's events waiting.
pub(crate) fn find_in_readable(
    segments: &[LiveSegment],
    wanted: &[Identity],
) -> Result<Vec<Option<RowLocation>>> {
    search(segments, wanted, |found| Ok(unless_corrupt(found)?.unwrap_or_default()))
}

/// Where the events are. A segment that is damaged is an error: whoever asks would bring rows back
/// that are dead.
pub(crate) fn find(
    segments: &[LiveSegment],
    wanted: &[Identity],
) -> Result<Vec<Option<RowLocation>>> {
    search(segments, wanted, |found| found)
}

type Found = Vec<(usize, u32)>;

fn search(
    segments: &[LiveSegment],
    wanted: &[Identity],
    judge: impl Fn(Result<Found>) -> Result<Found>,
) -> Result<Vec<Option<RowLocation>>> {
    let mut found = vec![None; wanted.len()];
    for (at, live) in segments.iter().enumerate() {
        let ranges = &live.segment.entry.uuids;
        let candidates: Vec<usize> = (0..wanted.len())
            .filter(|index| found[*index].is_none() && ranges.may_hold(&wanted[*index].uuid))
            .collect();
        if candidates.is_empty() {
            continue;
        }
        let own = live.segment.catch_decoder_panics(|| find_in(live, wanted, &candidates));
        for (index, row) in judge(own)? {
            found[index] = Some((at, row));
        }
    }
    Ok(found)
}

/// Which of the candidates the segment has, and where.
fn find_in(live: &LiveSegment, wanted: &[Identity], candidates: &[usize]) -> Result<Found> {
    let mut found = Vec::new();
    for group in 0..live.segment.groups()? {
        let filter = live.segment.filter(group)?;
        let hits = candidates.iter().copied();
        let hits: Vec<usize> =
            hits.filter(|index| filter.check(wanted[*index].uuid.as_bytes().as_slice())).collect();
        if !hits.is_empty() {
            found.extend(verify(live, group, wanted, &hits)?);
        }
    }
    Ok(found)
}

/// Which of the hits are true, with the row of the segment.
fn verify(
    live: &LiveSegment,
    group: usize,
    wanted: &[Identity],
    hits: &[usize],
) -> Result<Vec<(usize, u32)>> {
    let segment = &live.segment;
    let mut by_uuid: HashMap<[u8; 16], Vec<usize>> = HashMap::new();
    for index in hits {
        by_uuid.entry(wanted[*index].uuid.into_bytes()).or_default().push(*index);
    }
    let mut sorted: Vec<[u8; 16]> = by_uuid.keys().copied().collect();
    sorted.sort_unstable();
    let first = segment.group_rows(group)?.start;
    let mut true_hits = Vec::new();
    for page in segment.uuid_pages(group, &sorted)? {
        let uuids = segment.uuids(group, page.clone())?;
        // A few are found faster by comparing than by hasher every row.
        let few = sorted.len() <= 4;
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
                Some(known) => known,
                unknown => unknown.insert((
                    segment.column(group, &Field::Event, page.clone())?,
                    segment.distinct_nos(group, page.clone())?,
                )),
            };
            let event = events.as_ref().and_then(|events| events.value(at));
            let event = event.ok_or_else(|| segment.undecodable())?.text();
            let same = |index: &&usize| {
                let wanted = &wanted[**index];
                *wanted.event == *event && wanted.distinct_no == distinct_nos[at]
            };
            true_hits.extend(indexes.iter().filter(same).map(|index| (*index, row)));
        }
    }
    Ok(true_hits)
}
