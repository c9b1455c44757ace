//! Cohorts that ask what people did: the catalog looks at persons, and is told here about events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::{DueCohort, ProjectRow};
use facts::{Needs, Zone};
use insights::Stop;
use model::Timestamp;
use model::property::Behaviour;
use warehouse::Numbers;

use super::Queries;
use crate::names::Names;
use crate::reads::beside;
use crate::{Error, Result};

/// For all that one cohort asks for; nobody waits for an answer.
const TIME_MAX: Duration = Duration::from_secs(60);

type Doers = HashMap<Behaviour, Numbers>;

/// Whether it can be told who did it; whatever it names may still be missing.
pub fn check_behaviour(behaviour: &Behaviour, project: &ProjectRow, now: Timestamp) -> Result<()> {
    Ok(insights::deed_needs(behaviour, now, &Zone::named(&project.timezone)).map(drop)?)
}

impl Queries {
    /// Calculates one cohort that is due; false when none is.
    pub async fn calculate_due_cohort(&self) -> catalog::Result<bool> {
        let catalog = &self.0.catalog;
        let Some(due) = catalog.due_cohort().await? else { return Ok(false) };
        let doers = match self.doers(&due).await {
            Ok(doers) => doers,
            Err(Error::Catalog(error @ catalog::Error::Unavailable(_))) => return Err(error),
            // One that cannot be calculated must not keep the others waiting.
            Err(error) => {
                let why = match error.is_for_asker() {
                    true => error.to_string(),
                    false => {
                        tracing::warn!(cohort.id = %due.id, %error, "cannot calculate a cohort");
                        "The cohort could not be calculated.".to_owned()
                    }
                };
                catalog.cohort_failed(&due, &why).await?;
                return Ok(true);
            }
        };
        let did = |behaviour: &Behaviour, person: model::person::PersonNo| {
            doers.get(behaviour).is_some_and(|doers| doers.contains(person.0))
        };
        catalog.calculate_cohort(due, &did).await?;
        Ok(true)
    }

    async fn doers(&self, due: &DueCohort) -> Result<Doers> {
        let behaviours: Vec<Behaviour> = due.behaviours().into_iter().cloned().collect();
        if behaviours.is_empty() {
            return Ok(Doers::new());
        }
        let inner = &self.0;
        let project = inner.catalog.project(due.project).await?;
        let (now, zone) = (inner.catalog.clock().now(), Zone::named(&project.timezone));
        let mut needs = Needs::default();
        for behaviour in &behaviours {
            let own = insights::deed_needs(behaviour, now, &zone)?;
            needs.groups |= own.groups;
            needs.all_cohorts |= own.all_cohorts;
            needs.cohorts.extend(own.cohorts);
            needs.actions.extend(own.actions);
            needs.expressions.extend(own.expressions);
        }
        let turn = inner.turns.of(due.project).await?;
        let deadline = Instant::now() + TIME_MAX;
        let account = inner.pool.account(inner.limits.memory_bytes);
        let expressions = eval::Stop::default().until(deadline).within(account.clone());
        let names = Names::default();
        let (world, _) = inner.worlds.world(&project, &needs, names, &expressions).await?;
        let stop = Stop::new(Some(deadline), Arc::default(), 0).within(account);
        let look = move || -> Result<Doers> {
            let own = |behaviour: Behaviour| {
                let doers = insights::doers(&behaviour, &world, &stop)?;
                Ok((behaviour, doers))
            };
            behaviours.into_iter().map(own).collect()
        };
        beside(turn, look).await?
    }
}
