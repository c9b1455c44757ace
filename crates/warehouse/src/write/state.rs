//! What readers see and what a writer changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use model::ProjectId;
use roaring::RoaringBitmap;

use crate::columns::{EventRow, Identity};
use crate::manifest::Manifest;
use crate::memtable::LiveBlock;
use crate::memtable::{FrozenMemtable, Memtable};
use crate::segment::LiveSegment;
use crate::segment::Segment;
use crate::write::dedup::RowLocation;

/// Everything a reader needs. Changed only by whoever holds the writer; locked briefly.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The first journal position that was not applied.
    pub applied: u64,
    pub projects: BTreeMap<ProjectId, ProjectState>,
    pub flushing: Option<Flushing>,
}

#[derive(Debug)]
pub(crate) struct ProjectState {
    pub segments: Arc<Vec<LiveSegment>>,
    pub memory: Memtable,
}

/// The memory of all projects at one moment, on its way into segments.
#[derive(Debug)]
pub(crate) struct Flushing {
    /// Rows before it are in `projects`, in segments, or in the memory of those that are in
    /// `projects` since an earlier moment.
    pub position: u64,
    pub projects: BTreeMap<ProjectId, FrozenMemtable>,
    /// Rows of segments that were dead at that moment: what the rows on their way replace, they
    /// replace in the same change of the manifest.
    pub dead: BTreeMap<ProjectId, HashMap<u64, Arc<RoaringBitmap>>>,
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

impl ProjectState {
    pub fn new(project: ProjectId) -> ProjectState {
        ProjectState { segments: Arc::default(), memory: Memtable::new(project) }
    }
}

impl State {
    pub fn project(&mut self, project: ProjectId) -> &mut ProjectState {
        self.projects.entry(project).or_insert_with(|| ProjectState::new(project))
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
    pub fn replace(
        &mut self,
        project: ProjectId,
        identity: &Identity,
        stored: Option<RowLocation>,
    ) {
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

    /// Moves the memory out of the way of further appends. A project that is still on its way from
    /// before, since it could not be written, keeps its newer rows in memory.
    pub fn freeze(&mut self) {
        let left = self.flushing.take();
        let (mut projects, mut dead) =
            left.map(|left| (left.projects, left.dead)).unwrap_or_default();
        for (project, known) in &mut self.projects {
            if projects.contains_key(project) {
                continue;
            }
            let own: HashMap<u64, Arc<RoaringBitmap>> = known
                .segments
                .iter()
                .filter(|live| !live.dead.is_empty())
                .map(|live| (live.segment.entry.id, live.dead.clone()))
                .collect();
            dead.insert(*project, own);
            if known.memory.row_count() > 0 {
                let memory = std::mem::replace(&mut known.memory, Memtable::new(*project));
                projects.insert(*project, memory.freeze());
            }
        }
        self.flushing = Some(Flushing { position: self.applied, projects, dead });
    }

    /// Whether a flush on its way remembers segments of the project.
    pub fn is_flushing(&self, project: ProjectId) -> bool {
        self.flushing.as_ref().is_some_and(|flushing| {
            flushing.projects.contains_key(&project)
                || flushing.dead.get(&project).is_some_and(|dead| !dead.is_empty())
        })
    }

    /// The first position that is not durable once all rows on their way are in segments, but for
    /// those of `left`.
    pub fn durable_without(&self, left: &BTreeSet<ProjectId>) -> u64 {
        let Some(flushing) = &self.flushing else { return self.applied };
        let waiting = left.iter().flat_map(|project| {
            let frozen = flushing.projects.get(project).and_then(|frozen| frozen.first);
            frozen.into_iter().chain(self.first_in_memory(*project))
        });
        // One that was left before and is written now may have newer rows.
        let newer = flushing.projects.keys().filter_map(|project| self.first_in_memory(*project));
        waiting.chain(newer).fold(flushing.position, u64::min)
    }

    fn first_in_memory(&self, project: ProjectId) -> Option<u64> {
        self.projects.get(&project)?.memory.first()
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
