//! Appends on their way to the writer thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::segment::lock;
use crate::{Batch, Error, Position, Result};

/// What one write takes at most, so that the first of many waiting appends does not wait for the
/// bytes of the last. One larger append still goes as a whole.
const GROUP_BYTES_MAX: u64 = 8 << 20;

/// From so many requests in one group on, more are on their way while it is written: the next
/// group gathers somewhat more, since a sync costs the same for all of them. It does so since the
/// group before it began; a slow disk gives it that time anyway.
const CROWD: usize = 8;
const CROWD_GATHERS: Duration = Duration::from_micros(250);

/// What a request costs beside its bytes, so that the bound also bounds their number.
pub(crate) const REQUEST_BYTES: u64 = 256;

/// The group that was taken last.
pub(crate) struct Before {
    pub requests: usize,
    pub began: Instant,
}

pub(crate) struct Request {
    pub batch: Batch,
    pub done: oneshot::Sender<Result<Position>>,
    /// The request's bytes of the queue's bound; given back when the request is dropped.
    pub room: OwnedSemaphorePermit,
}

/// Bounded by the permits its requests hold.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    /// The writer waits for so many; waking it costs a system call, and it looks by itself when
    /// it is at work.
    wanted: usize,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, request: Request) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(Error::Closed);
        }
        waiting.requests.push_back(request);
        let enough = (1..=waiting.requests.len()).contains(&waiting.wanted);
        if enough {
            waiting.wanted = 0;
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

    /// Refuses what still waits, and all that comes.
    pub(crate) fn abandon(&self) {
        self.close();
        lock(&self.waiting).requests.clear();
    }

    /// Waits for requests and takes as many as fit into `room_bytes`, but at least one. Nothing
    /// when the queue is closed and empty.
    pub(crate) fn take(&self, room_bytes: u64, before: Option<&Before>, taken: &mut Vec<Request>) {
        let wanting = |count: usize| {
            move |one: &mut Waiting| {
                let few = one.requests.len() < count && !one.closed;
                one.wanted = if few { count } else { 0 };
                few
            }
        };
        let mut waiting = lock(&self.waiting);
        if let Some(Before { requests, began }) = before.filter(|one| one.requests >= CROWD) {
            let left = CROWD_GATHERS.saturating_sub(began.elapsed());
            let enough = wanting(requests + requests / 4);
            let gathered = self.arrived.wait_timeout_while(waiting, left, enough);
            waiting = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
        let waiting = self.arrived.wait_while(waiting, wanting(1));
        let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
        let mut bytes = 0;
        let bytes_max = room_bytes.min(GROUP_BYTES_MAX);
        while let Some(request) = waiting.requests.pop_front_if(|request| {
            bytes += request.batch.bytes() as u64;
            taken.is_empty() || bytes <= bytes_max
        }) {
            taken.push(request);
        }
    }
}
