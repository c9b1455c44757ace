//! Runs that nobody waits for, by name.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{ProjectId, Timestamp};
use uuid::Uuid;

use super::seen::Named;
use super::{Answer, Cancel};
use crate::{Error, Result};

/// How long a state can be asked for.
const KEPT_SECONDS: i64 = 20 * 60;
/// States that are kept; those that are over go first.
const KEPT_MAX: usize = 1_000;
/// Answers that wait to be asked for, as JSON; the oldest go first.
const KEPT_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub enum QueryStatus {
    Going,
    Done(Arc<Answer>),
    /// `for_asker` if the text is for whoever asked.
    Failed {
        why: String,
        for_asker: bool,
    },
}

/// A run as its asker sees it.
#[derive(Clone, Debug)]
pub struct Running {
    pub project: ProjectId,
    pub id: String,
    pub status: QueryStatus,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub expires_at: Timestamp,
}

struct Entry {
    running: Running,
    cancel: Cancel,
    named: Named,
}

type Entries = HashMap<(ProjectId, String), Entry>;

#[derive(Clone)]
pub(super) struct Background(Arc<Mutex<Entries>>);

/// Takes a run off the list when it is over, for runs that somebody waits for.
pub(super) struct Listed(Option<(Background, ProjectId, String)>);

impl Drop for Listed {
    fn drop(&mut self) {
        if let Some((background, project, id)) = self.0.take() {
            background.lock().remove(&(project, id));
        }
    }
}

impl Background {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So that a run with a name can be cancelled while somebody waits for it.
    pub fn list(
        &self,
        project: ProjectId,
        id: Option<String>,
        now: Timestamp,
        (cancel, named): (Cancel, Named),
    ) -> Listed {
        let Some(id) = id else { return Listed(None) };
        let mut entries = self.lock();
        if entries.len() >= KEPT_MAX || entries.contains_key(&(project, id.clone())) {
            return Listed(None);
        }
        let running = Running {
            project,
            id: id.clone(),
            status: QueryStatus::Going,
            started_at: now,
            ended_at: None,
            expires_at: now.plus_seconds(KEPT_SECONDS),
        };
        entries.insert((project, id.clone()), Entry { running, cancel, named });
        Listed(Some((self.clone(), project, id)))
    }

    pub fn start<F>(
        &self,
        project: ProjectId,
        id: Option<String>,
        now: Timestamp,
        named: Named,
        run: impl FnOnce(Cancel) -> F,
    ) -> Result<Running>
    where
        F: Future<Output = (Result<Arc<Answer>>, Timestamp)> + Send + 'static,
    {
        let id = id.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        let cancel = Cancel::default();
        let running = Running {
            project,
            id: id.clone(),
            status: QueryStatus::Going,
            started_at: now,
            ended_at: None,
            expires_at: now.plus_seconds(KEPT_SECONDS),
        };
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.running.expires_at > now);
        if entries.len() >= KEPT_MAX {
            entries.retain(|_, entry| entry.running.ended_at.is_none());
        }
        if entries.len() >= KEPT_MAX {
            return Err(Error::Busy);
        }
        let entry = Entry { running: running.clone(), cancel: cancel.clone(), named };
        if let Some(replaced) = entries.insert((project, id.clone()), entry) {
            replaced.cancel.now();
        }
        drop(entries);
        let (work, background) = (run(cancel.clone()), self.clone());
        tokio::spawn(async move {
            let (answer, ended) = work.await;
            let status = match answer {
                Ok(answer) => QueryStatus::Done(answer),
                Err(error) => {
                    let for_asker = error.is_for_asker();
                    if !for_asker {
                        tracing::error!(error = &error as &dyn std::error::Error, "query failed");
                    }
                    QueryStatus::Failed { why: error.to_string(), for_asker }
                }
            };
            background.end(&(project, id), &cancel, status, ended);
        });
        Ok(running)
    }

    /// Unless another run has taken its name meanwhile.
    fn end(&self, key: &(ProjectId, String), run: &Cancel, status: QueryStatus, at: Timestamp) {
        let mut entries = self.lock();
        match entries.get_mut(key) {
            Some(entry) if entry.cancel.is(run) => {
                entry.running.status = status;
                entry.running.ended_at = Some(at);
            }
            _ => return,
        }
        let bytes = |entry: &Entry| match &entry.running.status {
            QueryStatus::Done(answer) => answer.bytes(),
            QueryStatus::Going | QueryStatus::Failed { .. } => 0,
        };
        while entries.values().map(bytes).sum::<usize>() > KEPT_BYTES_MAX {
            let done = entries.iter().filter(|(own, entry)| *own != key && bytes(entry) > 0);
            let oldest = done.min_by_key(|(_, entry)| entry.running.ended_at);
            let Some(oldest) = oldest.map(|(own, _)| own.clone()) else { break };
            entries.remove(&oldest);
        }
    }

    /// A run, and what whoever looks at it must see.
    pub fn get(&self, project: ProjectId, id: &str, now: Timestamp) -> Option<(Running, Named)> {
        let entries = self.lock();
        let Entry { running, named, .. } = entries.get(&(project, id.to_owned()))?;
        (running.expires_at > now).then(|| (running.clone(), named.clone()))
    }

    pub fn cancel(&self, project: ProjectId, id: &str) {
        if let Some(entry) = self.lock().get(&(project, id.to_owned())) {
            entry.cancel.now();
        }
    }
}
