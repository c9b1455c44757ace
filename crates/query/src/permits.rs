//! Concurrency limits of reads and queries, and the threads that they block.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::ProjectId;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{Error, Result};

/// Warehouse reads that run at once. They decode columns, so more of them would only compete for
/// the CPU cores while each holds its memory.
const READS_MAX: usize = 4;
/// Projects past which semaphores without holder or waiter are evicted.
const PROJECTS_MAX: usize = 1_024;
/// How long a read waits for a permit before it is refused with `Busy`.
const READ_QUEUE_TIMEOUT: Duration = Duration::from_secs(10);
/// Stack of a query's thread: the size that the runtime's threads have.
const STACK_BYTES: usize = 2 << 20;

/// Permits for warehouse reads of all projects.
#[derive(Clone, Debug)]
pub(crate) struct ReadPermits {
    semaphore: Arc<Semaphore>,
}

impl ReadPermits {
    pub fn new() -> Self {
        Self { semaphore: Arc::new(Semaphore::new(READS_MAX)) }
    }

    pub async fn acquire(&self) -> Result<OwnedSemaphorePermit> {
        let waiting = self.semaphore.clone().acquire_owned();
        let permit = tokio::time::timeout(READ_QUEUE_TIMEOUT, waiting).await;
        permit.ok().and_then(std::result::Result::ok).ok_or(Error::Busy)
    }

    /// Continues a response that has begun. It waits for its permit without a timeout, since giving
    /// up would waste what the client already has.
    pub async fn run_next<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.semaphore.clone().acquire_owned().await.map_err(|_| Error::Busy)?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read()
        })
        .await?
    }

    /// Dropping the future does not stop the read; the permit is released when the read ends.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.acquire().await?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read()
        })
        .await?
    }
}

/// Runs a query's work on a thread of its own. Dropping the future does not stop it. `held` is
/// dropped when the work has ended.
pub(crate) async fn spawn_query<T: Send + 'static>(
    held: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (send, result) = oneshot::channel();
    let work = move || {
        drop(send.send(work()));
        drop(held);
    };
    threads::spawn_query_thread("insights", STACK_BYTES, work).map_err(|error| {
        Error::Internal(format!("cannot start a thread for the query: {error}"))
    })?;
    result.await.map_err(|_| Error::Internal("the query panicked".into()))
}

/// A semaphore for each project, so that a busy project does not delay the others.
#[derive(Clone, Debug)]
pub(crate) struct ProjectPermits {
    projects: Arc<Mutex<HashMap<ProjectId, Arc<Semaphore>>>>,
    per_project: usize,
    timeout: Duration,
}

impl ProjectPermits {
    pub fn new(per_project: usize, timeout: Duration) -> Self {
        Self { projects: Arc::default(), per_project, timeout }
    }

    pub async fn acquire(&self, project: ProjectId) -> Result<OwnedSemaphorePermit> {
        let semaphore = {
            let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            // A semaphore without holder or waiter has all its permits, like a new one.
            if projects.len() > PROJECTS_MAX {
                projects.retain(|_, semaphore| Arc::strong_count(semaphore) > 1);
            }
            let new = || Arc::new(Semaphore::new(self.per_project));
            projects.entry(project).or_insert_with(new).clone()
        };
        let permit = tokio::time::timeout(self.timeout, semaphore.acquire_owned()).await;
        permit.ok().and_then(std::result::Result::ok).ok_or(Error::Throttled)
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::sync::mpsc;
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn query_permit_is_held_until_the_thread_ends_after_the_caller_has_gone() {
        let permits = ProjectPermits::new(1, Duration::ZERO);
        let project = ProjectId(1);
        let permit = permits.acquire(project).await.unwrap();
        let (release, released) = mpsc::sync_channel::<()>(1);
        {
            let query = pin!(spawn_query(permit, move || released.recv().is_err()));
            assert!(query.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(matches!(permits.acquire(project).await, Err(Error::Throttled)));
        drop(release);
        // Hangs if the permit is never released.
        while permits.acquire(project).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
