//! Deletes: invisible at once, gone from the disk when their segments are compacted.

use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::columns::IntColumn;
use crate::columns::NewRow;
use crate::manifest::{DeleteMask, DeleteSelection};
use crate::memtable::block::Block;
use crate::read::row_set::RowSet;
use crate::segment::LiveSegment;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// What a delete did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeleteOutcome {
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
        selection: &DeleteSelection,
        before: u64,
    ) -> Result<DeleteOutcome> {
        let mut writer = lock(&self.inner.writer);
        let segments = lock(&self.inner.state).segments(project);
        let mut change = ManifestEdit::begin(self, &writer);
        let mut outcome = DeleteOutcome::default();
        let mut doomed = Vec::new();
        let mut damaged = None;
        for live in segments.iter() {
            let reached = writer.manifest.position;
            let select = || select_rows(live, selection, before, reached);
            let rows = match live.segment.catch_decoder_panics(select) {
                Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                    damaged.get_or_insert(error);
                    RoaringBitmap::new()
                }
                other => other?,
            };
            outcome.events_on_disk += (&rows - &*live.dead).len();
            change.mark_dead(live.segment.entry.id, &rows)?;
            doomed.push(rows);
        }
        let mask = DeleteMask { project, selection: selection.clone(), before };
        if before > change.manifest.position && !change.manifest.masks.contains(&mask) {
            change.manifest.masks.push(mask);
        }
        outcome.events = outcome.events_on_disk;
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
            outcome.events += state.project(project).memory.remove(in_block);
            let flushing = state.flushing.as_mut();
            if let Some(frozen) = flushing.and_then(|all| all.projects.get_mut(&project)) {
                outcome.events += frozen.remove(in_block);
            }
        })?;
        damaged.map_or(Ok(outcome), Err)
    }
}

pub(crate) fn matches_row(mask: &DeleteMask, row: &NewRow<'_>) -> bool {
    let means = |time, distinct_no, uuid| means(&mask.selection, time, distinct_no, uuid);
    mask.project == row.project
        && row.position < mask.before
        && means(row.timestamp.as_micros(), row.distinct_no, row.uuid)
}

fn means(selection: &DeleteSelection, time: i64, distinct_no: u32, uuid: Uuid) -> bool {
    match selection {
        DeleteSelection::DistinctNos(numbers) => numbers.contains(&distinct_no),
        DeleteSelection::Uuids(uuids) => uuids.contains(&uuid),
        DeleteSelection::Time { from, to } => {
            from.is_none_or(|from| time >= from) && to.is_none_or(|to| time < to)
        }
        DeleteSelection::All => true,
    }
}

fn select_in_block(block: &Block, selection: &DeleteSelection, before: u64) -> Vec<u32> {
    let plain = &block.fixed;
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
    selection: &DeleteSelection,
    before: u64,
    reached: u64,
) -> Result<RoaringBitmap> {
    let mut rows = RoaringBitmap::new();
    let entry = &live.segment.entry;
    if let DeleteSelection::Time { from, to } = selection
        && (to.is_some_and(|to| to <= entry.from) || from.is_some_and(|from| from > entry.to))
    {
        return Ok(rows);
    }
    let all = match selection {
        DeleteSelection::Time { from, to } => {
            from.is_none_or(|from| from <= entry.from) && to.is_none_or(|to| to > entry.to)
        }
        DeleteSelection::All => true,
        DeleteSelection::DistinctNos(_) | DeleteSelection::Uuids(_) => false,
    };
    // The manifest knows enough, and a segment that is damaged can go in this way too.
    if all && before >= reached {
        rows.insert_range(0..entry.rows as u32);
        return Ok(rows);
    }
    for row_set in live.row_sets()? {
        let RowSet::RowGroup { group, rows: range, .. } = &row_set else { continue };
        let mut found = select_in_group(live, *group, &row_set, selection)?;
        if !found.is_empty() {
            let positions = row_set.ints(IntColumn::Position, 0..row_set.rows())?;
            found.retain(|row| (positions[*row as usize] as u64) < before);
        }
        rows.extend(found.into_iter().map(|row| range.start as u32 + row));
    }
    Ok(rows)
}

fn select_in_group(
    live: &LiveSegment,
    group: usize,
    row_set: &RowSet,
    selection: &DeleteSelection,
) -> Result<Vec<u32>> {
    let all = 0..row_set.rows();
    Ok(match selection {
        DeleteSelection::All => all.map(|row| row as u32).collect(),
        DeleteSelection::Time { .. } => {
            let times = row_set.ints(IntColumn::Timestamp, all)?;
            let meant = |(_, time): &(usize, &i64)| means(selection, **time, 0, Uuid::nil());
            times.iter().enumerate().filter(meant).map(|(row, _)| row as u32).collect()
        }
        DeleteSelection::DistinctNos(numbers) => {
            let known = live.segment.distinct_dictionary(group)?;
            if !known.iter().any(|number| numbers.contains(number)) {
                return Ok(Vec::new());
            }
            let own = row_set.distinct_nos(all)?;
            let meant = |(_, number): &(usize, &u32)| numbers.contains(number);
            own.iter().enumerate().filter(meant).map(|(row, _)| row as u32).collect()
        }
        DeleteSelection::Uuids(uuids) => {
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
