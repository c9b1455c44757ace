//! Whom flags reach, over everybody that is stored.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use catalog::{Catalog, ProjectRow, ScannedPerson};
use model::group::Group;
use model::person::PersonNo;
use model::{CohortId, Timestamp};
use serde_json::{Map, Value};

use super::{ByFlag, Flags};
use crate::{Context, FlagSet, GroupSubject, HashKeys, Membership, Stored, Subject};

/// Looked at before others get a turn.
const AT_ONCE: i64 = 1_000;
/// Examples kept of each change.
pub const EXAMPLES_MAX: usize = 20;

/// Over whom a question goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Everybody {
    Persons,
    /// Of the type with this index.
    Groups(u8),
}

/// What a change of flags would change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comparison {
    /// How many were looked at.
    pub subjects: u64,
    /// False when time ran out before everybody was.
    pub complete: bool,
    /// From which value to which.
    pub cells: BTreeMap<(String, String), Cell>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    pub count: u64,
    /// Some of them, by distinct id or group key.
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
    /// Lets `see` look at everybody, with the id or key each is known by, until it has seen all,
    /// or `patience` is at its end: then the answer is false.
    pub async fn scan(
        &self,
        project: &ProjectRow,
        everybody: Everybody,
        sets: &[&FlagSet],
        patience: Duration,
        see: impl FnMut(&str, &Context<'_>),
    ) -> catalog::Result<bool> {
        let until = Instant::now() + patience;
        match everybody {
            Everybody::Persons => scan_persons(&self.0.catalog, project, sets, until, see).await,
            Everybody::Groups(index) => {
                scan_groups(&self.0.catalog, project, index, until, see).await
            }
        }
    }

    /// What each of everybody would get from `new` in place of `old`, as `value` reads it.
    pub async fn compare(
        &self,
        project: &ProjectRow,
        everybody: Everybody,
        (old, new): (&FlagSet, &FlagSet),
        patience: Duration,
        value: impl Fn(&FlagSet, &Context<'_>) -> String,
    ) -> catalog::Result<Comparison> {
        let mut comparison = Comparison::default();
        let see = |name: &str, context: &Context<'_>| {
            comparison.add((value(old, context), value(new, context)), name);
        };
        let complete = self.scan(project, everybody, &[old, new], patience, see).await?;
        Ok(Comparison { complete, ..comparison })
    }
}

/// Some persons, and what flags need of each.
pub(super) struct Part {
    persons: Vec<ScannedPerson>,
    lists: HashMap<PersonNo, HashSet<CohortId>>,
    keys: HashMap<PersonNo, ByFlag>,
}

impl Part {
    /// The next persons behind `after`; none when everybody was there.
    pub(super) async fn behind(
        catalog: &Catalog,
        project: &ProjectRow,
        after: Option<PersonNo>,
        sets: &[&FlagSet],
    ) -> catalog::Result<Option<Self>> {
        let persons = catalog.flags().scan_persons(project.id, after, AT_ONCE).await?;
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

    pub(super) fn each(&self, now: Timestamp, mut see: impl FnMut(&ScannedPerson, &Context<'_>)) {
        let (no_keys, no_lists) = (ByFlag::new(), HashSet::new());
        for person in &self.persons {
            let context = Context {
                person: Subject::new(Map::new(), Stored::Known(&person.properties)),
                created_at: Some(Value::String(person.created_at.to_string())),
                hash_keys: HashKeys::Known(self.keys.get(&person.no).unwrap_or(&no_keys)),
                cohorts: Membership::Known(self.lists.get(&person.no).unwrap_or(&no_lists)),
                ..Context::stranger(&person.distinct_id, now)
            };
            see(person, &context);
        }
    }
}

async fn scan_persons(
    catalog: &Catalog,
    project: &ProjectRow,
    sets: &[&FlagSet],
    until: Instant,
    mut see: impl FnMut(&str, &Context<'_>),
) -> catalog::Result<bool> {
    let mut after = None;
    while let Some(part) = Part::behind(catalog, project, after, sets).await? {
        after = part.last();
        part.each(catalog.clock().now(), |person, context| see(&person.distinct_id, context));
        if Instant::now() > until {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn hash_keys(
    catalog: &Catalog,
    project: &ProjectRow,
    persons: &[ScannedPerson],
) -> catalog::Result<HashMap<PersonNo, ByFlag>> {
    let numbers: Vec<PersonNo> = persons.iter().map(|person| person.no).collect();
    let mut found: HashMap<PersonNo, ByFlag> = HashMap::new();
    for key in catalog.flags().hash_keys(project.id, &numbers).await? {
        found.entry(key.person).or_default().insert(key.flag_key, key.hash_key);
    }
    Ok(found)
}

async fn scan_groups(
    catalog: &Catalog,
    project: &ProjectRow,
    index: u8,
    until: Instant,
    mut see: impl FnMut(&str, &Context<'_>),
) -> catalog::Result<bool> {
    let mut after: Option<String> = None;
    loop {
        let groups: Vec<Group> =
            catalog.flags().scan_groups(project.id, index, after.as_deref(), AT_ONCE).await?;
        let Some(last) = groups.last() else { return Ok(true) };
        after = Some(last.key.clone());
        let now = catalog.clock().now();
        for group in &groups {
            let stored = Stored::Known(&group.properties);
            let mut context = Context::stranger("", now);
            if let Some(slot) = context.groups.get_mut(usize::from(index)) {
                *slot = Some(GroupSubject::new(group.key.clone(), Map::new(), stored));
            }
            see(&group.key, &context);
        }
        if Instant::now() > until {
            return Ok(false);
        }
    }
}
