//! What is stored of those who ask, remembered until the pipeline applies something new.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use catalog::{Catalog, FlagPerson, HashKey};
use model::person::PersonNo;
use model::{CohortId, ProjectId};
use serde_json::Value;

use super::{Asked, ByFlag};
use crate::FlagSet;

/// All are forgotten when there are more,
const REMEMBERED_MAX: usize = 10_000;
/// or when they take more: anybody may send events that give a person half a megabyte.
const REMEMBERED_BYTES_MAX: usize = 16 << 20;
/// What an id, an entry and a value take beside their texts.
const ENTRY_BYTES: usize = 128;

/// Persons by distinct id, as they were at one position of the journal.
#[derive(Default)]
pub(super) struct People(RwLock<Remembered>);

#[derive(Default)]
struct Remembered {
    position: u64,
    bytes: usize,
    persons: HashMap<(ProjectId, Box<str>), Option<Arc<FlagPerson>>>,
}

impl Remembered {
    fn keep(&mut self, position: u64, key: (ProjectId, Box<str>), found: Option<Arc<FlagPerson>>) {
        let properties = found.iter().flat_map(|person| &person.properties);
        let properties = properties.map(|(name, value)| name.len() + value_bytes(value));
        let bytes = ENTRY_BYTES + 2 * key.1.len() + properties.sum::<usize>();
        let full = self.persons.len() >= REMEMBERED_MAX
            || self.bytes.saturating_add(bytes) > REMEMBERED_BYTES_MAX;
        if self.position != position || full {
            *self = Self { position, ..Self::default() };
        }
        if bytes <= REMEMBERED_BYTES_MAX && self.persons.insert(key, found).is_none() {
            self.bytes += bytes;
        }
    }
}

/// About what a value takes. It was parsed from a text of bounded depth.
fn value_bytes(value: &Value) -> usize {
    ENTRY_BYTES
        + match value {
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(value_bytes).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| name.len() + value_bytes(value)).sum()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// What an answer may use.
#[derive(Default)]
pub(super) struct Known {
    pub person: Option<Arc<FlagPerson>>,
    pub hash_keys: ByFlag,
    pub static_cohorts: HashSet<CohortId>,
    pub unavailable: bool,
}

impl Known {
    pub(super) fn unavailable() -> Self {
        Self { unavailable: true, ..Self::default() }
    }
}

impl People {
    pub(super) async fn find(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        set: &FlagSet,
        asked: &Asked,
    ) -> catalog::Result<Known> {
        let person = self.person(catalog, project, &asked.distinct_id).await?;
        let static_cohorts = match &person {
            Some(person) if set.needs_static_cohorts() => {
                Box::pin(catalog.cohorts().static_of_person(project, person.no)).await?
            }
            _ => HashSet::new(),
        };
        if !set.needs_hash_keys() {
            return Ok(Known { person, static_cohorts, ..Known::default() });
        }
        let anonymous = match &asked.anon_distinct_id {
            Some(id) if *id != asked.distinct_id => self.person(catalog, project, id).await?,
            _ => None,
        };
        let persons = [person.as_deref(), anonymous.as_deref()];
        let hash_keys = Box::pin(hash_keys(catalog, project, set, asked, persons)).await?;
        Ok(Known { person, hash_keys, static_cohorts, unavailable: false })
    }

    async fn person(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        distinct_id: &str,
    ) -> catalog::Result<Option<Arc<FlagPerson>>> {
        // Before the question: an answer that is older than a change must not outlive it.
        let position = catalog.ingest().applied_position();
        let key = (project, Box::from(distinct_id));
        {
            let remembered = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if remembered.position == position
                && let Some(known) = remembered.persons.get(&key)
            {
                return Ok(known.clone());
            }
        }
        let found = Box::pin(catalog.flags().persons(project, &[distinct_id])).await?;
        let found = found.into_iter().next().map(Arc::new);
        let mut remembered = self.0.write().unwrap_or_else(PoisonError::into_inner);
        remembered.keep(position, key, found.clone());
        Ok(found)
    }
}

/// The stored keys, and new ones for an anonymous id that becomes somebody.
async fn hash_keys(
    catalog: &Catalog,
    project: ProjectId,
    set: &FlagSet,
    asked: &Asked,
    persons: [Option<&FlagPerson>; 2],
) -> catalog::Result<ByFlag> {
    let mut numbers: Vec<PersonNo> = persons.iter().flatten().map(|person| person.no).collect();
    numbers.dedup();
    if numbers.is_empty() {
        return Ok(ByFlag::new());
    }
    let mut stored = catalog.flags().hash_keys(project, &numbers).await?;
    if let Some(anonymous) = &asked.anon_distinct_id {
        let missing: Vec<HashKey> = set
            .continuous()
            .flat_map(|flag| numbers.iter().map(move |person| (flag, *person)))
            .filter(|(flag, _)| !stored.iter().any(|known| known.flag_key == flag.key))
            .map(|(flag, person)| HashKey {
                person,
                flag_key: flag.key.clone(),
                hash_key: anonymous.clone(),
            })
            .collect();
        if !missing.is_empty() {
            catalog.flags().add_hash_keys(project, &missing).await?;
            stored = catalog.flags().hash_keys(project, &numbers).await?;
        }
    }
    // The row of whoever owns the distinct id wins, so it comes last.
    let own = persons[0].map(|person| person.no);
    stored.sort_by_key(|key| Some(key.person) == own);
    Ok(stored.into_iter().map(|key| (key.flag_key, key.hash_key)).collect())
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn remembered_persons_are_bounded_by_their_bytes() {
        let mut remembered = Remembered::default();
        for number in 0..200 {
            let large =
                json!({ "a": vec!["x".repeat(100); 1_000], "b": { "c": "y".repeat(100_000) } });
            let Value::Object(properties) = large else { panic!("an object") };
            let person = FlagPerson {
                distinct_id: "d".into(),
                no: PersonNo(number),
                properties,
                created_at: Timestamp::from_micros(0),
            };
            let key = (ProjectId(1), number.to_string().into());
            remembered.keep(7, key, Some(Arc::new(person)));
            assert!(remembered.bytes <= REMEMBERED_BYTES_MAX);
            assert!(remembered.bytes >= 200_000 * remembered.persons.len());
        }
        assert!((1..=80).contains(&remembered.persons.len()), "{}", remembered.persons.len());
        remembered.keep(8, (ProjectId(1), "d".into()), None);
        assert_eq!((remembered.persons.len(), remembered.position), (1, 8));
    }
}
