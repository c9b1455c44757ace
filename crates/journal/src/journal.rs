use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::counters::Counters;
use crate::format::{End, HEADER_BYTES, SegmentHeader};
use crate::queue::{Queue, REQUEST_BYTES, Request};
use crate::recover::{Recovered, recover};
use crate::segment::{self, Extent, Segment, Segments, lock};
use crate::storage::{Disk, Storage};
use crate::writer::Writer;
use crate::{Batch, Error, JournalId, Position, Reader, Result, Settings, Stats};

const LOCK: &str = "lock";

/// A durable log of records, in the order they were appended. Clones are the same journal.
#[derive(Clone)]
pub struct Journal {
    handle: Arc<Handle>,
}

/// Its drop ends the writer thread; readers do not keep it alive.
struct Handle {
    shared: Arc<Shared>,
    extent: watch::Receiver<Extent>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    pub id: JournalId,
    pub folder: PathBuf,
    pub settings: Settings,
    pub storage: Box<dyn Storage>,
    pub queue: Queue,
    pub segments: Mutex<Segments>,
    pub counters: Counters,
    /// Why the last group was not written; none when it was.
    pub refusal: Mutex<Option<Error>>,
    room: Arc<Semaphore>,
    /// Held while files are released, which happens in order.
    releasing: Mutex<()>,
}

impl Journal {
    /// Opens the journal in `folder`, or starts one there.
    pub async fn open(folder: impl Into<PathBuf>, settings: Settings) -> Result<Journal> {
        let folder = folder.into();
        blocking(move || Journal::open_on(&folder, settings, Box::new(Disk))).await
    }

    pub(crate) fn open_on(
        folder: &Path,
        settings: Settings,
        storage: Box<dyn Storage>,
    ) -> Result<Journal> {
        settings.check()?;
        let owned = own(folder, &*storage)?;
        let Recovered { segments, extent } = match recover(&*storage, folder)? {
            Some(recovered) => recovered,
            None => start(folder, &settings, &*storage)?,
        };
        let last = segments.list.back().cloned().expect("a journal has a segment");
        let shared = Arc::new(Shared {
            id: last.header.journal,
            folder: folder.to_owned(),
            queue: Queue::default(),
            counters: Counters::default(),
            refusal: Mutex::default(),
            room: Arc::new(Semaphore::new(settings.queue_bytes_max as usize)),
            releasing: Mutex::new(()),
            segments: Mutex::new(segments),
            settings,
            storage,
        });
        let (sender, extent) = watch::channel(extent);
        let writer = Writer {
            shared: shared.clone(),
            synced_to: last.visible().offset,
            last,
            usable: false,
            paved_to: 0,
            suspect: false,
            failing: false,
            refused_bytes: 0,
            extent: sender,
            _owned: owned,
        };
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || writer.run())
            .map_err(Error::io("start the journal's thread"))?;
        let thread = Mutex::new(Some(thread));
        Ok(Journal { handle: Arc::new(Handle { shared, extent, thread }) })
    }

    pub fn id(&self) -> JournalId {
        self.handle.shared.id
    }

    /// Appends all records of `batch`, next to each other and in order, and answers with the last
    /// one's position once all are durable. After an error none was acknowledged, yet they may
    /// still turn up. The records stay on their way if the future is dropped while it waits for
    /// the disk. An empty batch is durable as it is.
    pub async fn append(&self, batch: Batch) -> Result<Position> {
        let shared = &self.handle.shared;
        let (bytes, bytes_max) = (batch.largest() as u64, shared.settings.record_bytes_max);
        if bytes > bytes_max {
            return Err(Error::TooLarge { bytes, bytes_max });
        }
        if batch.is_empty() {
            let next = self.handle.extent.borrow().next.as_u64();
            return Ok(Position::from_u64(next - 1));
        }
        let room = shared.room(batch.bytes() as u64 + REQUEST_BYTES).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch, done, room })?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Why the journal refuses appends, if the last one or the last [`Journal::probe`] failed.
    pub fn refusal(&self) -> Option<Error> {
        lock(&self.handle.shared.refusal).clone()
    }

    /// Sees whether an append would succeed, without one: makes the segment that the next append
    /// needs, if there is none to append to. A journal that failed is healed by it when the disk is.
    pub async fn probe(&self) -> Result<()> {
        let shared = &self.handle.shared;
        let room = shared.room(REQUEST_BYTES).await?;
        let (done, answer) = oneshot::channel();
        shared.queue.push(Request { batch: Batch::new(), done, room })?;
        answer.await.unwrap_or(Err(Error::Closed)).map(drop)
    }

    /// The position that the next record gets at the earliest. Behind [`Stats::next`] where
    /// positions were skipped.
    pub fn next_position(&self) -> Position {
        self.handle.extent.borrow().next
    }

    /// Reads from the record at `from` on, waiting for those still to come.
    pub fn reader(&self, from: Position) -> Result<Reader> {
        let asked = from.max(Position::START);
        let next = self.handle.extent.borrow().next;
        let oldest = lock(&self.handle.shared.segments).oldest();
        if asked < oldest || asked > next {
            return Err(Error::OutOfRange { asked, oldest, next });
        }
        Ok(Reader::new(self.handle.shared.clone(), self.handle.extent.clone(), asked))
    }

    /// Says that nobody needs the records before `before` any more. Space returns in large pieces,
    /// so some of them stay readable for a while.
    pub async fn release(&self, before: Position) -> Result<()> {
        let shared = self.handle.shared.clone();
        blocking(move || shared.release(before)).await
    }

    pub fn stats(&self) -> Stats {
        let shared = &self.handle.shared;
        let segments = lock(&shared.segments);
        Stats {
            oldest: segments.oldest(),
            next: self.handle.extent.borrow().end,
            disk_bytes: segments.bytes() + segments.spare_bytes(),
            queue_bytes: shared.settings.queue_bytes_max - shared.room.available_permits() as u64,
            ..shared.counters.stats()
        }
    }

    /// Refuses new appends, writes those that wait, and returns when the journal may be opened
    /// again. Readers get what was appended, then [`Error::Closed`].
    pub async fn close(&self) {
        self.handle.shared.queue.close();
        let mut extent = self.handle.extent.clone();
        while extent.changed().await.is_ok() {}
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
    async fn room(&self, bytes: u64) -> Result<OwnedSemaphorePermit> {
        let bytes_max = self.settings.queue_bytes_max;
        let permits = u32::try_from(bytes).ok().filter(|_| bytes <= bytes_max);
        let permits = permits.ok_or(Error::TooLarge { bytes, bytes_max })?;
        if let Ok(room) = self.room.clone().try_acquire_many_owned(permits) {
            return Ok(room);
        }
        let waited = self.settings.queue_wait_max;
        let room = self.room.clone().acquire_many_owned(permits);
        match tokio::time::timeout(waited, room).await {
            Ok(room) => room.map_err(|_| Error::Closed),
            Err(_) => Err(Error::Busy { waited }),
        }
    }

    fn release(&self, before: Position) -> Result<()> {
        let _releasing = lock(&self.releasing);
        while let Some(segment) = self.releasable(before) {
            let fits = segment.bytes() <= self.settings.segment_bytes;
            let keep = fits && lock(&self.segments).spare.is_none();
            if keep {
                segment::retire(&*self.storage, &self.folder, &segment)?;
            } else {
                segment::remove(&*self.storage, &self.folder, &segment)?;
            }
            let mut segments = lock(&self.segments);
            segments.list.pop_front();
            if keep {
                segments.spare = segment::reuse(segment);
            }
        }
        Ok(())
    }

    /// The oldest segment, if complete and wholly before `before`.
    fn releasable(&self, before: Position) -> Option<Arc<Segment>> {
        let segments = lock(&self.segments);
        let oldest = segments.list.front().filter(|_| segments.list.len() > 1)?;
        (oldest.visible().position <= before).then(|| oldest.clone())
    }
}

