//! Persons and the ids they are known by.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::json_object::JsonObject;
use crate::{ProjectId, Timestamp};

/// The namespace of persons' uuids, shared with every installation upstream.
const NAMESPACE: Uuid = Uuid::from_u128(0x932979b4_65c3_4424_8467_0b66ec27bc22);

/// A person's dense number within its project; never given to somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PersonNo(pub u32);

/// A distinct id's dense number within its project; never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DistinctNo(pub u32);

/// A person as stored. To be looked at its properties are a map, and a text while events change it.
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
    /// The same person with its properties in another shape.
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
    /// None while the id was only used without a person.
    pub person: Option<PersonNo>,
    pub version: i64,
    /// What a new person of this id must exceed, after one was deleted.
    pub version_floor: i64,
}

/// What a batch of events changed about who is who, to be written in one transaction: first the
/// moves in order, then the rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IdentityChanges {
    /// Every id of the first person now belongs to the second; the first is gone.
    pub merges: Vec<(PersonNo, PersonNo)>,
    /// Gone for good; their ids stay, and are among `ids`.
    pub deleted: Vec<PersonNo>,
    pub ids: Vec<DistinctId>,
    pub persons: Vec<Arc<Person<JsonObject>>>,
    /// Those of `persons` that were there before and got another uuid or age: few, and what is found
    /// by these must be found anew.
    pub rekeyed: Vec<PersonNo>,
    /// Those of `persons` with a smaller number were there before; zero if that is not known.
    pub first_new_person: u32,
    pub next_distinct: u32,
    pub next_person: u32,
}

/// The uuid of the person whose first distinct id this is.
pub fn person_uuid(project: ProjectId, distinct_id: &str) -> Uuid {
    Uuid::new_v5(&NAMESPACE, format!("{project}:{distinct_id}").as_bytes())
}
