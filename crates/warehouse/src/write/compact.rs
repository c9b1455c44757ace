//! Compaction: merges segments into fewer, larger ones without dead rows.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::faults::FaultPoint;
use crate::manifest::Partition;
use crate::manifest::SegmentEntry;
use crate::manifest::store_dir::UncommittedFiles;
use crate::merge::{LEVEL_COMPACT, Merge, OUTPUTS_MAX};
use crate::read::row_set::RowSet;
use crate::segment::LiveSegment;
use crate::segment::integrity::decode_all;
use crate::write::backoff::ProjectBackoff;
use crate::write::dedup;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::state::Writer;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// Which merges a compaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// Only profitable ones: several segments of similar size, or one with many or old dead rows.
    Minor,
    /// Every merge that reduces the number of segments or removes a dead row.
    Major,
}

/// The result of one merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionOutcome {
    pub segments_before: usize,
    pub segments_after: usize,
    pub rows: u64,
    /// Dead rows that the merge removed.
    pub rows_removed: u64,
}

/// Share of dead rows at which a segment is rewritten.
const DEAD_SHARE: (u64, u64) = (1, 10);
/// Age of a segment's first dead row at which it is rewritten, however few they are.
const DEAD_AGE_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Size-tiered compaction: segments are of similar size if their row counts lie between the same two
/// powers of this. A row is then rewritten once per tier.
const TIER: u64 = 4;

/// Segments with fewer rows are small: less than half of a full flush.
const SMALL_ROWS: u64 = 64 << 10;
/// Bound of small segments per project. Beyond it the smallest are merged regardless of partition:
/// every segment costs readers a lookup and the manifest an entry, and a client can send events of
/// any months.
const SMALL_SEGMENTS_MAX: usize = 128;
/// Small segments merged at once.
const SMALL_MERGE_MAX: usize = 128;

/// Round-robin over projects.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// The project of the last merge; the next search starts after it.
    last: Option<ProjectId>,
    backoff: ProjectBackoff,
}

impl Warehouse {
    /// Does one merge, if one is due, concurrently with readers and appends. Projects are served
    /// round-robin. A project whose merge fails backs off; corrupted segments are skipped.
    pub fn compact(&self, kind: CompactionKind) -> Result<Option<CompactionOutcome>> {
        let mut rotation = lock(&self.inner.compacting);
        let Some((project, inputs)) = self.choose(kind, &rotation) else { return Ok(None) };
        rotation.last = Some(project);
        let done = self.compact_in(project, &inputs);
        match &done {
            Ok(_) => rotation.backoff.succeeded(project),
            Err(error) => {
                tracing::warn!(project.id = %project, %error, "cannot compact a project");
                rotation.backoff.failed(project, self.now().as_micros(), error);
            }
        }
        done
    }

    fn compact_in(
        &self,
        project: ProjectId,
        inputs: &[LiveSegment],
    ) -> Result<Option<CompactionOutcome>> {
        let merge = Merge {
            store_dir: &self.inner.store_dir,
            settings: &self.inner.settings,
            project,
            level: LEVEL_COMPACT,
            now: self.now().as_micros(),
        };
        let outputs = catch_decoder_panics(inputs, || {
            let mut row_sets: Vec<RowSet> = Vec::new();
            for input in inputs {
                row_sets.extend(input.row_sets()?);
            }
            merge.run(&row_sets, &mut || self.take_id())
        })?;
        let mut new_files = UncommittedFiles::new(&self.inner.store_dir);
        outputs.iter().for_each(|entry| new_files.add(&entry.file));
        let done = CompactionOutcome {
            segments_before: inputs.len(),
            segments_after: outputs.len(),
            rows: outputs.iter().map(|entry| entry.rows).sum(),
            rows_removed: inputs.iter().map(|input| input.dead.len()).sum(),
        };
        self.inner.store_dir.step(FaultPoint::CompactMerged)?;
        match self.replace(project, inputs, outputs, new_files)? {
            true => Ok(Some(done)),
            false => Ok(None),
        }
    }

