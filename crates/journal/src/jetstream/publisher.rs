//! The task that packs waiting requests into messages and publishes them.
//!
//! While [`IN_FLIGHT_MAX`] messages are on their way, requests gather and share the next one. A message
//! is repeated under the same id until it is acknowledged or [`PUBLISH_WAIT_MAX`] is over: the servers
//! drop a message whose id they have seen. A request that is larger than a message is published message
//! by message, so that none of it overtakes what came before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

use crate::jetstream::journal::Shared;
use crate::jetstream::message::{Origin, Sequence, pack, split};
use crate::jetstream::queue::{MESSAGE_BYTES_MAX, Request};
use crate::{Error, FullCause, Result, lock};

/// Messages that are published and not acknowledged yet.
const IN_FLIGHT_MAX: usize = 16;
/// The counters of messages in flight differ by less: a message waits while one that is so much older
/// is not acknowledged. A reader that begins in the middle of a series relies on it.
pub(crate) const WINDOW: u64 = 4096;
/// After this time in the queue and on the way a message is given up, and its requests get 503.
const PUBLISH_WAIT_MAX: Duration = Duration::from_secs(10);
/// After this time without an acknowledgement a message is repeated.
const ATTEMPT_WAIT: Duration = Duration::from_secs(3);
const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
const RETRY_PAUSE_MAX: Duration = Duration::from_millis(500);
const MESSAGE_ID: &str = "Nats-Msg-Id";

/// Counts the messages of this process.
pub(crate) struct Series {
    id: u64,
    next: u64,
    unsettled: BTreeSet<u64>,
}

impl Series {
    pub(crate) fn new() -> Series {
        Series { id: rand::random(), next: 0, unsettled: BTreeSet::new() }
    }

    /// None while the window is full.
    pub(crate) fn begin(&mut self) -> Option<Origin> {
        let counter = self.next;
        let settled = self.unsettled.first().copied().unwrap_or(counter);
        if counter - settled >= WINDOW {
            return None;
        }
        self.next += 1;
        self.unsettled.insert(counter);
        Some(Origin { series: self.id, counter, settled })
    }

    pub(crate) fn acknowledge(&mut self, origin: Origin) {
        if origin.series == self.id {
            self.unsettled.remove(&origin.counter);
        }
    }

    /// Nobody knows whether the stream has the message, so that its series can claim nothing more.
    fn give_up(&mut self, origin: Origin) {
        if origin.series == self.id {
            *self = Series::new();
        }
    }
}

/// Of a request, however many messages it takes.
#[derive(Clone, Copy)]
struct Deadline {
    since: Instant,
    at: Instant,
}

impl Deadline {
    /// One attempt at least, however long the request has waited.
    fn new(since: Instant) -> Deadline {
        Deadline { since, at: (since + PUBLISH_WAIT_MAX).max(Instant::now() + ATTEMPT_WAIT) }
    }

    fn over(self, why: String) -> Error {
        Error::Away { waited: self.since.elapsed(), why }
    }
}

/// Runs until the queue is closed and empty.
pub(crate) async fn run(shared: Arc<Shared>) {
    let slots = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
    loop {
        let slot = slots.clone().acquire_owned().await.expect("it is never closed");
        let group = shared.queue.take().await;
        if group.is_empty() {
            break;
        }
        let group = refuse_expired(group);
        if !group.is_empty() {
            tokio::spawn(publish_group(shared.clone(), slot, group));
        }
    }
    // Those in flight: `slot` was given back.
    let _all = slots.acquire_many(IN_FLIGHT_MAX as u32).await;
    shared.owner.give_up().await;
    shared.log.send_modify(|log| log.closed = true);
}

/// Answers the requests that have waited too long: they would wait as long again for the servers.
fn refuse_expired(group: Vec<Request>) -> Vec<Request> {
    let is_expired = |request: &Request| request.since.elapsed() >= PUBLISH_WAIT_MAX;
    let (expired, group) = group.into_iter().partition::<Vec<_>, _>(is_expired);
    for Request { batch, done, permit, since } in expired {
        drop((batch, permit));
        let why = "earlier messages were not acknowledged".to_owned();
        let _ = done.send(Err(Error::Away { waited: since.elapsed(), why }));
    }
    group
}

async fn publish_group(shared: Arc<Shared>, slot: OwnedSemaphorePermit, group: Vec<Request>) {
    let published = match group.as_slice() {
        [one] if one.batch.bytes() > MESSAGE_BYTES_MAX => shared.publish_large(one).await,
        _ => shared.publish_shared(&group).await,
    };
    drop(slot);
    shared.note(published.as_ref().err());
    shared.counters.grouped(published.is_ok());
    let (sequence, records) = match published {
        Ok(published) => published,
        Err(error) => {
            for Request { batch, done, permit, .. } in group {
                drop((batch, permit));
                let _ = done.send(Err(error.clone()));
            }
            return;
        }
    };
    let mut index = 0;
    for Request { batch, done, permit, .. } in group {
        // Of a large request only the last message counts.
        index = (index + batch.len()).min(records);
        // Release the capacity first: a notified caller may append again at once.
        drop((batch, permit));
        let _ = done.send(Ok(sequence.position(index - 1, records)));
    }
}

impl Shared {
    /// Publishes requests as one message; returns its sequence and number of records.
    async fn publish_shared(&self, group: &[Request]) -> Result<(Sequence, usize)> {
        let frames: Vec<&[u8]> = group.iter().map(|request| request.batch.frames()).collect();
        let records = group.iter().map(|request| request.batch.len()).sum();
        let deadline = Deadline::new(group[0].since);
        self.publish(&frames, records, deadline).await.map(|sequence| (sequence, records))
    }

