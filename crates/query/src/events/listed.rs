//! A list of events, found at once and read in batches, so that it may be long and is never held.

use std::sync::Arc;
use std::time::Duration;

use catalog::ProjectRow;
use model::ProjectId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use warehouse::{EventRow, EventSelection, Window};

use super::{Events, Mark, People, Slice, Wanted};
use crate::reads::Turns;
use crate::shape::Event;
use crate::{Error, Result};

/// Lists that are open at once, most of them waiting for their clients to read on. Each holds a
/// snapshot, some bytes for each of its events, and a batch.
const LISTS_MAX: usize = 32;
/// Of one project, so that it leaves some to the others.
const LISTS_OF_PROJECT_MAX: usize = 8;
/// A short burst waits; a longer one is better told.
const LIST_WAIT: Duration = Duration::from_secs(10);

/// Events that are read in one go, at most and at first. How large they are is only known once they
/// are read, so batches grow no faster than twofold, and shrink at once.
const BATCH_ROWS_MAX: usize = 200;
const BATCH_ROWS_FIRST: usize = 32;
/// What a batch should come to.
const BATCH_BYTES: usize = 1 << 20;

/// Who may have a list open.
#[derive(Clone, Debug)]
pub struct OpenLists {
    all: Arc<Semaphore>,
    projects: Turns,
}

impl OpenLists {
    pub(super) fn new() -> Self {
        let projects = Turns::new(LISTS_OF_PROJECT_MAX, LIST_WAIT);
        Self { all: Arc::new(Semaphore::new(LISTS_MAX)), projects }
    }

    async fn open(&self, project: ProjectId) -> Result<[OwnedSemaphorePermit; 2]> {
        let own = self.projects.of(project).await?;
        let any = tokio::time::timeout(LIST_WAIT, self.all.clone().acquire_owned()).await;
        let any = any.ok().and_then(std::result::Result::ok).ok_or(Error::Busy)?;
        Ok([own, any])
    }
}

/// A list that is open. To drop it ends it.
pub struct EventBatches {
    events: Events,
    project: ProjectId,
    people: People,
    /// None when nothing can match.
    found: Option<Arc<EventSelection>>,
    at: usize,
    rows: usize,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Events {
    /// Finds the events of a list; what cannot be found is told before anything is read.
    pub async fn list(
        &self,
        project: &ProjectRow,
        wanted: &Wanted,
        slice: Slice,
        people: People,
    ) -> Result<EventBatches> {
        let permits = self.lists.open(project.id).await?;
        let found = match self.filter(project, wanted).await? {
            None => None,
            Some(filter) => {
                let (warehouse, id) = (self.warehouse.clone(), project.id);
                let Slice { order, limit, offset, mark: resume } = slice;
                let window = Window { order, limit, offset, resume };
                let find = move || Ok(warehouse.snapshot(id).select(&filter, &window)?);
                Some(Arc::new(self.reads.run(find).await?))
            }
        };
        Ok(EventBatches {
            events: self.clone(),
            project: project.id,
            people,
            found,
            at: 0,
            rows: BATCH_ROWS_FIRST,
            _permits: permits,
        })
    }
}

impl EventBatches {
    /// Where the list ends, when there is more behind it.
    pub fn next(&self) -> Option<&Mark> {
        self.found.as_ref().and_then(|found| found.next())
    }

    pub fn len(&self) -> usize {
        self.found.as_ref().map_or(0, |found| found.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next events; none behind the last.
    pub async fn batch(&mut self) -> Result<Option<Vec<Event>>> {
        let Some(found) = self.found.clone().filter(|found| self.at < found.len()) else {
            return Ok(None);
        };
        let part = self.at..(self.at + self.rows).min(found.len());
        self.at = part.end;
        let read = move || Ok(found.read(part)?);
        let rows = self.events.reads.go_on(read).await?;
        self.rows = rows_of_next(&rows, self.rows);
        self.events.shown(self.project, rows, self.people).await.map(Some)
    }

    /// The same events once more, from the first.
    pub fn rewind(&mut self) {
        self.at = 0;
    }
}

fn rows_of_next(read: &[EventRow], rows: usize) -> usize {
    let size = |row: &EventRow| row.properties.len() + row.elements_chain.len();
    let bytes = read.iter().map(size).sum::<usize>().max(1);
    let fit = BATCH_BYTES.saturating_mul(read.len()) / bytes;
    fit.min(rows * 2).clamp(1, BATCH_ROWS_MAX)
}
