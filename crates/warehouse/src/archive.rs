//! What is durable of a store that another process may be writing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use model::ProjectId;

use crate::cache::Cache;
use crate::folder;
use crate::manifest::{FILE, Manifest};
use crate::segment::Segment;
use crate::slab::LiveSegment;
use crate::snapshot::Snapshot;
use crate::warehouse::{Files, files_of};
use crate::{Error, Result};

/// Bound of decoded dictionaries kept; whoever reads an archive reads it once.
const CACHE_BYTES_MAX: u64 = 64 << 20;

/// The store as its manifest describes it at one moment. It takes no lock and changes nothing;
/// files that are replaced meanwhile stay for [`crate::Settings::retired_keep`].
#[derive(Debug)]
pub struct Archive {
    manifest: Manifest,
    dir: std::path::PathBuf,
    segments: BTreeMap<ProjectId, Arc<Vec<LiveSegment>>>,
}

impl Archive {
    pub fn open(dir: &Path) -> Result<Archive> {
        let path = dir.join(FILE);
        let bytes = std::fs::read(&path).map_err(Error::io("read the manifest"))?;
        let manifest = Manifest::from_bytes(&bytes, &path)?;
        let cache = Arc::new(Cache::new(CACHE_BYTES_MAX));
        let mut segments: BTreeMap<ProjectId, Vec<LiveSegment>> = BTreeMap::new();
        for entry in &manifest.segments {
            let dead = match &entry.dead {
                Some(dead) => Arc::new(folder::read_dead(&dir.join(&dead.file))?),
                None => Arc::default(),
            };
            let segment = Segment::new(entry.clone(), dir.join(&entry.file), cache.clone());
            let live = LiveSegment { segment: Arc::new(segment), dead };
            segments.entry(entry.project).or_default().push(live);
        }
        let segments = segments.into_iter().map(|(id, all)| (id, Arc::new(all))).collect();
        Ok(Archive { manifest, dir: dir.to_owned(), segments })
    }

    pub fn projects(&self) -> BTreeSet<ProjectId> {
        self.segments.keys().copied().collect()
    }

    pub fn files(&self, project: ProjectId) -> Files {
        files_of(&self.manifest, &self.dir, project)
    }

    pub fn snapshot(&self, project: ProjectId) -> Snapshot {
        let segments = self.segments.get(&project).cloned().unwrap_or_default();
        Snapshot::new(project, self.manifest.position, segments, Vec::new())
    }
}