    /// Chooses the segments to merge next, with their durable dead rows.
    fn choose(
        &self,
        kind: CompactionKind,
        rotation: &Rotation,
    ) -> Option<(ProjectId, Vec<LiveSegment>)> {
        let writer = lock(&self.inner.writer);
        let now = self.now().as_micros();
        let mut projects: BTreeMap<ProjectId, Vec<&SegmentEntry>> = BTreeMap::new();
        for entry in &writer.manifest.segments {
            if !self.inner.cache.is_corrupt(entry.id) {
                projects.entry(entry.project).or_default().push(entry);
            }
        }
        let is_after_last = |project: &ProjectId| rotation.last.is_none_or(|last| *project > last);
        let (first, then): (Vec<_>, Vec<_>) =
            projects.into_iter().partition(|(project, _)| is_after_last(project));
        let chosen = first
            .into_iter()
            .chain(then)
            // A pending flush of the project refers to its segments, so they must not change.
            .filter(|(project, _)| !self.inner.flush_backoff.is_failing(*project))
            .filter(|(project, _)| {
                kind == CompactionKind::Major || rotation.backoff.waiting(*project, now).is_none()
            })
            .find_map(|(project, entries)| Some((project, self.choose_in_project(entries, kind)?)));
        let (project, ids) = chosen?;
        let segments = lock(&self.inner.state).segments(project);
        let inputs = segments
            .iter()
            .filter(|live| ids.contains(&live.segment.entry.id))
            .map(|live| durable_view(live, &writer))
            .collect();
        Some((project, inputs))
    }

    /// Chooses among the segments of one project.
    fn choose_in_project(
        &self,
        entries: Vec<&SegmentEntry>,
        kind: CompactionKind,
    ) -> Option<Vec<u64>> {
        if let Some(small) = self.choose_small(&entries) {
            return Some(small);
        }
        let mut partitions: BTreeMap<Partition, Vec<&SegmentEntry>> = BTreeMap::new();
        for entry in entries {
            partitions.entry(entry.partition).or_default().push(entry);
        }
        partitions.into_values().find_map(|entries| self.choose_in_partition(entries, kind))
    }

    /// Chooses small segments of any partition if there are too many.
    fn choose_small(&self, entries: &[&SegmentEntry]) -> Option<Vec<u64>> {
        let mut small: Vec<&SegmentEntry> =
            entries.iter().copied().filter(|entry| entry.rows < SMALL_ROWS).collect();
        if small.len() <= SMALL_SEGMENTS_MAX {
            return None;
        }
        small.sort_by_key(|entry| (entry.rows, entry.id));
        small.truncate(SMALL_MERGE_MAX);
        let count = (0..=small.len()).rev().find(|count| self.fits(&small[..*count]))?;
        // A merge of fewer could produce as many segments again.
        let worth = count >= 2 * OUTPUTS_MAX;
        worth.then(|| small[..count].iter().map(|entry| entry.id).collect())
    }

    /// Whether a merge of all entries stays within the bounds of rows and memory.
    fn fits(&self, entries: &[&SegmentEntry]) -> bool {
        let rows: u64 = entries.iter().map(|entry| entry.rows).sum();
        let bytes: u64 = entries.iter().map(|entry| entry.column_bytes_max).sum();
        let settings = &self.inner.settings;
        rows <= settings.segment_rows_max as u64 && bytes <= settings.merge_bytes_max
    }

    fn choose_in_partition(
        &self,
        mut entries: Vec<&SegmentEntry>,
        kind: CompactionKind,
    ) -> Option<Vec<u64>> {
        let settings = &self.inner.settings;
        let now = self.now().as_micros();
        entries.sort_by_key(|entry| (entry.rows, entry.id));
        let segments_min =
            if kind == CompactionKind::Minor { settings.merge_segments_min } else { 2 };
        let tier = |entry: &SegmentEntry| entry.rows.max(1).ilog(TIER);
        let similar = |a: &&SegmentEntry, b: &&SegmentEntry| {
            kind == CompactionKind::Major || tier(a) == tier(b)
        };
        for group in entries.chunk_by(similar) {
            let count =
                (0..=group.len()).rev().find(|count| self.fits(&group[..*count])).unwrap_or(0);
            if group.len() >= segments_min && count >= 2 {
                return Some(group[..count].iter().map(|entry| entry.id).collect());
            }
        }
        let needs_rewrite = |entry: &&SegmentEntry| {
            entry.dead.as_ref().is_some_and(|dead| {
                kind == CompactionKind::Major
                    || dead.rows * DEAD_SHARE.1 >= entry.rows * DEAD_SHARE.0
                    || now - dead.since >= DEAD_AGE_MICROS
            })
        };
        entries.into_iter().find(needs_rewrite).map(|entry| vec![entry.id])
    }

