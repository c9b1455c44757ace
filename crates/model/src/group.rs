//! Groups: companies, teams and other entities that persons belong to (group analytics).

use serde_json::{Map, Value};

use crate::Timestamp;

/// Group types of a project, indexed from zero.
pub const GROUP_TYPES_MAX: u8 = 5;

/// A group as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The index of its type.
    pub index: u8,
    pub key: String,
    pub properties: Map<String, Value>,
    pub version: i64,
    pub created_at: Timestamp,
}

impl Group {
    /// Display name: the property `name`, or the key.
    pub fn name(&self) -> String {
        let name = self.properties.get("name").and_then(Value::as_str);
        name.filter(|name| !name.is_empty()).unwrap_or(&self.key).to_owned()
    }
}
