//! Lists of the persons for whom a flag is on.

use catalog::CohortFromFlag;
use model::person::PersonNo;

use super::scan::Part;
use super::{Flags, projects};
use crate::Selection;

impl Flags {
    /// Fills one list that waits for a flag's persons; false when none does.
    pub async fn fill_due_cohort(&self) -> catalog::Result<bool> {
        let catalog = &self.0.catalog;
        let Some(list) = catalog.cohorts().next_to_fill().await? else { return Ok(false) };
        match self.fill(&list).await {
            Ok(()) => catalog.cohorts().finish_fill(&list).await?,
            Err(error @ catalog::Error::Unavailable(_)) => return Err(error),
            // One that cannot be filled must not keep the others waiting.
            Err(error) => {
                tracing::warn!(cohort.id = %list.cohort, %error, "cannot fill a cohort");
                catalog.cohorts().fail_fill(&list, "The cohort could not be filled.").await?;
            }
        }
        Ok(true)
    }

    /// A flag that is off, gone, or about groups reaches nobody.
    async fn fill(&self, list: &CohortFromFlag) -> catalog::Result<()> {
        let catalog = &self.0.catalog;
        let project = catalog.projects().get(list.project).await?;
        let flags = projects::load(catalog, &project).await?;
        let Some(flag) = flags.definitions().iter().find(|flag| flag.id == list.flag) else {
            return Ok(());
        };
        let selection = Selection { keys: Some(vec![flag.key.clone()]), ..Selection::default() };
        let mut after = None;
        while let Some(part) = Part::behind(catalog, &project, after, &[&flags.set]).await? {
            after = part.last();
            let mut found: Vec<PersonNo> = Vec::new();
            part.each(catalog.clock().now(), |person, context| {
                let answers = flags.set.evaluate(context, &selection);
                let answer = answers.answers.iter().find(|answer| answer.flag.id == list.flag);
                // Without an id nobody can ask for flags.
                if answer.is_some_and(|answer| answer.enabled) && !person.distinct_id.is_empty() {
                    found.push(person.no);
                }
            });
            catalog.cohorts().fill(list, &found).await?;
        }
        Ok(())
    }
}
