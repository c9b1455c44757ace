//! Exponential backoff per project, so that one that cannot be written does not block the others.

use std::collections::BTreeMap;
use std::sync::Mutex;

use model::ProjectId;

use crate::Error;
use crate::write::warehouse::lock;

/// The delay after the first failure; it doubles with each further one, up to the longest.
const DELAY_MIN_MICROS: i64 = 5_000_000;
const DELAY_MAX_MICROS: i64 = 600_000_000;

#[derive(Debug, Default)]
pub(crate) struct ProjectBackoff(Mutex<BTreeMap<ProjectId, Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    why: String,
    delay: i64,
    retry_at: i64,
}

impl ProjectBackoff {
    pub fn failed(&self, project: ProjectId, now: i64, error: &Error) {
        let mut all = lock(&self.0);
        let delay = all.get(&project).map_or(DELAY_MIN_MICROS, |failure| failure.delay * 2);
        let delay = delay.min(DELAY_MAX_MICROS);
        let failure = Failure { why: error.to_string(), delay, retry_at: now + delay };
        all.insert(project, failure);
    }

    pub fn succeeded(&self, project: ProjectId) {
        lock(&self.0).remove(&project);
    }

    pub fn is_failing(&self, project: ProjectId) -> bool {
        lock(&self.0).contains_key(&project)
    }

    /// The error of a project whose backoff is not over.
    pub fn waiting(&self, project: ProjectId, now: i64) -> Option<String> {
        let all = lock(&self.0);
        let failure = all.get(&project)?;
        (now < failure.retry_at).then(|| failure.why.clone())
    }

    pub fn all(&self) -> Vec<(ProjectId, String)> {
        lock(&self.0).iter().map(|(project, failure)| (*project, failure.why.clone())).collect()
    }
}
