//! Manifest edits: a set of changes that commits atomically, first on disk, then for readers.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::Result;
use crate::manifest::store_dir::discard;
use crate::manifest::store_dir::{StoreDir, UncommittedFiles};
use crate::manifest::{DeadEntry, Manifest, Retired, SegmentEntry};
use crate::write::state::{State, Writer};
use crate::write::warehouse::{Warehouse, lock};

pub(crate) struct ManifestEdit<'a> {
    pub manifest: Manifest,
    warehouse: &'a Warehouse,
    durable_dead: HashMap<u64, Arc<RoaringBitmap>>,
    new_files: UncommittedFiles<'a>,
    /// Projects whose directory has a new file and must be synced.
    dirs_to_sync: BTreeSet<ProjectId>,
    now: i64,
}

impl<'a> ManifestEdit<'a> {
    pub fn begin(warehouse: &'a Warehouse, writer: &Writer) -> ManifestEdit<'a> {
        ManifestEdit {
            manifest: writer.manifest.clone(),
            warehouse,
            durable_dead: writer.durable_dead.clone(),
            new_files: UncommittedFiles::new(&warehouse.inner.store_dir),
            dirs_to_sync: BTreeSet::new(),
            now: warehouse.now().as_micros(),
        }
    }

    fn index_of(&self, id: u64) -> Option<usize> {
        self.manifest.segments.iter().position(|entry| entry.id == id)
    }

    pub fn add(&mut self, entries: Vec<SegmentEntry>, files: UncommittedFiles<'a>) {
        self.manifest.segments.extend(entries);
        self.new_files.join(files);
    }

    /// Adds dead rows to a segment; retires the segment if no live row is left.
    pub fn mark_dead(&mut self, id: u64, dead: &RoaringBitmap) -> Result<()> {
        let Some(at) = self.index_of(id) else { return Ok(()) };
        let current = self.durable_dead.get(&id).cloned().unwrap_or_default();
        let all = &*current | dead;
        if all.len() == current.len() {
            return Ok(());
        }
        if all.len() == self.manifest.segments[at].rows {
            self.retire(id);
            return Ok(());
        }
        let segment = &self.manifest.segments[at].file;
        let file = StoreDir::dead_file(segment, self.warehouse.take_id());
        self.new_files.add(&file);
        let crc = Some(self.warehouse.inner.store_dir.write_dead(&file, &all)?);
        self.dirs_to_sync.insert(self.manifest.segments[at].project);
        let entry = &mut self.manifest.segments[at];
        let since = entry.dead.as_ref().map_or(self.now, |dead| dead.since);
        let old = entry.dead.replace(DeadEntry { file, rows: all.len(), since, crc });
        self.retire_file(old.map(|dead| dead.file));
        self.durable_dead.insert(id, Arc::new(all));
        Ok(())
    }

    /// Removes a segment; its files stay for [`crate::Settings::retired_keep`].
    pub fn retire(&mut self, id: u64) {
        let Some(at) = self.index_of(id) else { return };
        let entry = self.manifest.segments.remove(at);
        self.retire_file(Some(entry.file));
        self.retire_file(entry.dead.map(|dead| dead.file));
        self.durable_dead.remove(&id);
    }

    fn retire_file(&mut self, file: Option<String>) {
        self.manifest.retired.extend(file.map(|file| Retired { file, at: self.now }));
    }

    /// Commits the edit on disk, then lets `apply` update the readers' state. Segments that the
    /// manifest no longer names leave the state in the same step.
    pub fn commit(mut self, writer: &mut Writer, apply: impl FnOnce(&mut State)) -> Result<()> {
        let inner = &self.warehouse.inner;
        for project in &self.dirs_to_sync {
            inner.store_dir.sync_project(*project)?;
        }
        if self.manifest != writer.manifest {
            self.manifest.next_id = inner.next_id.load(Ordering::Relaxed);
            inner.store_dir.prepare_manifest(&self.manifest)?;
            let files = self.new_files.keep();
            if let Err(error) = inner.store_dir.install_manifest() {
                writer.unsettled.extend(files);
                return Err(error);
            }
            let settled = std::mem::take(&mut writer.unsettled);
            settled.iter().for_each(|file| discard(&inner.store_dir.path(file)));
        }
        writer.manifest = self.manifest;
        writer.durable_dead = self.durable_dead;
        let mut state = lock(&inner.state);
        apply(&mut state);
        drop_segments(&mut state, writer);
        Ok(())
    }
}

/// Removes segments that the manifest does not name; snapshots may still read them.
fn drop_segments(state: &mut State, writer: &mut Writer) {
    let live: HashSet<u64> = writer.manifest.segments.iter().map(|entry| entry.id).collect();
    for project in state.projects.values_mut() {
        if project.segments.iter().all(|live_segment| live.contains(&live_segment.segment.entry.id))
        {
            continue;
        }
        Arc::make_mut(&mut project.segments).retain(|live_segment| {
            let stays = live.contains(&live_segment.segment.entry.id);
            if !stays {
                let file = live_segment.segment.entry.file.clone();
                writer.pinned.push((file, Arc::downgrade(&live_segment.segment)));
            }
            stays
        });
    }
}
