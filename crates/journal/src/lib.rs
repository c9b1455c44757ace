//! The journal: a write-ahead log of accepted records. A record is durable before it is
//! acknowledged, and stays until both stores have committed it.
//!
//! Capture appends; the pipeline reads and releases. Records are opaque bytes here. One server owns a
//! journal. It is kept in `files`, the default, or in `jetstream`, streams of NATS; [`Journal`] and
//! [`Reader`] serve both. Only [`Location`], [`Inspection`], [`survey()`] and [`salvage()`] know of files.

mod batch;
mod buffer;
mod capacity;
mod counters;
mod error;
mod files;
pub mod jetstream;
mod journal;
mod position;
mod reader;
mod settings;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use batch::Batch;
pub use buffer::{Buffer, BufferPool};
pub use counters::{SYNC_BUCKETS_US, Stats};
pub use error::{Corruption, Error, FullCause, Result};
pub use files::{
    Inspection, SalvageOutcome, SalvageTarget, Survey, check_version, disk_bytes, is_present,
    salvage, survey,
};
pub use journal::{Journal, Location};
pub use position::{JournalId, Position};
pub use reader::{Reader, Record, Records};
pub use settings::{Durability, Settings};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The guarded values are replaced in one assignment, so a panic leaves them consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    // Fails only if the work panicked or the runtime is shutting down.
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
