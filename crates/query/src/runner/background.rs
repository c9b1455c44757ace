//! Background runs, by project and client query id: their status until it expires.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{ProjectId, Timestamp};
use uuid::Uuid;

use super::access::ReferencedObjects;
use super::{Cancel, QueryResult};
use crate::{Error, Result};

/// How long the status of a run can be polled.
const RETENTION_SECONDS: i64 = 20 * 60;
/// Runs that are tracked; ended ones are evicted first.
const RUNS_MAX: usize = 1_000;
/// Memory of results that wait to be polled; the oldest are evicted first.
const RESULTS_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Debug)]
pub enum QueryStatus {
    Running,
    Completed(Arc<QueryResult>),
    /// The client gets the message only if `is_user_facing`.
    Failed {
        message: String,
        is_user_facing: bool,
    },
}

/// A run as its client sees it.
#[derive(Clone, Debug)]
pub struct QueryRun {
    pub project: ProjectId,
    pub id: String,
    pub status: QueryStatus,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub expires_at: Timestamp,
}

struct Entry {
    run: QueryRun,
    cancel: Cancel,
    referenced: ReferencedObjects,
}

type Entries = HashMap<(ProjectId, String), Entry>;

#[derive(Clone)]
pub(super) struct Background(Arc<Mutex<Entries>>);

/// Removes a run that its client waits for from the list when it ends.
pub(super) struct Registration(Option<(Background, ProjectId, String)>);

impl Drop for Registration {
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

    /// Lists a run that its client waits for, so that another request can cancel it by its id.
    pub fn register(
        &self,
        project: ProjectId,
        id: Option<String>,
        now: Timestamp,
        (cancel, referenced): (Cancel, ReferencedObjects),
    ) -> Registration {
        let Some(id) = id else { return Registration(None) };
        let mut entries = self.lock();
        if entries.len() >= RUNS_MAX || entries.contains_key(&(project, id.clone())) {
            return Registration(None);
        }
        let run = QueryRun {
            project,
            id: id.clone(),
            status: QueryStatus::Running,
            started_at: now,
            ended_at: None,
            expires_at: now.plus_seconds(RETENTION_SECONDS),
        };
        entries.insert((project, id.clone()), Entry { run, cancel, referenced });
        Registration(Some((self.clone(), project, id)))
    }

    pub fn start<F>(
        &self,
        project: ProjectId,
        id: Option<String>,
        now: Timestamp,
        referenced: ReferencedObjects,
        work: impl FnOnce(Cancel) -> F,
    ) -> Result<QueryRun>
    where
        F: Future<Output = (Result<Arc<QueryResult>>, Timestamp)> + Send + 'static,
    {
        let id = id.unwrap_or_else(|| Uuid::new_v4().simple().to_string());
        let cancel = Cancel::default();
        let run = QueryRun {
            project,
            id: id.clone(),
            status: QueryStatus::Running,
            started_at: now,
            ended_at: None,
            expires_at: now.plus_seconds(RETENTION_SECONDS),
        };
        let mut entries = self.lock();
        entries.retain(|_, entry| entry.run.expires_at > now);
        if entries.len() >= RUNS_MAX {
            entries.retain(|_, entry| entry.run.ended_at.is_none());
        }
        if entries.len() >= RUNS_MAX {
            return Err(Error::Busy);
        }
        let entry = Entry { run: run.clone(), cancel: cancel.clone(), referenced };
        if let Some(replaced) = entries.insert((project, id.clone()), entry) {
            replaced.cancel.now();
        }
        drop(entries);
        let (work, background) = (work(cancel.clone()), self.clone());
        tokio::spawn(async move {
            let (result, ended) = work.await;
            let status = match result {
                Ok(result) => QueryStatus::Completed(result),
                Err(error) => {
                    let is_user_facing = error.is_user_facing();
                    if !is_user_facing {
                        tracing::error!(error = &error as &dyn std::error::Error, "query failed");
                    }
                    QueryStatus::Failed { message: error.to_string(), is_user_facing }
                }
            };
            background.end(&(project, id), &cancel, status, ended);
        });
        Ok(run)
    }

    /// Stores the outcome, unless a newer run has taken the id.
    fn end(&self, key: &(ProjectId, String), ended: &Cancel, status: QueryStatus, at: Timestamp) {
        let mut entries = self.lock();
        match entries.get_mut(key) {
            Some(entry) if entry.cancel.is(ended) => {
                entry.run.status = status;
                entry.run.ended_at = Some(at);
            }
            _ => return,
        }
        let bytes = |entry: &Entry| match &entry.run.status {
            QueryStatus::Completed(result) => result.bytes(),
            QueryStatus::Running | QueryStatus::Failed { .. } => 0,
        };
        while entries.values().map(bytes).sum::<usize>() > RESULTS_BYTES_MAX {
            let done = entries.iter().filter(|(other, entry)| *other != key && bytes(entry) > 0);
            let oldest = done.min_by_key(|(_, entry)| entry.run.ended_at);
            let Some(oldest) = oldest.map(|(other, _)| other.clone()) else { break };
            entries.remove(&oldest);
        }
    }

    /// A run, and the objects that a caller must be allowed to view.
    pub fn get(
        &self,
        project: ProjectId,
        id: &str,
        now: Timestamp,
    ) -> Option<(QueryRun, ReferencedObjects)> {
        let entries = self.lock();
        let Entry { run, referenced, .. } = entries.get(&(project, id.to_owned()))?;
        (run.expires_at > now).then(|| (run.clone(), referenced.clone()))
    }

    pub fn cancel(&self, project: ProjectId, id: &str) {
        if let Some(entry) = self.lock().get(&(project, id.to_owned())) {
            entry.cancel.now();
        }
    }
}
