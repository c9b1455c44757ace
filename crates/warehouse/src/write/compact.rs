//! Compaction: fewer, larger segments without dead rows.

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

/// How much is worth merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// What pays: several segments of similar size, or one with many or long-dead rows.
    Minor,
    /// Everything that makes fewer segments or removes a dead row.
    Major,
}

/// What one merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionOutcome {
    pub segments_before: usize,
    pub segments_after: usize,
    pub rows: u64,
    /// Deleted and replaced rows that are now gone.
    pub rows_removed: u64,
}

/// A segment with this share of dead rows is rewritten.
const DEAD_SHARE: (u64, u64) = (1, 10);
/// Dead rows do not stay longer than this, however few they are.
const DEAD_AGE_MICROS: i64 = 24 * 60 * 60 * 1_000_000;
/// Segments are of similar size when their rows lie between the same two powers of this: a row is
/// rewritten once a power, not with every neighbour that happens to be near.
const TIER: u64 = 4;

/// Segments with fewer rows are small: less than half of what one flush may bring.
const SMALL_ROWS: u64 = 64 << 10;
/// Small segments a project may have. Beyond them the smallest are merged, whatever their months:
/// every segment costs a reader a look and the manifest a line, and events of any months are cheap
/// to send.
const SMALL_SEGMENTS_MAX: usize = 128;
/// How many small ones are merged at once.
const SMALL_MERGE_MAX: usize = 128;

/// Round-robin over projects.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// The project of the last merge; the next one looks behind it first.
    last: Option<ProjectId>,
    failing: ProjectBackoff,
}

