//! Deletes: mark rows dead at once; compaction removes them from disk.

use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;
use uuid::Uuid;

use crate::columns::{IntColumn, NewRow};
use crate::manifest::{DeleteMask, DeleteSelection};
use crate::memtable::block::Block;
use crate::read::row_set::RowSet;
use crate::segment::LiveSegment;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// The result of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeleteOutcome {
    /// Events that became invisible. Deletes are idempotent: a repetition finds none.
    pub events: u64,
    /// Events among them that stay on disk until compaction.
    pub events_on_disk: u64,
}

impl Warehouse {
    /// Deletes the project's events that match `selection` and have a journal position below
    /// `before`, including rows that a replay of the journal appends later. When this returns, the
    /// delete is durable, and new snapshots do not see the events. A corrupted or unreadable segment
    /// is an error, returned after everything else is deleted, unless the manifest shows that all of
    /// its events match.
    pub fn delete(
        &self,
        project: ProjectId,
        selection: &DeleteSelection,
        before: u64,
    ) -> Result<DeleteOutcome> {
        let mut writer = lock(&self.inner.writer);
        let segments = lock(&self.inner.state).segments(project);
        let mut edit = ManifestEdit::begin(self, &writer);
        let mut outcome = DeleteOutcome::default();
        let mut matching = Vec::new();
        let mut first_error = None;
        for live in segments.iter() {
            let reached = writer.manifest.position;
            let select = || select_rows(live, selection, before, reached);
            let rows = match live.segment.catch_decoder_panics(select) {
                Err(error @ (Error::Corrupt { .. } | Error::Io { .. })) => {
                    first_error.get_or_insert(error);
                    RoaringBitmap::new()
                }
                other => other?,
            };
            outcome.events_on_disk += (&rows - &*live.dead).len();
            edit.mark_dead(live.segment.entry.id, &rows)?;
            matching.push(rows);
        }
        let mask = DeleteMask { project, selection: selection.clone(), before };
        if before > edit.manifest.position && !edit.manifest.masks.contains(&mask) {
            edit.manifest.masks.push(mask);
        }
        outcome.events = outcome.events_on_disk;
        let ids: Vec<u64> = segments.iter().map(|live| live.segment.entry.id).collect();
        drop(segments);
        edit.commit(&mut writer, |state| {
            state.change_segments(project, |all| {
                for live in all {
                    if let Some(at) = ids.iter().position(|id| *id == live.segment.entry.id) {
                        *Arc::make_mut(&mut live.dead) |= &matching[at];
                    }
                }
            });
            let in_block = |block: &Block| select_in_block(block, selection, before);
            outcome.events += state.project(project).memtable.remove_rows(in_block);
            let flushing = state.flushing.as_mut();
            if let Some(frozen) = flushing.and_then(|all| all.projects.get_mut(&project)) {
                outcome.events += frozen.remove_rows(in_block);
            }
        })?;
        first_error.map_or(Ok(outcome), Err)
    }
}

pub(crate) fn matches_row(mask: &DeleteMask, row: &NewRow<'_>) -> bool {
    let matches_selection =
        |time, distinct_no, uuid| matches_selection(&mask.selection, time, distinct_no, uuid);
    mask.project == row.project
        && row.position < mask.before
        && matches_selection(row.timestamp.as_micros(), row.distinct_no, row.uuid)
}

fn matches_selection(selection: &DeleteSelection, time: i64, distinct_no: u32, uuid: Uuid) -> bool {
    match selection {
        DeleteSelection::DistinctNos(selected) => selected.contains(&distinct_no),
        DeleteSelection::Uuids(uuids) => uuids.contains(&uuid),
        DeleteSelection::Time { from, to } => {
            from.is_none_or(|from| time >= from) && to.is_none_or(|to| time < to)
        }
        DeleteSelection::All => true,
    }
}

fn select_in_block(block: &Block, selection: &DeleteSelection, before: u64) -> Vec<u32> {
    let fixed = &block.fixed;
    let matching = |row: &usize| {
        let uuid = Uuid::from_bytes(fixed.uuids[*row]);
        (fixed.positions[*row] as u64) < before
            && matches_selection(selection, fixed.timestamps[*row], fixed.distinct_nos[*row], uuid)
    };
    (0..block.rows()).filter(matching).map(|row| row as u32).collect()
}

/// The rows of a segment that match. If the manifest shows that all rows match, and `before` is not
/// below `reached`, the segment is not read. Otherwise positions are compared: while another project
/// cannot be flushed, segments have rows beyond the durable position.
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
    // The manifest suffices, so a corrupted segment can be deleted too.
    if all && before >= reached {
        rows.insert_range(0..entry.rows as u32);
        return Ok(rows);
    }
    for row_set in live.row_sets()? {
        let RowSet::RowGroup { group, rows: range, .. } = &row_set else { continue };
        let mut matching = select_in_group(live, *group, &row_set, selection)?;
        if !matching.is_empty() {
            let positions = row_set.ints(IntColumn::Position, 0..row_set.rows())?;
            matching.retain(|row| (positions[*row as usize] as u64) < before);
        }
        rows.extend(matching.into_iter().map(|row| range.start as u32 + row));
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
            let is_match =
                |(_, time): &(usize, &i64)| matches_selection(selection, **time, 0, Uuid::nil());
            times.iter().enumerate().filter(is_match).map(|(row, _)| row as u32).collect()
        }
        DeleteSelection::DistinctNos(selected) => {
            let dictionary = live.segment.distinct_dictionary(group)?;
            if !dictionary.iter().any(|distinct_no| selected.contains(distinct_no)) {
                return Ok(Vec::new());
            }
            let distinct_nos = row_set.distinct_nos(all)?;
            let is_match = |(_, distinct_no): &(usize, &u32)| selected.contains(distinct_no);
            distinct_nos.iter().enumerate().filter(is_match).map(|(row, _)| row as u32).collect()
        }
        DeleteSelection::Uuids(uuids) => {
            let filter = live.segment.filter(group)?;
            let may_have = |uuid: &&Uuid| filter.check(uuid.as_bytes().as_slice());
            let candidates: Vec<[u8; 16]> =
                uuids.iter().filter(may_have).map(|uuid| uuid.into_bytes()).collect();
            let mut matching = Vec::new();
            if candidates.is_empty() {
                return Ok(matching);
            }
            let rows = 0..live.segment.group_rows(group)?.len();
            for page in live.segment.uuid_pages(group, rows, &candidates)? {
                let page_uuids = live.segment.uuids(group, page.clone())?;
                let is_match =
                    |(_, uuid): &(usize, &[u8; 16])| candidates.binary_search(uuid).is_ok();
                matching.extend(
                    page_uuids
                        .iter()
                        .enumerate()
                        .filter(is_match)
                        .map(|(at, _)| (page.start + at) as u32),
                );
            }
            matching
        }
    })
}
