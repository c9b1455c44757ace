//! The live stream: events as they are ingested.
//!
//! Subscribers never delay the pipeline: events past the batch limits, and batches that a slow
//! subscriber did not take in time, are dropped and counted.

use std::sync::{Arc, Mutex, PoisonError};

use model::ProjectId;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use warehouse::{EventRow, NewRow};

use crate::event_json::Event;
use crate::{Error, Result};

/// Subscriptions of all projects together.
const SUBSCRIPTIONS_MAX: usize = 64;
/// Batches that a subscriber may lag behind.
const LAG_BATCHES_MAX: usize = 64;
/// Events of one batch that are published, and their bytes.
const BATCH_EVENTS_MAX: usize = 100;
const BATCH_BYTES_MAX: usize = 512 << 10;

#[derive(Debug)]
struct Batch {
    rows: Vec<EventRow>,
    /// The project of each event that was dropped.
    dropped: Vec<ProjectId>,
}

#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// None once the server stops.
    sender: Arc<Mutex<Option<Sender<Arc<Batch>>>>>,
    permits: Arc<Semaphore>,
}

/// Which events to stream; the conditions are joined by AND.
#[derive(Clone, Debug)]
pub struct LiveFilter {
    pub project: ProjectId,
    pub event: Option<String>,
    pub distinct_id: Option<String>,
}

/// What a subscriber receives.
#[derive(Debug)]
pub enum LiveUpdate {
    Events(Vec<Event>),
    /// At least this many events were dropped.
    Missed(u64),
}

#[derive(Debug)]
pub struct LiveSubscription {
    batches: Receiver<Arc<Batch>>,
    filter: LiveFilter,
    missed: u64,
    _permit: OwnedSemaphorePermit,
}

impl Live {
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(LAG_BATCHES_MAX);
        Self {
            sender: Arc::new(Mutex::new(Some(sender))),
            permits: Arc::new(Semaphore::new(SUBSCRIPTIONS_MAX)),
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
        let (published, dropped) = rows.split_at(taken);
        let batch = Batch {
            rows: published.iter().map(|row| row.to_row()).collect(),
            dropped: dropped.iter().map(|row| row.project).collect(),
        };
        // Fails when the last subscriber has just left.
        let _ = sender.send(Arc::new(batch));
    }

    pub fn subscribe(&self, filter: LiveFilter) -> Result<LiveSubscription> {
        let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = sender.as_ref().ok_or(Error::Busy)?;
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| Error::Busy)?;
        Ok(LiveSubscription { batches: sender.subscribe(), filter, missed: 0, _permit: permit })
    }

    /// Ends every subscription.
    pub fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl LiveSubscription {
    /// None once the stream has ended.
    pub async fn next(&mut self) -> Option<LiveUpdate> {
        loop {
            if self.missed > 0 {
                return Some(LiveUpdate::Missed(std::mem::take(&mut self.missed)));
            }
            let batch = match self.batches.recv().await {
                Ok(batch) => batch,
                Err(RecvError::Lagged(batches)) => {
                    self.missed += batches;
                    continue;
                }
                Err(RecvError::Closed) => return None,
            };
            let in_project = |project: &&ProjectId| **project == self.filter.project;
            self.missed += batch.dropped.iter().filter(in_project).count() as u64;
            let rows = batch.rows.iter().filter(|row| self.filter.matches(row)).cloned();
            let events: Vec<Event> = rows.map(|row| Event::new(row, None)).collect();
            if !events.is_empty() {
                return Some(LiveUpdate::Events(events));
            }
        }
    }
}

impl LiveFilter {
    fn matches(&self, row: &EventRow) -> bool {
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

    const NO_PROPERTIES: &String = &String::new();

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
            properties: NO_PROPERTIES,
            position: 0,
            historical: false,
        }
    }

    fn filter(project: i64, event: Option<&str>) -> LiveFilter {
        let project = ProjectId(project);
        LiveFilter { project, event: event.map(str::to_owned), distinct_id: None }
    }

    async fn received(subscription: &mut LiveSubscription) -> Vec<u128> {
        match subscription.next().await {
            Some(LiveUpdate::Events(events)) => {
                events.iter().map(|event| event.id.as_u128()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn live_stream_delivers_matching_events_until_it_is_closed() {
        let live = Live::new();
        live.publish(&[&row(1, 1, "before")]);
        let mut all = live.subscribe(filter(1, None)).unwrap();
        let mut some = live.subscribe(filter(1, Some("b"))).unwrap();
        live.publish(&[&row(1, 2, "a"), &row(2, 3, "b"), &row(1, 4, "b")]);
        assert_eq!(received(&mut all).await, [2, 4]);
        assert_eq!(received(&mut some).await, [4]);
        live.close();
        assert!(all.next().await.is_none());
        assert!(matches!(live.subscribe(filter(1, None)), Err(Error::Busy)));
    }

    #[tokio::test]
    async fn live_stream_counts_events_past_its_limits_as_missed() {
        let live = Live::new();
        let mut subscription = live.subscribe(filter(1, None)).unwrap();
        let rows: Vec<NewRow<'_>> = (0..250).map(|number| row(1, number, "a")).collect();
        live.publish(&rows.iter().collect::<Vec<_>>());
        assert_eq!(received(&mut subscription).await.len(), BATCH_EVENTS_MAX);
        assert!(matches!(subscription.next().await, Some(LiveUpdate::Missed(150))));
        for number in 0..LAG_BATCHES_MAX as u128 + 10 {
            live.publish(&[&row(1, number, "a")]);
        }
        assert!(matches!(subscription.next().await, Some(LiveUpdate::Missed(10))));
        assert_eq!(received(&mut subscription).await, [10]);
    }

    #[tokio::test]
    async fn live_subscriptions_are_bounded_and_release_their_permits() {
        let live = Live::new();
        let all: Vec<LiveSubscription> =
            (0..SUBSCRIPTIONS_MAX).map(|_| live.subscribe(filter(1, None)).unwrap()).collect();
        assert!(matches!(live.subscribe(filter(1, None)), Err(Error::Busy)));
        drop(all);
        assert!(live.subscribe(filter(1, None)).is_ok());
    }
}
