//! Variables that HogQL statements name as `{variables.code_name}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::{Timestamp, UserId};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "InsightVariableType")]
pub enum VariableType {
    String,
    Number,
    Boolean,
    /// One of `values`.
    List,
    Date,
}

impl VariableType {
    pub const ALL: [Self; 5] = [Self::String, Self::Number, Self::Boolean, Self::List, Self::Date];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Number => "Number",
            Self::Boolean => "Boolean",
            Self::List => "List",
            Self::Date => "Date",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether a default has this type; null means that there is none.
    pub fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (_, Value::Null) => true,
            (Self::Number, value) => value.is_number(),
            (Self::Boolean, value) => value.is_boolean(),
            (Self::String | Self::Date | Self::List, value) => value.is_string(),
        }
    }
}

/// A variable as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InsightVariable {
    pub id: Uuid,
    pub name: String,
    #[serde(rename = "type")]
    pub kind: VariableType,
    pub default_value: Value,
    pub created_by: Option<UserId>,
    pub created_at: Timestamp,
    /// The name in statements, derived from the first name.
    pub code_name: String,
    /// The options of a list; null for other types.
    pub values: Option<Vec<String>>,
}

/// The name in statements: letters, digits and underscores of the name, in lower case.
pub fn code_name(name: &str) -> String {
    let kept = name.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '_'));
    kept.collect::<String>().replace(' ', "_").to_lowercase()
}
