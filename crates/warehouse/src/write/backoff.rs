//! Projects that cannot be written or merged, which must not keep the others waiting.

use std::collections::BTreeMap;
use std::sync::Mutex;

use model::ProjectId;

use crate::Error;
use crate::write::warehouse::lock;

/// The pause after a failure, doubled each time up to the longest.
const PAUSE_SHORTEST_MICROS: i64 = 5_000_000;
const PAUSE_LONGEST_MICROS: i64 = 600_000_000;

#[derive(Debug, Default)]
pub(crate) struct ProjectBackoff(Mutex<BTreeMap<ProjectId, Failure>>);

#[derive(Clone, Debug)]
struct Failure {
    why: String,
    pause: i64,
    retry_at: i64,
}

impl ProjectBackoff {
    pub fn failed(&self, project: ProjectId, now: i64, error: &Error) {
        let mut all = lock(&self.0);
        let pause = all.get(&project).map_or(PAUSE_SHORTEST_MICROS, |known| known.pause * 2);
        let pause = pause.min(PAUSE_LONGEST_MICROS);
        let failure = Failure { why: error.to_string(), pause, retry_at: now + pause };
        all.insert(project, failure);
    }

    pub fn succeeded(&self, project: ProjectId) {
        lock(&self.0).remove(&project);
    }

    pub fn has(&self, project: ProjectId) -> bool {
        lock(&self.0).contains_key(&project)
    }

    /// Why the project is left alone for now.
    pub fn waits(&self, project: ProjectId, now: i64) -> Option<String> {
        let all = lock(&self.0);
        let failure = all.get(&project)?;
        (now < failure.retry_at).then(|| failure.why.clone())
    }

    pub fn all(&self) -> Vec<(ProjectId, String)> {
        lock(&self.0).iter().map(|(project, failure)| (*project, failure.why.clone())).collect()
    }
}
