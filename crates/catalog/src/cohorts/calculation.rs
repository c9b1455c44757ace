//! Calculates the members of dynamic cohorts by evaluating every person.
//!
//! A calculation inserts the members under a new version next to the current one, batch by batch,
//! and then switches the cohort to it. Readers see either version, and every transaction is short.
//! The caller evaluates behavioral filters, since only it can read events.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;

use model::person::PersonNo;
use model::property::{BehavioralFilter, DEPTH_MAX, ExternalCondition, Node};
use model::{CohortId, ProjectId, Timestamp, stored_cohort_tree};
use serde_json::{Map, Value as Json};

use super::Cohorts;
use super::members::{BATCH_PERSONS, STATIC_VERSION, write_members};
use super::references::referenced;
use crate::db::{Row, Value, args};
use crate::persons::scans::{PersonProperties, PersonSource};
use crate::{Error, Result};

/// A cohort is recalculated after this time, since persons and their properties change.
const STALE_SECONDS: i64 = 24 * 3_600;

/// A cohort that is due for calculation, with the filters of all cohorts it references.
#[derive(Debug)]
pub struct DueCohort {
    pub id: CohortId,
    pub project: ProjectId,
    /// The version that this calculation writes. A request that arrives later gets the next one.
    next: i64,
    trees: HashMap<CohortId, Node>,
    /// Members of each static cohort among the current batch of persons.
    listed: HashMap<CohortId, HashSet<PersonNo>>,
}

/// Whether a person matches a behavioral filter.
type BehaviorTest<'d> = dyn Fn(&BehavioralFilter, PersonNo) -> bool + Send + Sync + 'd;

impl DueCohort {
    /// The behavioral filters that the calculation evaluates, each once.
    pub fn behavioral_filters(&self) -> HashSet<&BehavioralFilter> {
        let mut filters = Vec::new();
        self.trees.values().for_each(|tree| tree.behavioral_filters(&mut filters));
        filters.into_iter().collect()
    }

    fn contains(&self, id: CohortId, person: &PersonEvaluation<'_>, depth: usize) -> bool {
        if let Some(listed) = self.listed.get(&id) {
            return listed.contains(&person.no);
        }
        let Some(tree) = self.trees.get(&id).filter(|_| depth <= DEPTH_MAX) else { return false };
        // Memoized: cohorts may reference each other many times, on every level.
        if let Some(known) = person.memo.borrow().get(&id) {
            return *known;
        }
        let mut ask = |asked: ExternalCondition<'_>| -> std::result::Result<bool, Infallible> {
            Ok(match asked {
                ExternalCondition::Cohort(other) => self.contains(other, person, depth + 1),
                ExternalCondition::Behavioral(behaviour) => {
                    (person.matches_behavior)(behaviour, person.no)
                }
            })
        };
        let Ok(holds) = tree.matches(person.properties, person.now, &mut ask);
        person.memo.borrow_mut().insert(id, holds);
        holds
    }
}

/// A person being evaluated.
struct PersonEvaluation<'p> {
    no: PersonNo,
    properties: &'p Map<String, Json>,
    now: Timestamp,
    matches_behavior: &'p BehaviorTest<'p>,
    /// Memoized results by cohort.
    memo: RefCell<HashMap<CohortId, bool>>,
}

