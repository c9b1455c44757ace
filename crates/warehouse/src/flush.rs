//! From memory into segments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::Result;
use crate::change::Change;
use crate::dedup;
use crate::delete::select_rows;
use crate::faults::Step;
use crate::folder::Fresh;
use crate::manifest::{Manifest, SegmentEntry};
use crate::memory::Frozen;
use crate::merge::{LEVEL_FLUSH, Merge};
use crate::slab::{LiveBlock, LiveSegment, Slab};
use crate::warehouse::{Warehouse, lock};

impl Warehouse {
    /// Makes everything applied so far durable. When it fails, the rows stay in memory and
    /// visible, and the next flush takes them up again.
    pub fn flush(&self) -> Result<()> {
        let _one_at_a_time = lock(&self.inner.flushing);
        let flushed = self.flush_all();
        if flushed.is_err() {
            self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        }
        flushed
    }

    fn flush_all(&self) -> Result<()> {
        if lock(&self.inner.state).flushing.is_some() {
            self.finish_flush()?;
        }
        {
            let writer = lock(&self.inner.writer);
            let mut state = lock(&self.inner.state);
            self.inner.waiting_since.store(i64::MAX, Ordering::Relaxed);
            if state.applied <= writer.manifest.position && state.memory_size().0 == 0 {
                return Ok(());
            }
            state.freeze();
        }
        self.finish_flush()
    }

    /// Flushes when something has waited for [`crate::Settings::flush_age`]: rows, a position that
    /// advanced without any, or what a failed flush left.
    pub fn flush_due(&self) -> Result<()> {
        let since = self.inner.waiting_since.load(Ordering::Relaxed);
        let age = self.inner.settings.flush_age.as_micros() as i64;
        if since != i64::MAX && self.now().as_micros() - since >= age {
            self.flush()?;
        }
        Ok(())
    }

    fn finish_flush(&self) -> Result<()> {
        let frozen: BTreeMap<ProjectId, Vec<LiveBlock>> = {
            let state = lock(&self.inner.state);
            let Some(flushing) = &state.flushing else { return Ok(()) };
            let as_frozen = |frozen: &Frozen| {
                let blocks = frozen.blocks.iter().zip(&frozen.at_freeze);
                blocks
                    .map(|(live, dead)| LiveBlock { dead: dead.clone(), ..live.clone() })
                    .collect()
            };
            flushing.projects.iter().map(|(id, frozen)| (*id, as_frozen(frozen))).collect()
        };
        let mut entries = Vec::new();
        let mut fresh = Fresh::new(&self.inner.folder);
        for (project, blocks) in frozen {
            let merge = Merge {
                folder: &self.inner.folder,
                settings: &self.inner.settings,
                project,
                level: LEVEL_FLUSH,
            };
            let slabs: Vec<Slab> = blocks.into_iter().map(Slab::Block).collect();
            let new = merge.run(&slabs, &mut || self.take_id())?;
            new.iter().for_each(|entry| fresh.add(&entry.file));
            entries.extend(new);
        }
        self.inner.folder.step(Step::FlushMerged)?;
        self.commit_flush(entries, fresh)
    }

    fn commit_flush(&self, entries: Vec<SegmentEntry>, fresh: Fresh<'_>) -> Result<()> {
        let mut writer = lock(&self.inner.writer);
        let (position, replaced, died) = {
            let state = lock(&self.inner.state);
            let Some(flushing) = &state.flushing else { return Ok(()) };
            let died: Vec<_> = flushing
                .projects
                .iter()
                .map(|(project, frozen)| (*project, frozen.died_since()))
                .collect();
            (flushing.position, flushing.dead.clone(), died)
        };
        let mut new: Vec<LiveSegment> = entries
            .iter()
            .map(|entry| LiveSegment { segment: self.live_segment(entry), dead: Arc::default() })
            .collect();
        let mut change = Change::begin(self, &writer);
        change.manifest.position = change.manifest.position.max(position);
        change.add(entries, fresh);
        for (id, dead) in replaced {
            change.bury(id, &dead)?;
        }
        for live in &mut new {
            let doomed = doomed_by_masks(&writer.manifest, live)?;
            if !doomed.is_empty() {
                change.bury(live.segment.entry.id, &doomed)?;
                live.dead = Arc::new(doomed);
            }
        }
        for (project, identities) in died {
            carry(project, &identities, &mut new)?;
        }
        // Rows before the new position are all in segments now, so nothing is left to be masked.
        let reached = change.manifest.position;
        change.manifest.masks.retain(|mask| mask.before > reached);
        change.commit(&mut writer, |state| {
            for live in new {
                state.change_segments(live.segment.entry.project, |all| all.push(live));
            }
            state.flushing = None;
        })
    }
}

/// Rows that a delete meant, made while they were on their way.
fn doomed_by_masks(manifest: &Manifest, live: &LiveSegment) -> Result<RoaringBitmap> {
    let mut doomed = RoaringBitmap::new();
    let own = |project: &ProjectId| *project == live.segment.entry.project;
    for mask in manifest.masks.iter().filter(|mask| own(&mask.project)) {
        doomed |= select_rows(live, &mask.selection, mask.before, u64::MAX)?;
    }
    Ok(doomed)
}

/// Marks events in `segments` that died while they were written.
pub(crate) fn carry(
    project: ProjectId,
    died: &[crate::row::Identity],
    segments: &mut [LiveSegment],
) -> Result<()> {
    if died.is_empty() {
        return Ok(());
    }
    let own: Vec<usize> = (0..segments.len())
        .filter(|index| segments[*index].segment.entry.project == project)
        .collect();
    let searched: Vec<LiveSegment> = own.iter().map(|index| segments[*index].clone()).collect();
    for (index, row) in dedup::find(&searched, died)?.into_iter().flatten() {
        Arc::make_mut(&mut segments[own[index]].dead).insert(row);
    }
    Ok(())
}
