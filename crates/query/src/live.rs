//! Events as they come, for whoever watches.
//!
//! Watchers never hold up the pipeline: what is more than a person could read, and what a slow
//! watcher did not take in time, is only counted.

use std::sync::{Arc, Mutex, PoisonError};

use model::ProjectId;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use warehouse::{EventRow, NewRow};

use crate::shape::Event;
use crate::{Error, Result};

/// Watchers of all projects together.
const WATCHERS_MAX: usize = 64;
/// Batches that a watcher may lag behind.
const BATCHES_WAITING_MAX: usize = 64;
/// Events of one batch that are passed on, and their bytes.
const BATCH_EVENTS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 512 << 10;

#[derive(Debug)]
struct Batch {
    rows: Vec<EventRow>,
    /// Projects of events that were left out, once for each.
    left_out: Vec<ProjectId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// None once the server stops.
    sender: Arc<Mutex<Option<Sender<Arc<Batch>>>>>,
    room: Arc<Semaphore>,
}

/// Which events to watch; all that is given must hold.
#[derive(Clone, Debug)]
pub struct Watched {
    pub project: ProjectId,
    pub event: Option<String>,
    pub distinct_id: Option<String>,
}

/// What a watcher is told.
#[derive(Debug)]
pub enum News {
    Events(Vec<Event>),
    /// So many events, at least, were not passed on.
    Missed(u64),
}

#[derive(Debug)]
pub struct Watch {
    batches: Receiver<Arc<Batch>>,
    watched: Watched,
    missed: u64,
    _room: OwnedSemaphorePermit,
}

impl Live {
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(BATCHES_WAITING_MAX);
        Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            room: Arc::new(Semaphore::new(WATCHERS_MAX)),
        }
    }

    pub fn publish(&self, rows: &[&NewRow<'_>]) {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = sender.as_ref().filter(|sender| sender.receiver_count() > 0) else {
            return;
        };
        let mut bytes = 0;
        let fits = |row: &&&NewRow<'_>| {
            bytes += row.properties_bytes() + row.elements_chain.len();
            bytes <= BATCH_BYTES_MAX
        };
        let taken = rows.iter().take(BATCH_EVENTS_MAX).take_while(fits).count();
        let (shown, left_out) = rows.split_at(taken);
        let batch = Batch {
            rows: shown.iter().map(|row| row.to_row()).collect(),
            left_out: left_out.iter().map(|row| row.project).collect(),
        };
        // It fails when the last watcher has just left.
        let _ = sender.send(Arc::new(batch));
    }

    pub fn watch(&self, watched: Watched) -> Result<Watch> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(Error::Busy)?;
        let room = self.room.clone().try_acquire_owned().map_err(|_| Error::Busy)?;
        Ok(Watch { batches: sender.subscribe(), watched, missed: 0, _room: room })
    }

    /// Ends every watch.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Watch {
    /// None when there will be no more.
    pub async fn next(&mut self) -> Option<News> {
        loop {
            if self.missed > 0 {
                return Some(News::Missed(std::mem::take(&mut self.missed)));
            }
            let batch = match self.batches.recv().await {
                Ok(batch) => batch,
                Err(RecvError::Lagged(batches)) => {
                    self.missed += batches;
                    continue;
                }
                Err(RecvError::Closed) => return None,
            };
            let own = |project: &&ProjectId| **project == self.watched.project;
            self.missed += batch.left_out.iter().filter(own).count() as u64;
            let rows = batch.rows.iter().filter(|row| self.watched.means(row)).cloned();
            let events: Vec<Event> = rows.map(|row| Event::new(row, None)).collect();
            if !events.is_empty() {
                return Some(News::Events(events));
            }
        }
    }
}

impl Watched {
    fn means(&self, row: &EventRow) -> bool {
        row.project == self.project
            && self.event.as_ref().is_none_or(|event| **event == *row.event)
            && self.distinct_id.as_ref().is_none_or(|id| **id == *row.distinct_id)
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use uuid::Uuid;

    use super::*;

    static NO_PROPERTIES: String = String::new();

    fn row(project: i64, number: u128, event: &str) -> NewRow<'_> {
        NewRow {
            project: ProjectId(project),
            uuid: Uuid::from_u128(number),
            event,
            distinct_id: "ann",
            distinct_no: 1,
            timestamp: Timestamp::from_micros(0),
            created_at: Timestamp::from_micros(0),
            elements_chain: "",
            groups: Default::default(),
            properties: &NO_PROPERTIES,
            position: 0,
            historical: false,
        }
    }

    fn watched(project: i64, event: Option<&str>) -> Watched {
        let project = ProjectId(project);
        Watched { project, event: event.map(str::to_owned), distinct_id: None }
    }

    async fn seen(watch: &mut Watch) -> Vec<u128> {
        match watch.next().await {
            Some(News::Events(events)) => events.iter().map(|event| event.id.as_u128()).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_watcher_sees_its_own_events_until_the_end() {
        let live = Live::new();
        live.publish(&[&row(1, 1, "before")]);
        let mut all = live.watch(watched(1, None)).unwrap();
        let mut some = live.watch(watched(1, Some("b"))).unwrap();
        live.publish(&[&row(1, 2, "a"), &row(2, 3, "b"), &row(1, 4, "b")]);
        assert_eq!(seen(&mut all).await, [2, 4]);
        assert_eq!(seen(&mut some).await, [4]);
        live.close();
        assert!(all.next().await.is_none());
        assert!(matches!(live.watch(watched(1, None)), Err(Error::Busy)));
    }

    #[tokio::test]
    async fn what_is_too_much_is_counted_and_held_by_nobody() {
        let live = Live::new();
        let mut watch = live.watch(watched(1, None)).unwrap();
        let rows: Vec<NewRow<'_>> = (0..250).map(|number| row(1, number, "a")).collect();
        live.publish(&rows.iter().collect::<Vec<_>>());
        assert_eq!(seen(&mut watch).await.len(), BATCH_EVENTS_MAX);
        assert!(matches!(watch.next().await, Some(News::Missed(150))));
        for number in 0..BATCHES_WAITING_MAX as u128 + 10 {
            live.publish(&[&row(1, number, "a")]);
        }
        assert!(matches!(watch.next().await, Some(News::Missed(10))));
        assert_eq!(seen(&mut watch).await, [10]);
    }

    #[tokio::test]
    async fn watchers_are_bounded_and_leave_their_room_behind() {
        let live = Live::new();
        let all: Vec<Watch> =
            (0..WATCHERS_MAX).map(|_| live.watch(watched(1, None)).unwrap()).collect();
        assert!(matches!(live.watch(watched(1, None)), Err(Error::Busy)));
        drop(all);
        assert!(live.watch(watched(1, None)).is_ok());
    }
}
