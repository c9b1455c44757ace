//! Cache of stored persons, invalidated when the pipeline applies a batch.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};

use catalog::{Catalog, FlagPerson, HashKey};
use model::person::PersonNo;
use model::{CohortId, ProjectId};
use serde_json::Value;

use super::{ByFlag, EvaluationRequest};
use crate::FlagSet;

/// Cached persons. At the limit the whole cache is cleared.
const CACHED_MAX: usize = 10_000;
/// Memory of the cache. At the limit it is cleared. The count alone is no bound: anonymous clients
/// can set 512 KiB of properties on one person.
const CACHED_BYTES_MAX: usize = 16 << 20;
/// Overhead of an entry or a value, besides its strings.
const ENTRY_BYTES: usize = 128;

/// Persons by distinct id, as of one journal position.
#[derive(Default)]
pub(super) struct PersonCache(RwLock<CachedPersons>);

#[derive(Default)]
struct CachedPersons {
    position: u64,
    bytes: usize,
    persons: HashMap<(ProjectId, Box<str>), Option<Arc<FlagPerson>>>,
}

impl CachedPersons {
    fn insert(
        &mut self,
        position: u64,
        key: (ProjectId, Box<str>),
        person: Option<Arc<FlagPerson>>,
    ) {
        let properties = person.iter().flat_map(|person| &person.properties);
        let properties = properties.map(|(name, value)| name.len() + value_bytes(value));
        let bytes = ENTRY_BYTES + 2 * key.1.len() + properties.sum::<usize>();
        let full =
            self.persons.len() >= CACHED_MAX || self.bytes.saturating_add(bytes) > CACHED_BYTES_MAX;
        if self.position != position || full {
            *self = Self { position, ..Self::default() };
        }
        if bytes <= CACHED_BYTES_MAX && self.persons.insert(key, person).is_none() {
            self.bytes += bytes;
        }
    }
}

/// Estimated memory of a value. Its depth is bounded, so recursion is safe.
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

/// The stored data that an evaluation uses.
#[derive(Default)]
pub(super) struct StoredPerson {
    pub person: Option<Arc<FlagPerson>>,
    pub hash_keys: ByFlag,
    pub static_cohorts: HashSet<CohortId>,
    pub unavailable: bool,
}

impl StoredPerson {
    pub(super) fn unavailable() -> Self {
        Self { unavailable: true, ..Self::default() }
    }
}

impl PersonCache {
    pub(super) async fn find(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        set: &FlagSet,
        request: &EvaluationRequest,
    ) -> catalog::Result<StoredPerson> {
        let person = self.person(catalog, project, &request.distinct_id).await?;
        let static_cohorts = match &person {
            Some(person) if set.needs_static_cohorts() => {
                Box::pin(catalog.cohorts().static_of_person(project, person.no)).await?
            }
            _ => HashSet::new(),
        };
        if !set.needs_hash_keys() {
            return Ok(StoredPerson { person, static_cohorts, ..StoredPerson::default() });
        }
        let anonymous = match &request.anon_distinct_id {
            Some(id) if *id != request.distinct_id => self.person(catalog, project, id).await?,
            _ => None,
        };
        let persons = [person.as_deref(), anonymous.as_deref()];
        let hash_keys = Box::pin(hash_keys(catalog, project, set, request, persons)).await?;
        Ok(StoredPerson { person, hash_keys, static_cohorts, unavailable: false })
    }

    async fn person(
        &self,
        catalog: &Catalog,
        project: ProjectId,
        distinct_id: &str,
    ) -> catalog::Result<Option<Arc<FlagPerson>>> {
        // Read before the query: a result that predates a change must not be cached after it.
        let position = catalog.ingest().applied_position();
        let key = (project, Box::from(distinct_id));
        {
            let cached = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if cached.position == position
                && let Some(known) = cached.persons.get(&key)
            {
                return Ok(known.clone());
            }
        }
        let loaded = Box::pin(catalog.flags().persons(project, &[distinct_id])).await?;
        let loaded = loaded.into_iter().next().map(Arc::new);
        let mut cached = self.0.write().unwrap_or_else(PoisonError::into_inner);
        cached.insert(position, key, loaded.clone());
        Ok(loaded)
    }
}

/// Loads the stored hash keys; stores new ones when an anonymous id is identified.
async fn hash_keys(
    catalog: &Catalog,
    project: ProjectId,
    set: &FlagSet,
    request: &EvaluationRequest,
    persons: [Option<&FlagPerson>; 2],
) -> catalog::Result<ByFlag> {
    let mut numbers: Vec<PersonNo> = persons.iter().flatten().map(|person| person.no).collect();
    numbers.dedup();
    if numbers.is_empty() {
        return Ok(ByFlag::new());
    }
    let mut stored = catalog.flags().hash_keys(project, &numbers).await?;
    if let Some(anonymous) = &request.anon_distinct_id {
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
    // The rows of the distinct id's person win, so they come last.
    let current = persons[0].map(|person| person.no);
    stored.sort_by_key(|key| Some(key.person) == current);
    Ok(stored.into_iter().map(|key| (key.flag_key, key.hash_key)).collect())
}

#[cfg(test)]
mod tests {
    use model::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn person_cache_is_bounded_in_bytes() {
        let mut cached = CachedPersons::default();
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
            cached.insert(7, key, Some(Arc::new(person)));
            assert!(cached.bytes <= CACHED_BYTES_MAX);
            assert!(cached.bytes >= 200_000 * cached.persons.len());
        }
        assert!((1..=80).contains(&cached.persons.len()), "{}", cached.persons.len());
        cached.insert(8, (ProjectId(1), "d".into()), None);
        assert_eq!((cached.persons.len(), cached.position), (1, 8));
    }
}
