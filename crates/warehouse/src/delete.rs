//! Deletes: invisible at once, gone from the disk when their segments are compacted.

use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::block::Block;
use crate::change::Change;
use crate::fields::Number;
use crate::manifest::{Mask, Selection};
use crate::row::NewRow;
use crate::slab::{LiveSegment, Slab};
use crate::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// What a delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Receipt {
    /// Events that became invisible. A repeated delete finds none.
    pub events: u64,
    /// How many of them stay in files until compaction.
    pub events_on_disk: u64,
}

impl Warehouse {
    /// Deletes the project's events that `selection` means and whose journal position is below
    /// `before`, also those that a replay of the journal brings again. When this returns they are
    /// invisible to new snapshots and stay so after a crash. A damaged segment is an error after
    /// everything else is deleted, as is one that cannot be read, unless the manifest says that all of its events are meant.
    pub fn delete(
        &self,
        project: ProjectId,
        selection: &Selection,
        before: u64,
    ) -> Result<Receipt> {
        let mut writer = lock(&self.inner.writer);
        let segments = lock(&self.inner.state).segments(project);
        let mut change = Change::begin(self, &writer);
        let mut receipt = Receipt::default();
        let mut doomed = Vec::new();
        let mut damaged = None;
        for live in segments.iter() {
            let reached = writer.manifest.position;
            let select = || select_rows(live, selection, before, reached);
            let rows = match live.segment.guarded(select) {
                Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                    damaged.get_or_insert(error);
                    RoaringBitmap::new()
                }
                other => other?,
            };
            receipt.events_on_disk += (&rows - &*live.dead).len();
            change.bury(live.segment.entry.id, &rows)?;
            doomed.push(rows);
        }
        let mask = Mask { project, selection: selection.clone(), before };
        if before > change.manifest.position && !change.manifest.masks.contains(&mask) {
            change.manifest.masks.push(mask);
        }
        receipt.events = receipt.events_on_disk;
        let ids: Vec<u64> = segments.iter().map(|live| live.segment.entry.id).collect();
        drop(segments);
        change.commit(&mut writer, |state| {
            state.change_segments(project, |all| {
                for live in all {
                    if let Some(at) = ids.iter().position(|id| *id == live.segment.entry.id) {
                        *Arc::make_mut(&mut live.dead) |= &doomed[at];
                    }
                }
            });
            let in_block = |block: &Block| select_in_block(block, selection, before);
            receipt.events += state.project(project).memory.remove(in_block);
            let flushing = state.flushing.as_mut();
            if let Some(frozen) = flushing.and_then(|all| all.projects.get_mut(&project)) {
                receipt.events += frozen.remove(in_block);
            }
        })?;
        damaged.map_or(Ok(receipt), Err)
    }
}

pub(crate) fn matches_row(mask: &Mask, row: &NewRow<'_>) -> bool {
    let means = |time, distinct_no, uuid| means(&mask.selection, time, distinct_no, uuid);
    mask.project == row.project
        && row.position < mask.before
        && means(row.timestamp.as_micros(), row.distinct_no, row.uuid)
}

fn means(selection: &Selection, time: i64, distinct_no: u32, uuid: Uuid) -> bool {
    match selection {
        Selection::DistinctNos(numbers) => numbers.contains(&distinct_no),
        Selection::Uuids(uuids) => uuids.contains(&uuid),
        Selection::Time { from, to } => {
            from.is_none_or(|from| time >= from) && to.is_none_or(|to| time < to)
        }
        Selection::All => true,
    }
}

fn select_in_block(block: &Block, selection: &Selection, before: u64) -> Vec<u32> {
    let plain = &block.plain;
    let doomed = |row: &usize| {
        let uuid = Uuid::from_bytes(plain.uuids[*row]);
        (plain.positions[*row] as u64) < before
            && means(selection, plain.timestamps[*row], plain.distinct_nos[*row], uuid)
    };
    (0..block.rows()).filter(doomed).map(|row| row as u32).collect()
}

/// Rows of the segment that are meant. Where the manifest says that a time or everything is meant, and
/// `before` is not behind `reached`, no position is looked at. Everywhere else each one is: while
/// another project cannot be written, rows stand behind the manifest's position too.
pub(crate) fn select_rows(
    live: &LiveSegment,
    selection: &Selection,
    before: u64,
    reached: u64,
) -> Result<RoaringBitmap> {
    let mut rows = RoaringBitmap::new();
    let entry = &live.segment.entry;
    if let Selection::Time { from, to } = selection
        && (to.is_some_and(|to| to <= entry.from) || from.is_some_and(|from| from > entry.to))
    {
        return Ok(rows);
    }
    let all = match selection {
        Selection::Time { from, to } => {
            from.is_none_or(|from| from <= entry.from) && to.is_none_or(|to| to > entry.to)
        }
        Selection::All => true,
        Selection::DistinctNos(_) | Selection::Uuids(_) => false,
    };
    // The manifest knows enough, and a segment that is damaged can go in this way too.
    if all && before >= reached {
        rows.insert_range(0..entry.rows as u32);
        return Ok(rows);
    }
    for slab in live.slabs()? {
        let Slab::Group { group, rows: range, .. } = &slab else { continue };
        let mut found = select_in_group(live, *group, &slab, selection)?;
        if !found.is_empty() {
            let positions = slab.numbers(Number::Position, 0..slab.rows())?;
            found.retain(|row| (positions[*row as usize] as u64) < before);
        }
        rows.extend(found.into_iter().map(|row| range.start as u32 + row));
    }
    Ok(rows)
}

fn select_in_group(
    live: &LiveSegment,
    group: usize,
    slab: &Slab,
    selection: &Selection,
) -> Result<Vec<u32>> {
    let all = 0..slab.rows();
    Ok(match selection {
        Selection::All => all.map(|row| row as u32).collect(),
        Selection::Time { .. } => {
            let times = slab.numbers(Number::Timestamp, all)?;
            let meant = |(_, time): &(usize, &i64)| means(selection, **time, 0, Uuid::nil());
            times.iter().enumerate().filter(meant).map(|(row, _)| row as u32).collect()
        }
        Selection::DistinctNos(numbers) => {
            let known = live.segment.distinct_dictionary(group)?;
            if !known.iter().any(|number| numbers.contains(number)) {
                return Ok(Vec::new());
            }
            let own = slab.distinct_nos(all)?;
            let meant = |(_, number): &(usize, &u32)| numbers.contains(number);
            own.iter().enumerate().filter(meant).map(|(row, _)| row as u32).collect()
        }
        Selection::Uuids(uuids) => {
            let filter = live.segment.filter(group)?;
            let may_have = |uuid: &&Uuid| filter.check(uuid.as_bytes().as_slice());
            let wanted: Vec<[u8; 16]> =
                uuids.iter().filter(may_have).map(|uuid| uuid.into_bytes()).collect();
            let mut found = Vec::new();
            if wanted.is_empty() {
                return Ok(found);
            }
            for page in live.segment.uuid_pages(group, &wanted)? {
                let own = live.segment.uuids(group, page.clone())?;
                let meant = |(_, uuid): &(usize, &[u8; 16])| wanted.binary_search(uuid).is_ok();
                found.extend(
                    own.iter().enumerate().filter(meant).map(|(at, _)| (page.start + at) as u32),
                );
            }
            found
        }
    })
}