    /// Replaces the inputs by the outputs. Rows that died in the inputs during the merge are marked
    /// dead in the outputs. `false` if an input is gone.
    fn replace(
        &self,
        project: ProjectId,
        inputs: &[LiveSegment],
        outputs: Vec<SegmentEntry>,
        new_files: UncommittedFiles<'_>,
    ) -> Result<bool> {
        // A running flush refers to dead rows by segment, so it must finish first.
        let _no_flush = lock(&self.inner.flushing);
        let mut writer = lock(&self.inner.writer);
        let (current, flushing) = {
            let state = lock(&self.inner.state);
            (state.segments(project), state.is_flushing(project))
        };
        let now = |input: &LiveSegment| {
            current.iter().find(|live| live.segment.entry.id == input.segment.entry.id)
        };
        if flushing || inputs.iter().any(|input| now(input).is_none()) {
            return Ok(false);
        }
        let mut new: Vec<LiveSegment> = outputs
            .iter()
            .map(|entry| LiveSegment { segment: self.live_segment(entry), dead: Arc::default() })
            .collect();
        let mut durable_dead: Vec<RoaringBitmap> = vec![RoaringBitmap::new(); new.len()];
        for input in inputs {
            let Some(current) = now(input) else { continue };
            let newly_dead = &*current.dead - &*input.dead;
            if newly_dead.is_empty() {
                continue;
            }
            let durably = durable_view(current, &writer);
            for (row, (index, moved)) in self.moved(input, &newly_dead, &new)? {
                Arc::make_mut(&mut new[index].dead).insert(moved);
                if durably.dead.contains(row) {
                    durable_dead[index].insert(moved);
                }
            }
        }
        let mut edit = ManifestEdit::begin(self, &writer);
        inputs.iter().for_each(|input| edit.retire(input.segment.entry.id));
        edit.add(outputs, new_files);
        for (live, dead) in new.iter().zip(&durable_dead) {
            edit.mark_dead(live.segment.entry.id, dead)?;
        }
        drop(current);
        edit.commit(&mut writer, |state| {
            state.change_segments(project, |all| all.extend(new));
        })?;
        Ok(true)
    }

    /// The locations of an input's rows in the outputs.
    fn moved(
        &self,
        input: &LiveSegment,
        rows: &RoaringBitmap,
        outputs: &[LiveSegment],
    ) -> Result<Vec<(u32, dedup::RowLocation)>> {
        let mut moved = Vec::new();
        for row_set in input.row_sets()? {
            let RowSet::RowGroup { rows: range, .. } = &row_set else { continue };
            let dead_rows: Vec<u32> = rows.range(range.start as u32..range.end as u32).collect();
            if dead_rows.is_empty() {
                continue;
            }
            let rows_in_group: Vec<usize> =
                dead_rows.iter().map(|row| *row as usize - range.start).collect();
            let locations = dedup::find(outputs, &row_set.identities(&rows_in_group)?)?;
            moved.extend(
                dead_rows.into_iter().zip(locations).filter_map(|(row, to)| Some((row, to?))),
            );
        }
        Ok(moved)
    }
}

/// Runs a merge and turns a panic into an error: Parquet's reader panics on some corrupted files
/// without checksums. Decoding each input then finds the corrupted one, which later merges skip.
fn catch_decoder_panics<T>(inputs: &[LiveSegment], merge: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut unchecked = inputs.iter().filter(|input| input.segment.entry.checks.is_none());
    let Some(first) = unchecked.next() else { return merge() };
    catch_unwind(AssertUnwindSafe(merge)).unwrap_or_else(|_| {
        for input in std::iter::once(first).chain(unchecked) {
            input.segment.catch_decoder_panics(|| decode_all(&input.segment))?;
        }
        Err(Error::corrupt(&first.segment.path, "a merge of it and others ended with a panic"))
    })
}

fn durable_view(live: &LiveSegment, writer: &Writer) -> LiveSegment {
    let dead = writer.durable_dead.get(&live.segment.entry.id).cloned().unwrap_or_default();
    LiveSegment { segment: live.segment.clone(), dead }
}
