use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{oneshot, watch};

use crate::capacity::Capacity;
use crate::counters::Counters;
use crate::files::format::{End, HEADER_BYTES, SegmentHeader};
use crate::files::queue::{Queue, Request};
use crate::files::reader::Reader;
use crate::files::recover::{Recovered, recover};
use crate::files::segment::{self, LogEnd, Segment, Segments};
use crate::files::storage::{Disk, Storage};
use crate::files::writer::Writer;
use crate::{
    Batch, BufferPool, Error, JournalId, Position, Result, Settings, Stats, blocking, lock,
};

const LOCK: &str = "lock";

#[derive(Clone)]
pub(crate) struct Journal {
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
    capacity: Capacity,
    /// Serializes releases.
    releasing: Mutex<()>,
}

impl Journal {
    /// Opens the journal in `dir`, or creates one.
    pub(crate) async fn open(dir: PathBuf, settings: Settings) -> Result<Journal> {
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
            capacity: Capacity::new(&settings),
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

    pub(crate) fn id(&self) -> JournalId {
        self.handle.shared.id
    }

    pub(crate) fn buffers(&self) -> &BufferPool {
        &self.handle.shared.buffers
    }

    pub(crate) async fn append(&self, batch: Batch) -> Result<Position> {
        let shared = &self.handle.shared;
        let (bytes, bytes_max) = (batch.largest() as u64, shared.settings.record_bytes_max);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        if batch.is_empty() {
            let next = self.handle.log_end.borrow().next.as_u64();
            return Ok(Position::from_u64(next - 1));
        }
        let permit = shared.capacity.acquire(batch.bytes() as u64).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch, done, permit })?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    pub(crate) fn refusal(&self) -> Option<Error> {
        lock(&self.handle.shared.refusal).clone()
    }

    pub(crate) async fn probe(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let permit = shared.capacity.acquire(0).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch: Batch::new(), done, permit })?;
        answer.await.unwrap_or(Err(Error::Closed)).map(drop)
    }

    pub(crate) fn next_position(&self) -> Position {
        self.handle.log_end.borrow().next
    }

    pub(crate) fn reader(&self, from: Position) -> Result<Reader> {
        let asked = from.max(Position::START);
        let next = self.handle.log_end.borrow().next;
        let oldest = lock(&self.handle.shared.segments).oldest();
        if asked < oldest || asked > next {
            return Err(Error::OutOfRange { asked, oldest, next });
        }
        Ok(Reader::new(self.handle.shared.clone(), self.handle.log_end.clone(), asked))
    }

    pub(crate) async fn release(&self, before: Position) -> Result<()> {
        let shared = self.handle.shared.clone();
        blocking(move || shared.release(before)).await
    }

    pub(crate) fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let segments = lock(&shared.segments);
        Stats {
            oldest: segments.oldest(),
            next: self.handle.log_end.borrow().end,
            disk_bytes: segments.bytes() + segments.spare_bytes(),
            queue_bytes: shared.capacity.used_bytes(),
            ..shared.counters.stats()
        }
    }

    pub(crate) async fn close(&self) {
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
