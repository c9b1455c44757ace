//! The pulse: how many events of which names were ingested, and whether flags may have changed, so
//! that an open chart is computed again when its result may differ.
//!
//! Publishers add to the counts of each subscription and never wait for a subscriber: a slow one
//! receives the sum of what it missed.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use model::ProjectId;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use warehouse::NewRow;

use crate::{Error, Result};

/// Subscriptions of all projects together. A browser shares one among its tabs.
const SUBSCRIPTIONS_MAX: usize = 64;
/// Names of one line; `more` says that there were others.
const NAMES_MAX: usize = 100;
/// At most four lines a second.
const PERIOD: Duration = Duration::from_millis(250);

/// What changed since the line before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pulse {
    /// Journal position of the newest event.
    pub position: u64,
    /// Ingested events by name.
    pub events: BTreeMap<String, u64>,
    /// Whether events of further names were ingested.
    pub more: bool,
    /// Whether feature flags or settings of the project may have changed.
    pub flags_changed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Pulses {
    /// None once the server stops.
    subscriptions: Arc<Mutex<Option<Vec<Weak<Pending>>>>>,
    permits: Arc<Semaphore>,
}

/// What a subscriber has not received yet.
#[derive(Debug)]
struct Pending {
    project: ProjectId,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    pulse: Pulse,
    is_new: bool,
    is_closed: bool,
}

#[derive(Debug)]
pub struct PulseSubscription {
    pending: Arc<Pending>,
    next_line_at: Instant,
    _permit: OwnedSemaphorePermit,
}

/// Events of one project in a batch.
#[derive(Default)]
struct Counts<'a> {
    position: u64,
    events: HashMap<&'a str, u64>,
}

impl Pulses {
    pub fn new() -> Self {
        Self {
            subscriptions: Arc::new(Mutex::new(Some(Vec::new()))),
            permits: Arc::new(Semaphore::new(SUBSCRIPTIONS_MAX)),
        }
    }

    pub fn subscribe(&self, project: ProjectId) -> Result<PulseSubscription> {
        let permit = self.permits.clone().try_acquire_owned().map_err(|_| Error::Busy)?;
        let pending =
            Arc::new(Pending { project, state: Mutex::default(), changed: Notify::new() });
        let mut subscriptions = lock(&self.subscriptions);
        let subscriptions = subscriptions.as_mut().ok_or(Error::Busy)?;
        subscriptions.retain(|weak| weak.strong_count() > 0);
        subscriptions.push(Arc::downgrade(&pending));
        Ok(PulseSubscription { pending, next_line_at: Instant::now(), _permit: permit })
    }

    pub fn publish(&self, rows: &[&NewRow<'_>]) {
        let subscriptions = self.subscriptions();
        if subscriptions.is_empty() {
            return;
        }
        let mut projects: HashMap<ProjectId, Counts<'_>> = HashMap::new();
        for row in rows {
            let counts = projects.entry(row.project).or_default();
            counts.position = counts.position.max(row.position);
            *counts.events.entry(row.event).or_default() += 1;
        }
        for pending in subscriptions {
            if let Some(counts) = projects.get(&pending.project) {
                pending.update(|pulse| pulse.add(counts));
            }
        }
    }

    /// Reports that flags of the project may have changed.
    pub fn publish_change(&self, project: ProjectId) {
        for pending in self.subscriptions().iter().filter(|pending| pending.project == project) {
            pending.update(|pulse| pulse.flags_changed = true);
        }
    }

    /// Ends every subscription.
    pub fn close(&self) {
        let subscriptions = lock(&self.subscriptions).take().unwrap_or_default();
        for pending in subscriptions.iter().filter_map(Weak::upgrade) {
            lock(&pending.state).is_closed = true;
            pending.changed.notify_one();
        }
    }

    fn subscriptions(&self) -> Vec<Arc<Pending>> {
        let subscriptions = lock(&self.subscriptions);
        subscriptions.iter().flatten().filter_map(Weak::upgrade).collect()
    }
}

impl Pending {
    fn update(&self, change: impl FnOnce(&mut Pulse)) {
        let mut state = lock(&self.state);
        change(&mut state.pulse);
        state.is_new = true;
        drop(state);
        self.changed.notify_one();
    }
}

impl Pulse {
    fn add(&mut self, counts: &Counts<'_>) {
        self.position = self.position.max(counts.position);
        for (name, count) in &counts.events {
            if let Some(known) = self.events.get_mut(*name) {
                *known += count;
            } else if self.events.len() < NAMES_MAX {
                self.events.insert((*name).to_owned(), *count);
            } else {
                self.more = true;
            }
        }
    }
}

impl PulseSubscription {
    /// The sum of what was published since the line before, at most one line a `PERIOD`; none once
    /// the stream has ended.
    pub async fn next(&mut self) -> Option<Pulse> {
        loop {
            sleep_until(self.next_line_at).await;
            match self.take() {
                Some(Ok(pulse)) => {
                    self.next_line_at = Instant::now() + PERIOD;
                    return Some(pulse);
                }
                Some(Err(Closed)) => return None,
                None => self.pending.changed.notified().await,
            }
        }
    }

