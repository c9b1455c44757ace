//! Evaluates a cohort's filters, and those of all cohorts it references, for persons.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::convert::Infallible;

use model::person::PersonNo;
use model::property::{BehavioralFilter, DEPTH_MAX, ExternalCondition, Node};
use model::{CohortId, ProjectId, Timestamp, Visibilities, stored_cohort_tree};
use serde_json::{Map, Value as Json};

use super::Cohorts;
use super::members::{BATCH_PERSONS, STATIC_VERSION};
use super::references::check_references;
use crate::db::{Value, args};
use crate::persons::scans::{PersonProperties, PersonSource};
use crate::{Error, Result};

/// The id of filters that are not stored.
const UNSAVED: CohortId = CohortId(-1);

/// The filters of a cohort and of all cohorts it references.
#[derive(Debug)]
pub struct CohortFilters {
    pub(super) id: CohortId,
    pub project: ProjectId,
    trees: HashMap<CohortId, Node>,
    /// Members of each static cohort among the current batch of persons.
    listed: HashMap<CohortId, HashSet<PersonNo>>,
}

/// Whether a person matches a behavioral filter.
pub type BehaviorTest<'d> = dyn Fn(&BehavioralFilter, PersonNo) -> bool + Send + Sync + 'd;

/// A batch of persons, and those of them that match.
pub(super) struct MatchedBatch {
    pub last: PersonNo,
    pub persons: usize,
    pub matching: Vec<PersonNo>,
}

impl CohortFilters {
    /// The behavioral filters that an evaluation needs, each once.
    pub fn behavioral_filters(&self) -> HashSet<&BehavioralFilter> {
        let mut filters = Vec::new();
        self.trees.values().for_each(|tree| tree.behavioral_filters(&mut filters));
        filters.into_iter().collect()
    }

    /// The person properties that the filters read.
    pub(super) fn property_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.trees.values().for_each(|tree| tree.properties(&mut names));
        let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        names.into_iter().collect()
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
    /// Unsaved filters, validated as if a cohort were saved with them.
    pub async fn draft(
        self,
        project: ProjectId,
        filters: &Map<String, Json>,
        visibility: &Visibilities,
    ) -> Result<CohortFilters> {
        let mut tx = self.core.db.begin_read().await?;
        check_references(&mut tx, project, None, filters, visibility).await?;
        drop(tx);
        let (trees, listed) = (HashMap::new(), HashMap::new());
        let mut draft = CohortFilters { id: UNSAVED, project, trees, listed };
        let tree = stored_cohort_tree(filters)
            .map_err(|why| Error::refused(Some("filters"), why.to_string()))?;
        let mut pending = Vec::new();
        tree.cohorts(&mut pending);
        draft.trees.insert(UNSAVED, tree);
        self.load_references(&mut draft, pending).await?;
        Ok(draft)
    }

    /// Counts the matching persons and all persons; `goes_on` is asked between batches and ends the
    /// scan with `None`.
    pub async fn count_matching(
        self,
        mut filters: CohortFilters,
        source: &dyn PersonSource,
        matches_behavior: &BehaviorTest<'_>,
        goes_on: impl Fn() -> bool,
    ) -> Result<Option<(u64, u64)>> {
        let names = filters.property_names();
        let (mut after, mut count, mut total) = (None, 0, 0);
        loop {
            let batch =
                self.match_batch(&mut filters, source, after, &names, matches_behavior).await?;
            let Some(batch) = batch else { return Ok(Some((count, total))) };
            after = Some(batch.last);
            count += batch.matching.len() as u64;
            total += batch.persons as u64;
            if !goes_on() {
                return Ok(None);
            }
            // Other requests get the thread, and a client that left ends the scan.
            tokio::task::yield_now().await;
        }
    }

    /// Evaluates the next persons after `after`; `None` at the end.
    pub(super) async fn match_batch(
        self,
        filters: &mut CohortFilters,
        source: &dyn PersonSource,
        after: Option<PersonNo>,
        names: &[String],
        matches_behavior: &BehaviorTest<'_>,
    ) -> Result<Option<MatchedBatch>> {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let persons = source.read_properties(after, BATCH_PERSONS, &names);
        let (Some(first), Some(last)) = (persons.first(), persons.last()) else { return Ok(None) };
        self.load_static_members(filters, (first.no, last.no)).await?;
        let now = self.core.clock.now();
        let matches = |person: &&PersonProperties| {
            let evaluation =
                PersonEvaluation::new(person.no, &person.properties, now, matches_behavior);
            filters.contains(filters.id, &evaluation, 0)
        };
        let matching = persons.iter().filter(matches).map(|person| person.no).collect();
        Ok(Some(MatchedBatch { last: last.no, persons: persons.len(), matching }))
    }

    /// The filters of a stored cohort.
    pub(super) async fn load(self, project: ProjectId, id: CohortId) -> Result<CohortFilters> {
        let (trees, listed) = (HashMap::new(), HashMap::new());
        let mut filters = CohortFilters { id, project, trees, listed };
        self.load_references(&mut filters, vec![id]).await?;
        Ok(filters)
    }

    /// Loads the filters of these cohorts and of all cohorts they reference.
    async fn load_references(
        self,
        filters: &mut CohortFilters,
        mut pending: Vec<CohortId>,
    ) -> Result<()> {
        while !pending.is_empty() {
            let requested: BTreeSet<CohortId> = pending.drain(..).collect();
            let ids: Vec<Value> = requested.iter().map(|id| (*id).into()).collect();
            let sql = "SELECT id, is_static, filters FROM cohorts \
                       WHERE project_id = $1 AND NOT deleted AND id IN {list}";
            let rows = self.core.db.all_in(sql, args![filters.project], &ids).await?;
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
                    filters.listed.insert(id, HashSet::new());
                    continue;
                }
                let stored: Option<Map<String, Json>> = row.optional_json("filters")?;
                let tree = stored_cohort_tree(&stored.unwrap_or_default())
                    .map_err(|why| Error::refused(Some("filters"), why.to_string()))?;
                tree.cohorts(&mut pending);
                filters.trees.insert(id, tree);
            }
            pending
                .retain(|id| !filters.trees.contains_key(id) && !filters.listed.contains_key(id));
        }
        Ok(())
    }

    async fn load_static_members(
        self,
        filters: &mut CohortFilters,
        reach: (PersonNo, PersonNo),
    ) -> Result<()> {
        let ids: Vec<Value> = filters.listed.keys().map(|id| (*id).into()).collect();
        filters.listed.values_mut().for_each(HashSet::clear);
        let sql = "SELECT cohort_id, person_no FROM cohort_people \
                   WHERE version = $1 AND person_no BETWEEN $2 AND $3 AND cohort_id IN {list}";
        for row in self.core.db.all_in(sql, args![STATIC_VERSION, reach.0, reach.1], &ids).await? {
            if let Some(listed) = filters.listed.get_mut(&row.get("cohort_id")?) {
                listed.insert(row.get("person_no")?);
            }
        }
        Ok(())
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
        let filters = CohortFilters {
            id: CohortId(levels),
            project: ProjectId(1),
            trees: (0..=levels).map(|level| (CohortId(level), tree(level))).collect(),
            listed: HashMap::new(),
        };
        let evaluations = AtomicUsize::new(0);
        let matches_behavior = |_: &BehavioralFilter, _: PersonNo| {
            evaluations.fetch_add(1, Ordering::Relaxed);
            true
        };
        let (properties, now) = (Map::new(), Timestamp::from_micros(0));
        assert!(filters.contains(
            filters.id,
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
