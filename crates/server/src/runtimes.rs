//! The threads of the process, by what they do. What answers requests, what applies the journal
//! and what tidies files never wait for each other's turn, and the system tells their costs apart
//! by their names.

use std::io;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::runtime::{Builder, Handle, Runtime};

/// Threads for what blocks: password hashes and files.
const BLOCKING_THREADS_MAX: usize = 64;
/// A thread that ended takes the record of its costs with it.
const KEEP_ALIVE: Duration = Duration::from_secs(3_600);

/// On so few, threads that wake each other all the time pile up on one processor.
const FEW_PROCESSORS: usize = 2;

pub(crate) struct Runtimes {
    requests: Runtime,
    pipeline: Runtime,
    upkeep: Runtime,
}

/// Where work that nobody waits for is started.
#[derive(Clone)]
pub(crate) struct Behind {
    pub pipeline: Handle,
    pub upkeep: Handle,
}

impl Runtimes {
    pub(crate) fn start() -> Result<Self> {
        let requests = requests();
        let behind = |name, niceness| {
            Builder::new_multi_thread()
                .enable_all()
                .worker_threads(1)
                .thread_name(name)
                .thread_keep_alive(KEEP_ALIVE)
                // What was answered is safe in the journal, and can be applied a moment later.
                .on_thread_start(move || threads::lower_priority(niceness))
                .build()
                .context("cannot start the threads of the pipeline")
        };
        Ok(Self {
            requests: requests.context("cannot start the runtime")?,
            pipeline: behind("pipeline", threads::INGEST_NICENESS)?,
            upkeep: behind("upkeep", threads::MAINTENANCE_NICENESS)?,
        })
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.requests.block_on(work)
    }

    pub(crate) fn behind(&self) -> Behind {
        Behind { pipeline: self.pipeline.handle().clone(), upkeep: self.upkeep.handle().clone() }
    }

    /// What is left runs for nobody: its request has been answered or given up.
    pub(crate) fn abandon(self) {
        for runtime in [self.requests, self.pipeline, self.upkeep] {
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
                if workers == FEW_PROCESSORS {
                    threads::pin_to_core(nth, workers);
                }
                ready.wait();
            }
            _blocking => threads::unpin(),
        })
        .build()?;
    // The first to start are those that answer; others start when these ask for them.
    all_started.wait();
    Ok(requests)
}
