//! Flush: writes memtables to segments and advances the durable position.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::faults::FaultPoint;
use crate::manifest::store_dir::UncommittedFiles;
use crate::manifest::{Manifest, SegmentEntry};
use crate::memtable::{FrozenMemtable, LiveBlock};
use crate::merge::{LEVEL_FLUSH, Merge};
use crate::read::row_set::RowSet;
use crate::segment::LiveSegment;
use crate::write::dedup;
use crate::write::delete::select_rows;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::warehouse::{Warehouse, lock};
use crate::{Error, Result};

/// Which of the projects that failed before a flush retries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Retry {
    All,
    /// Those whose backoff is over.
    Due,
}

impl Warehouse {
    /// Makes all appended rows durable. If a project cannot be written, its rows stay in memory and
    /// visible, the next flush retries them, and the other projects are stored; returns the error of
    /// the first such project.
    pub fn flush(&self) -> Result<()> {
        self.flush_with(Retry::All)
    }

    /// Flushes to free memory. Skips projects whose backoff is not over.
    pub(crate) fn flush_for_memory(&self) -> Result<()> {
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
        if self.freeze() == FreezeOutcome::Fresh {
            return self.finish_flush(retry);
        }
        // The rest of an earlier flush goes first; rows appended since then need a second one.
        self.finish_flush(retry)?;
        self.freeze();
        self.finish_flush(retry)
    }

    fn freeze(&self) -> FreezeOutcome {
        let writer = lock(&self.inner.writer);
        let mut state = lock(&self.inner.state);
        self.inner.waiting_since.store(i64::MAX, Ordering::Relaxed);
        let has_frozen = state.flushing.is_some();
        if !has_frozen && state.applied <= writer.manifest.position && state.memtable_size().0 == 0
        {
            return FreezeOutcome::Fresh;
        }
        state.freeze();
        if has_frozen { FreezeOutcome::WithEarlier } else { FreezeOutcome::Fresh }
    }