impl<'p> PersonEvaluation<'p> {
    fn new(
        no: PersonNo,
        properties: &'p Map<String, Json>,
        now: Timestamp,
        matches_behavior: &'p BehaviorTest<'p>,
    ) -> Self {
        Self { no, properties, now, matches_behavior, memo: RefCell::default() }
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
            match self.load(project, id, next).await {
                Ok(due) => return Ok(Some(due)),
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
        let (mut first, mut tx) = (due, self.core.db.begin().await?);
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
        let (id, next) = (due.id, due.next);
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
        let DueCohort { id, project, next, .. } = due;
        // An interrupted calculation may have left rows of this version.
        let mut tx = self.core.db.begin().await?;
        let sql = "DELETE FROM cohort_people WHERE cohort_id = $1 AND version = $2";
        tx.run(sql, args![id, next]).await?;
        tx.commit().await?;
        let mut names = Vec::new();
        due.trees.values().for_each(|tree| tree.properties(&mut names));
        let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (mut after, mut count) = (None, 0);
        loop {
            let persons = source.read_properties(after, BATCH_PERSONS, &names);
            let (Some(first), Some(last)) = (persons.first(), persons.last()) else { break };
            after = Some(last.no);
            self.load_static_members(&mut due, (first.no, last.no)).await?;
            let now = self.core.clock.now();
            let mut matches: Vec<PersonNo> = Vec::new();
            for PersonProperties { no, properties, .. } in &persons {
                if due.contains(
                    id,
                    &PersonEvaluation::new(*no, properties, now, matches_behavior),
                    0,
                ) {
                    matches.push(*no);
                }
            }
            count += matches.len() as i64;
            let mut tx = self.core.db.begin().await?;
            write_members(&mut tx, project, id, next, &matches).await?;
            tx.commit().await?;
        }
        self.finish(id, next, count).await
    }

    /// Loads the filters of a cohort and of all cohorts it references.
    async fn load(self, project: ProjectId, id: CohortId, next: i64) -> Result<DueCohort> {
        let (trees, listed) = (HashMap::new(), HashMap::new());
        let mut due = DueCohort { id, project, next, trees, listed };
        let mut pending = vec![id];
        while !pending.is_empty() {
            let requested: BTreeSet<CohortId> = pending.drain(..).collect();
            let ids: Vec<Value> = requested.iter().map(|id| (*id).into()).collect();
            let sql = "SELECT id, is_static, filters FROM cohorts \
                       WHERE project_id = $1 AND NOT deleted AND id IN {list}";
            let rows = self.core.db.all_in(sql, args![project], &ids).await?;
            let existing: BTreeSet<CohortId> =
                rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
            // Without the missing cohort any result would be a guess; flags fail likewise.
            if let Some(missing) = requested.difference(&existing).next() {
                let detail = format!("It asks for cohort {missing}, which is deleted.");
                return Err(Error::refused(Some("filters"), detail));
            }
            for row in rows {
                let id: CohortId = row.get("id")?;
                if row.get("is_static")? {
                    due.listed.insert(id, HashSet::new());
                    continue;
                }
                let filters: Option<Map<String, Json>> = row.optional_json("filters")?;
                let tree = stored_cohort_tree(&filters.unwrap_or_default())
                    .map_err(|why| Error::refused(Some("filters"), why.to_string()))?;
                tree.cohorts(&mut pending);
                due.trees.insert(id, tree);
            }
            pending.retain(|id| !due.trees.contains_key(id) && !due.listed.contains_key(id));
        }
        Ok(due)
    }

    async fn load_static_members(
        self,
        due: &mut DueCohort,
        reach: (PersonNo, PersonNo),
    ) -> Result<()> {
        let ids: Vec<Value> = due.listed.keys().map(|id| (*id).into()).collect();
        due.listed.values_mut().for_each(HashSet::clear);
        let sql = "SELECT cohort_id, person_no FROM cohort_people \
                   WHERE version = $1 AND person_no BETWEEN $2 AND $3 AND cohort_id IN {list}";
        for row in self.core.db.all_in(sql, args![STATIC_VERSION, reach.0, reach.1], &ids).await? {
            if let Some(listed) = due.listed.get_mut(&row.get("cohort_id")?) {
                listed.insert(row.get("person_no")?);
            }
        }
        Ok(())
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
        self.mark_failed(due.id, due.next, why).await
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;

    /// How often the behavioral filter is evaluated for one person if each of `levels` cohorts
    /// references the one below three times.
    fn evaluations(levels: i64) -> usize {
        let cohort = |id: i64| json!({ "type": "cohort", "key": "id", "value": id });
        let behaviour = json!({
            "type": "behavioral", "key": "$pageview", "event_type": "events",
            "value": "performed_event", "time_value": 30, "time_interval": "day",
        });
        let tree = |level: i64| {
            let below = match level {
                0 => vec![behaviour.clone()],
                level => vec![cohort(level - 1); 3],
            };
            let filters = json!({ "properties": { "type": "AND", "values": below } });
            stored_cohort_tree(filters.as_object().unwrap()).unwrap()
        };
        let due = DueCohort {
            id: CohortId(levels),
            project: ProjectId(1),
            next: 1,
            trees: (0..=levels).map(|level| (CohortId(level), tree(level))).collect(),
            listed: HashMap::new(),
        };
        let evaluations = AtomicUsize::new(0);
        let matches_behavior = |_: &BehavioralFilter, _: PersonNo| {
            evaluations.fetch_add(1, Ordering::Relaxed);
            true
        };
        let (properties, now) = (Map::new(), Timestamp::from_micros(0));
        assert!(due.contains(
            due.id,
            &PersonEvaluation::new(PersonNo(1), &properties, now, &matches_behavior),
            0
        ));
        evaluations.into_inner()
    }

    #[test]
    fn memoized_cohorts_are_evaluated_once_per_person() {
        assert_eq!((evaluations(1), evaluations(15)), (1, 1));
    }
}
