//! Fills static cohorts with the persons that a flag is enabled for.

use catalog::{CohortFromFlag, PersonSource};
use model::ProjectId;
use model::person::PersonNo;

use super::scan::PersonBatch;
use super::{Flags, projects};
use crate::Selection;

impl Flags {
    /// Fills the next queued cohort; false if the queue is empty. `persons_of` reads a project's
    /// persons.
    pub async fn fill_due_cohort<S: PersonSource>(
        &self,
        persons_of: impl AsyncFnOnce(ProjectId) -> catalog::Result<S>,
    ) -> catalog::Result<bool> {
        let catalog = &self.0.catalog;
        let Some(list) = catalog.cohorts().next_to_fill().await? else { return Ok(false) };
        let persons = persons_of(list.project).await?;
        match self.fill(&list, &persons).await {
            Ok(()) => catalog.cohorts().finish_fill(&list).await?,
            Err(error @ catalog::Error::Unavailable(_)) => return Err(error),
            // A cohort that cannot be filled must not block the queue.
            Err(error) => {
                tracing::warn!(cohort.id = %list.cohort, %error, "cannot fill a cohort");
                catalog.cohorts().fail_fill(&list, "The cohort could not be filled.").await?;
            }
        }
        Ok(true)
    }

    /// A flag that is disabled, deleted or on groups adds no persons.
    async fn fill(&self, list: &CohortFromFlag, persons: &dyn PersonSource) -> catalog::Result<()> {
        let catalog = &self.0.catalog;
        let project = catalog.projects().get(list.project).await?;
        let flags = projects::load(catalog, &project).await?;
        let Some(flag) = flags.definitions().iter().find(|flag| flag.id == list.flag) else {
            return Ok(());
        };
        let selection = Selection { keys: Some(vec![flag.key.clone()]), ..Selection::default() };
        let mut after = None;
        let sets = [&flags.set];
        while let Some(part) = PersonBatch::after(catalog, &project, persons, after, &sets).await? {
            after = part.last();
            let mut matching: Vec<PersonNo> = Vec::new();
            part.each(catalog.clock().now(), |person, context| {
                let results = flags.set.evaluate(context, &selection);
                let result = results.results.iter().find(|result| result.flag.id == list.flag);
                // A person without a distinct id cannot evaluate flags.
                if result.is_some_and(|result| result.enabled) && !person.distinct_id.is_empty() {
                    matching.push(person.no);
                }
            });
            catalog.cohorts().fill(list, &matching).await?;
        }
        Ok(())
    }
}
