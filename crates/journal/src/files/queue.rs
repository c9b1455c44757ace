//! The queue of appends between callers and the writer thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::{Batch, Error, Position, Result, lock};

/// Bound of one group, so that the first of many waiting appends does not wait for the bytes of the
/// last. A single larger append is still written as one group.
const GROUP_BYTES_MAX: u64 = 8 << 20;

/// A group of at least this many requests means that load is high. The next group then waits up to
/// [`BUSY_GROUP_DELAY`] for a quarter more requests, because they all share one sync. The delay counts
/// from the start of the previous group, so a slow disk adds no wait.
const BUSY_GROUP_REQUESTS: usize = 8;
const BUSY_GROUP_DELAY: Duration = Duration::from_micros(250);

/// The group that the writer took last.
pub(crate) struct PreviousGroup {
    pub requests: usize,
    pub began: Instant,
}

pub(crate) struct Request {
    pub batch: Batch,
    pub done: oneshot::Sender<Result<Position>>,
    /// The request's share of the queue's capacity, released on drop.
    pub permit: OwnedSemaphorePermit,
}

/// Bounded by the permits that its requests hold.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    /// Queue length at which a push wakes the writer; 0 while the writer is busy and checks the queue
    /// itself. Waking costs a system call.
    wake_at: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, request: Request) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(Error::Closed);
        }
        waiting.requests.push_back(request);
        let enough = (1..=waiting.requests.len()).contains(&waiting.wake_at);
        if enough {
            waiting.wake_at = 0;
        }
        drop(waiting);
        if enough {
            self.arrived.notify_one();
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_one();
    }

    /// Closes the queue and fails the requests that still wait.
    pub(crate) fn abandon(&self) {
        self.close();
        lock(&self.waiting).requests.clear();
    }

    /// Waits for requests and takes as many as fit into `bytes_left`, at least one. Takes none when
    /// the queue is closed and empty.
    pub(crate) fn take(
        &self,
        bytes_left: u64,
        previous: Option<&PreviousGroup>,
        taken: &mut Vec<Request>,
    ) {
        let fewer_than = |count: usize| {
            move |waiting: &mut Waiting| {
                let few = waiting.requests.len() < count && !waiting.closed;
                waiting.wake_at = if few { count } else { 0 };
                few
            }
        };
        let mut waiting = lock(&self.waiting);
        if let Some(PreviousGroup { requests, began }) =
            previous.filter(|group| group.requests >= BUSY_GROUP_REQUESTS)
        {
            let left = BUSY_GROUP_DELAY.saturating_sub(began.elapsed());
            let enough = fewer_than(requests + requests / 4);
            let gathered = self.arrived.wait_timeout_while(waiting, left, enough);
            waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        let waiting = self.arrived.wait_while(waiting, fewer_than(1));
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let bytes_max = bytes_left.min(GROUP_BYTES_MAX);
        while let Some(request) = waiting.requests.pop_front_if(|request| {
            bytes += request.batch.bytes() as u64;
            taken.is_empty() || bytes <= bytes_max
        }) {
            taken.push(request);
        }
    }
}
