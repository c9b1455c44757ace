use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use model::json::{Fault, Members};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::columns::Value;
use crate::columns::json::{ObjectWriter, with_json_value};

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

/// The properties of a new row, wherever its owner has them.
pub trait PropertySource: Debug {
    /// Shows them in their order. Of a repeated name the last one counts.
    fn each(&self, show: &mut dyn FnMut(Property<'_>));

    /// At most so long is about their JSON, found without looking at each.
    fn bytes_max(&self) -> usize;
}

/// A property's name, and the JSON of its value, which is whole and valid.
#[derive(Clone, Copy, Debug)]
pub struct Property<'a> {
    pub name: &'a str,
    pub json: &'a str,
    /// Whether it is known that nothing is escaped in the value.
    pub unescaped: bool,
    /// Given to this name and to no other, below [`WELL_KNOWN_PROPERTIES_MAX`], if it is one that its
    /// owner knows beforehand.
    pub well_known_id: Option<u8>,
}

/// How many names may have a number.
pub const WELL_KNOWN_PROPERTIES_MAX: usize = 128;

/// A JSON object; of what is none, the members before the fault.
impl PropertySource for String {
    fn each(&self, show: &mut dyn FnMut(Property<'_>)) {
        for (name, json) in Members::new(self).into_iter().flatten().flatten() {
            let plain = !json.as_bytes().contains(&b'\\');
            show(Property { name: &name, json, unescaped: plain, well_known_id: None });
        }
    }

    fn bytes_max(&self) -> usize {
        self.len()
    }
}

/// One event to be stored, as its owner has it.
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

/// What makes two rows of a project the same event. The timestamp is no part of it: a retry may
/// get another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub uuid: Uuid,
    pub event: Arc<str>,
    pub distinct_no: u32,
}

impl EventRow {
    /// The same row, to be stored. It fails when the properties are no JSON object.
    pub fn as_new(&self) -> Result<NewRow<'_>, Fault> {
        let mut members = Members::new(&self.properties)?;
        members.by_ref().try_for_each(|member| member.map(drop))?;
        if !members.is_over() {
            return Err(Fault::Malformed);
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

    /// Whether `other`, a copy of the same event, says the same. When and where it was received is
    /// no part of what an event says.
    pub(crate) fn has_same_content(&self, other: &NewRow<'_>) -> bool {
        let groups = self.groups.iter().zip(&other.groups);
        self.timestamp == other.timestamp
            && self.elements_chain == other.elements_chain
            && groups.map(|(own, other)| (own.as_deref(), other.as_deref())).all(|(a, b)| a == b)
            && canonical(&self.properties) == canonical(other.properties)
    }
}

impl NewRow<'_> {
    /// At most, about.
    pub(crate) fn bytes_max(&self) -> usize {
        let groups: usize = self.groups.iter().flatten().map(|key| key.len()).sum();
        let texts = self.event.len() + self.distinct_id.len() + self.elements_chain.len();
        size_of::<NewRow<'_>>() + texts + groups + self.properties.bytes_max()
    }

    /// About the length of the properties' JSON.
    pub fn properties_bytes(&self) -> usize {
        let mut bytes = 0;
        self.properties.each(&mut |own| bytes += own.name.len() + own.json.len() + 4);
        bytes
    }

    /// A copy that outlives what it was file_kind from.
    pub fn to_row(&self) -> EventRow {
        let mut properties = ObjectWriter::new();
        self.properties.each(&mut |own| properties.member(own.name, Value::Json(own.json)));
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

/// Properties by name, as JSON in our own spelling, the last one of each name.
fn canonical(properties: &dyn PropertySource) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    properties.each(&mut |own| {
        all.insert(own.name.to_owned(), with_json_value(own.json, |value| value.to_json()));
    });
    all
}
