use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_nats::Client;
use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Info, Stream};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::capacity::Capacity;
use crate::counters::Counters;
use crate::jetstream::message::{Sequence, record_bytes_max};
use crate::jetstream::owner::{self, Owner};
use crate::jetstream::publisher::{self, Series};
use crate::jetstream::queue::{Queue, Request};
use crate::jetstream::reader::Reader;
use crate::jetstream::requirements;
use crate::jetstream::stream::{self, Names, away};
use crate::jetstream::{Address, Durability};
use crate::{
    Batch, BufferPool, Error, FullCause, JournalId, Position, Result, Settings, Stats, lock,
};

/// How long a start waits for servers that are away.
const OPEN_WAIT: Duration = Duration::from_secs(10);
const OPEN_RETRY: Duration = Duration::from_millis(500);
const CONNECT_WAIT: Duration = Duration::from_secs(3);
/// Of each request to the servers' API.
const REQUEST_WAIT: Duration = Duration::from_secs(5);
/// The server pings too, but notices a frozen one only after minutes.
const PING_INTERVAL: Duration = Duration::from_secs(5);
const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A leader that was just elected may not show yet what its predecessor acknowledged: messages count as
/// lost when they are missing this often. A loss stands until the server restarts.
pub(crate) const LOST_ASKED: u32 = 8;
pub(crate) const LOST_PAUSE: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Journal {
    handle: Arc<Handle>,
}

/// Dropping it ends the publisher; readers do not keep it alive.
struct Handle {
    shared: Arc<Shared>,
    log: watch::Receiver<Log>,
}

/// What the stream holds, as far as this process knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Log {
    /// The first message that was not released.
    pub first: u64,
    /// The last message; 0 if there never was one.
    pub last: u64,
    pub closed: bool,
}

impl Log {
    pub(crate) fn oldest(&self) -> Position {
        if self.first <= 1 { Position::START } else { Sequence(self.first).start() }
    }

    pub(crate) fn end(&self) -> Position {
        if self.last == 0 { Position::START } else { Sequence(self.last).next().start() }
    }
}

pub(crate) struct Shared {
    pub id: JournalId,
    pub names: Names,
    pub client: Client,
    pub context: Context,
    pub stream: Stream,
    pub owner: Owner,
    pub log: watch::Sender<Log>,
    pub queue: Queue,
    pub series: Mutex<Series>,
    /// Notified when the series may go on.
    pub settled: Notify,
    pub counters: Counters,
    /// The first loss that was found: appends, reads and releases fail with it from then on. Positions
    /// of other messages may be given again, and what is left is needed to find out what happened.
    loss: OnceLock<Error>,
    /// Records and messages that this process published or read, for their mean.
    pub seen_records: AtomicU64,
    pub seen_messages: AtomicU64,
    pub disk_bytes: AtomicU64,
    pub max_payload: usize,
    /// Why the last append or probe failed; none if it succeeded.
    pub refusal: Mutex<Option<Error>>,
    pub capacity: Capacity,
    buffers: BufferPool,
    bytes_max: u64,
    record_bytes_max: u64,
}

impl Journal {
    pub(crate) async fn open(address: Address, settings: Settings) -> Result<Journal> {
        settings.check()?;
        let began = Instant::now();
        loop {
            match Journal::try_open(&address, &settings).await {
                Err(Error::Away { why, .. }) if began.elapsed() < OPEN_WAIT => {
                    tracing::warn!(why, "the servers of the journal are away, retrying");
                    sleep(OPEN_RETRY).await;
                }
                Err(Error::Away { why, .. }) => {
                    return Err(Error::Away { waited: began.elapsed(), why });
                }
                opened => return opened,
            }
        }
    }

