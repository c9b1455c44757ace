//! Persons and distinct ids.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::json_object::JsonObject;
use crate::{ProjectId, Timestamp};

/// Upstream's UUIDv5 namespace of persons; the same in every installation.
const NAMESPACE: Uuid = Uuid::from_u128(0x932979b4_65c3_4424_8467_0b66ec27bc22);

/// A person's dense id within its project; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonNo(pub u32);

/// A distinct id's dense id within its project; never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DistinctNo(pub u32);

/// A person as stored. Readers use a map for its properties; the pipeline uses [`JsonObject`].
#[derive(Clone, Debug, PartialEq)]
pub struct Person<P = Map<String, Value>> {
    pub no: PersonNo,
    pub uuid: Uuid,
    pub properties: P,
    pub is_identified: bool,
    pub version: i64,
    pub created_at: Timestamp,
}

impl<P> Person<P> {
    /// Converts the properties to another representation.
    pub fn map<Q>(self, shape: impl FnOnce(P) -> Q) -> Person<Q> {
        let Self { no, uuid, properties, is_identified, version, created_at } = self;
        let properties = shape(properties);
        Person { no, uuid, properties, is_identified, version, created_at }
    }
}

/// A distinct id as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct DistinctId {
    pub no: DistinctNo,
    pub text: String,
    /// `None` while only personless events used the id, and after its person was deleted.
    pub person: Option<PersonNo>,
    pub version: i64,
    /// The next person of this id gets a higher version than this, set when a person is deleted.
    pub version_floor: i64,
}

/// Changes of persons and distinct ids that a batch produced. One transaction writes them: first the
/// merges in order, then the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentityChanges {
    /// (from, into): all distinct ids of the first person move to the second; the first is deleted.
    pub merges: Vec<(PersonNo, PersonNo)>,
    /// Deleted persons; their distinct ids stay, detached, and are in `ids`.
    pub deleted: Vec<PersonNo>,
    pub ids: Vec<DistinctId>,
    pub persons: Vec<Arc<Person<JsonObject>>>,
    /// Existing persons in `persons` whose uuid or `created_at` changed: few, and only these need
    /// their indexed columns updated.
    pub rekeyed: Vec<PersonNo>,
    /// Persons in `persons` with a smaller dense id existed before; zero if unknown.
    pub first_new_person: u32,
    pub next_distinct: u32,
    pub next_person: u32,
}

/// The uuid of a person created for this distinct id.
pub fn person_uuid(project: ProjectId, distinct_id: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{project}:{distinct_id}").as_bytes())
}