/// The folder is this process's until it is dropped.
pub(crate) struct Owned(File);

impl Drop for Owned {
    fn drop(&mut self) {
        // Closing alone would leave the lock with a child process that is just being started.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "could not unlock the journal's folder");
        }
    }
}

fn own(folder: &Path, storage: &dyn Storage) -> Result<Owned> {
    let failed = Error::io("prepare the journal's folder");
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    fs::create_dir_all(folder).map_err(&failed)?;
    for made in missing.into_iter().filter(|path| !path.as_os_str().is_empty()) {
        storage.sync_folder(parent(made)).map_err(&failed)?;
    }
    let mut options = OpenOptions::new();
    let file = options.create(true).write(true).truncate(false).open(folder.join(LOCK));
    let file = file.map_err(&failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Owned(file)),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { folder: folder.to_owned() }),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The first segment of a new journal, which makes its id last.
fn start(folder: &Path, settings: &Settings, storage: &dyn Storage) -> Result<Recovered> {
    let header = SegmentHeader {
        journal: JournalId::random(),
        number: 1,
        first: Position::START,
        previous: End { offset: 0, position: Position::START },
        durability: settings.durability,
        allocated: HEADER_BYTES,
    };
    let (file, _) = segment::prepare(storage, folder, &header, HEADER_BYTES, None)?;
    let segment = segment::publish(storage, folder, header, file, HEADER_BYTES)?;
    // The folder may stem from a start that ended before it could sync.
    storage.sync_folder(parent(folder)).map_err(Error::io("prepare the journal's folder"))?;
    let mut segments = Segments::default();
    segments.list.push_back(Arc::new(segment));
    let extent = Extent { end: Position::START, next: Position::START };
    Ok(Recovered { segments, extent })
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // It fails only if the work panicked or the runtime is shutting down.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
