//! Cache of each project's compiled flags, invalidated by changes of the project.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use catalog::{Catalog, ProjectRow};
use jiff::tz::TimeZone;
use model::ProjectId;
use model::flag::{CohortDefinition, FlagDefinition};
use model::group::GROUP_TYPES_MAX;
use model::property::Dialect;
use tokio::time::timeout;

use super::{LocalEvaluation, Unavailable};
use crate::{Environment, FlagSet};

/// Timeout for loading changed flags; then the previous ones are used.
const LOAD_TIMEOUT: Duration = Duration::from_secs(2);
/// After a failed load, the previous flags are used this long before a retry.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// Cached projects; beyond it, all are evicted.
const PROJECTS_MAX: usize = 10_000;

/// One project's flags.
pub struct ProjectFlags {
    pub set: FlagSet,
    pub(super) definitions: Vec<FlagDefinition>,
    pub(super) cohorts: Vec<CohortDefinition>,
    dialect: Dialect,
    pub(super) group_types: [Option<String>; GROUP_TYPES_MAX as usize],
    pub(super) local: OnceLock<LocalEvaluation>,
}

impl ProjectFlags {
    pub fn group_index(&self, kind: &str) -> Option<u8> {
        let at = self.group_types.iter().position(|known| known.as_deref() == Some(kind))?;
        u8::try_from(at).ok()
    }

    /// For compiling other flags of the project.
    pub fn environment(&self) -> Environment {
        Environment { dialect: self.dialect.clone(), cohorts: self.cohorts.clone() }
    }

    pub fn definitions(&self) -> &[FlagDefinition] {
        &self.definitions
    }

    /// The project's flags with `changed` in place of its stored version, or without it if `changed`
    /// is deleted.
    pub fn with(&self, changed: FlagDefinition) -> Self {
        let mut definitions: Vec<FlagDefinition> =
            self.definitions.iter().filter(|known| known.id != changed.id).cloned().collect();
        if !changed.deleted {
            definitions.push(changed);
        }
        let set = FlagSet::compile(&definitions, &self.environment());
        let (cohorts, dialect) = (self.cohorts.clone(), self.dialect.clone());
        let group_types = self.group_types.clone();
        Self { set, definitions, cohorts, dialect, group_types, local: OnceLock::new() }
    }
}

pub(super) struct Projects {
    slots: Arc<RwLock<HashMap<ProjectId, Arc<Slot>>>>,
}

#[derive(Default)]
struct Slot {
    /// Incremented with every change of the project.
    generation: AtomicU64,
    loaded: RwLock<Option<(u64, Arc<ProjectFlags>)>>,
    /// Held while loading, so that concurrent requests load once.
    loading: tokio::sync::Mutex<()>,
    failed_at: Mutex<Option<Instant>>,
}

impl Projects {
    pub(super) fn new(catalog: &Catalog) -> Self {
        let slots: Arc<RwLock<HashMap<ProjectId, Arc<Slot>>>> = Arc::default();
        // The catalog outlives its subscribers, so it must not keep them alive.
        let subscriber = Arc::downgrade(&slots);
        catalog.projects().on_change(move |project| {
            let Some(slots) = subscriber.upgrade() else { return };
            let slots = slots.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = slots.get(&project) {
                slot.generation.fetch_add(1, Ordering::SeqCst);
            }
        });
        Self { slots }
    }

    pub(super) async fn get(
        &self,
        catalog: &Catalog,
        project: &ProjectRow,
    ) -> Result<Arc<ProjectFlags>, Unavailable> {
        let slot = self.slot(project.id);
        if let Some(current) = slot.current() {
            return Ok(current);
        }
        if slot.is_backing_off()
            && let Some(last) = slot.last()
        {
            return Ok(last);
        }
        Box::pin(self.load(&slot, catalog, project)).await
    }

    async fn load(
        &self,
        slot: &Slot,
        catalog: &Catalog,
        project: &ProjectRow,
    ) -> Result<Arc<ProjectFlags>, Unavailable> {
        let _guard = slot.loading.lock().await;
        if let Some(current) = slot.current() {
            return Ok(current);
        }
        let generation = slot.generation.load(Ordering::SeqCst);
        let loaded = timeout(LOAD_TIMEOUT, load(catalog, project)).await;
        let failure = match loaded {
            Ok(Ok(flags)) => {
                let flags = Arc::new(flags);
                slot.store(generation, flags.clone());
                return Ok(flags);
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "timed out".to_owned(),
        };
        tracing::warn!(project.id = %project.id, error = failure, "cannot load flags");
        *slot.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        slot.last().ok_or(Unavailable)
    }

    fn slot(&self, project: ProjectId) -> Arc<Slot> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(&project) {
            return slot.clone();
        }
        drop(slots);
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= PROJECTS_MAX {
            slots.clear();
        }
        slots.entry(project).or_default().clone()
    }
}

impl Slot {
    fn current(&self) -> Option<Arc<ProjectFlags>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        let (generation, flags) = loaded.as_ref()?;
        (*generation == self.generation.load(Ordering::SeqCst)).then(|| flags.clone())
    }

    fn last(&self) -> Option<Arc<ProjectFlags>> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().map(|(_, flags)| flags.clone())
    }

    fn is_backing_off(&self) -> bool {
        let failed = self.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed.is_some_and(|at| at.elapsed() < RETRY_BACKOFF)
    }

    fn store(&self, generation: u64, flags: Arc<ProjectFlags>) {
        *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some((generation, flags));
        *self.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

pub(super) async fn load(catalog: &Catalog, project: &ProjectRow) -> catalog::Result<ProjectFlags> {
    let definitions = catalog.flags().definitions(project.id).await?;
    let cohorts = catalog.cohorts().definitions(project.id).await?;
    let mut group_types: [Option<String>; GROUP_TYPES_MAX as usize] = Default::default();
    for (name, index) in catalog
        .groups()
        .types_of_projects(&[project.id])
        .await?
        .remove(&project.id)
        .unwrap_or_default()
    {
        if let Some(slot) = group_types.get_mut(usize::from(index)) {
            *slot = Some(name);
        }
    }
    let zone = TimeZone::get(&project.timezone).unwrap_or(TimeZone::UTC);
    let dialect = Dialect { zone, ..Dialect::default() };
    let environment = Environment { dialect: dialect.clone(), cohorts: cohorts.clone() };
    let set = FlagSet::compile(&definitions, &environment);
    let rejected = dialect.patterns.rejected();
    if rejected > 0 {
        tracing::warn!(
            project.id = %project.id,
            patterns = rejected,
            "regular expressions over the project's memory budget match nothing; simplify them"
        );
    }
    Ok(ProjectFlags { set, definitions, cohorts, dialect, group_types, local: OnceLock::new() })
}
