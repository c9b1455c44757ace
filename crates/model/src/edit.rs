//! Edits of persons and groups through the API. They go through the journal like events, so that
//! identity has one total order and a single writer.
//!
//! On-disk format of the record: `kind u8 = 2, version u8 = 1, project i64, at i64` in
//! microseconds, little-endian, then the edit as JSON.
//!
//! A new kind of edit needs no new version: a release that does not know it keeps the record as a dead
//! letter. That such a release never meets one is up to the catalog's schema: see `CONTRIBUTING.md`.

use serde::{Deserialize, Serialize};
use serde_json::error::Category;
use serde_json::{Map, Value};

use crate::event::RecordError;
use crate::person::PersonNo;
use crate::{ProjectId, Timestamp};

pub const KIND_EDIT: u8 = 2;
const VERSION: u8 = 1;
const HEAD_BYTES: usize = 18;

#[derive(Clone, Debug, PartialEq)]
pub struct EditRecord {
    pub project: ProjectId,
    pub at: Timestamp,
    pub edit: Edit,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edit {
    /// Deletes persons, their events, or both. Distinct ids stay, detached. Persons that no longer
    /// exist are skipped.
    DeletePersons {
        persons: Vec<PersonNo>,
        #[serde(rename = "what")]
        scope: DeleteScope,
    },
    /// Moves distinct ids to new persons of their own. At least one id stays.
    SplitPerson {
        person: PersonNo,
        #[serde(rename = "leaving")]
        ids: SplitIds,
    },
    /// Merges `other` into `person`, whose properties win. Does nothing if either no longer exists.
    MergePersons { person: PersonNo, other: PersonNo },
    /// Updates a group's properties; creates the group if it does not exist.
    ChangeGroup { index: u8, key: String, set: Map<String, Value>, unset: Vec<String> },
    /// Renames a property on all persons that have it; overwrites an existing `to`.
    RenameProperty { from: String, to: String },
}

/// What [`Edit::DeletePersons`] deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeleteScope {
    Person,
    Events,
    Both,
}

impl DeleteScope {
    pub const fn has_person(self) -> bool {
        matches!(self, Self::Person | Self::Both)
    }

    pub const fn has_events(self) -> bool {
        matches!(self, Self::Events | Self::Both)
    }
}

/// Which distinct ids leave a person that is split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitIds {
    /// All but this one.
    #[serde(rename = "all_but")]
    AllExcept(String),
    #[serde(rename = "these")]
    Only(Vec<String>),
}

impl EditRecord {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[KIND_EDIT, VERSION]);
        out.extend_from_slice(&self.project.0.to_le_bytes());
        out.extend_from_slice(&self.at.as_micros().to_le_bytes());
        serde_json::to_writer(out, &self.edit).expect("strings and numbers always serialize");
    }

    pub fn decode(record: &[u8]) -> Result<Self, RecordError> {
        let (head, edit) = record
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or(RecordError::Corrupted("an edit is cut short"))?;
        match head {
            [KIND_EDIT, VERSION, ..] => {}
            [KIND_EDIT, version, ..] => return Err(RecordError::UnknownVersion(*version)),
            [kind, ..] => return Err(RecordError::UnknownKind(*kind)),
        }
        let number = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&head[at..at + 8]);
            i64::from_le_bytes(bytes)
        };
        let edit = serde_json::from_slice(edit).map_err(|error| match error.classify() {
            Category::Data => RecordError::UnknownEdit,
            _ => RecordError::Corrupted("an edit is not readable"),
        })?;
        Ok(Self { project: ProjectId(number(2)), at: Timestamp::from_micros(number(10)), edit })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn edit_record_round_trips_and_corruption_is_an_error() {
        let set = json!({ "seats": 5 }).as_object().cloned().unwrap_or_default();
        let (index, key, unset) = (1, "acme".to_owned(), vec!["a".to_owned()]);
        for edit in [
            Edit::DeletePersons { persons: vec![PersonNo(7)], scope: DeleteScope::Both },
            Edit::SplitPerson { person: PersonNo(7), ids: SplitIds::AllExcept("a".into()) },
            Edit::MergePersons { person: PersonNo(7), other: PersonNo(8) },
            Edit::ChangeGroup { index, key, set, unset },
            Edit::RenameProperty { from: "a".into(), to: "b".into() },
        ] {
            let at = Timestamp::from_micros(1_709_287_200_000_000);
            let record = EditRecord { project: ProjectId(3), at, edit };
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            assert_eq!(EditRecord::decode(&bytes), Ok(record));
            for cut in 0..bytes.len() {
                assert!(EditRecord::decode(&bytes[..cut]).is_err(), "cut at {cut}");
            }
            let mut newer = bytes[..HEAD_BYTES].to_vec();
            newer.extend(br#"{"swap_persons":{"person":7,"other":8}}"#);
            assert_eq!(EditRecord::decode(&newer), Err(RecordError::UnknownEdit));
            bytes[1] = 9;
            assert_eq!(EditRecord::decode(&bytes), Err(RecordError::UnknownVersion(9)));
        }
    }
}