impl Warehouse {
    /// Does one merge, if there is one to do. Readers and appends go on meanwhile. Projects take
    /// turns; one whose merge fails pauses, and damaged segments are left alone.
    pub fn compact(&self, kind: CompactionKind) -> Result<Option<CompactionOutcome>> {
        let mut rotation = lock(&self.inner.compacting);
        let Some((project, inputs)) = self.choose(kind, &rotation) else { return Ok(None) };
        rotation.last = Some(project);
        let done = self.compact_in(project, &inputs);
        match &done {
            Ok(_) => rotation.failing.succeeded(project),
            Err(error) => {
                tracing::warn!(project.id = %project, %error, "segments cannot be merged");
                rotation.failing.failed(project, self.now().as_micros(), error);
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
            folder: &self.inner.folder,
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
        let mut fresh = UncommittedFiles::new(&self.inner.folder);
        outputs.iter().for_each(|entry| fresh.add(&entry.file));
        let done = CompactionOutcome {
            segments_before: inputs.len(),
            segments_after: outputs.len(),
            rows: outputs.iter().map(|entry| entry.rows).sum(),
            rows_removed: inputs.iter().map(|input| input.dead.len()).sum(),
        };
        self.inner.folder.step(FaultPoint::CompactMerged)?;
        match self.replace(project, inputs, outputs, fresh)? {
            true => Ok(Some(done)),
            false => Ok(None),
        }
    }

    /// Segments that are merged next, with the dead rows that are durably dead.
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
        let behind = |project: &ProjectId| rotation.last.is_none_or(|last| *project > last);
        let (first, then): (Vec<_>, Vec<_>) =
            projects.into_iter().partition(|(project, _)| behind(project));
        let chosen = first
            .into_iter()
            .chain(then)
            // Segments stay as they are while a flush on its way remembers rows of them.
            .filter(|(project, _)| !self.inner.failing.has(*project))
            .filter(|(project, _)| {
                kind == CompactionKind::Major || rotation.failing.waits(*project, now).is_none()
            })
            .find_map(|(project, own)| Some((project, self.choose_of(own, kind)?)));
        let (project, ids) = chosen?;
        let segments = lock(&self.inner.state).segments(project);
        let inputs = segments
            .iter()
            .filter(|live| ids.contains(&live.segment.entry.id))
            .map(|live| durable_view(live, &writer))
            .collect();
        Some((project, inputs))
    }

    /// Of the segments of one project.
    fn choose_of(&self, own: Vec<&SegmentEntry>, kind: CompactionKind) -> Option<Vec<u64>> {
        if let Some(crowded) = self.choose_small(&own) {
            return Some(crowded);
        }
        let mut months: BTreeMap<Partition, Vec<&SegmentEntry>> = BTreeMap::new();
        for entry in own {
            months.entry(entry.month).or_default().push(entry);
        }
        months.into_values().find_map(|entries| self.choose_in(entries, kind))
    }

    /// Too many small ones, of whatever months.
    fn choose_small(&self, own: &[&SegmentEntry]) -> Option<Vec<u64>> {
        let mut small: Vec<&SegmentEntry> =
            own.iter().copied().filter(|entry| entry.rows < SMALL_ROWS).collect();
        if small.len() <= SMALL_SEGMENTS_MAX {
            return None;
        }
        small.sort_by_key(|entry| (entry.rows, entry.id));
        small.truncate(SMALL_MERGE_MAX);
        let most = (0..=small.len()).rev().find(|most| self.fits(&small[..*most]))?;
        // Fewer could come out as as many again.
        let worth = most >= 2 * OUTPUTS_MAX;
        worth.then(|| small[..most].iter().map(|entry| entry.id).collect())
    }

    /// Whether a merge of all of them stays within its bounds.
    fn fits(&self, entries: &[&SegmentEntry]) -> bool {
        let rows: u64 = entries.iter().map(|entry| entry.rows).sum();
        let bytes: u64 = entries.iter().map(|entry| entry.column_bytes_max).sum();
        let settings = &self.inner.settings;
        rows <= settings.segment_rows_max as u64 && bytes <= settings.merge_bytes_max
    }

    fn choose_in(&self, mut entries: Vec<&SegmentEntry>, kind: CompactionKind) -> Option<Vec<u64>> {
        let settings = &self.inner.settings;
        let now = self.now().as_micros();
        entries.sort_by_key(|entry| (entry.rows, entry.id));
        let least = if kind == CompactionKind::Minor { settings.merge_segments_min } else { 2 };
        let tier = |entry: &SegmentEntry| entry.rows.max(1).ilog(TIER);
        let similar = |a: &&SegmentEntry, b: &&SegmentEntry| {
            kind == CompactionKind::Major || tier(a) == tier(b)
        };
        for group in entries.chunk_by(similar) {
            let most = (0..=group.len()).rev().find(|most| self.fits(&group[..*most])).unwrap_or(0);
            if group.len() >= least && most >= 2 {
                return Some(group[..most].iter().map(|entry| entry.id).collect());
            }
        }
        let rotten = |entry: &&SegmentEntry| {
            entry.dead.as_ref().is_some_and(|dead| {
                kind == CompactionKind::Major
                    || dead.rows * DEAD_SHARE.1 >= entry.rows * DEAD_SHARE.0
                    || now - dead.since >= DEAD_AGE_MICROS
            })
        };
        entries.into_iter().find(rotten).map(|entry| vec![entry.id])
    }

    /// Puts the outputs in place of the inputs. What died in the inputs meanwhile dies in the
    /// outputs. `false` when the inputs are not all there any more.
    fn replace(
        &self,
        project: ProjectId,
        inputs: &[LiveSegment],
        outputs: Vec<SegmentEntry>,
        fresh: UncommittedFiles<'_>,
    ) -> Result<bool> {
        // A flush on its way remembers dead rows by segment, so it comes first.
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
        let mut durable: Vec<RoaringBitmap> = vec![RoaringBitmap::new(); new.len()];
        for input in inputs {
            let Some(current) = now(input) else { continue };
            let died = &*current.dead - &*input.dead;
            if died.is_empty() {
                continue;
            }
            let durably = durable_view(current, &writer);
            for (row, (index, moved)) in self.moved(input, &died, &new)? {
                Arc::make_mut(&mut new[index].dead).insert(moved);
                if durably.dead.contains(row) {
                    durable[index].insert(moved);
                }
            }
        }
        let mut change = ManifestEdit::begin(self, &writer);
        inputs.iter().for_each(|input| change.retire(input.segment.entry.id));
        change.add(outputs, fresh);
        for (live, dead) in new.iter().zip(&durable) {
            change.mark_dead(live.segment.entry.id, dead)?;
        }
        drop(current);
        change.commit(&mut writer, |state| {
            state.change_segments(project, |all| all.extend(new));
        })?;
        Ok(true)
    }

    /// Where rows of an input are in the outputs.
    fn moved(
        &self,
        input: &LiveSegment,
        rows: &RoaringBitmap,
        outputs: &[LiveSegment],
    ) -> Result<Vec<(u32, dedup::RowLocation)>> {
        let mut moved = Vec::new();
        for row_set in input.row_sets()? {
            let RowSet::RowGroup { rows: range, .. } = &row_set else { continue };
            let own: Vec<u32> = rows.range(range.start as u32..range.end as u32).collect();
            if own.is_empty() {
                continue;
            }
            let places: Vec<usize> = own.iter().map(|row| *row as usize - range.start).collect();
            let found = dedup::find(outputs, &row_set.identities(&places)?)?;
            moved.extend(own.into_iter().zip(found).filter_map(|(row, to)| Some((row, to?))));
        }
        Ok(moved)
    }
}

/// Parquet's reader panics on some damaged files without checksums. Which of the inputs it was is
/// found by reading each; the next merge leaves it alone.
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
