//! Reads of the warehouse, which block, on threads of their own and few at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::ProjectId;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::{Error, Result};

/// Reads decode columns, so more of them than this would only take turns on the cores, each
/// holding its memory.
const READS_AT_ONCE_MAX: usize = 4;
/// Projects whose turns are kept though nobody asks.
const PROJECTS_MAX: usize = 1_024;
/// A short burst waits for its turn; a longer one is better told.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// Of a thread that works on a question: as the runtime's have.
const STACK_BYTES: usize = 2 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Reads {
    turns: Arc<Semaphore>,
}

impl Reads {
    pub fn new() -> Self {
        Self { turns: Arc::new(Semaphore::new(READS_AT_ONCE_MAX)) }
    }

    /// For work beside the warehouse that is as heavy as a read of it.
    pub async fn turn(&self) -> Result<OwnedSemaphorePermit> {
        let waiting = self.turns.clone().acquire_owned();
        let turn = tokio::time::timeout(TURN_WAIT, waiting).await;
        turn.ok().and_then(std::result::Result::ok).ok_or(Error::Busy)
    }

    /// For an answer that has begun: it waits for its turn however long that takes, since to give
    /// up would waste what was sent.
    pub async fn go_on<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turns.clone().acquire_owned().await.map_err(|_| Error::Busy)?;
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read()
        })
        .await?
    }

    /// A caller that goes away leaves its read running; the turn ends with the read.
    pub async fn run<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let turn = self.turn().await?;
        tokio::task::spawn_blocking(move || {
            let _turn = turn;
            read()
        })
        .await?
    }
}

/// Works on a question on a thread of its own; a caller that goes away leaves it running. What it
/// was lent is held until the thread has done its work.
pub(crate) async fn beside<T: Send + 'static>(
    lent: impl Send + 'static,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (send, found) = oneshot::channel();
    let work = move || {
        drop(send.send(work()));
        drop(lent);
    };
    threads::spawn_query_thread("insights", STACK_BYTES, work)
        .map_err(|error| Error::Failed(format!("no thread for the question: {error}")))?;
    found.await.map_err(|_| Error::Failed("the question broke".into()))
}

/// Turns of each project, so that one that asks much does not hold up the others.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    projects: Arc<Mutex<HashMap<ProjectId, Arc<Semaphore>>>>,
    at_once: usize,
    wait: Duration,
}

impl Turns {
    pub fn new(at_once: usize, wait: Duration) -> Self {
        Self { projects: Arc::default(), at_once, wait }
    }

    pub async fn of(&self, project: ProjectId) -> Result<OwnedSemaphorePermit> {
        let turns = {
            let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
            // Those that nobody holds or waits for are as good as new ones.
            if projects.len() > PROJECTS_MAX {
                projects.retain(|_, turns| Arc::strong_count(turns) > 1);
            }
            let fresh = || Arc::new(Semaphore::new(self.at_once));
            projects.entry(project).or_insert_with(fresh).clone()
        };
        let turn = tokio::time::timeout(self.wait, turns.acquire_owned()).await;
        turn.ok().and_then(std::result::Result::ok).ok_or(Error::Throttled)
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
    async fn a_turn_is_held_until_the_thread_has_ended_though_nobody_waits() {
        let turns = Turns::new(1, Duration::ZERO);
        let project = ProjectId(1);
        let turn = turns.of(project).await.unwrap();
        let (release, waits) = mpsc::sync_channel::<()>(1);
        {
            let asked = pin!(beside(turn, move || waits.recv().is_err()));
            assert!(asked.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        assert!(matches!(turns.of(project).await, Err(Error::Throttled)));
        drop(release);
        // Hangs if it is never given back.
        while turns.of(project).await.is_err() {
            tokio::task::yield_now().await;
        }
    }
}
