//! Event rows: as stored, as appended, and the identity that deduplicates them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use model::json::{JsonError, Members};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::columns::Value;
use crate::columns::json::{ObjectWriter, with_json_value};

pub const GROUP_TYPES: usize = 5;

/// One stored event. It is a pure function of its journal record and of dense ids that never change,
/// so replaying the journal yields the same row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    pub project: ProjectId,
    pub uuid: Uuid,
    pub event: Arc<str>,
    pub distinct_id: Arc<str>,
    /// The dense id of `distinct_id` in this project, assigned by the catalog and never reused.
    pub distinct_no: u32,
    pub timestamp: Timestamp,
    pub created_at: Timestamp,
    /// Empty when there is none.
    pub elements_chain: String,
    /// Keys of the groups the event belongs to, by group type index.
    pub groups: [Option<String>; GROUP_TYPES],
    /// A JSON object. Values and number literals are preserved; member order and white space are not.
    pub properties: String,
    /// The event's position in the journal.
    pub position: u64,
    pub historical: bool,
}

/// The properties of a new row, in whatever form the caller has them.
pub trait PropertySource: Debug {
    /// Visits them in order. If a name repeats, the last one counts.
    fn each(&self, visit: &mut dyn FnMut(Property<'_>));

    /// An upper estimate of the length of their JSON, without visiting each.
    fn bytes_max(&self) -> usize;
}

/// A property's name and its value as valid JSON.
#[derive(Clone, Copy, Debug)]
pub struct Property<'a> {
    pub name: &'a str,
    pub json: &'a str,
    /// Whether the value is known to have no escapes.
    pub unescaped: bool,
    /// A fixed id of the name, below [`WELL_KNOWN_PROPERTIES_MAX`], if it is one of the caller's
    /// well-known properties. Saves the lookup by name.
    pub well_known_id: Option<u8>,
}

/// Bound of well-known property ids.
pub const WELL_KNOWN_PROPERTIES_MAX: usize = 128;

/// A JSON object. If it is malformed, the members before the fault.
impl PropertySource for String {
    fn each(&self, visit: &mut dyn FnMut(Property<'_>)) {
        for (name, json) in Members::new(self).into_iter().flatten().flatten() {
            let unescaped = !json.as_bytes().contains(&b'\\');
            visit(Property { name: &name, json, unescaped, well_known_id: None });
        }
    }

    fn bytes_max(&self) -> usize {
        self.len()
    }
}

/// One event to append, borrowed from the caller.
#[derive(Clone, Debug)]
pub struct NewRow<'a> {
    pub project: ProjectId,
    pub uuid: Uuid,
    pub event: &'a str,
    pub distinct_id: &'a str,
    pub distinct_no: u32,
    pub timestamp: Timestamp,
    pub created_at: Timestamp,
    pub elements_chain: &'a str,
    pub groups: [Option<Cow<'a, str>>; GROUP_TYPES],
    pub properties: &'a dyn PropertySource,
    pub position: u64,
    pub historical: bool,
}

/// The deduplication key: two rows of a project with equal identity are the same event. It excludes
/// the timestamp, because a retry may get another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub uuid: Uuid,
    pub event: Arc<str>,
    pub distinct_no: u32,
}

impl EventRow {
    /// Borrows the row to append it. Fails if the properties are not a JSON object.
    pub fn as_new(&self) -> Result<NewRow<'_>, JsonError> {
        let mut members = Members::new(&self.properties)?;
        members.by_ref().try_for_each(|member| member.map(drop))?;
        if !members.is_finished() {
            return Err(JsonError::Malformed);
        }
        Ok(NewRow {
            project: self.project,
            uuid: self.uuid,
            event: &self.event,
            distinct_id: &self.distinct_id,
            distinct_no: self.distinct_no,
            timestamp: self.timestamp,
            created_at: self.created_at,
            elements_chain: &self.elements_chain,
            groups: std::array::from_fn(|at| self.groups[at].as_deref().map(Cow::Borrowed)),
            properties: &self.properties,
            position: self.position,
            historical: self.historical,
        })
    }

    /// Whether `other`, a row of the same event, has equal content. Reception time and journal
    /// position are not content.
    pub(crate) fn has_same_content(&self, other: &NewRow<'_>) -> bool {
        let groups = self.groups.iter().zip(&other.groups);
        self.timestamp == other.timestamp
            && self.elements_chain == other.elements_chain
            && groups.map(|(key, other)| (key.as_deref(), other.as_deref())).all(|(a, b)| a == b)
            && canonical(&self.properties) == canonical(other.properties)
    }
}

/// Two quotes, a colon and a comma.
const MEMBER_PUNCTUATION_BYTES: usize = 4;

impl NewRow<'_> {
    /// An upper estimate of the row's size in memory.
    pub(crate) fn bytes_max(&self) -> usize {
        let groups: usize = self.groups.iter().flatten().map(|key| key.len()).sum();
        let texts = self.event.len() + self.distinct_id.len() + self.elements_chain.len();
        size_of::<NewRow<'_>>() + texts + groups + self.properties.bytes_max()
    }

    /// The approximate length of the properties' JSON.
    pub fn properties_bytes(&self) -> usize {
        let mut bytes = 0;
        self.properties.each(&mut |property| {
            bytes += property.name.len() + property.json.len() + MEMBER_PUNCTUATION_BYTES;
        });
        bytes
    }

    /// An owned copy.
    pub fn to_row(&self) -> EventRow {
        let mut properties = ObjectWriter::new();
        self.properties.each(&mut |property| {
            properties.member(property.name, Value::Json(property.json));
        });
        EventRow {
            project: self.project,
            uuid: self.uuid,
            event: self.event.into(),
            distinct_id: self.distinct_id.into(),
            distinct_no: self.distinct_no,
            timestamp: self.timestamp,
            created_at: self.created_at,
            elements_chain: self.elements_chain.to_owned(),
            groups: std::array::from_fn(|at| self.groups[at].as_deref().map(str::to_owned)),
            properties: properties.finish(),
            position: self.position,
            historical: self.historical,
        }
    }
}

/// Properties by name, as canonical JSON, the last one of each name.
fn canonical(properties: &dyn PropertySource) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    properties.each(&mut |property| {
        let value = with_json_value(property.json, |value| value.to_json());
        all.insert(property.name.to_owned(), value);
    });
    all
}
