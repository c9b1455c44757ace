use std::collections::BTreeMap;
use std::sync::Arc;

use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::json;
use crate::value::Value;

pub const GROUP_TYPES: usize = 5;

/// One stored event. A pure function of its journal record and of numbers that never change, so
/// that replaying the journal gives the same row again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    pub project: ProjectId,
    pub uuid: Uuid,
    pub event: Arc<str>,
    pub distinct_id: Arc<str>,
    /// The catalog's number of `distinct_id` in this project; never given to another id.
    pub distinct_no: u32,
    pub timestamp: Timestamp,
    pub created_at: Timestamp,
    /// Empty when there is none.
    pub elements_chain: String,
    /// Keys of the groups the event belongs to, by group type index.
    pub groups: [Option<String>; GROUP_TYPES],
    /// A JSON object. It comes back with equal values and unchanged number literals; the order of
    /// members and white space between them are not kept.
    pub properties: String,
    /// Where the event stands in the journal.
    pub position: u64,
    pub historical: bool,
}

/// What makes two rows of a project the same event. The timestamp is no part of it: a retry may
/// get another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub uuid: Uuid,
    pub event: Arc<str>,
    pub distinct_no: u32,
}

impl EventRow {
    pub(crate) fn identity(&self) -> Identity {
        Identity { uuid: self.uuid, event: self.event.clone(), distinct_no: self.distinct_no }
    }

    pub(crate) fn bytes(&self) -> usize {
        let groups: usize = self.groups.iter().flatten().map(String::len).sum();
        let texts = self.event.len() + self.distinct_id.len() + self.elements_chain.len();
        size_of::<EventRow>() + texts + groups + self.properties.len()
    }

    /// Whether `other`, a copy of the same event, says the same. When and where it was received is
    /// no part of what an event says.
    pub(crate) fn says_the_same(&self, other: &EventRow) -> bool {
        self.timestamp == other.timestamp
            && self.elements_chain == other.elements_chain
            && self.groups == other.groups
            && canonical(&self.properties)
                .is_some_and(|own| canonical(&other.properties) == Some(own))
    }
}

/// Members by name, as JSON, the last one of each name. `None` when it is no object.
fn canonical(properties: &str) -> Option<BTreeMap<String, String>> {
    let mut members = BTreeMap::new();
    let each = |name: &str, value: Value<'_>| {
        members.insert(name.to_owned(), value.to_json());
    };
    json::members(properties, each).ok()?;
    Some(members)
}
