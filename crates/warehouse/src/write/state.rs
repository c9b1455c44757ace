//! The in-memory state: what readers see, and what the writer changes.

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

/// The state that readers need. Only the holder of the writer lock changes it; locked briefly.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// The first journal position that is not applied.
    pub applied: u64,
    pub projects: BTreeMap<ProjectId, ProjectState>,
    pub flushing: Option<Flushing>,
}

#[derive(Debug)]
pub(crate) struct ProjectState {
    pub segments: Arc<Vec<LiveSegment>>,
    pub memtable: Memtable,
}

/// The frozen memtables of all projects that a flush is writing.
#[derive(Debug)]
pub(crate) struct Flushing {
    /// Rows before this position are in `projects`, in segments, or in the active memtable of a
    /// project that was frozen by an earlier flush.
    pub position: u64,
    pub projects: BTreeMap<ProjectId, FrozenMemtable>,
    /// Dead rows of segments at the time of the freeze: the manifest edit that adds the new rows also
    /// marks dead the rows that they replace.
    pub dead: BTreeMap<ProjectId, HashMap<u64, Arc<RoaringBitmap>>>,
}

/// State of the operations that change files: flush, compaction, delete. Its lock serializes
/// manifest edits.
#[derive(Debug)]
pub(crate) struct Writer {
    pub manifest: Manifest,
    /// The durable dead rows of segments.
    pub durable_dead: HashMap<u64, Arc<RoaringBitmap>>,
    /// Retired segments that a snapshot may still read.
    pub pinned: Vec<(String, Weak<Segment>)>,
    /// New files of a failed commit, whose manifest may or may not be on disk. They are removed after
    /// the next successful commit.
    pub unsettled: Vec<String>,
}

impl ProjectState {
    pub fn new(project: ProjectId) -> ProjectState {
        ProjectState { segments: Arc::default(), memtable: Memtable::new(project) }
    }
}

impl State {
    pub fn project(&mut self, project: ProjectId) -> &mut ProjectState {
        self.projects.entry(project).or_insert_with(|| ProjectState::new(project))
    }

    pub fn segments(&self, project: ProjectId) -> Arc<Vec<LiveSegment>> {
        self.projects.get(&project).map_or_else(Arc::default, |state| state.segments.clone())
    }

    pub fn blocks(&mut self, project: ProjectId) -> Vec<LiveBlock> {
        let flushing = self.flushing.as_ref().and_then(|flushing| flushing.projects.get(&project));
        let mut blocks = flushing.map_or_else(Vec::new, |frozen| frozen.blocks.clone());
        if let Some(state) = self.projects.get_mut(&project) {
            blocks.extend(state.memtable.blocks());
        }
        blocks
    }

    /// The live row of an event, if a memtable has it.
    pub fn find(&self, project: ProjectId, identity: &Identity) -> Option<EventRow> {
        let memtable = self.projects.get(&project).map(|state| &state.memtable);
        if let Some(row) = memtable.and_then(|memtable| memtable.get(identity)) {
            return Some(row);
        }
        self.flushing.as_ref()?.projects.get(&project)?.get(identity)
    }

    /// Marks the older rows of an event dead, in the frozen memtable and in a segment.
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

    /// Rows and bytes in the active memtables.
    pub fn memtable_size(&self) -> (usize, usize) {
        let sizes = self.projects.values().map(|state| &state.memtable);
        sizes.fold((0, 0), |(rows, bytes), memtable| {
            (rows + memtable.row_count(), bytes + memtable.bytes())
        })
    }

    /// Freezes the active memtables. A project that is still frozen, because it could not be written,
    /// keeps its active memtable.
    pub fn freeze(&mut self) {
        let earlier = self.flushing.take();
        let (mut projects, mut dead) =
            earlier.map(|earlier| (earlier.projects, earlier.dead)).unwrap_or_default();
        for (project, state) in &mut self.projects {
            if projects.contains_key(project) {
                continue;
            }
            let dead_rows: HashMap<u64, Arc<RoaringBitmap>> = state
                .segments
                .iter()
                .filter(|live| !live.dead.is_empty())
                .map(|live| (live.segment.entry.id, live.dead.clone()))
                .collect();
            dead.insert(*project, dead_rows);
            if state.memtable.row_count() > 0 {
                let memtable = std::mem::replace(&mut state.memtable, Memtable::new(*project));
                projects.insert(*project, memtable.freeze());
            }
        }
        self.flushing = Some(Flushing { position: self.applied, projects, dead });
    }

    /// Whether a pending flush refers to segments of the project.
    pub fn is_flushing(&self, project: ProjectId) -> bool {
        self.flushing.as_ref().is_some_and(|flushing| {
            flushing.projects.contains_key(&project)
                || flushing.dead.get(&project).is_some_and(|dead| !dead.is_empty())
        })
    }

    /// The durable position once all frozen rows are flushed, except those of `failed_projects`.
    pub fn durable_position_without(&self, failed_projects: &BTreeSet<ProjectId>) -> u64 {
        let Some(flushing) = &self.flushing else { return self.applied };
        let unflushed = failed_projects.iter().flat_map(|project| {
            let frozen = flushing.projects.get(project).and_then(|frozen| frozen.first_position);
            frozen.into_iter().chain(self.first_active_position(*project))
        });
        // A project frozen by an earlier flush may have newer rows in its active memtable.
        let newer =
            flushing.projects.keys().filter_map(|project| self.first_active_position(*project));
        unflushed.chain(newer).fold(flushing.position, u64::min)
    }

    fn first_active_position(&self, project: ProjectId) -> Option<u64> {
        self.projects.get(&project)?.memtable.first_position()
    }

    /// Changes the segments of a project; copy-on-write, so snapshots keep their list.
    pub fn change_segments(
        &mut self,
        project: ProjectId,
        change: impl FnOnce(&mut Vec<LiveSegment>),
    ) {
        change(Arc::make_mut(&mut self.project(project).segments));
    }
}
