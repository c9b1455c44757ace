//! What people change about persons and groups by hand. Such a change goes through the journal
//! like every event, so that there is one order and one writer of identity.
//!
//! The record is a format on disk: `kind u8 = 2, version u8 = 1, project i64, at i64` in
//! microseconds, little-endian, then the edit as JSON.

use serde::{Deserialize, Serialize};
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
    /// Their ids stay known, without a person. Persons that are gone by then are left out.
    DeletePersons {
        persons: Vec<PersonNo>,
        #[serde(rename = "what")]
        scope: DeleteScope,
    },
    /// Gives ids a person of their own. At least one stays.
    SplitPerson {
        person: PersonNo,
        #[serde(rename = "leaving")]
        ids: SplitIds,
    },
    /// Makes the group if it is not there.
    ChangeGroup { index: u8, key: String, set: Map<String, Value>, unset: Vec<String> },
    /// Gives a property of everybody who has it another name, over one of that name.
    RenameProperty { from: String, to: String },
}

/// What a delete takes away.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SplitIds {
    /// Everybody but this one.
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
        serde_json::to_writer(out, &self.edit).expect("texts and numbers always become JSON");
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
        let edit = serde_json::from_slice(edit)
            .map_err(|_| RecordError::Corrupted("an edit is not readable"))?;
        Ok(Self { project: ProjectId(number(2)), at: Timestamp::from_micros(number(10)), edit })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_edit_comes_back_as_it_was_and_damage_is_told() {
        let set = json!({ "seats": 5 }).as_object().cloned().unwrap_or_default();
        let (index, key, unset) = (1, "acme".to_owned(), vec!["a".to_owned()]);
        for edit in [
            Edit::DeletePersons { persons: vec![PersonNo(7)], scope: DeleteScope::Both },
            Edit::SplitPerson { person: PersonNo(7), ids: SplitIds::AllExcept("a".into()) },
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
            bytes[1] = 9;
            assert_eq!(EditRecord::decode(&bytes), Err(RecordError::UnknownVersion(9)));
        }
    }
}