    async fn try_open(address: &Address, settings: &Settings) -> Result<Journal> {
        let parsed = address.parse()?;
        let names = Names::new(&parsed.name, address.lane);
        let mut options = address.options()?;
        if let Some((user, password)) = parsed.user {
            options = options.user_and_password(user, password);
        }
        let client = options
            .name("hedgerow")
            .connection_timeout(CONNECT_WAIT)
            .request_timeout(Some(REQUEST_WAIT))
            .ping_interval(PING_INTERVAL)
            .reconnect_delay_callback(|attempts| {
                let pause = Duration::from_millis(50 * (attempts as u64).min(100));
                pause.min(RECONNECT_PAUSE_MAX)
            })
            .connect(parsed.servers)
            .await
            .map_err(|error| away(&error))?;
        let max_payload = client.server_info().max_payload;
        requirements::check_payload(max_payload)?;
        let mut context = async_nats::jetstream::new(client.clone());
        context.set_timeout(REQUEST_WAIT);

        let (stream, id) =
            stream::open(&context, &names, address.replicas, settings.disk_bytes_max).await?;
        if address.durability == Durability::Fsync {
            let mut peers = stream::peers(stream.cached_info());
            if peers.is_empty() {
                peers.push(client.server_info().server_name);
            }
            let monitor_urls = address.monitor_urls.clone();
            crate::blocking(move || requirements::check_synced(&monitor_urls, &peers)).await?;
        }
        let owners = stream::open_owners(&context, &names, &parsed.name, address.replicas).await?;
        let owner = Owner::acquire(&context, owners, &names, address.owner).await?;
        // Only now, since the owner before may have appended meanwhile.
        let info = stream.get_info().await.map_err(|error| away(&error))?;

        let (log, receiver) = watch::channel(Log { first: 0, last: 0, closed: false });
        let shared = Arc::new(Shared {
            id,
            names,
            client,
            context,
            stream,
            owner,
            log,
            queue: Queue::default(),
            series: Mutex::new(Series::new()),
            settled: Notify::new(),
            counters: Counters::default(),
            loss: OnceLock::new(),
            seen_records: AtomicU64::new(0),
            seen_messages: AtomicU64::new(0),
            disk_bytes: AtomicU64::new(0),
            max_payload,
            refusal: Mutex::default(),
            capacity: Capacity::new(settings),
            buffers: BufferPool::new(settings.purge),
            bytes_max: settings.disk_bytes_max,
            record_bytes_max: settings.record_bytes_max.min(record_bytes_max(max_payload) as u64),
        });
        shared.learn(&info);
        tokio::spawn(publisher::run(shared.clone()));
        tokio::spawn(renew(shared.clone(), receiver.clone()));
        Ok(Journal { handle: Arc::new(Handle { shared, log: receiver }) })
    }

    pub(crate) fn id(&self) -> JournalId {
        self.handle.shared.id
    }

    pub(crate) fn buffers(&self) -> &BufferPool {
        &self.handle.shared.buffers
    }

