//! Calculates cohorts with behavioral filters: finds the matching persons in the events, then has
//! the catalog evaluate the cohort for every person.

use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{CohortFilters, ProjectRow};
use facts::{Needs, Zone};
use insights::AdmissionControl;
use model::person::PersonNo;
use model::property::BehavioralFilter;
use model::{ProjectId, Timestamp};

use super::{Cancel, CancelOnDrop, Inner, QueryRunner, RunResources};
use crate::person_scan::PersonScan;
use crate::referenced_names::ReferencedNames;
use crate::store::MatchingPersons;
use crate::{Error, Result};

/// Time for all behavioral filters of a stored cohort. No client waits for it.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Whether a behavioral filter can be evaluated. Objects that it references may still be missing.
pub fn check_behavioral_filter(
    behaviour: &BehavioralFilter,
    project: &ProjectRow,
    now: Timestamp,
) -> Result<()> {
    Ok(insights::behavioral_needs(behaviour, now, &Zone::named(&project.timezone)).map(drop)?)
}

impl QueryRunner {
    /// Calculates one cohort that is due; returns false when none is.
    pub async fn calculate_due_cohort(&self) -> catalog::Result<bool> {
        let catalog = &self.0.catalog;
        let Some(due) = catalog.cohorts().next_due().await? else { return Ok(false) };
        let evaluated = async {
            let persons = self.0.read_views.scan_persons(due.filters.project).await?;
            let matching = match due.filters.behavioral_filters().is_empty() {
                true => MatchingPersons::new(),
                false => self.0.matching_persons_unattended(&due.filters).await?,
            };
            Ok((persons, matching))
        };
        let (persons, matching) = match evaluated.await {
            Ok(evaluated) => evaluated,
            Err(Error::Catalog(error @ catalog::Error::Unavailable(_))) => return Err(error),
            // A cohort that fails must not block the others.
            Err(error) => {
                let reason = match error.is_user_facing() {
                    true => error.to_string(),
                    false => {
                        tracing::warn!(cohort.id = %due.id(), %error, "cannot calculate a cohort");
                        "The cohort could not be calculated.".to_owned()
                    }
                };
                catalog.cohorts().record_failure(&due, &reason).await?;
                return Ok(true);
            }
        };
        let matches = |behaviour: &BehavioralFilter, person: PersonNo| {
            matching.get(behaviour).is_some_and(|persons| persons.contains(person.0))
        };
        catalog.cohorts().calculate(due, &persons, &matches).await?;
        Ok(true)
    }

    /// Counts the persons that match unsaved filters, and all persons, within the time of a query
    /// and with its permit. Dropping the future cancels the count.
    pub async fn count_cohort(&self, filters: CohortFilters) -> Result<(u64, u64)> {
        let inner = &self.0;
        let resources = RunResources {
            permit: Arc::new(inner.permits.acquire(filters.project).await?),
            memory: inner.pool.tracker(inner.limits.memory_bytes),
            cancel: &Cancel::default(),
            time_max: inner.limits.timeout,
            memory_bytes: inner.limits.memory_bytes,
            admission: inner.admission.clone(),
            explains: false,
        };
        let _guard = CancelOnDrop(resources.cancel.clone());
        let deadline = Instant::now() + resources.time_max;
        let persons = inner.read_views.scan_persons(filters.project).await?;
        let matching = inner.matching_persons(&filters, &resources).await?;
        let matches = |behaviour: &BehavioralFilter, person: PersonNo| {
            matching.get(behaviour).is_some_and(|persons| persons.contains(person.0))
        };
        let goes_on = || Instant::now() < deadline;
        let cohorts = inner.catalog.cohorts();
        let counted = cohorts.count_matching(filters, &persons, &matches, goes_on).await?;
        counted.ok_or(Error::Timeout)
    }

    /// All persons of a project as they are now.
    pub async fn scan_persons(&self, project: ProjectId) -> catalog::Result<PersonScan> {
        self.0.read_views.scan_persons(project).await
    }
}

impl Inner {
    /// Without a client that waits. It takes no permit for memory-heavy insights, which clients wait
    /// for.
    async fn matching_persons_unattended(
        &self,
        filters: &CohortFilters,
    ) -> Result<MatchingPersons> {
        let resources = RunResources {
            permit: Arc::new(self.permits.acquire(filters.project).await?),
            memory: self.pool.tracker(self.limits.memory_bytes),
            cancel: &Cancel::default(),
            time_max: TIME_MAX,
            memory_bytes: self.limits.memory_bytes,
            admission: AdmissionControl::default(),
            explains: false,
        };
        self.matching_persons(filters, &resources).await
    }

    async fn matching_persons(
        &self,
        filters: &CohortFilters,
        resources: &RunResources<'_>,
    ) -> Result<MatchingPersons> {
        let behaviours: Vec<BehavioralFilter> =
            filters.behavioral_filters().into_iter().cloned().collect();
        if behaviours.is_empty() {
            return Ok(MatchingPersons::new());
        }
        let project = self.catalog.projects().get(filters.project).await?;
        let (now, zone) = (self.catalog.clock().now(), Zone::named(&project.timezone));
        let mut needs = Needs::default();
        for behaviour in &behaviours {
            let more = insights::behavioral_needs(behaviour, now, &zone)?;
            needs.groups |= more.groups;
            needs.all_cohorts |= more.all_cohorts;
            needs.cohorts.extend(more.cohorts);
            needs.actions.extend(more.actions);
            needs.expressions.extend(more.expressions);
        }
        let expressions = eval::Cancellation::new(resources.cancel.flag.clone())
            .with_deadline(Instant::now() + resources.time_max)
            .with_memory(resources.memory.clone());
        let names = ReferencedNames::default();
        let (view, _) = self.read_views.open(&project, &needs, names, &expressions).await?;
        view.matching_persons(behaviours, resources).await
    }
}

#[cfg(test)]
mod tests {
    use catalog::{Catalog, Location, Secret, Vault};
    use model::{Clock, Visibilities};
    use serde_json::{Map, json};
    use warehouse::Warehouse;

    use super::*;
    use crate::{Events, Limits, Store};

    #[tokio::test]
    async fn count_of_a_cohort_without_behavior_needs_a_permit_too() {
        let (dir, clock) = (tempfile::tempdir().unwrap(), Clock::system());
        let (file, vault) = (dir.path().join("catalog"), Vault::new(&Secret::given("secret")));
        let catalog = Catalog::open(Location::Sqlite(&file), vault, clock.clone()).await.unwrap();
        let events = dir.path().join("events");
        let warehouse =
            Warehouse::open(&events, 1, warehouse::Settings::default(), clock.clone()).unwrap();
        let (store, sink) = (Store::Embedded(warehouse.clone()), Arc::new(warehouse));
        let limits =
            Limits { concurrent_max: 1, queue_timeout: Duration::ZERO, ..Limits::default() };
        let queries = Events::new(catalog.clone(), store, sink, clock, None).queries(limits);
        let pro = json!({ "type": "person", "key": "plan", "value": "pro" });
        let filters =
            Map::from_iter([("properties".to_owned(), json!({ "type": "AND", "values": [pro] }))]);
        let project = ProjectId(1);
        let draft = async || {
            let everything = Visibilities::default();
            catalog.cohorts().draft(project, &filters, &everything).await.unwrap()
        };
        let running = queries.0.permits.acquire(project).await.unwrap();
        let refused = queries.count_cohort(draft().await).await;
        assert!(matches!(refused, Err(Error::Throttled)), "{refused:?}");
        drop(running);
        assert_eq!(queries.count_cohort(draft().await).await.unwrap(), (0, 0));
    }
}
