//! The tokio runtimes of the process: one for requests, one for the pipeline that applies the
//! journal, one for maintenance (flush, compaction, scrub). Separate threads keep one kind of work
//! from delaying another, and thread names let the system account CPU time by kind.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for blocking work: password hashes and file I/O.
const BLOCKING_THREADS_MAX: usize = 64;
/// The kernel drops a thread's CPU time with the thread, so idle ones stay for the accounting.
const KEEP_ALIVE: Duration = Duration::from_secs(3_600);

/// With this many cores the scheduler tends to place threads that wake each other on the same one,
/// so the request threads are pinned.
const FEW_CORES: usize = 2;

pub(crate) struct Runtimes {
    requests: Runtime,
    pipeline: Runtime,
    maintenance: Runtime,
}

/// Handles of the runtimes for background work.
#[derive(Clone)]
pub(crate) struct BackgroundRuntimes {
    pub pipeline: Handle,
    pub maintenance: Handle,
}

impl Runtimes {
    pub(crate) fn start() -> Result<Self> {
        let requests = requests();
        let background = |name, niceness| {
            Builder::new_multi_thread()
                .enable_all()
                .worker_threads(1)
                .thread_name(name)
                .thread_keep_alive(KEEP_ALIVE)
                // Acknowledged events are durable in the journal; applying them can wait.
                .on_thread_start(move || threads::lower_priority(niceness))
                .build()
                .context("cannot start the threads of the pipeline")
        };
        Ok(Self {
            requests: requests.context("cannot start the runtime")?,
            pipeline: background("pipeline", threads::INGEST_NICENESS)?,
            maintenance: background("upkeep", threads::MAINTENANCE_NICENESS)?,
        })
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.requests.block_on(work)
    }

    pub(crate) fn background(&self) -> BackgroundRuntimes {
        BackgroundRuntimes {
            pipeline: self.pipeline.handle().clone(),
            maintenance: self.maintenance.handle().clone(),
        }
    }

    /// Does not wait for tasks: those left over belong to requests that ended or were abandoned.
    pub(crate) fn shutdown(self) {
        for runtime in [self.requests, self.pipeline, self.maintenance] {
            runtime.shutdown_background();
        }
    }
}

fn requests() -> io::Result<Runtime> {
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let (started, ready) = (AtomicUsize::new(0), Arc::new(Barrier::new(workers + 1)));
    let all_started = ready.clone();
    let requests = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(workers)
        .thread_name("requests")
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .on_thread_start(move || match started.fetch_add(1, Ordering::Relaxed) {
            nth if nth < workers => {
                if workers == FEW_CORES {
                    threads::pin_to_core(nth, workers);
                }
                ready.wait();
            }
            _blocking => threads::unpin(),
        })
        .build()?;
    // Threads start in order, workers first: wait until all workers have taken their index, before
    // one of them spawns a blocking thread.
    all_started.wait();
    Ok(requests)
}
