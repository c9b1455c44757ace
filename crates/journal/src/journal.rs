use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::counters::Counters;
use crate::format::{End, HEADER_BYTES, SegmentHeader};
use crate::queue::{Queue, REQUEST_BYTES, Request};
use crate::recover::{Recovered, recover};
use crate::segment::{self, LogEnd, Segment, Segments, lock};
use crate::storage::{Disk, Storage};
use crate::writer::Writer;
use crate::{Batch, BufferPool, Error, JournalId, Position, Reader, Result, Settings, Stats};

const LOCK: &str = "lock";

/// A durable log of records in append order. Clones share one journal.
#[derive(Clone)]
pub struct Journal {
    handle: Arc<Handle>,
}

/// Dropping it ends the writer thread; readers do not keep it alive.
struct Handle {
    shared: Arc<Shared>,
    log_end: watch::Receiver<LogEnd>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    pub id: JournalId,
    pub dir: PathBuf,
    pub settings: Settings,
    pub storage: Box<dyn Storage>,
    pub queue: Queue,
    pub segments: Mutex<Segments>,
    pub counters: Counters,
    buffers: BufferPool,
    /// Why the last group failed; none if it succeeded.
    pub refusal: Mutex<Option<Error>>,
    queue_capacity: Arc<Semaphore>,
    /// Serializes releases.
    releasing: Mutex<()>,
}

impl Journal {
    /// Opens the journal in `dir`, or creates one.
    pub async fn open(dir: impl Into<PathBuf>, settings: Settings) -> Result<Journal> {
        let dir = dir.into();
        blocking(move || Journal::open_on(&dir, settings, Box::new(Disk))).await
    }

    pub(crate) fn open_on(
        dir: &Path,
        settings: Settings,
        storage: Box<dyn Storage>,
    ) -> Result<Journal> {
        settings.check()?;
        let dir_lock = lock_dir(dir, &*storage)?;
        let Recovered { segments, log_end } = match recover(&*storage, dir)? {
            Some(recovered) => recovered,
            None => create(dir, &settings, &*storage)?,
        };
        let last = segments.list.back().cloned().expect("a journal has a segment");
        let shared = Arc::new(Shared {
            id: last.header.journal,
            dir: dir.to_owned(),
            queue: Queue::default(),
            counters: Counters::default(),
            buffers: BufferPool::new(settings.purge),
            refusal: Mutex::default(),
            queue_capacity: Arc::new(Semaphore::new(settings.queue_bytes_max as usize)),
            releasing: Mutex::new(()),
            segments: Mutex::new(segments),
            settings,
            storage,
        });
        let (sender, log_end) = watch::channel(log_end);
        let writer = Writer {
            shared: shared.clone(),
            synced_to: last.visible().offset,
            last,
            usable: false,
            preallocated_to: 0,
            sync_failed: false,
            failing: false,
            failed_group_bytes: 0,
            log_end: sender,
            _dir_lock: dir_lock,
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run())
            .map_err(Error::io("create the journal's thread"))?;
        let thread = Mutex::new(Some(thread));
        Ok(Journal { handle: Arc::new(Handle { shared, log_end, thread }) })
    }

    pub fn id(&self) -> JournalId {
        self.handle.shared.id
    }

    /// The buffers of batches that are appended to this journal, and of the requests they come from.
    pub fn buffers(&self) -> &BufferPool {
        &self.handle.shared.buffers
    }

    /// Appends all records of `batch` contiguously and in order. Returns the position of the last one
    /// once all are durable. After an error none is acknowledged, but they may still become durable.
    /// Dropping the future while it waits for the disk does not cancel the append. An empty batch
    /// succeeds at once.
    pub async fn append(&self, batch: Batch) -> Result<Position> {
        let shared = &self.handle.shared;
        let (bytes, bytes_max) = (batch.largest() as u64, shared.settings.record_bytes_max);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        if batch.is_empty() {
            let next = self.handle.log_end.borrow().next.as_u64();
            return Ok(Position::from_u64(next - 1));
        }
        let permit = shared.acquire_capacity(batch.bytes() as u64 + REQUEST_BYTES).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch, done, permit })?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// The error of the last append or [`Journal::probe`], if it failed.
    pub fn refusal(&self) -> Option<Error> {
        lock(&self.handle.shared.refusal).clone()
    }

    /// Checks whether an append would succeed, without one: creates the segment that the next append
    /// needs. This ends the failure state once the disk works again.
    pub async fn probe(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let permit = shared.acquire_capacity(REQUEST_BYTES).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch: Batch::new(), done, permit })?;
        answer.await.unwrap_or(Err(Error::Closed)).map(drop)
    }

    /// The earliest position that the next record can get. Greater than [`Stats::next`] where
    /// positions were skipped.
    pub fn next_position(&self) -> Position {
        self.handle.log_end.borrow().next
    }

    /// A reader from the record at `from` on, which waits for later appends.
    pub fn reader(&self, from: Position) -> Result<Reader> {
        let asked = from.max(Position::START);
        let next = self.handle.log_end.borrow().next;
        let oldest = lock(&self.handle.shared.segments).oldest();
        if asked < oldest || asked > next {
            return Err(Error::OutOfRange { asked, oldest, next });
        }
        Ok(Reader::new(self.handle.shared.clone(), self.handle.log_end.clone(), asked))
    }

    /// Releases the records before `before`. Space is freed by whole segments, so some of them stay
    /// readable for a while.
    pub async fn release(&self, before: Position) -> Result<()> {
        let shared = self.handle.shared.clone();
        blocking(move || shared.release(before)).await
    }

    pub fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let segments = lock(&shared.segments);
        Stats {
            oldest: segments.oldest(),
            next: self.handle.log_end.borrow().end,
            disk_bytes: segments.bytes() + segments.spare_bytes(),
            queue_bytes: shared.settings.queue_bytes_max
                - shared.queue_capacity.available_permits() as u64,
            ..shared.counters.stats()
        }
    }

    /// Rejects new appends, writes the queued ones, and returns when the lock is released. Readers
    /// get the remaining records, then [`Error::Closed`].
    pub async fn close(&self) {
        self.handle.shared.queue.close();
        let mut log_end = self.handle.log_end.clone();
        while log_end.changed().await.is_ok() {}
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.queue.close();
        if let Some(thread) = lock(&self.thread).take()
            && thread.join().is_err()
        {
            tracing::error!("the journal's thread panicked");
        }
    }
}

