//! Event lists: one read selects the events, and batches stream them, so that a long list is never
//! held in memory.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use catalog::ProjectRow;
use model::ProjectId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use warehouse::{EventRow, Window};

use super::{Cursor, EventFilter, EventPage, Events, PersonDetails};
use crate::event_json::Event;
use crate::permits::ProjectPermits;
use crate::store::EventList;
use crate::{Error, Result};

/// Lists that are open at once, most of them waiting for a slow client. Each holds a snapshot, a few
/// bytes for each of its events, and a batch.
const LISTS_MAX: usize = 32;
/// Open lists of one project.
const LISTS_OF_PROJECT_MAX: usize = 8;
/// How long a request waits for another list to end before it is refused.
const LIST_QUEUE_TIMEOUT: Duration = Duration::from_secs(10);

/// Events in one batch.
const BATCH_ROWS_MAX: usize = 200;
/// A batch ends with the step that reaches this size.
const BATCH_BYTES: usize = 1 << 20;
/// Events read at a time. An event's size is only known once it is read, and may be several
/// megabytes.
const STEP_ROWS: usize = 4;

/// Permits for open lists: for all projects, and for each.
#[derive(Clone, Debug)]
pub struct OpenLists {
    all: Arc<Semaphore>,
    projects: ProjectPermits,
}

impl OpenLists {
    pub(super) fn new() -> Self {
        let projects = ProjectPermits::new(LISTS_OF_PROJECT_MAX, LIST_QUEUE_TIMEOUT);
        Self { all: Arc::new(Semaphore::new(LISTS_MAX)), projects }
    }

    async fn open(&self, project: ProjectId) -> Result<[OwnedSemaphorePermit; 2]> {
        let of_project = self.projects.acquire(project).await?;
        let any = tokio::time::timeout(LIST_QUEUE_TIMEOUT, self.all.clone().acquire_owned()).await;
        let any = any.ok().and_then(std::result::Result::ok).ok_or(Error::Busy)?;
        Ok([of_project, any])
    }
}

/// An open list, which ends when it is dropped.
pub struct EventBatches {
    events: Events,
    project: ProjectId,
    details: PersonDetails,
    /// None when no event can match.
    selection: Option<EventList>,
    at: usize,
    _permits: [OwnedSemaphorePermit; 2],
}

impl Events {
    /// Selects the events of a list, so that errors come before the first batch.
    pub async fn list(
        &self,
        project: &ProjectRow,
        filter: &EventFilter,
        page: EventPage,
        details: PersonDetails,
    ) -> Result<EventBatches> {
        let permits = self.lists.open(project.id).await?;
        let selection = match self.conditions(project, filter).await? {
            None => None,
            Some(conditions) => {
                let view = self.view(project, &conditions).await?;
                let EventPage { order, limit, offset, cursor: resume } = page;
                let window = Window { order, limit, offset, resume };
                Some(self.reads.run(move || view.list(conditions, &window)).await?)
            }
        };
        Ok(EventBatches {
            events: self.clone(),
            project: project.id,
            details,
            selection,
            at: 0,
            _permits: permits,
        })
    }
}

impl EventBatches {
    /// The cursor of the next page, if there is one.
    pub fn next(&self) -> Option<&Cursor> {
        self.selection.as_ref().and_then(EventList::next)
    }

    pub fn len(&self) -> usize {
        self.selection.as_ref().map_or(0, EventList::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The next batch; none after the last.
    pub async fn batch(&mut self) -> Result<Option<Vec<Event>>> {
        let Some(selection) = self.selection.clone().filter(|selection| self.at < selection.len())
        else {
            return Ok(None);
        };
        let range = self.at..(self.at + BATCH_ROWS_MAX).min(selection.len());
        let read = move || read_batch(range, |step| selection.read(step));
        let (rows, at) = self.events.reads.run_next(read).await?;
        self.at = at;
        self.events.with_persons(self.project, rows, self.details).await.map(Some)
    }

    /// Starts again at the first event.
    pub fn rewind(&mut self) {
        self.at = 0;
    }
}

/// Reads events until the batch is full; returns them and the index of the first unread one.
fn read_batch(
    range: Range<usize>,
    read: impl Fn(Range<usize>) -> Result<Vec<EventRow>>,
) -> Result<(Vec<EventRow>, usize)> {
    let size = |row: &EventRow| row.properties.len() + row.elements_chain.len();
    let (mut rows, mut bytes, mut at) = (Vec::new(), 0, range.start);
    while at < range.end && bytes < BATCH_BYTES {
        let step = at..(at + STEP_ROWS).min(range.end);
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
    fn event_list_batch_ends_at_its_byte_limit() {
        let of = |small: usize| {
            move |step: Range<usize>| {
                let size = |at| if at < small { 10 } else { BATCH_BYTES };
                Ok(step.map(|at| row(size(at))).collect())
            }
        };
        for (range, small, end) in [
            (0..200, 200, 200),
            (0..3, 3, 3),
            // At most one step of large events is read, however small the ones before are.
            (0..200, 100, 104),
            (104..200, 100, 108),
        ] {
            let (rows, at) = read_batch(range.clone(), of(small)).unwrap();
            assert_eq!((rows.len(), at), (end - range.start, end), "{range:?} {small}");
        }
    }
}
