//! From memory into segments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::faults::FaultPoint;
use crate::manifest::store_dir::UncommittedFiles;
use crate::manifest::{Manifest, SegmentEntry};
use crate::memtable;
use crate::memtable::LiveBlock;
use crate::merge::{LEVEL_FLUSH, Merge};
use crate::read::row_set::RowSet;
use crate::segment::LiveSegment;
use crate::write::dedup;
use crate::write::delete::select_rows;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// Which projects a flush tries that it could not write before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    All,
    /// Those whose pause is over.
    Due,
}

impl Warehouse {
    /// Makes everything applied so far durable. When a project cannot be written, its rows stay in
    /// memory and visible, the next flush takes them up again, and the others are stored; the error
    /// is that of the first such project.
    pub fn flush(&self) -> Result<()> {
        self.flush_with(Retry::All)
    }

    /// Makes room in memory. A project that cannot be written is tried again only now and then.
    pub(crate) fn flush_for_room(&self) -> Result<()> {
        self.flush_with(Retry::Due)
    }

    fn flush_with(&self, retry: Retry) -> Result<()> {
        let _one_at_a_time = lock(&self.inner.flushing);
        let flushed = self.flush_all(retry);
        if flushed.is_err() {
            self.inner.waiting_since.fetch_min(self.now().as_micros(), Ordering::Relaxed);
        }
        flushed
    }

    fn flush_all(&self, retry: Retry) -> Result<()> {
        if self.freeze() == FreezeOutcome::Anew {
            return self.finish_flush(retry);
        }
        // What came behind rows that were on their way already goes with the next.
        self.finish_flush(retry)?;
        self.freeze();
        self.finish_flush(retry)
    }

    fn freeze(&self) -> FreezeOutcome {
        let writer = lock(&self.inner.writer);
        let mut state = lock(&self.inner.state);
        self.inner.waiting_since.store(i64::MAX, Ordering::Relaxed);
        let left = state.flushing.is_some();
        if !left && state.applied <= writer.manifest.position && state.memory_size().0 == 0 {
            return FreezeOutcome::Anew;
        }
        state.freeze();
        if left { FreezeOutcome::WithLeft } else { FreezeOutcome::Anew }
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

    fn finish_flush(&self, retry: Retry) -> Result<()> {
        let frozen: BTreeMap<ProjectId, Vec<LiveBlock>> = {
            let state = lock(&self.inner.state);
            let Some(flushing) = &state.flushing else { return Ok(()) };
            let as_frozen = |frozen: &memtable::FrozenMemtable| {
                let blocks = frozen.blocks.iter().zip(&frozen.at_freeze);
                blocks
                    .map(|(live, dead)| LiveBlock { dead: dead.clone(), ..live.clone() })
                    .collect()
            };
            flushing.projects.iter().map(|(id, frozen)| (*id, as_frozen(frozen))).collect()
        };
        let all = frozen.len();
        let mut entries = Vec::new();
        let mut fresh = UncommittedFiles::new(&self.inner.folder);
        let mut left = BTreeSet::new();
        let mut failed = None;
        for (project, blocks) in frozen {
            let now = self.now().as_micros();
            if retry == Retry::Due
                && let Some(why) = self.inner.failing.waits(project, now)
            {
                left.insert(project);
                failed.get_or_insert(Error::Project { project, why });
                continue;
            }
            let merge = Merge {
                folder: &self.inner.folder,
                settings: &self.inner.settings,
                project,
                level: LEVEL_FLUSH,
                now,
            };
            let row_sets: Vec<RowSet> = blocks.into_iter().map(RowSet::Block).collect();
            match merge.run(&row_sets, &mut || self.take_id()) {
                Ok(new) => {
                    self.inner.failing.succeeded(project);
                    new.iter().for_each(|entry| fresh.add(&entry.file));
                    entries.extend(new);
                }
                Err(error) => {
                    tracing::warn!(project.id = %project, %error, "a project cannot be stored");
                    self.inner.failing.failed(project, now, &error);
                    left.insert(project);
                    failed.get_or_insert(error);
                }
            }
        }
        if left.is_empty() || left.len() < all {
            self.inner.folder.step(FaultPoint::FlushMerged)?;
            self.commit_flush(entries, fresh, &left)?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Rows of the projects in `left` stay on their way.
    fn commit_flush(
        &self,
        entries: Vec<SegmentEntry>,
        fresh: UncommittedFiles<'_>,
        left: &BTreeSet<ProjectId>,
    ) -> Result<()> {
        let mut writer = lock(&self.inner.writer);
        let (position, replaced, died) = {
            let state = lock(&self.inner.state);
            let Some(flushing) = &state.flushing else { return Ok(()) };
            let written = |project: &ProjectId| !left.contains(project);
            let died: Vec<_> = flushing
                .projects
                .iter()
                .filter(|(project, _)| written(project))
                .map(|(project, frozen)| (*project, frozen.died_since()))
                .collect();
            let replaced = flushing.dead.iter().filter(|(project, _)| written(project));
            let replaced: Vec<(u64, Arc<RoaringBitmap>)> =
                replaced.flat_map(|(_, dead)| dead.clone()).collect();
            (state.durable_without(left), replaced, died)
        };
        let mut new: Vec<LiveSegment> = entries
            .iter()
            .map(|entry| LiveSegment { segment: self.live_segment(entry), dead: Arc::default() })
            .collect();
        let mut change = ManifestEdit::begin(self, &writer);
        change.manifest.position = change.manifest.position.max(position);
        change.add(entries, fresh);
        for (id, dead) in replaced {
            change.mark_dead(id, &dead)?;
        }
        for live in &mut new {
            let doomed = doomed_by_masks(&writer.manifest, live)?;
            if !doomed.is_empty() {
                change.mark_dead(live.segment.entry.id, &doomed)?;
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
            if let Some(flushing) = &mut state.flushing {
                flushing.projects.retain(|project, _| left.contains(project));
                flushing.dead.retain(|project, _| left.contains(project));
            }
            if left.is_empty() {
                state.flushing = None;
            }
        })
    }
}

/// What a freeze found.
#[derive(PartialEq, Eq)]
enum FreezeOutcome {
    Anew,
    /// Rows were on their way that an earlier flush could not write.
    WithLeft,
}

/// Rows that a delete meant, file_kind while they were on their way.
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
    died: &[crate::columns::Identity],
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
