//! Readers: messages in the order of their sequences, and what must have come before them.
//!
//! A reader pulls from a consumer that the servers forget when it is gone: the position is ours, nothing
//! is acknowledged. Whatever happens to the consumer, the reader makes another one at the sequence it
//! needs next. A sequence that the stream does not have is an error, and stays one.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::consumer::pull::{Batch as Pull, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::jetstream::{ErrorCode, Message};
use futures_util::StreamExt as _;
use futures_util::future::poll_immediate;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::files::format::FRAME_BYTES;
use crate::jetstream::gaps::Gaps;
use crate::jetstream::journal::{LOST_ASKED, LOST_PAUSE, Log, Shared};
use crate::jetstream::message::{RAW_BYTES_MAX, Sequence, Unpacked};
use crate::{Error, Position, Records, Result};

/// One pull, whose messages wait in memory, is bounded by this many messages and by the bytes of the
/// largest message and [`PULL_BYTES`].
const PULL_MESSAGES_MAX: usize = 256;
const PULL_BYTES: usize = 4 << 20;
const PULL_WAIT: Duration = Duration::from_secs(3);
/// A consumer without an answer after this time is given up.
const PULL_ANSWER_WAIT: Duration = Duration::from_secs(4);
/// The servers delete a consumer that nobody asks for this time.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Reader {
    shared: Arc<Shared>,
    log: watch::Receiver<Log>,
    next: Position,
    consumer: Option<Consumer<Config>>,
    /// Kept when the caller stops waiting: it goes on with the same pull.
    pull: Option<Pull>,
    current: Option<Current>,
    gaps: Gaps,
    /// Whether the last read from the servers failed.
    failing: bool,
    /// Memory of earlier records, to be reused.
    buffer: Vec<u8>,
}

/// A message that was not read to its end.
struct Current {
    sequence: Sequence,
    unpacked: Unpacked,
    /// Of the next record.
    index: usize,
    at: usize,
}

