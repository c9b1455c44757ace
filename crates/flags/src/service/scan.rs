//! Evaluates flags over all stored persons or groups: blast radius and dry run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use catalog::{Catalog, PersonSource, ProjectRow, ScannedPerson};
use model::group::Group;
use model::person::PersonNo;
use model::{CohortId, Timestamp};
use serde_json::{Map, Value};

use super::{ByFlag, Flags};
use crate::{Context, FlagSet, GroupSubject, HashKeys, Membership, Stored, Subject};

/// Persons or groups per catalog query.
const BATCH: i64 = 1_000;
/// Examples per cell of a comparison.
pub const EXAMPLES_MAX: usize = 20;

/// What a scan iterates over.
#[derive(Clone, Copy)]
pub enum ScanTarget<'a> {
    Persons(&'a dyn PersonSource),
    /// Groups of the type with this index.
    Groups(u8),
}

/// Results before and after a change of flags.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// Persons or groups evaluated.
    pub subjects: u64,
    /// False if the time limit ended the scan early.
    pub complete: bool,
    /// By (value before, value after).
    pub cells: BTreeMap<(String, String), Cell>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub count: u64,
    /// Distinct ids or group keys.
    pub examples: Vec<String>,
}

impl Comparison {
    fn add(&mut self, values: (String, String), name: &str) {
        self.subjects += 1;
        let cell = self.cells.entry(values).or_default();
        cell.count += 1;
        if cell.examples.len() < EXAMPLES_MAX {
            cell.examples.push(name.to_owned());
        }
    }
}

impl Flags {
    /// Calls `visit` with the distinct id or group key and the context of each; returns false if
    /// `max_duration` ended the scan early.
    pub async fn scan(
        &self,
        project: &ProjectRow,
        target: ScanTarget<'_>,
        sets: &[&FlagSet],
        max_duration: Duration,
        visit: impl FnMut(&str, &Context<'_>),
    ) -> catalog::Result<bool> {
        let until = Instant::now() + max_duration;
        match target {
            ScanTarget::Persons(source) => {
                scan_persons(&self.0.catalog, project, source, sets, until, visit).await
            }
            ScanTarget::Groups(index) => {
                scan_groups(&self.0.catalog, project, index, until, visit).await
            }
        }
    }

    /// Evaluates `old` and `new` for each person or group, and counts pairs of `value`s.
    pub async fn compare(
        &self,
        project: &ProjectRow,
        target: ScanTarget<'_>,
        (old, new): (&FlagSet, &FlagSet),
        max_duration: Duration,
        value: impl Fn(&FlagSet, &Context<'_>) -> String,
    ) -> catalog::Result<Comparison> {
        let mut comparison = Comparison::default();
        let visit = |name: &str, context: &Context<'_>| {
            comparison.add((value(old, context), value(new, context)), name);
        };
        let complete = self.scan(project, target, &[old, new], max_duration, visit).await?;
        Ok(Comparison { complete, ..comparison })
    }
}

/// A batch of persons, with the stored data that flags need.
pub(super) struct PersonBatch {
    persons: Vec<ScannedPerson>,
    lists: HashMap<PersonNo, HashSet<CohortId>>,
    keys: HashMap<PersonNo, ByFlag>,
}

impl PersonBatch {
    /// The next persons after `after`; `None` at the end.
    pub(super) async fn after(
        catalog: &Catalog,
        project: &ProjectRow,
        source: &dyn PersonSource,
        after: Option<PersonNo>,
        sets: &[&FlagSet],
    ) -> catalog::Result<Option<Self>> {
        let persons = source.read(after, BATCH as usize);
        let (Some(first), Some(last)) = (persons.first(), persons.last()) else { return Ok(None) };
        let lists = match sets.iter().any(|set| set.needs_static_cohorts()) {
            true => catalog.cohorts().static_of_range(project.id, first.no, last.no).await?,
            false => HashMap::new(),
        };
        let keys = match sets.iter().any(|set| set.needs_hash_keys()) {
            true => hash_keys(catalog, project, &persons).await?,
            false => HashMap::new(),
        };
        Ok(Some(Self { persons, lists, keys }))
    }

    pub(super) fn last(&self) -> Option<PersonNo> {
        self.persons.last().map(|person| person.no)
    }

    pub(super) fn each(&self, now: Timestamp, mut visit: impl FnMut(&ScannedPerson, &Context<'_>)) {
        let (no_keys, no_lists) = (ByFlag::new(), HashSet::new());
        for person in &self.persons {
            let context = Context {
                person: Subject::new(Map::new(), Stored::Known(&person.properties)),
                created_at: Some(Value::String(person.created_at.to_string())),
                hash_keys: HashKeys::Known(self.keys.get(&person.no).unwrap_or(&no_keys)),
                cohorts: Membership::Known(self.lists.get(&person.no).unwrap_or(&no_lists)),
                ..Context::unknown_person(&person.distinct_id, now)
            };
            visit(person, &context);
        }
    }
}

async fn scan_persons(
    catalog: &Catalog,
    project: &ProjectRow,
    source: &dyn PersonSource,
    sets: &[&FlagSet],
    until: Instant,
    mut visit: impl FnMut(&str, &Context<'_>),
) -> catalog::Result<bool> {
    let mut after = None;
    while let Some(part) = PersonBatch::after(catalog, project, source, after, sets).await? {
        after = part.last();
        part.each(catalog.clock().now(), |person, context| visit(&person.distinct_id, context));
        if Instant::now() > until {
            return Ok(false);
        }
        // Other requests get the thread, and a client that left ends the scan.
        tokio::task::yield_now().await;
    }
    Ok(true)
}

async fn hash_keys(
    catalog: &Catalog,
    project: &ProjectRow,
    persons: &[ScannedPerson],
) -> catalog::Result<HashMap<PersonNo, ByFlag>> {
    let numbers: Vec<PersonNo> = persons.iter().map(|person| person.no).collect();
    let mut keys_by_person: HashMap<PersonNo, ByFlag> = HashMap::new();
    for key in catalog.flags().hash_keys(project.id, &numbers).await? {
        keys_by_person.entry(key.person).or_default().insert(key.flag_key, key.hash_key);
    }
    Ok(keys_by_person)
}

async fn scan_groups(
    catalog: &Catalog,
    project: &ProjectRow,
    index: u8,
    until: Instant,
    mut visit: impl FnMut(&str, &Context<'_>),
) -> catalog::Result<bool> {
    let mut after: Option<String> = None;
    loop {
        let groups: Vec<Group> =
            catalog.flags().scan_groups(project.id, index, after.as_deref(), BATCH).await?;
        let Some(last) = groups.last() else { return Ok(true) };
        after = Some(last.key.clone());
        let now = catalog.clock().now();
        for group in &groups {
            let stored = Stored::Known(&group.properties);
            let mut context = Context::unknown_person("", now);
            if let Some(slot) = context.groups.get_mut(usize::from(index)) {
                *slot = Some(GroupSubject::new(group.key.clone(), Map::new(), stored));
            }
            visit(&group.key, &context);
        }
        if Instant::now() > until {
            return Ok(false);
        }
    }
}
