//! Actions: named matchers over events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{ActionId, ProjectId, Timestamp, User};

/// An action as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Action {
    pub id: ActionId,
    pub name: String,
    pub description: String,
    pub tags: Vec<String>,
    pub post_to_slack: bool,
    pub slack_message_format: String,
    pub steps: Vec<ActionStep>,
    pub created_at: Timestamp,
    pub created_by: Option<User>,
    pub deleted: bool,
    pub is_calculating: bool,
    /// Queries match actions on read, so nothing is calculated; clients still expect a timestamp.
    pub last_calculated_at: Timestamp,
    pub team_id: ProjectId,
    pub is_action: bool,
    pub bytecode_error: Option<String>,
    pub pinned_at: Option<Timestamp>,
    pub creation_context: Option<String>,
    #[serde(skip)]
    pub updated_at: Timestamp,
}

/// All given fields of a step must match (AND); an action matches if any of its steps does (OR).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ActionStep {
    pub event: Option<String>,
    /// Property filters, stored as sent.
    #[schemars(with = "Option<Vec<crate::json_shapes::PropertyFilterOrGroup>>")]
    pub properties: Option<Vec<Map<String, Value>>>,
    pub selector: Option<String>,
    pub tag_name: Option<String>,
    pub text: Option<String>,
    /// Exact when null.
    pub text_matching: Option<StringMatching>,
    pub href: Option<String>,
    /// Exact when null.
    pub href_matching: Option<StringMatching>,
    pub url: Option<String>,
    /// Contains when null.
    pub url_matching: Option<StringMatching>,
}

impl Default for ActionStep {
    fn default() -> Self {
        Self {
            event: None,
            properties: None,
            selector: None,
            tag_name: None,
            text: None,
            text_matching: None,
            href: None,
            href_matching: None,
            url: None,
            url_matching: Some(StringMatching::Contains),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StringMatching {
    Exact,
    Contains,
    Regex,
}
