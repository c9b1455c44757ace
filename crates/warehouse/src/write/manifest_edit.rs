//! A change of the manifest in the making. Nothing of it counts before it is committed, and then
//! all of it does: first on disk, then for readers.

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
    fresh: UncommittedFiles<'a>,
    /// Projects whose folder got a file; its entry there must be durable too.
    touched: BTreeSet<ProjectId>,
    now: i64,
}

impl<'a> ManifestEdit<'a> {
    pub fn begin(warehouse: &'a Warehouse, writer: &Writer) -> ManifestEdit<'a> {
        ManifestEdit {
            manifest: writer.manifest.clone(),
            warehouse,
            durable_dead: writer.durable_dead.clone(),
            fresh: UncommittedFiles::new(&warehouse.inner.folder),
            touched: BTreeSet::new(),
            now: warehouse.now().as_micros(),
        }
    }

    fn place(&self, id: u64) -> Option<usize> {
        self.manifest.segments.iter().position(|entry| entry.id == id)
    }

    pub fn add(&mut self, entries: Vec<SegmentEntry>, files: UncommittedFiles<'a>) {
        self.manifest.segments.extend(entries);
        self.fresh.join(files);
    }

    /// Adds dead rows to a segment; drops the segment when none is left alive.
    pub fn mark_dead(&mut self, id: u64, dead: &RoaringBitmap) -> Result<()> {
        let Some(at) = self.place(id) else { return Ok(()) };
        let known = self.durable_dead.get(&id).cloned().unwrap_or_default();
        let all = &*known | dead;
        if all.len() == known.len() {
            return Ok(());
        }
        if all.len() == self.manifest.segments[at].rows {
            self.retire(id);
            return Ok(());
        }
        let segment = &self.manifest.segments[at].file;
        let file = StoreDir::dead_file(segment, self.warehouse.take_id());
        self.fresh.add(&file);
        let crc = Some(self.warehouse.inner.folder.write_dead(&file, &all)?);
        self.touched.insert(self.manifest.segments[at].project);
        let entry = &mut self.manifest.segments[at];
        let since = entry.dead.as_ref().map_or(self.now, |dead| dead.since);
        let old = entry.dead.replace(DeadEntry { file, rows: all.len(), since, crc });
        self.retire_file(old.map(|dead| dead.file));
        self.durable_dead.insert(id, Arc::new(all));
        Ok(())
    }

    /// Takes a segment out; its files stay for a while.
    pub fn retire(&mut self, id: u64) {
        let Some(at) = self.place(id) else { return };
        let entry = self.manifest.segments.remove(at);
        self.retire_file(Some(entry.file));
        self.retire_file(entry.dead.map(|dead| dead.file));
        self.durable_dead.remove(&id);
    }

    fn retire_file(&mut self, file: Option<String>) {
        self.manifest.retired.extend(file.map(|file| Retired { file, at: self.now }));
    }

    /// `apply` brings the readers' state up to date; segments that are gone from the manifest
    /// leave it by themselves, in the same moment.
    pub fn commit(mut self, writer: &mut Writer, apply: impl FnOnce(&mut State)) -> Result<()> {
        let inner = &self.warehouse.inner;
        for project in &self.touched {
            inner.folder.sync_project(*project)?;
        }
        if self.manifest != writer.manifest {
            self.manifest.next_id = inner.next_id.load(Ordering::Relaxed);
            inner.folder.prepare_manifest(&self.manifest)?;
            let files = self.fresh.keep();
            if let Err(error) = inner.folder.install_manifest() {
                writer.unsettled.extend(files);
                return Err(error);
            }
            let settled = std::mem::take(&mut writer.unsettled);
            settled.iter().for_each(|file| discard(&inner.folder.path(file)));
        }
        writer.manifest = self.manifest;
        writer.durable_dead = self.durable_dead;
        let mut state = lock(&inner.state);
        apply(&mut state);
        drop_segments(&mut state, writer);
        Ok(())
    }
}

/// Takes out what the manifest does not name; snapshots may still read it.
fn drop_segments(state: &mut State, writer: &mut Writer) {
    let live: HashSet<u64> = writer.manifest.segments.iter().map(|entry| entry.id).collect();
    for project in state.projects.values_mut() {
        if project.segments.iter().all(|own| live.contains(&own.segment.entry.id)) {
            continue;
        }
        Arc::make_mut(&mut project.segments).retain(|own| {
            let stays = live.contains(&own.segment.entry.id);
            if !stays {
                let file = own.segment.entry.file.clone();
                writer.pinned.push((file, Arc::downgrade(&own.segment)));
            }
            stays
        });
    }
}