    /// Publishes a request as several messages; returns those of the last one.
    async fn publish_large(&self, request: &Request) -> Result<(Sequence, usize)> {
        let (mut last, deadline) = (None, Deadline::new(request.since));
        for (frames, records) in split(request.batch.frames(), MESSAGE_BYTES_MAX) {
            last = Some((self.publish(&[frames], records, deadline).await?, records));
        }
        Ok(last.expect("a large request has records"))
    }

    async fn publish(
        &self,
        frames: &[&[u8]],
        records: usize,
        deadline: Deadline,
    ) -> Result<Sequence> {
        let origin = self.begin(deadline).await?;
        let bytes: usize = frames.iter().map(|frames| frames.len()).sum();
        let message = pack(frames, records, origin);
        let (began, before) = (Instant::now(), self.log.borrow().last);
        let message_bytes = message.len() as u64;
        let id = format!("{:016x}-{}", origin.series, origin.counter);
        let sequence = match self.publish_until_acknowledged(&id, message, deadline).await {
            Ok(sequence) => sequence,
            Err(error) => {
                self.give_up(origin);
                return Err(error);
            }
        };
        if sequence <= before {
            // The end of the stream was lost, and this message got the sequence of another. Stores
            // may have applied that position: acknowledging it would lose this one in silence.
            self.give_up(origin);
            return Err(self.report_lost(format!(
                "message {before} was acknowledged, and a later one is at {sequence}"
            )));
        }
        lock(&self.series).acknowledge(origin);
        self.settled.notify_waiters();
        self.counters.synced(began.elapsed());
        self.counters.records.fetch_add(records as u64, Relaxed);
        self.counters.record_bytes.fetch_add(bytes as u64, Relaxed);
        self.disk_bytes.fetch_add(message_bytes, Relaxed);
        self.saw(records);
        self.extend(sequence);
        Ok(Sequence(sequence))
    }

    /// Counts a message, once the window has space for it.
    async fn begin(&self, deadline: Deadline) -> Result<Origin> {
        loop {
            let settled = self.settled.notified();
            if Instant::now() >= deadline.at {
                return Err(deadline.over("earlier messages were not acknowledged".to_owned()));
            }
            if let Some(origin) = lock(&self.series).begin() {
                return Ok(origin);
            }
            let _ = timeout_at(deadline.at, settled).await;
        }
    }

    fn give_up(&self, origin: Origin) {
        lock(&self.series).give_up(origin);
        self.settled.notify_waiters();
    }

    async fn publish_until_acknowledged(
        &self,
        id: &str,
        message: Bytes,
        deadline: Deadline,
    ) -> Result<u64> {
        let mut pause = RETRY_PAUSE_MIN;
        loop {
            self.check()?;
            let why = if self.client.connection_state() == State::Connected {
                let attempt = self.attempt(id, message.clone());
                match timeout_at(deadline.at.min(Instant::now() + ATTEMPT_WAIT), attempt).await {
                    Ok(Ok(sequence)) => return Ok(sequence),
                    Ok(Err(error)) => match refusal(&error) {
                        Some(refusal) => return Err(refusal),
                        None => error.to_string(),
                    },
                    Err(_) => "no acknowledgement".to_owned(),
                }
            } else {
                "no connection".to_owned()
            };
            if Instant::now() + pause >= deadline.at {
                return Err(deadline.over(why));
            }
            tracing::debug!(why, "a message of the journal is repeated");
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_PAUSE_MAX);
        }
    }

    async fn attempt(&self, id: &str, message: Bytes) -> Result<u64, PublishError> {
        let mut headers = HeaderMap::new();
        headers.insert(MESSAGE_ID, id);
        let subject = self.names.subject.clone();
        let ack = self.context.publish_with_headers(subject, headers, message).await?.await?;
        Ok(ack.sequence)
    }
}

/// What no repetition changes.
fn refusal(error: &PublishError) -> Option<Error> {
    use std::error::Error as _;
    if error.kind() == PublishErrorKind::MaxPayloadExceeded {
        return Some(Error::Unsuitable(
            "a NATS server accepts smaller messages than another: set the same `max_payload` in \
             the configuration of every server"
                .to_owned(),
        ));
    }
    let cause = error.source()?.downcast_ref::<async_nats::jetstream::Error>()?;
    match cause.error_code() {
        // Of several causes; this one only says so in its text.
        ErrorCode::STREAM_STORE_FAILED if cause.to_string().contains("maximum bytes") => {
            Some(Error::Full(FullCause::Limit))
        }
        ErrorCode::INSUFFICIENT_RESOURCES | ErrorCode::STORAGE_RESOURCES_EXCEEDED => {
            Some(Error::Full(FullCause::Disk))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_says_up_to_where_those_before_it_were_acknowledged() {
        let mut series = Series::new();
        let [a, b, c] = [(); 3].map(|()| series.begin().unwrap());
        assert_eq!([a, b, c].map(|one| (one.counter, one.settled)), [(0, 0), (1, 0), (2, 0)]);
        series.acknowledge(b);
        assert_eq!(series.begin().unwrap().settled, 0);
        series.acknowledge(a);
        assert_eq!(series.begin().unwrap().settled, 2);
        series.give_up(c);
        let first = series.begin().unwrap();
        assert_eq!((first.counter, first.settled), (0, 0));
        assert_ne!(first.series, a.series);
        // Of the series before.
        series.acknowledge(Origin { series: a.series, ..first });
        assert_eq!(series.begin().unwrap().settled, 0);
    }
}
