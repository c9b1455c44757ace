//! Scopes of personal API keys: `object:read`, `object:write`, or `*`.

use std::fmt;

use serde::{Serialize, Serializer};

/// Objects that a scope may name. Those of upstream that do not exist here are stored and returned,
/// so that keys can be copied over.
const OBJECTS: &[&str] = &[
    "access_control",
    "action",
    "activity_log",
    "alert",
    "annotation",
    "batch_export",
    "batch_import",
    "cohort",
    "comment",
    "customer_journey",
    "customer_profile_config",
    "dashboard",
    "dashboard_template",
    "dataset",
    "desktop_recording",
    "early_access_feature",
    "element",
    "endpoint",
    "error_tracking",
    "evaluation",
    "event_definition",
    "event_filter",
    "experiment",
    "experiment_saved_metric",
    "export",
    "external_data_source",
    "feature_flag",
    "file_system",
    "group",
    "heatmap",
    "hog_flow",
    "hog_function",
    "insight",
    "insight_variable",
    "integration",
    "llm_analytics",
    "llm_gateway",
    "llm_prompt",
    "logs",
    "notebook",
    "organization",
    "organization_integration",
    "organization_member",
    "persisted_folder",
    "person",
    "plugin",
    "product_tour",
    "project",
    "property_definition",
    "query",
    "revenue_analytics",
    "session_recording",
    "session_recording_playlist",
    "sharing_configuration",
    "subscription",
    "survey",
    "task",
    "ticket",
    "uploaded_media",
    "usage_metric",
    "user",
    "warehouse_objects",
    "warehouse_table",
    "warehouse_view",
    "web_analytics",
    "webhook",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    Read,
    Write,
}

impl Access {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// The scope that an endpoint requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Required {
    pub object: &'static str,
    pub access: Access,
}

impl fmt::Display for Required {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.object, self.access.as_str())
    }
}

/// The scopes of a key, as they were given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scopes(Vec<String>);

#[derive(Debug, thiserror::Error)]
#[error("Invalid scope: {0}")]
pub struct InvalidScope(pub String);

impl Scopes {
    pub fn all() -> Self {
        Self(vec!["*".into()])
    }

    /// Removes duplicates, which also bounds the list.
    pub fn parse(words: Vec<String>) -> Result<Self, InvalidScope> {
        let mut scopes: Vec<String> = Vec::new();
        for word in words {
            if !is_known(&word) {
                return Err(InvalidScope(word));
            }
            if !scopes.contains(&word) {
                scopes.push(word);
            }
        }
        Ok(Self(scopes))
    }

    pub fn allow(&self, required: &str, access: Access) -> bool {
        self.0.iter().any(|word| match word.split_once(':') {
            None => word == "*",
            Some((object, given)) => {
                object == required && (given == access.as_str() || given == Access::Write.as_str())
            }
        })
    }

    /// The first of these scopes that `holder` does not cover.
    pub fn beyond(&self, holder: &Self) -> Option<&str> {
        let is_covered = |word: &str| match word.split_once(':') {
            None => holder.0.iter().any(|held| held == word),
            Some((object, "write")) => holder.allow(object, Access::Write),
            Some((object, _)) => holder.allow(object, Access::Read),
        };
        self.0.iter().map(String::as_str).find(|word| !is_covered(word))
    }

    pub fn as_words(&self) -> &[String] {
        &self.0
    }
}

impl schemars::JsonSchema for Scopes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Scopes".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Vec::<String>::json_schema(generator)
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

fn is_known(word: &str) -> bool {
    match word.split_once(':') {
        None => word == "*",
        Some((object, access)) => {
            matches!(access, "read" | "write") && OBJECTS.binary_search(&object).is_ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(words: &[&str]) -> Scopes {
        Scopes::parse(words.iter().map(|word| (*word).to_owned()).collect()).unwrap()
    }

    #[test]
    fn scope_objects_are_sorted_for_binary_search() {
        assert!(OBJECTS.is_sorted());
    }

    #[test]
    fn write_scope_implies_read_but_not_the_reverse() {
        for (given, may_read, may_write) in [
            (&["*"][..], true, true),
            (&["dashboard:write"], true, true),
            (&["dashboard:read"], true, false),
            (&["insight:write", "dashboard:read"], true, false),
            (&["insight:write"], false, false),
            (&[], false, false),
        ] {
            assert_eq!(scopes(given).allow("dashboard", Access::Read), may_read, "{given:?}");
            assert_eq!(scopes(given).allow("dashboard", Access::Write), may_write, "{given:?}");
        }
    }

    #[test]
    fn beyond_finds_the_first_scope_the_holder_lacks() {
        for (wanted, holder, beyond) in [
            (&["dashboard:read", "dashboard:read"][..], &["dashboard:write"][..], None),
            (&["dashboard:write"], &["dashboard:read"], Some("dashboard:write")),
            (&["user:read", "insight:read"], &["user:write"], Some("insight:read")),
            (&["*"], &["dashboard:write"], Some("*")),
            (&["*", "insight:write"], &["*"], None),
            (&[], &[], None),
        ] {
            assert_eq!(scopes(wanted).beyond(&scopes(holder)), beyond, "{wanted:?} of {holder:?}");
        }
        assert_eq!(scopes(&["user:read", "user:read"]).as_words().len(), 1);
    }

    #[test]
    fn unknown_scopes_are_rejected_by_name() {
        for word in ["foo:read", "dashboard:delete", "dashboard", "", ":read", "dashboard:"] {
            assert_eq!(Scopes::parse(vec![word.into()]).unwrap_err().0, word);
        }
    }
}