    fn take(&self) -> Option<std::result::Result<Pulse, Closed>> {
        let mut state = lock(&self.pending.state);
        if state.is_closed {
            return Some(Err(Closed));
        }
        if !std::mem::take(&mut state.is_new) {
            return None;
        }
        // The position stays: a change of flags alone is at the position of the last event.
        let next = Pulse { position: state.pulse.position, ..Pulse::default() };
        Some(Ok(std::mem::replace(&mut state.pulse, next)))
    }
}

struct Closed;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use uuid::Uuid;

    use super::*;

    const NO_PROPERTIES: &String = &String::new();

    fn row(project: i64, position: u64, event: &str) -> NewRow<'_> {
        NewRow {
            project: ProjectId(project),
            uuid: Uuid::from_u128(position.into()),
            event,
            distinct_id: "ann",
            distinct_no: 1,
            timestamp: Timestamp::from_micros(0),
            created_at: Timestamp::from_micros(0),
            elements_chain: "",
            groups: Default::default(),
            properties: NO_PROPERTIES,
            position,
            historical: false,
        }
    }

    fn names(pulse: &Pulse) -> Vec<(&str, u64)> {
        pulse.events.iter().map(|(name, count)| (name.as_str(), *count)).collect()
    }

    #[tokio::test]
    async fn pulse_sums_what_was_ingested_between_two_lines() {
        let pulses = Pulses::new();
        let mut subscription = pulses.subscribe(ProjectId(1)).unwrap();
        pulses.publish(&[&row(1, 7, "a"), &row(2, 8, "b")]);
        let first = subscription.next().await.unwrap();
        assert_eq!((first.position, names(&first)), (7, vec![("a", 1)]));
        let began = Instant::now();
        pulses.publish(&[&row(1, 9, "a"), &row(1, 10, "b")]);
        pulses.publish(&[&row(1, 11, "a")]);
        pulses.publish_change(ProjectId(1));
        let second = subscription.next().await.unwrap();
        assert_eq!((second.position, names(&second)), (11, vec![("a", 2), ("b", 1)]));
        assert!(second.flags_changed && began.elapsed() >= PERIOD);
        pulses.publish_change(ProjectId(2));
        pulses.publish_change(ProjectId(1));
        let third = subscription.next().await.unwrap();
        assert_eq!(third, Pulse { position: 11, flags_changed: true, ..Pulse::default() });
        pulses.close();
        assert!(subscription.next().await.is_none());
        assert!(matches!(pulses.subscribe(ProjectId(1)), Err(Error::Busy)));
    }

    #[tokio::test]
    async fn pulse_bounds_its_names_and_says_so() {
        let pulses = Pulses::new();
        let mut subscription = pulses.subscribe(ProjectId(1)).unwrap();
        let events: Vec<String> = (0..NAMES_MAX + 1).map(|number| number.to_string()).collect();
        let rows: Vec<NewRow<'_>> = events.iter().map(|event| row(1, 1, event)).collect();
        pulses.publish(&rows.iter().collect::<Vec<_>>());
        let pulse = subscription.next().await.unwrap();
        assert!(pulse.more && pulse.events.len() == NAMES_MAX);
        pulses.publish(&[&row(1, 2, "a")]);
        assert!(!subscription.next().await.unwrap().more);
    }

    #[tokio::test]
    async fn pulse_subscriptions_are_bounded_and_release_their_permits() {
        let pulses = Pulses::new();
        let all: Vec<PulseSubscription> =
            (0..SUBSCRIPTIONS_MAX).map(|_| pulses.subscribe(ProjectId(1)).unwrap()).collect();
        assert!(matches!(pulses.subscribe(ProjectId(1)), Err(Error::Busy)));
        drop(all);
        assert!(pulses.subscribe(ProjectId(1)).is_ok());
    }
}
