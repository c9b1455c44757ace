//! Retention of events, and removal of retired files.

use model::ProjectId;

use crate::Result;
use crate::manifest::DeleteSelection;
use crate::write::delete::DeleteOutcome;
use crate::write::manifest_edit::ManifestEdit;
use crate::write::warehouse::{Warehouse, lock};

impl Warehouse {
    /// Removes files that were replaced more than [`crate::Settings::retired_keep`] ago and that no
    /// snapshot reads. Returns how many.
    pub fn sweep(&self) -> Result<u64> {
        self.inner.store_dir.sweep_unlisted(self.now())?;
        let mut writer = lock(&self.inner.writer);
        writer.pinned.retain(|(_, segment)| segment.strong_count() > 0);
        let keep = self.inner.settings.retired_keep.as_micros() as i64;
        let now = self.now().as_micros();
        let pinned = |file: &str| writer.pinned.iter().any(|(pinned, _)| pinned == file);
        let mut change = ManifestEdit::begin(self, &writer);
        let (old, young): (Vec<_>, Vec<_>) = change
            .manifest
            .retired
            .drain(..)
            .partition(|retired| now - retired.at >= keep && !pinned(&retired.file));
        if old.is_empty() {
            return Ok(0);
        }
        for retired in &old {
            self.inner.store_dir.remove(&retired.file)?;
        }
        change.manifest.retired = young;
        change.commit(&mut writer, |_| {})?;
        Ok(old.len() as u64)
    }

    /// Drops events by the rules of [`crate::Retention`].
    pub fn apply_retention(&self) -> Result<DeleteOutcome> {
        let mut outcome = DeleteOutcome::default();
        let mut failed = None;
        let retention = &self.inner.settings.retention;
        if let Some(age_max) = retention.age_max {
            let to = self.now().as_micros().saturating_sub(age_max.as_micros() as i64);
            let before = self.applied_position();
            for project in self.projects() {
                let too_old = DeleteSelection::Time { from: None, to: Some(to) };
                match self.delete(project, &too_old, before) {
                    Ok(done) => {
                        outcome.events += done.events;
                        outcome.events_on_disk += done.events_on_disk;
                    }
                    // An unreadable project keeps its events; go on with the others.
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
        }
        if let Some(bytes_max) = retention.disk_bytes_max {
            outcome.events += self.shrink(bytes_max)?;
        }
        failed.map_or(Ok(outcome), Err)
    }

    /// All projects that have or had events.
    pub fn projects(&self) -> Vec<ProjectId> {
        lock(&self.inner.state).projects.keys().copied().collect()
    }

    /// Drops the oldest segments until the rest fits; returns the number of dropped events.
    fn shrink(&self, bytes_max: u64) -> Result<u64> {
        let mut writer = lock(&self.inner.writer);
        let mut oldest: Vec<_> = writer.manifest.segments.iter().collect();
        oldest.sort_by_key(|entry| (entry.to, entry.id));
        let mut bytes: u64 = oldest.iter().map(|entry| entry.bytes).sum();
        let mut dropped = 0;
        let mut change = ManifestEdit::begin(self, &writer);
        for entry in oldest {
            if bytes <= bytes_max {
                break;
            }
            bytes -= entry.bytes;
            dropped += entry.rows - entry.dead.as_ref().map_or(0, |dead| dead.rows);
            change.retire(entry.id);
        }
        if dropped > 0 {
            change.commit(&mut writer, |_| {})?;
        }
        Ok(dropped)
    }
}
