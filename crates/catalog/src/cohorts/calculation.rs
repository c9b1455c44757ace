//! Calculates the members of dynamic cohorts by evaluating every person.
//!
//! A calculation inserts the members under a new version next to the current one, batch by batch,
//! and then switches the cohort to it. Readers see either version, and every transaction is short.
//! The caller evaluates behavioral filters, since only it can read events.

use model::property::DEPTH_MAX;
use model::{CohortId, ProjectId};

use super::Cohorts;
use super::evaluation::{BehaviorTest, CohortFilters};
use super::members::write_members;
use super::references::referenced;
use crate::db::{Row, Value, args};
use crate::feed::Feed;
use crate::persons::scans::PersonSource;
use crate::{Error, Result};

/// A cohort is recalculated after this time, since persons and their properties change.
const STALE_SECONDS: i64 = 24 * 3_600;

/// A cohort that is due for calculation, with the filters of all cohorts it references.
#[derive(Debug)]
pub struct DueCohort {
    pub filters: CohortFilters,
    /// The version that this calculation writes. A request that arrives later gets the next one.
    next: i64,
}

impl DueCohort {
    pub const fn id(&self) -> CohortId {
        self.filters.id
    }
}

impl Cohorts<'_> {
    pub(crate) fn notify_calculator(self) {
        self.requested.notify_one();
    }

    /// Returns when a calculation is requested.
    pub async fn calculation_requested(self) {
        self.requested.notified().await;
    }

    /// The cohort that has been due longest. Cohorts that reference a deleted one are marked as
    /// failed on the way.
    pub async fn next_due(self) -> Result<Option<DueCohort>> {
        let stale = self.core.clock.now().plus_seconds(-STALE_SECONDS);
        let sql = "SELECT h.id, h.project_id, h.is_calculating, COALESCE(h.version, 0) AS version, \
                   COALESCE(h.pending_version, 0) AS pending_version \
                   FROM cohorts h JOIN projects p ON p.id = h.project_id \
                   WHERE NOT h.deleted AND NOT h.is_static AND p.deleted_at IS NULL \
                   AND (h.is_calculating OR h.last_calculation < $1) \
                   ORDER BY COALESCE(h.last_calculation, 0), h.id LIMIT 1";
        while let Some(row) = self.core.db.optional(sql, args![stale]).await? {
            let (id, project) = (row.get("id")?, row.get("project_id")?);
            if !row.get::<bool>("is_calculating")? {
                self.request_recalculation(id).await?;
                continue;
            }
            let row = self.first_due_reference(project, row).await?;
            let id = row.get("id")?;
            let next = row.get::<i64>("pending_version")?.max(row.get::<i64>("version")? + 1);
            match self.load(project, id).await {
                Ok(filters) => return Ok(Some(DueCohort { filters, next })),
                Err(Error::Refused { detail, .. }) => self.mark_failed(id, next, &detail).await?,
                Err(error @ Error::Unavailable(_)) => return Err(error),
                Err(error) => self.record_unexpected_failure(id, next, &error).await?,
            }
        }
        Ok(None)
    }

    /// Behavioral filters read the stored members of referenced cohorts, so those that are due
    /// themselves are calculated first.
    async fn first_due_reference(self, project: ProjectId, due: Row) -> Result<Row> {
        let sql = "SELECT id, COALESCE(version, 0) AS version, \
                   COALESCE(pending_version, 0) AS pending_version FROM cohorts \
                   WHERE project_id = $1 AND is_calculating AND NOT deleted AND NOT is_static \
                   AND id <> $2 AND id IN {list}";
        let (mut first, mut tx) = (due, self.core.db.begin_read().await?);
        for _ in 0..DEPTH_MAX {
            let id: CohortId = first.get("id")?;
            let references: Vec<Value> = match referenced(&mut tx, project, id).await {
                Ok(references) => references.into_iter().map(Into::into).collect(),
                Err(error @ Error::Unavailable(_)) => return Err(error),
                // The calculation of that cohort reports the error.
                Err(_) => break,
            };
            match tx.all_in(sql, args![project, id], &references).await?.pop() {
                Some(row) => first = row,
                None => break,
            }
        }
        Ok(first)
    }

    /// Requests a calculation of a stale cohort under a version of its own.
    async fn request_recalculation(self, id: CohortId) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let sql = "UPDATE cohorts SET is_calculating = TRUE, \
                   pending_version = COALESCE(pending_version, version, 0) + 1 \
                   WHERE id = $1 AND NOT is_calculating";
        tx.run(sql, args![id]).await?;
        tx.commit().await
    }

    /// Marks a cohort as failed, so that it does not block the others.
    async fn record_unexpected_failure(
        self,
        id: CohortId,
        version: i64,
        error: &Error,
    ) -> Result<()> {
        tracing::warn!(cohort.id = %id, %error, "cannot calculate a cohort");
        self.mark_failed(id, version, "The cohort could not be calculated.").await
    }

    /// Calculates the members among `persons`; `matches_behavior` evaluates the behavioral filters.
    pub async fn calculate(
        self,
        due: DueCohort,
        persons: &dyn PersonSource,
        matches_behavior: &BehaviorTest<'_>,
    ) -> Result<()> {
        let (id, next) = (due.id(), due.next);
        match self.write_version(due, persons, matches_behavior).await {
            Err(error @ Error::Unavailable(_)) => Err(error),
            Err(error) => self.record_unexpected_failure(id, next, &error).await,
            Ok(()) => Ok(()),
        }
    }

    async fn write_version(
        self,
        mut due: DueCohort,
        source: &dyn PersonSource,
        matches_behavior: &BehaviorTest<'_>,
    ) -> Result<()> {
        let (id, project, next) = (due.id(), due.filters.project, due.next);
        // An interrupted calculation may have left rows of this version.
        let mut tx = self.core.db.begin().await?;
        let sql = "DELETE FROM cohort_people WHERE cohort_id = $1 AND version = $2";
        tx.run(sql, args![id, next]).await?;
        tx.commit().await?;
        let names = due.filters.property_names();
        let (mut after, mut count) = (None, 0);
        loop {
            let filters = &mut due.filters;
            let batch = self.match_batch(filters, source, after, &names, matches_behavior).await?;
            let Some(batch) = batch else { break };
            after = Some(batch.last);
            count += batch.matching.len() as i64;
            let mut tx = self.core.db.begin().await?;
            write_members(&mut tx, project, id, next, &batch.matching).await?;
            tx.commit().await?;
        }
        if self.core.db.change_feed().is_enabled() {
            Feed::new(self.core).tell_version(project, id, next).await?;
        }
        self.finish(id, next, count).await
    }

    async fn finish(self, id: CohortId, version: i64, count: i64) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "UPDATE cohorts SET version = $2, count = $3, last_calculation = $4, \
             errors_calculating = 0, last_error_message = NULL, \
             is_calculating = COALESCE(pending_version, 0) > $2, \
             pending_version = CASE WHEN COALESCE(pending_version, 0) > $2 \
             THEN pending_version ELSE $2 END WHERE id = $1",
            args![id, version, count, self.core.clock.now()],
        )
        .await?;
        let sql = "DELETE FROM cohort_people WHERE cohort_id = $1 AND version < $2";
        tx.run(sql, args![id, version]).await?;
        tx.commit().await
    }

    /// Keeps the current members and records the error.
    pub async fn record_failure(self, due: &DueCohort, why: &str) -> Result<()> {
        self.mark_failed(due.id(), due.next, why).await
    }

    async fn mark_failed(self, id: CohortId, version: i64, why: &str) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        tx.run(
            "UPDATE cohorts SET is_calculating = COALESCE(pending_version, 0) > $2, \
             last_calculation = $3, errors_calculating = errors_calculating + 1, \
             last_error_message = $4 WHERE id = $1",
            args![id, version, self.core.clock.now(), why],
        )
        .await?;
        tx.commit().await
    }
}
