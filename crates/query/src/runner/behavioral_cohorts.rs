//! Calculates cohorts with behavioral filters: finds the matching persons in the events, then has
//! the catalog evaluate the cohort for every person.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{DueCohort, ProjectRow};
use facts::{Needs, Zone};
use insights::QueryLimits;
use model::property::BehavioralFilter;
use model::{ProjectId, Timestamp};
use warehouse::DenseIdSet;

use super::QueryRunner;
use crate::permits::spawn_query;
use crate::person_scan::PersonScan;
use crate::referenced_names::ReferencedNames;
use crate::{Error, Result};

/// Time for all behavioral filters of one cohort. No client waits for it.
const TIME_MAX: Duration = Duration::from_secs(60);

type MatchingPersons = HashMap<BehavioralFilter, DenseIdSet>;

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
            let persons = self.0.read_views.scan_persons(due.project).await?;
            Ok((persons, self.matching_persons(&due).await?))
        };
        let (persons, matching) = match evaluated.await {
            Ok(evaluated) => evaluated,
            Err(Error::Catalog(error @ catalog::Error::Unavailable(_))) => return Err(error),
            // A cohort that fails must not block the others.
            Err(error) => {
                let reason = match error.is_user_facing() {
                    true => error.to_string(),
                    false => {
                        tracing::warn!(cohort.id = %due.id, %error, "cannot calculate a cohort");
                        "The cohort could not be calculated.".to_owned()
                    }
                };
                catalog.cohorts().record_failure(&due, &reason).await?;
                return Ok(true);
            }
        };
        let matches = |behaviour: &BehavioralFilter, person: model::person::PersonNo| {
            matching.get(behaviour).is_some_and(|persons| persons.contains(person.0))
        };
        catalog.cohorts().calculate(due, &persons, &matches).await?;
        Ok(true)
    }

    /// All persons of a project as they are now.
    pub async fn scan_persons(&self, project: ProjectId) -> catalog::Result<PersonScan> {
        self.0.read_views.scan_persons(project).await
    }

    async fn matching_persons(&self, due: &DueCohort) -> Result<MatchingPersons> {
        let behaviours: Vec<BehavioralFilter> =
            due.behavioral_filters().into_iter().cloned().collect();
        if behaviours.is_empty() {
            return Ok(MatchingPersons::new());
        }
        let inner = &self.0;
        let project = inner.catalog.projects().get(due.project).await?;
        let (now, zone) = (inner.catalog.clock().now(), Zone::named(&project.timezone));
        let mut needs = Needs::default();
        for behaviour in &behaviours {
            let more = insights::behavioral_needs(behaviour, now, &zone)?;
            needs.groups |= more.groups;
            needs.all_cohorts |= more.all_cohorts;
            needs.cohorts.extend(more.cohorts);
            needs.actions.extend(more.actions);
            needs.expressions.extend(more.expressions);
        }
        let permit = inner.permits.acquire(due.project).await?;
        let deadline = Instant::now() + TIME_MAX;
        let memory = inner.pool.tracker(inner.limits.memory_bytes);
        let expressions =
            eval::Cancellation::default().with_deadline(deadline).with_memory(memory.clone());
        let names = ReferencedNames::default();
        let (view, _) = inner.read_views.open(&project, &needs, names, &expressions).await?;
        let limits = QueryLimits::new(Some(deadline), Arc::default(), 0).with_memory(memory);
        let scan = move || -> Result<MatchingPersons> {
            let evaluate = |behaviour: BehavioralFilter| {
                let persons = insights::matching_persons(&behaviour, &view, &limits)?;
                Ok((behaviour, persons))
            };
            behaviours.into_iter().map(evaluate).collect()
        };
        spawn_query(permit, scan).await?
    }
}
