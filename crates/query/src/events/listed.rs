//! A list of events, found at once and read in batches, so that it may be long and is never held.

use std::ops::Range;
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

/// Events of a batch.
const BATCH_ROWS_MAX: usize = 200;
/// A batch ends with the step that comes to as much.
const BATCH_BYTES: usize = 1 << 20;
/// How large events are is only known once they are read, so they are read by so many: each may have
/// several megabytes.
const STEP_ROWS: usize = 4;

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
        let part = self.at..(self.at + BATCH_ROWS_MAX).min(found.len());
        let read = move || some_of(part, |step| Ok(found.read(step)?));
        let (rows, at) = self.events.reads.go_on(read).await?;
        self.at = at;
        self.events.shown(self.project, rows, self.people).await.map(Some)
    }

    /// The same events once more, from the first.
    pub fn rewind(&mut self) {
        self.at = 0;
    }
}

/// Events from the first of these on, and where those begin that are not read.
fn some_of(
    part: Range<usize>,
    read: impl Fn(Range<usize>) -> Result<Vec<EventRow>>,
) -> Result<(Vec<EventRow>, usize)> {
    let size = |row: &EventRow| row.properties.len() + row.elements_chain.len();
    let (mut rows, mut bytes, mut at) = (Vec::new(), 0, part.start);
    while at < part.end && bytes < BATCH_BYTES {
        let step = at..(at + STEP_ROWS).min(part.end);
        at = step.end;
        let more = read(step)?;
        bytes += more.iter().map(size).sum::<usize>();
        rows.extend(more);
    }
    Ok((rows, at))
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use uuid::Uuid;

    use super::*;

    fn row(bytes: usize) -> EventRow {
        EventRow {
            project: ProjectId(1),
            uuid: Uuid::nil(),
            event: "e".into(),
            distinct_id: "d".into(),
            distinct_no: 0,
            timestamp: Timestamp::from_micros(0),
            created_at: Timestamp::from_micros(0),
            elements_chain: String::new(),
            groups: Default::default(),
            properties: "x".repeat(bytes),
            position: 0,
            historical: false,
        }
    }

    #[test]
    fn a_batch_of_events_ends_once_it_has_enough_bytes() {
        let of = |small: usize| {
            move |step: Range<usize>| {
                let size = |at| if at < small { 10 } else { BATCH_BYTES };
                Ok(step.map(|at| row(size(at))).collect())
            }
        };
        for (part, small, end) in [
            (0..200, 200, 200),
            (0..3, 3, 3),
            // However small those before them are, no more than a step of large ones is read.
            (0..200, 100, 104),
            (104..200, 100, 108),
        ] {
            let (rows, at) = some_of(part.clone(), of(small)).unwrap();
            assert_eq!((rows.len(), at), (end - part.start, end), "{part:?} {small}");
        }
    }
}
