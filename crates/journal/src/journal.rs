use std::path::{Path, PathBuf};

use crate::{
    Batch, BufferPool, Error, JournalId, Position, Reader, Result, Settings, Stats, files,
    jetstream,
};

/// Where a journal is.
#[derive(Clone, Debug)]
pub enum Location {
    /// Segment files in a directory.
    Files(PathBuf),
    /// Streams of NATS JetStream.
    JetStream(Box<jetstream::Address>),
}

impl From<PathBuf> for Location {
    fn from(dir: PathBuf) -> Location {
        Location::Files(dir)
    }
}

impl From<&PathBuf> for Location {
    fn from(dir: &PathBuf) -> Location {
        Location::Files(dir.clone())
    }
}

impl From<&Path> for Location {
    fn from(dir: &Path) -> Location {
        Location::Files(dir.to_owned())
    }
}

impl From<jetstream::Address> for Location {
    fn from(address: jetstream::Address) -> Location {
        Location::JetStream(Box::new(address))
    }
}

/// A durable log of records in append order. Clones share one journal.
#[derive(Clone)]
pub struct Journal {
    engine: Engine,
}

#[derive(Clone)]
enum Engine {
    Files(files::Journal),
    JetStream(jetstream::Journal),
}

impl Journal {
    /// Opens the journal at `location`, or creates one.
    pub async fn open(location: impl Into<Location>, settings: Settings) -> Result<Journal> {
        let engine = match location.into() {
            Location::Files(dir) => Engine::Files(files::Journal::open(dir, settings).await?),
            Location::JetStream(address) => {
                Engine::JetStream(Box::pin(jetstream::Journal::open(*address, settings)).await?)
            }
        };
        Ok(Journal { engine })
    }

    pub fn id(&self) -> JournalId {
        match &self.engine {
            Engine::Files(journal) => journal.id(),
            Engine::JetStream(journal) => journal.id(),
        }
    }

    /// The buffers of batches that are appended to this journal, and of the requests they come from.
    pub fn buffers(&self) -> &BufferPool {
        match &self.engine {
            Engine::Files(journal) => journal.buffers(),
            Engine::JetStream(journal) => journal.buffers(),
        }
    }

    /// Appends all records of `batch` in order; files keep them contiguous. Returns the position of
    /// the last one once all are durable. After an error none is acknowledged, but they may still
    /// become durable. Dropping the future while it waits for the log does not cancel the append. An
    /// empty batch succeeds at once.
    pub async fn append(&self, batch: Batch) -> Result<Position> {
        match &self.engine {
            Engine::Files(journal) => journal.append(batch).await,
            Engine::JetStream(journal) => journal.append(batch).await,
        }
    }

    /// The error of the last append or [`Journal::probe`], if it failed.
    pub fn refusal(&self) -> Option<Error> {
        match &self.engine {
            Engine::Files(journal) => journal.refusal(),
            Engine::JetStream(journal) => journal.refusal(),
        }
    }

    /// Checks whether an append would succeed, without one. This ends the failure state once the disk
    /// or the servers work again.
    pub async fn probe(&self) -> Result<()> {
        match &self.engine {
            Engine::Files(journal) => journal.probe().await,
            Engine::JetStream(journal) => journal.probe().await,
        }
    }

    /// The earliest position that the next record can get. Greater than [`Stats::next`] where
    /// positions were skipped.
    pub fn next_position(&self) -> Position {
        match &self.engine {
            Engine::Files(journal) => journal.next_position(),
            Engine::JetStream(journal) => journal.next_position(),
        }
    }

    /// A reader from the record at `from` on, which waits for later appends.
    pub fn reader(&self, from: Position) -> Result<Reader> {
        match &self.engine {
            Engine::Files(journal) => journal.reader(from).map(Reader::files),
            Engine::JetStream(journal) => journal.reader(from).map(Reader::jetstream),
        }
    }

    /// How many records there are at or after `from`. Exact in files. In JetStream, where a message
    /// holds several records, it is the number of messages times their mean; zero only if there are
    /// none.
    pub fn waiting(&self, from: Position) -> u64 {
        match &self.engine {
            Engine::Files(journal) => {
                journal.stats().next.as_u64().saturating_sub(from.max(Position::START).as_u64())
            }
            Engine::JetStream(journal) => journal.waiting(from),
        }
    }

    /// Releases the records before `before`. Space is freed by whole segments or messages, so some of
    /// them stay readable for a while.
    pub async fn release(&self, before: Position) -> Result<()> {
        match &self.engine {
            Engine::Files(journal) => journal.release(before).await,
            Engine::JetStream(journal) => journal.release(before).await,
        }
    }

    pub fn stats(&self) -> Stats {
        match &self.engine {
            Engine::Files(journal) => journal.stats(),
            Engine::JetStream(journal) => journal.stats(),
        }
    }

    /// Rejects new appends, writes the queued ones, and returns when the journal has no owner any
    /// more. Readers get the remaining records, then [`Error::Closed`].
    pub async fn close(&self) {
        match &self.engine {
            Engine::Files(journal) => journal.close().await,
            Engine::JetStream(journal) => journal.close().await,
        }
    }
}
