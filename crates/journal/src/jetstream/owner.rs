//! One server at a time uses a journal: two would release each other's events.
//!
//! The owner's record is the last message of a subject, replaced only with the sequence of the one
//! before (compare and set), renewed every two seconds. A newcomer that finds the record of another
//! owner watches it: if it is renewed, the newcomer is refused; if it stays the same for the lease, the
//! newcomer takes over. No clocks are compared. A server that restarts takes its own record at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::Context;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::jetstream::stream::{Names, away};
use crate::{Error, Result, lock};

pub(crate) const RENEW_INTERVAL: Duration = Duration::from_secs(2);
/// Longer than a lost leader keeps the owner from renewing (8.5 s were measured).
pub(crate) const LEASE: Duration = Duration::from_secs(12);
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
const REQUEST_WAIT: Duration = Duration::from_secs(3);
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    owner: String,
    /// Of this process.
    boot: String,
    /// False once the owner has closed the journal.
    held: bool,
}

pub(crate) struct Owner {
    context: Context,
    stream: Stream,
    subject: String,
    record: Record,
    /// Of the record as we wrote it last.
    sequence: tokio::sync::Mutex<u64>,
    lost: AtomicBool,
    why_lost: Mutex<Option<Error>>,
}

impl Owner {
    pub(crate) async fn acquire(
        context: &Context,
        stream: Stream,
        names: &Names,
        owner: u128,
    ) -> Result<Owner> {
        let record = Record {
            owner: format!("{owner:032x}"),
            boot: format!("{:032x}", rand::random::<u128>()),
            held: true,
        };
        let new = Owner {
            context: context.clone(),
            stream,
            subject: names.owner_subject.clone(),
            record,
            sequence: tokio::sync::Mutex::new(0),
            lost: AtomicBool::new(false),
            why_lost: Mutex::default(),
        };
        let mut watched: Option<(u64, Instant)> = None;
        loop {
            let expected = match new.read().await? {
                None => 0,
                Some((at, found)) if !found.held || found.owner == new.record.owner => at,
                Some((at, found)) => match watched {
                    None => {
                        tracing::info!(
                            owner = found.owner,
                            "the journal has another owner; waiting for its lease to end"
                        );
                        watched = Some((at, Instant::now()));
                        0
                    }
                    Some((before, since)) if before == at && since.elapsed() >= LEASE => at,
                    Some((before, _)) if before == at => 0,
                    Some(_) => return Err(new.refusal(&found)),
                },
            };
            let wait = watched.is_some() && expected == 0;
            if !wait && let Some(sequence) = new.replace(&new.record, expected).await? {
                *new.sequence.lock().await = sequence;
                return Ok(new);
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    }

    /// Fails once another owner has taken over.
    pub(crate) fn check(&self) -> Result<()> {
        if !self.lost.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(lock(&self.why_lost).clone().unwrap_or(Error::Closed))
    }

    pub(crate) async fn renew(&self) -> Result<()> {
        self.check()?;
        let mut sequence = self.sequence.lock().await;
        if let Some(renewed) = self.replace(&self.record, *sequence).await? {
            *sequence = renewed;
            return Ok(());
        }
        // Ours, if the acknowledgement of an earlier renewal was lost.
        match self.read().await? {
            Some((at, found)) if found.boot == self.record.boot => {
                *sequence = at;
                Ok(())
            }
            found => {
                let found = found.map_or_else(|| self.record.clone(), |(_, found)| found);
                let error = self.refusal(&found);
                tracing::error!(%error, "this server is no longer the journal's owner");
                *lock(&self.why_lost) = Some(error.clone());
                self.lost.store(true, Ordering::Release);
                Err(error)
            }
        }
    }

    /// Lets another owner take over at once.
    pub(crate) async fn give_up(&self) {
        let sequence = *self.sequence.lock().await;
        let record = Record { held: false, ..self.record.clone() };
        if self.check().is_ok()
            && let Err(error) = self.replace(&record, sequence).await
        {
            tracing::warn!(%error, "could not give up the journal, another owner has to wait");
        }
    }

    async fn read(&self) -> Result<Option<(u64, Record)>> {
        let message = match self.stream.get_last_raw_message_by_subject(&self.subject).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                return Ok(None);
            }
            Err(error) => return Err(away(&error)),
        };
        let record = serde_json::from_slice(&message.payload).map_err(|_| {
            Error::Unsuitable(format!("{} holds what is no owner's record", self.subject))
        })?;
        Ok(Some((message.sequence, record)))
    }

    /// Writes the record if the last one has this sequence. None if it has another.
    async fn replace(&self, record: &Record, expected: u64) -> Result<Option<u64>> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, expected.to_string());
        let payload = serde_json::to_vec(record).expect("strings and a boolean");
        let published = tokio::time::timeout(REQUEST_WAIT, async {
            let subject = self.subject.clone();
            self.context.publish_with_headers(subject, headers, payload.into()).await?.await
        });
        match published.await {
            Ok(Ok(ack)) => Ok(Some(ack.sequence)),
            Ok(Err(error)) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Ok(Err(error)) => Err(away(&error)),
            Err(_) => Err(away(&"the owner's record was not acknowledged")),
        }
    }

    fn refusal(&self, found: &Record) -> Error {
        Error::Owned(format!(
            "the journal of {} is used by another server (owner {}, this one is {}): stop that one, \
             or name another journal at the end of journal_url",
            self.subject, found.owner, self.record.owner
        ))
    }
}
