//! The queue of appends between callers and the publisher.

use std::collections::VecDeque;
use std::sync::Mutex;

use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use crate::{Batch, Error, Position, Result, lock};

/// Bytes of frames that share a message. Larger messages are not published faster, see
/// docs/adr/0014.
pub(crate) const MESSAGE_BYTES_MAX: usize = 256 << 10;

pub(crate) struct Request {
    pub batch: Batch,
    pub done: oneshot::Sender<Result<Position>>,
    /// The request's share of the queue's capacity, released on drop.
    pub permit: OwnedSemaphorePermit,
    pub since: Instant,
}

/// Bounded by the permits that its requests hold.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    closed: bool,
}

impl Queue {
    pub(crate) fn push(&self, request: Request) -> Result<()> {
        let mut waiting = lock(&self.waiting);
        if waiting.closed {
            return Err(Error::Closed);
        }
        waiting.requests.push_back(request);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    pub(crate) fn close(&self) {
        lock(&self.waiting).closed = true;
        self.arrived.notify_one();
    }

    /// Waits for requests and takes as many as fit into one message, or one that is larger. Takes none
    /// when the queue is closed and empty.
    pub(crate) async fn take(&self) -> Vec<Request> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut waiting = lock(&self.waiting);
                let mut bytes = 0;
                let mut taken = Vec::new();
                while let Some(request) = waiting.requests.pop_front_if(|request| {
                    bytes += request.batch.bytes();
                    taken.is_empty() || bytes <= MESSAGE_BYTES_MAX
                }) {
                    taken.push(request);
                }
                if !taken.is_empty() || waiting.closed {
                    return taken;
                }
            }
            arrived.await;
        }
    }
}