    /// Flushes if anything has waited for [`crate::Settings::flush_age`]: rows, a position that
    /// advanced without rows, or the rest of a failed flush.
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
            let as_frozen = |frozen: &FrozenMemtable| {
                let blocks = frozen.blocks.iter().zip(&frozen.dead_at_freeze);
                blocks
                    .map(|(live, dead)| LiveBlock { dead: dead.clone(), ..live.clone() })
                    .collect()
            };
            flushing.projects.iter().map(|(id, frozen)| (*id, as_frozen(frozen))).collect()
        };
        let all = frozen.len();
        let mut entries = Vec::new();
        let mut new_files = UncommittedFiles::new(&self.inner.store_dir);
        let mut failed_projects = BTreeSet::new();
        let mut failed = None;
        for (project, blocks) in frozen {
            let now = self.now().as_micros();
            if retry == Retry::Due
                && let Some(why) = self.inner.flush_backoff.waiting(project, now)
            {
                failed_projects.insert(project);
                failed.get_or_insert(Error::Project { project, why });
                continue;
            }
            let merge = Merge {
                store_dir: &self.inner.store_dir,
                settings: &self.inner.settings,
                project,
                level: LEVEL_FLUSH,
                now,
            };
            let row_sets: Vec<RowSet> = blocks.into_iter().map(RowSet::Block).collect();
            match merge.run(&row_sets, &mut || self.take_id()) {
                Ok(new) => {
                    self.inner.flush_backoff.succeeded(project);
                    new.iter().for_each(|entry| new_files.add(&entry.file));
                    entries.extend(new);
                }
                Err(error) => {
                    tracing::warn!(project.id = %project, %error, "cannot flush a project");
                    self.inner.flush_backoff.failed(project, now, &error);
                    failed_projects.insert(project);
                    failed.get_or_insert(error);
                }
            }
        }
        if failed_projects.is_empty() || failed_projects.len() < all {
            self.inner.store_dir.step(FaultPoint::FlushMerged)?;
            self.commit_flush(entries, new_files, &failed_projects)?;
        }
        failed.map_or(Ok(()), Err)
    }

    /// Commits the new segments. `failed_projects` stay frozen.
    fn commit_flush(
        &self,
        entries: Vec<SegmentEntry>,
        new_files: UncommittedFiles<'_>,
        failed_projects: &BTreeSet<ProjectId>,
    ) -> Result<()> {
        let mut writer = lock(&self.inner.writer);
        let (position, replaced, newly_dead) = {
            let state = lock(&self.inner.state);
            let Some(flushing) = &state.flushing else { return Ok(()) };
            let written = |project: &ProjectId| !failed_projects.contains(project);
            let newly_dead: Vec<_> = flushing
                .projects
                .iter()
                .filter(|(project, _)| written(project))
                .map(|(project, frozen)| (*project, frozen.died_since_freeze()))
                .collect();
            let replaced = flushing.dead.iter().filter(|(project, _)| written(project));
            let replaced: Vec<(u64, Arc<RoaringBitmap>)> =
                replaced.flat_map(|(_, dead)| dead.clone()).collect();
            (state.durable_position_without(failed_projects), replaced, newly_dead)
        };
        let mut new: Vec<LiveSegment> = entries
            .iter()
            .map(|entry| LiveSegment { segment: self.live_segment(entry), dead: Arc::default() })
            .collect();
        let mut edit = ManifestEdit::begin(self, &writer);
        edit.manifest.position = edit.manifest.position.max(position);
        edit.add(entries, new_files);
        for (id, dead) in replaced {
            edit.mark_dead(id, &dead)?;
        }
        for live in &mut new {
            let masked = masked_rows(&writer.manifest, live)?;
            if !masked.is_empty() {
                edit.mark_dead(live.segment.entry.id, &masked)?;
                live.dead = Arc::new(masked);
            }
        }
        for (project, identities) in newly_dead {
            mark_newly_dead(project, &identities, &mut new)?;
        }
        // All rows before the new position are in segments, so masks up to it are obsolete.
        let reached = edit.manifest.position;
        edit.manifest.masks.retain(|mask| mask.before > reached);
        edit.commit(&mut writer, |state| {
            for live in new {
                state.change_segments(live.segment.entry.project, |all| all.push(live));
            }
            if let Some(flushing) = &mut state.flushing {
                flushing.projects.retain(|project, _| failed_projects.contains(project));
                flushing.dead.retain(|project, _| failed_projects.contains(project));
            }
            if failed_projects.is_empty() {
                state.flushing = None;
            }
        })
    }
}

/// The result of a freeze.
#[derive(PartialEq, Eq)]
enum FreezeOutcome {
    Fresh,
    /// There were frozen rows that an earlier flush could not write.
    WithEarlier,
}

/// Rows that a delete during the flush matches.
fn masked_rows(manifest: &Manifest, live: &LiveSegment) -> Result<RoaringBitmap> {
    let mut masked = RoaringBitmap::new();
    let is_same = |project: &ProjectId| *project == live.segment.entry.project;
    for mask in manifest.masks.iter().filter(|mask| is_same(&mask.project)) {
        masked |= select_rows(live, &mask.selection, mask.before, u64::MAX)?;
    }
    Ok(masked)
}

/// Marks rows dead in `segments` whose events died while they were written.
pub(crate) fn mark_newly_dead(
    project: ProjectId,
    newly_dead: &[crate::columns::Identity],
    segments: &mut [LiveSegment],
) -> Result<()> {
    if newly_dead.is_empty() {
        return Ok(());
    }
    let of_project: Vec<usize> = (0..segments.len())
        .filter(|index| segments[*index].segment.entry.project == project)
        .collect();
    let searched: Vec<LiveSegment> =
        of_project.iter().map(|index| segments[*index].clone()).collect();
    for (index, row) in dedup::find(&searched, newly_dead)?.into_iter().flatten() {
        Arc::make_mut(&mut segments[of_project[index]].dead).insert(row);
    }
    Ok(())
}
