//! What readers see and what a writer changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::dedup::Place;
use crate::manifest::Manifest;
use crate::memory::{Frozen, Memory};
use crate::row::{EventRow, Identity};
use crate::segment::Segment;
use crate::slab::{LiveBlock, LiveSegment};

/// Everything a reader needs. Changed only by whoever holds the writer; locked briefly.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The first journal position that was not applied.
    pub applied: u64,
    pub projects: BTreeMap<ProjectId, Project>,
    pub flushing: Option<Flushing>,
}

#[derive(Debug)]
pub(crate) struct Project {
    pub segments: Arc<Vec<LiveSegment>>,
    pub memory: Memory,
}

/// The memory of all projects at one moment, on its way into segments.
#[derive(Debug)]
pub(crate) struct Flushing {
    pub position: u64,
    pub projects: BTreeMap<ProjectId, Frozen>,
    /// Rows of segments that were dead at that moment: what the rows on their way replace, they
    /// replace in the same change of the manifest.
    pub dead: HashMap<u64, Arc<RoaringBitmap>>,
}

/// What changes files. Only one at a time.
#[derive(Debug)]
pub(crate) struct Writer {
    pub manifest: Manifest,
    /// The dead rows of segments as the disk has them.
    pub durable_dead: HashMap<u64, Arc<RoaringBitmap>>,
    /// Retired segments that a snapshot may still read.
    pub pinned: Vec<(String, Weak<Segment>)>,
    /// New files of a change whose manifest may or may not have reached the disk. They go when the
    /// next one has.
    pub unsettled: Vec<String>,
}

impl Project {
    pub fn new(project: ProjectId) -> Project {
        Project { segments: Arc::default(), memory: Memory::new(project) }
    }
}

impl State {
    pub fn project(&mut self, project: ProjectId) -> &mut Project {
        self.projects.entry(project).or_insert_with(|| Project::new(project))
    }

    pub fn segments(&self, project: ProjectId) -> Arc<Vec<LiveSegment>> {
        self.projects.get(&project).map_or_else(Arc::default, |known| known.segments.clone())
    }

    pub fn blocks(&mut self, project: ProjectId) -> Vec<LiveBlock> {
        let flushing = self.flushing.as_ref().and_then(|flushing| flushing.projects.get(&project));
        let mut blocks = flushing.map_or_else(Vec::new, |frozen| frozen.blocks.clone());
        if let Some(known) = self.projects.get_mut(&project) {
            blocks.extend(known.memory.blocks());
        }
        blocks
    }

    /// The live copy of an event, if it is in memory.
    pub fn find(&self, project: ProjectId, identity: &Identity) -> Option<EventRow> {
        let memory = self.projects.get(&project).map(|known| &known.memory);
        if let Some(found) = memory.and_then(|memory| memory.get(identity)) {
            return Some(found);
        }
        self.flushing.as_ref()?.projects.get(&project)?.get(identity)
    }

    /// Lets go of the copies of an event that are older than the one in memory.
    pub fn replace(&mut self, project: ProjectId, identity: &Identity, stored: Option<Place>) {
        let flushing = self.flushing.as_mut();
        if let Some(frozen) = flushing.and_then(|all| all.projects.get_mut(&project)) {
            frozen.replace(identity);
        }
        if let Some((segment, row)) = stored {
            let all = Arc::make_mut(&mut self.project(project).segments);
            Arc::make_mut(&mut all[segment].dead).insert(row);
        }
    }

    /// Rows and bytes in memory that no flush has taken.
    pub fn memory_size(&self) -> (usize, usize) {
        let sizes = self.projects.values().map(|known| &known.memory);
        sizes.fold((0, 0), |(rows, bytes), memory| {
            (rows + memory.row_count(), bytes + memory.bytes())
        })
    }

    /// Moves the memory out of the way of further appends.
    pub fn freeze(&mut self) {
        let mut projects = BTreeMap::new();
        let mut dead = HashMap::new();
        for (project, known) in &mut self.projects {
            for live in known.segments.iter().filter(|live| !live.dead.is_empty()) {
                dead.insert(live.segment.entry.id, live.dead.clone());
            }
            if known.memory.row_count() > 0 {
                let memory = std::mem::replace(&mut known.memory, Memory::new(*project));
                projects.insert(*project, memory.freeze());
            }
        }
        self.flushing = Some(Flushing { position: self.applied, projects, dead });
    }

    /// Changes the segments of a project; snapshots keep the list they have.
    pub fn change_segments(
        &mut self,
        project: ProjectId,
        change: impl FnOnce(&mut Vec<LiveSegment>),
    ) {
        change(Arc::make_mut(&mut self.project(project).segments));
    }
}
