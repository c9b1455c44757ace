//! The writer of one lane.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arrow::array::UInt64Array;
use model::{Clock, ProjectId, Timestamp};
use warehouse::{DeleteOutcome, DeleteSelection, NewRow, StoreSize, StoredPosition};

use super::block::Block;
use super::deletes::{Mask, delete_before};
use super::lane::Lane;
use super::usage::Usage;
use crate::client::{Client, Deduplication, EncodedRows};
use crate::error::{Error, Result};
use crate::schema::{EVENTS_TABLE, Schema, column};

/// Bounds of what waits in memory. While one block is inserted, another may fill.
#[derive(Clone, Debug)]
pub struct WriterSettings {
    /// Rows of one insert.
    pub rows_max: usize,
    /// Bytes of one insert, before compression.
    pub bytes_max: usize,
    /// How long a row waits for others.
    pub age_max: Duration,
    /// Retention: events older than this are deleted.
    pub events_age_max: Option<Duration>,
}

impl Default for WriterSettings {
    fn default() -> Self {
        let age_max = Duration::from_secs(1);
        Self { rows_max: 50_000, bytes_max: 64 << 20, age_max, events_age_max: None }
    }
}

type Listener = dyn Fn(&[&NewRow<'_>]) + Send + Sync;
type InsertHook = dyn Fn() -> Result<()> + Send + Sync;

/// Cheap to clone; all clones are one writer. All calls block. Appends and one flush may run
/// concurrently on any threads. There must be one writer of a lane at a time: the owner of the journal.
#[derive(Clone)]
pub struct Writer {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Schema,
    lane_no: u16,
    journal: u128,
    /// Set once the lane was opened.
    lane: OnceLock<Lane>,
    settings: WriterSettings,
    clock: Clock,
    listener: OnceLock<Box<Listener>>,
    insert_hook: OnceLock<Box<InsertHook>>,
    durable: AtomicU64,
    size: Mutex<StoreSize>,
    /// Taken before `state`.
    flushing: Mutex<()>,
    state: Mutex<State>,
}

struct State {
    block: Block,
    /// The first position that was not appended.
    appended: u64,
    waiting_since: Option<Timestamp>,
    /// A block whose insert is not known to have succeeded. It stays as it is until it has: its token
    /// must not name other rows.
    sealed: Option<Arc<Sealed>>,
    masks: Vec<Mask>,
    usage: Usage,
    /// Rows were lost before they were sent. Nothing is stored any more: a restart replays them.
    broken: Option<String>,
}

impl State {
    fn check(&self, server: &str) -> Result<()> {
        let Some(why) = &self.broken else { return Ok(()) };
        let why = format!("a block of rows cannot be encoded ({why}); restart to replay them");
        Err(Error::Protocol { server: server.to_owned(), why })
    }
}

struct Sealed {
    rows: Option<(String, EncodedRows)>,
    /// The position that the block reaches.
    reach: u64,
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("lane", &self.inner.lane_no).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Writer {
    /// Opens a lane where it stands. Refuses one that was filled from another journal.
    pub fn open(
        schema: Schema,
        lane: u16,
        journal: u128,
        settings: WriterSettings,
        clock: Clock,
    ) -> Result<Self> {
        let writer = Self::unconnected(schema, lane, journal, settings, clock);
        writer.connect()?;
        Ok(writer)
    }

    /// The writer of a lane whose ClickHouse may be away. Until [`Writer::connect`] has succeeded,
    /// nothing can be written.
    pub fn unconnected(
        schema: Schema,
        lane_no: u16,
        journal: u128,
        settings: WriterSettings,
        clock: Clock,
    ) -> Self {
        let state = State {
            block: Block::new(schema.promoted()),
            appended: 0,
            waiting_since: None,
            sealed: None,
            masks: Vec::new(),
            usage: Usage::default(),
            broken: None,
        };
        let inner = Inner {
            schema,
            lane_no,
            journal,
            lane: OnceLock::new(),
            settings,
            clock,
            listener: OnceLock::new(),
            insert_hook: OnceLock::new(),
            durable: AtomicU64::new(0),
            size: Mutex::default(),
            flushing: Mutex::default(),
            state: Mutex::new(state),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Does for an unconnected writer what [`Writer::open`] does. Only the first call that succeeds
    /// has an effect.
    pub fn connect(&self) -> Result<()> {
        let _one_at_a_time = lock(&self.inner.flushing);
        if self.inner.lane.get().is_some() {
            return Ok(());
        }
        let (lane, position) = Lane::open(self.client(), self.inner.lane_no, self.inner.journal)?;
        let masks = Mask::load(self.client(), lane.lane, position)?;
        self.begin(lane, position, masks);
        Ok(())
    }

    /// Begins a lane anew, from position zero of any journal. Its events stay until others replace
    /// them.
    pub fn begin_anew(
        schema: Schema,
        lane: u16,
        journal: u128,
        settings: WriterSettings,
        clock: Clock,
    ) -> Result<Self> {
        let writer = Self::unconnected(schema, lane, journal, settings, clock);
        let lane = Lane::next_generation(writer.client(), lane, journal)?;
        writer.begin(lane, 0, Vec::new());
        Ok(writer)
    }

    fn begin(&self, lane: Lane, position: u64, masks: Vec<Mask>) {
        let mut state = lock(&self.inner.state);
        state.block = Block::new(self.inner.schema.promoted());
        state.appended = position;
        state.masks = masks;
        self.inner.durable.store(position, Ordering::Release);
        // Cannot be set: callers hold the lock, or nobody else has the writer.
        let _ = self.inner.lane.set(lane);
    }

    fn lane(&self) -> Result<&Lane> {
        self.inner.lane.get().ok_or_else(|| self.client().not_connected())
    }

    /// How far a lane has been stored, as ClickHouse knows it; none if it was never opened.
    pub fn stored_position(schema: &Schema, lane: u16) -> Result<Option<StoredPosition>> {
        super::lane::stored_position(schema.client(), lane)
    }

    /// Registers what runs before a block of rows becomes visible: it makes known what queries join
    /// to the rows. The block waits if it fails. Only the first call has an effect.
    pub fn before_insert(&self, hook: impl Fn() -> Result<()> + Send + Sync + 'static) {
        let _ = self.inner.insert_hook.set(Box::new(hook));
    }

    pub fn schema(&self) -> &Schema {
        &self.inner.schema
    }

    pub(super) fn journal(&self) -> u128 {
        self.inner.journal
    }

    /// Whether [`Writer::connect`] has succeeded.
    pub fn is_connected(&self) -> bool {
        self.inner.lane.get().is_some()
    }

    pub(super) fn client(&self) -> &Client {
        self.inner.schema.client()
    }

    /// Appends the rows of all journal records before `reach`, in the order of their positions. They
    /// are visible and durable once [`Writer::durable_position`] has passed them. Rows at positions
    /// that were appended before are skipped; of equal events, the one with the latest position counts
    /// when they are read, unless a copy is dated to another UTC day.
    ///
    /// Inserts first if a block is full (backpressure). After an error the caller repeats the call.
    pub fn append(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize> {
        self.lane()?;
        for pair in rows.windows(2) {
            if pair[0].position > pair[1].position {
                let why = "it follows a row with a later position";
                return Err(Error::Invalid { position: pair[1].position, why });
            }
        }
        if let Some(row) = rows.iter().find(|row| row.position >= reach) {
            let why = "its position is not before the one the batch reaches";
            return Err(Error::Invalid { position: row.position, why });
        }
        let mut rest = rows;
        while !rest.is_empty() {
            if self.is_full() {
                self.flush()?;
            }
            let taken = self.append_until_full(rest, reach)?;
            rest = &rest[taken..];
        }
        let mut state = lock(&self.inner.state);
        if reach > state.appended {
            state.appended = reach;
            state.waiting_since.get_or_insert(self.inner.clock.now());
        }
        Ok(0)
    }

    fn is_full(&self) -> bool {
        self.is_block_full(&lock(&self.inner.state).block)
    }

    fn is_block_full(&self, block: &Block) -> bool {
        let settings = &self.inner.settings;
        block.rows >= settings.rows_max || block.bytes >= settings.bytes_max
    }

    /// Appends until the block is full, and returns how many rows it took.
    fn append_until_full(&self, rows: &[NewRow<'_>], reach: u64) -> Result<usize> {
        let mut guard = lock(&self.inner.state);
        let state = &mut *guard;
        state.check(&self.client().settings().server)?;
        let mut new = Vec::new();
        let mut taken = 0;
        for row in rows {
            if taken > 0 && self.is_block_full(&state.block) {
                break;
            }
            taken += 1;
            if row.position < state.appended || state.masks.iter().any(|mask| mask.matches(row)) {
                continue;
            }
            if let Err(why) = state.block.push(row) {
                state.broken = Some(why.to_string());
                return state.check(&self.client().settings().server).map(|()| taken);
            }
            state.waiting_since.get_or_insert(self.inner.clock.now());
            new.push(row);
        }
        // Must not pass a record whose rows are split between two blocks.
        let reached = rows.get(taken).map_or(reach, |next| next.position);
        state.appended = state.appended.max(reached);
        drop(guard);
        if let Some(listener) = self.inner.listener.get().filter(|_| !new.is_empty()) {
            listener(&new);
        }
        Ok(taken)
    }

    /// Registers a listener for appended rows, which queries see up to [`WriterSettings::age_max`]
    /// later. It must return quickly. Only the first call has an effect.
    pub fn on_append(&self, listener: impl Fn(&[&NewRow<'_>]) + Send + Sync + 'static) {
        let _ = self.inner.listener.set(Box::new(listener));
    }

    /// The first journal position that a crash would lose: where a replay starts.
    pub fn durable_position(&self) -> u64 {
        self.inner.durable.load(Ordering::Acquire)
    }

    /// The first journal position whose rows queries do not see: what is stored is visible.
    pub fn applied_position(&self) -> u64 {
        self.durable_position()
    }

    /// The first journal position that was not appended.
    pub fn appended_position(&self) -> u64 {
        lock(&self.inner.state).appended
    }

    /// Inserts if a row has waited for its time.
    pub fn flush_due(&self) -> Result<()> {
        let since = lock(&self.inner.state).waiting_since;
        let age = since.map_or(0, |since| self.inner.clock.now().as_micros() - since.as_micros());
        let age_max = i64::try_from(self.inner.settings.age_max.as_micros()).unwrap_or(i64::MAX);
        let has_failed = lock(&self.inner.state).sealed.is_some();
        if since.is_some() && age >= age_max || has_failed {
            return self.flush();
        }
        Ok(())
    }

    /// Makes everything that was appended visible and durable.
    pub fn flush(&self) -> Result<()> {
        let _one_at_a_time = lock(&self.inner.flushing);
        let end = self.appended_position();
        while self.durable_position() < end || lock(&self.inner.state).sealed.is_some() {
            let sealed = self.seal()?;
            self.store(&sealed)?;
            self.inner.durable.store(sealed.reach, Ordering::Release);
            let mut state = lock(&self.inner.state);
            state.sealed = None;
            state.masks.retain(|mask| mask.before > sealed.reach);
        }
        Ok(())
    }

    /// The block to insert: the one of an earlier attempt, or what was appended since.
    fn seal(&self) -> Result<Arc<Sealed>> {
        let lane = self.lane()?;
        let mut guard = lock(&self.inner.state);
        let state = &mut *guard;
        let server = &self.client().settings().server;
        state.check(server)?;
        if let Some(sealed) = &state.sealed {
            return Ok(sealed.clone());
        }
        let mut block =
            std::mem::replace(&mut state.block, Block::new(self.inner.schema.promoted()));
        state.usage.add(std::mem::take(&mut block.usage));
        state.waiting_since = None;
        let reach = state.appended;
        let rows = match block.positions_seen {
            None => None,
            Some(positions) => {
                let encoded = block.finish().map_err(|why| why.to_string());
                let encoded = encoded
                    .and_then(|batch| self.client().encode(&batch).map_err(|why| why.to_string()));
                match encoded {
                    Ok(encoded) => Some((lane.token(positions), encoded)),
                    Err(why) => {
                        state.broken = Some(why);
                        state.check(server)?;
                        None
                    }
                }
            }
        };
        let sealed = Arc::new(Sealed { rows, reach });
        state.sealed = Some(sealed.clone());
        Ok(sealed)
    }

    fn store(&self, sealed: &Sealed) -> Result<()> {
        let client = self.client();
        if let Some(hook) = self.inner.insert_hook.get() {
            hook()?;
        }
        if let Some((token, rows)) = &sealed.rows {
            client.insert(EVENTS_TABLE, rows, Deduplication::Token(token))?;
        }
        self.lane()?.reach(client, sealed.reach)
    }

    /// Deletes the project's events that match `selection` and have a journal position below `before`,
    /// including rows that a replay of the journal appends later. When this returns, the delete is
    /// durable and queries do not see the events. Idempotent.
    pub fn delete(
        &self,
        project: ProjectId,
        selection: &DeleteSelection,
        before: u64,
    ) -> Result<DeleteOutcome> {
        let lane = self.lane()?.lane;
        let mask = Mask { project, selection: selection.clone(), before };
        if before > self.durable_position() {
            mask.store(self.client(), lane)?;
            let mut state = lock(&self.inner.state);
            if !state.masks.contains(&mask) {
                state.masks.push(mask.clone());
            }
        }
        // Rows that were appended before the mask was set.
        self.flush()?;
        let events = mask.apply(self.client())?;
        Ok(DeleteOutcome { events, events_on_disk: events })
    }

    /// Deletes the events of all projects that are older than [`WriterSettings::events_age_max`].
    pub fn apply_retention(&self) -> Result<DeleteOutcome> {
        let Some(age_max) = self.inner.settings.events_age_max else {
            return Ok(DeleteOutcome::default());
        };
        self.lane()?;
        let age_max = i64::try_from(age_max.as_micros()).unwrap_or(i64::MAX);
        let events = delete_before(
            self.client(),
            self.inner.clock.now().as_micros().saturating_sub(age_max),
        )?;
        Ok(DeleteOutcome { events, events_on_disk: 0 })
    }

    /// Gives frequent properties a column. Returns whether more may be due.
    pub fn tidy(&self) -> Result<bool> {
        self.lane()?;
        let frequent = lock(&self.inner.state).usage.take_frequent();
        self.inner.schema.promote(frequent.iter().map(String::as_str))?;
        self.read_size()?;
        Ok(false)
    }

    /// Frees what no replay needs any more.
    pub fn sweep(&self) -> Result<()> {
        Mask::forget(self.client(), self.lane()?.lane, self.durable_position())
    }

    /// What the store holds, as of the last [`Writer::tidy`], and what waits in memory.
    pub fn size(&self) -> StoreSize {
        let state = lock(&self.inner.state);
        let memory_bytes = state.block.bytes as u64;
        StoreSize { memory_bytes, ..*lock(&self.inner.size) }
    }

    fn read_size(&self) -> Result<()> {
        let table = crate::schema::table_of_rows(&self.client().settings().topology);
        let text = format!(
            "SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND \
             database = currentDatabase() AND table = '{table}'"
        );
        for batch in self.client().select(&text.into())? {
            let batch = batch?;
            let number = |at| {
                let column = column::<UInt64Array>(self.client(), &batch, at)?;
                Ok::<_, Error>(column.iter().flatten().next().unwrap_or_default())
            };
            let (rows, disk_bytes, segments) = (number(0)?, number(1)?, number(2)?);
            *lock(&self.inner.size) = StoreSize { rows, disk_bytes, memory_bytes: 0, segments };
        }
        Ok(())
    }
}