    pub(crate) async fn append(&self, batch: Batch) -> Result<Position> {
        let shared = &self.handle.shared;
        let (bytes, bytes_max) = (batch.largest() as u64, shared.record_bytes_max);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        if batch.is_empty() {
            return Ok(Position::from_u64(self.next_position().as_u64() - 1));
        }
        let permit = shared.capacity.acquire(batch.bytes() as u64).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch, done, permit, since: Instant::now() })?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn refusal(&self) -> Option<Error> {
        lock(&self.handle.shared.refusal).clone()
    }

    pub(crate) async fn probe(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let probed = shared.probe().await;
        shared.note(probed.as_ref().err());
        probed
    }

    pub(crate) fn next_position(&self) -> Position {
        self.handle.log.borrow().end()
    }

    pub(crate) fn reader(&self, from: Position) -> Result<Reader> {
        let asked = from.max(Position::START);
        let log = *self.handle.log.borrow();
        let (oldest, next) = (log.oldest(), log.end());
        if asked < oldest || asked > next {
            return Err(Error::OutOfRange { asked, oldest, next });
        }
        Ok(Reader::new(self.handle.shared.clone(), self.handle.log.clone(), asked))
    }

    pub(crate) fn waiting(&self, from: Position) -> u64 {
        self.handle.shared.waiting(from)
    }

    pub(crate) async fn release(&self, before: Position) -> Result<()> {
        let shared = &self.handle.shared;
        shared.check()?;
        let log = *self.handle.log.borrow();
        let before = Sequence::of(before.min(log.end())).0;
        if before > log.first.max(1) {
            // Another owner may need what this one has applied.
            shared.owner.renew().await?;
            let purge = shared.stream.purge().sequence(before).into_future();
            purge.await.map_err(|error| away(&error))?;
        }
        shared.refresh().await.map(drop)
    }

    pub(crate) fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let log = *self.handle.log.borrow();
        Stats {
            oldest: log.oldest(),
            next: log.end(),
            disk_bytes: shared.disk_bytes.load(Relaxed),
            queue_bytes: shared.capacity.used_bytes(),
            lost_messages: u64::from(shared.loss.get().is_some()),
            ..shared.counters.stats()
        }
    }

    pub(crate) async fn close(&self) {
        self.handle.shared.queue.close();
        let mut log = self.handle.log.clone();
        // Fails only when the publisher is gone.
        let _ = log.wait_for(|log| log.closed).await;
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl Shared {
    /// Takes over what the servers say about the stream.
    pub(crate) fn learn(&self, info: &Info) {
        self.disk_bytes.store(info.state.bytes, Relaxed);
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        self.log.send_if_modified(|log| {
            let before = *log;
            log.first = log.first.max(first);
            log.last = log.last.max(last);
            before != *log
        });
    }

    /// A message exists.
    pub(crate) fn extend(&self, last: u64) {
        self.log.send_if_modified(|log| {
            let longer = last > log.last;
            log.last = log.last.max(last);
            longer
        });
    }

    pub(crate) fn saw(&self, records: usize) {
        self.seen_records.fetch_add(records as u64, Relaxed);
        self.seen_messages.fetch_add(1, Relaxed);
    }

    pub(crate) fn waiting(&self, from: Position) -> u64 {
        let log = *self.log.borrow();
        let from = from.max(log.oldest());
        if from >= log.end() {
            return 0;
        }
        let sequence = Sequence::of(from);
        let (rest, next) = match sequence.rest(from) {
            Some(rest) => (rest, sequence.next()),
            None => (0, sequence),
        };
        let messages = (log.last + 1).saturating_sub(next.0);
        let (records, seen) = (self.seen_records.load(Relaxed), self.seen_messages.load(Relaxed));
        rest + (messages * records.max(1)).div_ceil(seen.max(1)).max(messages)
    }

    /// What the servers say about the stream now.
    pub(crate) async fn refresh(&self) -> Result<Info> {
        let mut asked = 0;
        loop {
            let last = self.log.borrow().last;
            let info = self.info().await?;
            if info.state.last_sequence >= last {
                self.learn(&info);
                return Ok(info);
            }
            asked += 1;
            if asked == LOST_ASKED {
                return Err(self.report_lost(format!(
                    "the servers have messages up to {}, but acknowledged {last}",
                    info.state.last_sequence
                )));
            }
            sleep(LOST_PAUSE).await;
        }
    }

    async fn info(&self) -> Result<Info> {
        let began = Instant::now();
        let why = match timeout(REQUEST_WAIT, self.stream.get_info()).await {
            Ok(Ok(info)) => return Ok(info),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no answer about the stream".to_owned(),
        };
        Err(Error::Away { waited: began.elapsed(), why })
    }

    async fn probe(&self) -> Result<()> {
        self.check()?;
        // A leader without a quorum still answers questions; only a write shows that it has one.
        self.owner.renew().await?;
        let info = self.refresh().await?;
        // A message needs space beside those that are there.
        let fits = info.state.bytes + (self.max_payload as u64).min(self.bytes_max / 8);
        if fits > self.bytes_max { Err(Error::Full(FullCause::Limit)) } else { Ok(()) }
    }

    /// Notes how an append or a probe ended; logs when they begin to fail, and when they succeed again.
    pub(crate) fn note(&self, error: Option<&Error>) {
        let before = std::mem::replace(&mut *lock(&self.refusal), error.cloned());
        match (before, error) {
            (None, Some(error)) => tracing::warn!(%error, "journal refuses appends"),
            (Some(_), None) => tracing::info!("journal accepts appends again"),
            _ => {}
        }
    }

    /// Fails once another owner has taken over, or messages were lost.
    pub(crate) fn check(&self) -> Result<()> {
        self.owner.check()?;
        self.loss.get().map_or(Ok(()), |loss| Err(loss.clone()))
    }

    /// Records and logs a loss, unless there was one before; returns the first.
    pub(crate) fn report_lost(&self, what: String) -> Error {
        let first = self.loss.get_or_init(|| {
            let error = crate::jetstream::message::lost(&self.names.stream, what);
            tracing::error!(%error, "the journal lost acknowledged messages");
            error
        });
        first.clone()
    }
}

/// Renews the ownership until the journal is closed.
async fn renew(shared: Arc<Shared>, mut log: watch::Receiver<Log>) {
    loop {
        tokio::select! {
            _ = log.wait_for(|log| log.closed) => return,
            () = sleep(owner::RENEW_INTERVAL) => {}
        }
        match shared.owner.renew().await {
            Ok(()) => {}
            Err(error @ Error::Owned(_)) => {
                shared.note(Some(&error));
                return;
            }
            Err(error) => tracing::warn!(%error, "could not renew the ownership of the journal"),
        }
    }
}
