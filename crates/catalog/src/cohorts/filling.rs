//! Fills static cohorts with the persons for whom a flag is on. The API requests it; a background
//! job does it, and restarts it after a crash.

use model::person::PersonNo;
use model::{CohortId, FlagId, ProjectId};

use super::Cohorts;
use super::members::{STATIC_VERSION, write_members};
use super::references::recalculate_dependents;
use crate::Result;
use crate::db::args;
use crate::feed;
use crate::objects::lock_dashboards;

/// A static cohort that waits for the persons of a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CohortFromFlag {
    pub cohort: CohortId,
    pub project: ProjectId,
    pub flag: FlagId,
}

impl Cohorts<'_> {
    /// The cohort that has waited longest.
    pub async fn next_to_fill(self) -> Result<Option<CohortFromFlag>> {
        let sql = "SELECT h.id, h.project_id, h.fill_from_flag FROM cohorts h \
                   JOIN projects p ON p.id = h.project_id \
                   WHERE h.fill_from_flag IS NOT NULL AND h.is_calculating AND NOT h.deleted \
                   AND p.deleted_at IS NULL ORDER BY h.id LIMIT 1";
        let Some(row) = self.core.db.optional(sql, args![]).await? else { return Ok(None) };
        Ok(Some(CohortFromFlag {
            cohort: row.get("id")?,
            project: row.get("project_id")?,
            flag: row.get("fill_from_flag")?,
        }))
    }

    /// Adds a batch of persons; idempotent.
    pub async fn fill(self, list: &CohortFromFlag, persons: &[PersonNo]) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        write_members(&mut tx, list.project, list.cohort, STATIC_VERSION, persons).await?;
        feed::record_cohort(&mut tx, list.project, (list.cohort, STATIC_VERSION)).await?;
        tx.commit().await
    }

    /// Marks the fill as finished.
    pub async fn finish_fill(self, list: &CohortFromFlag) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, list.project).await?;
        tx.run(
            "UPDATE cohorts SET is_calculating = FALSE, fill_from_flag = NULL, \
             last_calculation = $2, count = (SELECT COUNT(*) FROM cohort_people m \
             JOIN persons p ON p.project_id = m.project_id AND p.no = m.person_no \
             WHERE m.cohort_id = $1 AND m.version = $3) WHERE id = $1",
            args![list.cohort, self.core.clock.now(), STATIC_VERSION],
        )
        .await?;
        recalculate_dependents(&mut tx, list.project, list.cohort).await?;
        tx.commit().await?;
        self.notify_calculator();
        Ok(())
    }

    /// Ends the fill, keeps the members so far, and records the error.
    pub async fn fail_fill(self, list: &CohortFromFlag, why: &str) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "UPDATE cohorts SET is_calculating = FALSE, fill_from_flag = NULL, \
             last_calculation = $2, errors_calculating = errors_calculating + 1, \
             last_error_message = $3 WHERE id = $1",
            args![list.cohort, self.core.clock.now(), why],
        )
        .await?;
        tx.commit().await
    }
}