impl Shared {
    async fn acquire_capacity(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        let bytes_max = self.settings.queue_bytes_max;
        let permits = u32::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        let permits = permits.ok_or(Error::TooLarge { bytes, bytes_max })?;
        if let Ok(permit) = self.queue_capacity.clone().try_acquire_many_owned(permits) {
            return Ok(permit);
        }
        let waited = self.settings.queue_wait_max;
        let permit = self.queue_capacity.clone().acquire_many_owned(permits);
        match tokio::time::timeout(waited, permit).await {
            Ok(permit) => permit.map_err(|_| Error::Closed),
            Err(_) => Err(Error::Busy { waited }),
        }
    }

    fn release(&self, before: Position) -> Result<()> {
        let _releasing = lock(&self.releasing);
        while let Some(segment) = self.releasable(before) {
            let fits = segment.bytes() <= self.settings.segment_bytes;
            let keep = fits && lock(&self.segments).spare.is_none();
            if keep {
                segment::retire(&*self.storage, &self.dir, &segment)?;
            } else {
                segment::remove(&*self.storage, &self.dir, &segment)?;
            }
            let mut segments = lock(&self.segments);
            segments.list.pop_front();
            if keep {
                segments.spare = segment::reuse(segment);
            }
        }
        Ok(())
    }

    /// The oldest segment, if it is complete and ends at or before `before`.
    fn releasable(&self, before: Position) -> Option<Arc<Segment>> {
        let segments = lock(&self.segments);
        let oldest = segments.list.front().filter(|_| segments.list.len() > 1)?;
        (oldest.visible().position <= before).then(|| oldest.clone())
    }
}

/// The lock on the journal's directory, released on drop.
pub(crate) struct DirLock(File);

impl Drop for DirLock {
    fn drop(&mut self) {
        // A child process forked just now may have inherited the descriptor: closing is not enough.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "could not unlock the journal's directory");
        }
    }
}

fn lock_dir(dir: &Path, storage: &dyn Storage) -> Result<DirLock> {
    let failed = Error::io("prepare the journal's directory");
    let missing: Vec<&Path> = dir.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(dir).map_err(&failed)?;
    for made in missing.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        storage.sync_dir(parent(made)).map_err(&failed)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).write(true).truncate(false).open(dir.join(LOCK));
    let file = file.map_err(&failed)?;
    match file.try_lock() {
        Ok(()) => Ok(DirLock(file)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { dir: dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates the first segment of a new journal, whose header holds the new id.
fn create(dir: &Path, settings: &Settings, storage: &dyn Storage) -> Result<Recovered> {
    let header = SegmentHeader {
        journal: JournalId::random(),
        number: 1,
        first: Position::START,
        previous: End { offset: 0, position: Position::START },
        durability: settings.durability,
        allocated: HEADER_BYTES,
    };
    let (file, _) = segment::prepare(storage, dir, &header, HEADER_BYTES, None)?;
    let segment = segment::publish(storage, dir, header, file, HEADER_BYTES)?;
    // An earlier start may have created the directory and crashed before the sync.
    storage.sync_dir(parent(dir)).map_err(Error::io("prepare the journal's directory"))?;
    let mut segments = Segments::default();
    segments.list.push_back(Arc::new(segment));
    let log_end = LogEnd { end: Position::START, next: Position::START };
    Ok(Recovered { segments, log_end })
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // Fails only if the work panicked or the runtime is shutting down.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
