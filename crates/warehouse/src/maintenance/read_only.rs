//! Read-only access to the durable state of a store, without its lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use model::ProjectId;

use crate::manifest::store_dir;
use crate::manifest::{FILE, Manifest, SegmentEntry};
use crate::read::snapshot::Snapshot;
use crate::segment::LiveSegment;
use crate::segment::Segment;
use crate::segment::cache::Cache;
use crate::segment::integrity::corrupt_ranges;
use crate::write::warehouse::{Files, files_of};
use crate::{Error, Result};

/// Bound of the cache: exports and backups read each column once.
const CACHE_BYTES_MAX: u64 = 64 << 20;

/// A store as of its current manifest, also while a server writes it. Takes no lock and changes
/// nothing; replaced files stay readable for [`crate::Settings::retired_keep`].
#[derive(Debug)]
pub struct ReadOnlyWarehouse {
    manifest: Manifest,
    /// The manifest as read from disk.
    bytes: Vec<u8>,
    dir: std::path::PathBuf,
    segments: BTreeMap<ProjectId, Arc<Vec<LiveSegment>>>,
}

impl ReadOnlyWarehouse {
    pub fn open(dir: &Path) -> Result<ReadOnlyWarehouse> {
        let path = dir.join(FILE);
        let bytes = std::fs::read(&path).map_err(Error::io("read the manifest"))?;
        let manifest = Manifest::from_bytes(&bytes, &path)?;
        let cache = Arc::new(Cache::new(CACHE_BYTES_MAX, || {}));
        let mut segments: BTreeMap<ProjectId, Vec<LiveSegment>> = BTreeMap::new();
        for entry in &manifest.segments {
            let dead = Arc::new(store_dir::read_dead(dir, entry)?);
            let segment = Segment::new(entry.clone(), dir.join(&entry.file), cache.clone());
            let live = LiveSegment { segment: Arc::new(segment), dead };
            segments.entry(entry.project).or_default().push(live);
        }
        let segments = segments.into_iter().map(|(id, all)| (id, Arc::new(all))).collect();
        Ok(ReadOnlyWarehouse { manifest, bytes, dir: dir.to_owned(), segments })
    }

    pub fn projects(&self) -> BTreeSet<ProjectId> {
        self.segments.keys().copied().collect()
    }

    /// The first journal position that is not in the store.
    pub fn position(&self) -> u64 {
        self.manifest.position
    }

    /// Copies the store into an empty directory and verifies the checksums of the copies: a corrupted
    /// backup must not replace an intact one.
    pub fn copy_to(&self, dir: &Path) -> Result<()> {
        let failed = Error::io("copy the warehouse");
        for entry in &self.manifest.segments {
            let dead = entry.dead.iter().map(|dead| &dead.file);
            for file in std::iter::once(&entry.file).chain(dead) {
                let to = dir.join(file);
                if let Some(parent) = to.parent() {
                    std::fs::create_dir_all(parent).map_err(&failed)?;
                }
                std::fs::copy(self.dir.join(file), &to).map_err(&failed)?;
                std::fs::File::open(&to).and_then(|file| file.sync_all()).map_err(&failed)?;
            }
            self.check_copy(entry, dir)?;
        }
        std::fs::create_dir_all(dir).map_err(&failed)?;
        std::fs::write(dir.join(FILE), &self.bytes).map_err(&failed)?;
        std::fs::File::open(dir.join(FILE)).and_then(|file| file.sync_all()).map_err(&failed)
    }

    fn check_copy(&self, entry: &SegmentEntry, dir: &Path) -> Result<()> {
        let cache = Arc::new(Cache::new(CACHE_BYTES_MAX, || {}));
        let copy = Segment::new(entry.clone(), dir.join(&entry.file), cache);
        let what = match corrupt_ranges(&copy, &mut |_| true) {
            Ok(ranges) => ranges.into_iter().next(),
            Err(Error::Corrupt { what, .. }) => Some(what),
            Err(other) => return Err(other),
        };
        what.map_or(Ok(()), |what| Err(Error::corrupt(&self.dir.join(&entry.file), what)))
    }

    pub fn files(&self, project: ProjectId) -> Files {
        files_of(&self.manifest, &self.dir, project)
    }

    pub fn snapshot(&self, project: ProjectId) -> Snapshot {
        let segments = self.segments.get(&project).cloned().unwrap_or_default();
        Snapshot::new(project, self.manifest.position, segments, Vec::new())
    }
}