enum Accepted {
    /// It is the current message now.
    Current,
    /// It was read before.
    Passed,
    /// It is not the next one.
    Gap,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>, log: watch::Receiver<Log>, next: Position) -> Reader {
        let whole = Sequence::of(next) == Sequence(1);
        Reader {
            shared,
            log,
            next,
            consumer: None,
            pull: None,
            current: None,
            gaps: Gaps::new(whole),
            failing: false,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.next
    }

    pub(crate) fn end(&self) -> Position {
        self.log.borrow().end()
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.shared.waiting(self.next)
    }

    pub(crate) async fn next_batch(
        &mut self,
        records_max: usize,
        bytes_max: usize,
    ) -> Result<Records> {
        let mut records = Records { bytes: std::mem::take(&mut self.buffer), index: Vec::new() };
        records.bytes.clear();
        loop {
            if self.fill(&mut records, records_max.max(1), bytes_max) {
                return Ok(records);
            }
            if records.index.is_empty() {
                self.receive_or_close().await?;
                continue;
            }
            // Messages that have arrived already share the batch. Anything else is for the next call,
            // which gets the same error again.
            let arrived = match &mut self.pull {
                Some(pull) => poll_immediate(pull.next()).await,
                None => None,
            };
            match arrived {
                Some(Some(Ok(message))) => match self.accept(&message) {
                    Ok(Accepted::Current) => {}
                    Ok(Accepted::Passed | Accepted::Gap) | Err(_) => return Ok(records),
                },
                Some(Some(Err(error))) => {
                    self.fail(&error.to_string());
                    return Ok(records);
                }
                // The pull is over, or nothing has arrived.
                Some(None) => {
                    self.pull = None;
                    return Ok(records);
                }
                None => return Ok(records),
            }
        }
    }

    pub(crate) fn reuse(&mut self, records: Records) {
        if self.next < self.end() {
            self.buffer = records.bytes;
        }
    }

    /// Moves records of the current message to `records`; true if no more fit.
    fn fill(&mut self, records: &mut Records, records_max: usize, bytes_max: usize) -> bool {
        let Some(current) = &mut self.current else { return false };
        let (count, sequence) = (current.unpacked.records, current.sequence);
        while current.index < count {
            let record = current.unpacked.record(current.at).expect("it was checked");
            let position = sequence.position(current.index, count);
            if position >= self.next {
                let bytes = records.bytes.len() + record.len();
                let some = !records.index.is_empty();
                if records.index.len() == records_max || (some && bytes > bytes_max) {
                    return true;
                }
                let start = records.bytes.len();
                records.bytes.extend_from_slice(record);
                records.index.push((position, start..records.bytes.len()));
                self.next = position.next();
            }
            current.at += FRAME_BYTES + record.len();
            current.index += 1;
        }
        self.current = None;
        self.next = self.next.max(sequence.next().start());
        false
    }

    /// Receives the next message. Ends when the journal is closed and everything was read.
    async fn receive_or_close(&mut self) -> Result<()> {
        let (next, mut log) = (self.next, self.log.clone());
        let closed = async move {
            // Fails only when the journal is gone.
            let _ = log.wait_for(|log| log.closed && log.end() <= next).await;
        };
        tokio::select! {
            biased;
            received = self.receive() => received,
            () = closed => Err(Error::Closed),
        }
    }

    /// Receives the next message into `current`. Cancel-safe: what it waits for is kept.
    async fn receive(&mut self) -> Result<()> {
        loop {
            self.shared.check()?;
            let wanted = Sequence::of(self.next);
            let Some(message) = self.pull(wanted).await else { continue };
            match self.accept(&message)? {
                Accepted::Current => return Ok(()),
                Accepted::Passed => {}
                Accepted::Gap => self.check_present(wanted).await?,
            }
        }
    }

    /// Makes the message the current one, if it is the next.
    fn accept(&mut self, message: &Message) -> Result<Accepted> {
        let wanted = Sequence::of(self.next);
        let found = match message.info() {
            Ok(info) => info.stream_sequence,
            Err(error) => {
                tracing::warn!(%error, "a message of the journal has no sequence");
                self.give_up_consumer();
                return Ok(Accepted::Passed);
            }
        };
        self.shared.extend(found);
        if found < wanted.0 {
            return Ok(Accepted::Passed);
        }
        if found > wanted.0 {
            // Lost on the way to us, or from the stream.
            self.give_up_consumer();
            return Ok(Accepted::Gap);
        }
        let unpacked = Unpacked::new(&message.payload, RAW_BYTES_MAX)
            .and_then(|unpacked| self.gaps.check(unpacked.origin).map(|()| unpacked));
        let unpacked = unpacked.map_err(|why| {
            self.give_up_consumer();
            self.shared.report_lost(format!("message {found}: {why}"))
        })?;
        self.shared.saw(unpacked.records);
        self.current = Some(Current { sequence: wanted, unpacked, index: 0, at: 0 });
        Ok(Accepted::Current)
    }

    /// The next message of the pull; none if there has to be another pull or consumer.
    async fn pull(&mut self, wanted: Sequence) -> Option<Message> {
        let Some(pull) = &mut self.pull else {
            if let Err(why) = self.begin(wanted).await {
                self.fail(&why);
                sleep(RETRY_PAUSE).await;
            }
            return None;
        };
        match timeout(PULL_ANSWER_WAIT, pull.next()).await {
            Ok(Some(Ok(message))) => {
                self.recover();
                Some(message)
            }
            // The pull is over.
            Ok(None) => {
                self.recover();
                self.pull = None;
                None
            }
            Ok(Some(Err(error))) => {
                self.fail(&error.to_string());
                sleep(RETRY_PAUSE).await;
                None
            }
            Err(_) => {
                self.fail("no answer from the consumer");
                None
            }
        }
    }

    /// Gives up the consumer. Warns of the first failure only, since reads are repeated.
    fn fail(&mut self, why: &str) {
        self.give_up_consumer();
        if !self.failing {
            tracing::warn!(why, "cannot read the journal's stream, retrying");
        }
        self.failing = true;
    }

    fn recover(&mut self) {
        if std::mem::take(&mut self.failing) {
            tracing::info!("the journal's stream is read again");
        }
    }

    fn give_up_consumer(&mut self) {
        self.consumer = None;
        self.pull = None;
    }

    async fn begin(&mut self, wanted: Sequence) -> Result<(), String> {
        if self.consumer.is_none() {
            let config = Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: wanted.0 },
                ack_policy: AckPolicy::None,
                inactive_threshold: CONSUMER_IDLE_MAX,
                memory_storage: true,
                num_replicas: 1,
                ..Config::default()
            };
            let created = self.shared.stream.create_consumer(config).await;
            self.consumer = Some(created.map_err(|error| error.to_string())?);
        }
        let consumer = self.consumer.as_ref().expect("it was made above");
        let pull = consumer
            .batch()
            .max_messages(PULL_MESSAGES_MAX)
            .max_bytes(self.shared.max_payload + PULL_BYTES)
            .expires(PULL_WAIT)
            .messages()
            .await;
        self.pull = Some(pull.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Fails if the stream does not have the message and it was not released.
    async fn check_present(&self, wanted: Sequence) -> Result<()> {
        let shared = &self.shared;
        for _ in 0..LOST_ASKED {
            match shared.stream.get_raw_message(wanted.0).await {
                Ok(_) => return Ok(()),
                Err(error) if is_missing(&error.kind()) => sleep(LOST_PAUSE).await,
                Err(error) => {
                    tracing::debug!(%error, "cannot look for a message of the journal, retrying");
                    sleep(RETRY_PAUSE).await;
                    return Ok(());
                }
            }
        }
        shared.refresh().await?;
        let log = *self.log.borrow();
        if self.next < log.oldest() {
            let (oldest, next) = (log.oldest(), log.end());
            return Err(Error::OutOfRange { asked: self.next, oldest, next });
        }
        Err(shared.report_lost(format!("message {} is missing", wanted.0)))
    }
}

fn is_missing(kind: &LastRawMessageErrorKind) -> bool {
    match kind {
        LastRawMessageErrorKind::NoMessageFound => true,
        LastRawMessageErrorKind::JetStream(error) => {
            error.error_code() == ErrorCode::NO_MESSAGE_FOUND
        }
        _ => false,
    }
}
