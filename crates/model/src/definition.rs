//! Event and property definitions, and the observations from ingested events that update them.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use uuid::Uuid;

use crate::{ProjectId, Timestamp, User};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum PropertyType {
    DateTime,
    String,
    Numeric,
    Boolean,
    Duration,
}

impl PropertyType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DateTime => "DateTime",
            Self::String => "String",
            Self::Numeric => "Numeric",
            Self::Boolean => "Boolean",
            Self::Duration => "Duration",
        }
    }
}

impl PropertyType {
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::DateTime, Self::String, Self::Numeric, Self::Boolean, Self::Duration];
        all.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// What a property belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PropertyOwner {
    Event,
    Person,
    /// A group of the type with this index.
    Group(u8),
}

/// An event name, last seen at `at`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedEvent {
    pub project: ProjectId,
    pub name: String,
    pub at: Timestamp,
}

/// A property and its inferred type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedProperty {
    pub project: ProjectId,
    pub owner: PropertyOwner,
    pub name: String,
    pub kind: Option<PropertyType>,
}

/// What an event says about a flag's usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFlag {
    pub project: ProjectId,
    pub key: String,
    pub observation: FlagObservation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagObservation {
    /// `$feature_flag_called`, truncated to the minute.
    Called(Timestamp),
    /// `$feature_view` or `$feature_interaction`: enriched analytics.
    Enriched,
}

/// Events of one project on one day, by name.
pub type Volumes = HashMap<(ProjectId, Day), HashMap<String, i64>>;

/// Days since 1970-01-01, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Day(pub i64);

impl Day {
    pub const fn of(at: Timestamp) -> Self {
        Self(at.as_micros().div_euclid(86_400_000_000))
    }

    pub const fn minus(self, days: i64) -> Self {
        Self(self.0 - days)
    }
}

/// The window of event volumes in days, including today.
pub const VOLUME_DAYS: i64 = 30;

/// Updates of definitions, flag usage and volumes that a batch of events produced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    pub events: Vec<ObservedEvent>,
    pub properties: Vec<ObservedProperty>,
    /// (project, event name, property name): properties seen on an event.
    pub pairs: Vec<(ProjectId, String, String)>,
    pub flags: Vec<ObservedFlag>,
    pub volumes: Volumes,
    /// Set when the day changes: the catalog deletes volumes before this day.
    pub volumes_since: Option<Day>,
}

/// An event definition as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventDefinition {
    pub id: Uuid,
    pub name: String,
    pub owner: Option<User>,
    pub description: Option<String>,
    pub tags: Vec<String>,
    /// First seen.
    pub created_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    pub updated_by: Option<User>,
    /// Updated at most once an hour.
    pub last_seen_at: Option<Timestamp>,
    pub last_updated_at: Timestamp,
    pub verified: bool,
    pub verified_at: Option<Timestamp>,
    pub verified_by: Option<User>,
    pub hidden: bool,
    pub enforcement_mode: EnforcementMode,
    pub primary_property: Option<String>,
    pub is_action: bool,
    pub action_id: Option<i64>,
    pub is_calculating: bool,
    pub last_calculated_at: Option<Timestamp>,
    /// Null if ingestion created the definition.
    pub created_by: Option<User>,
    pub post_to_slack: bool,
    pub default_columns: Vec<String>,
    pub media_preview_urls: Vec<String>,
    /// Events ingested in the last 30 days, duplicates included.
    pub volume_30_day: i64,
    pub query_usage_30_day: Option<i64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnforcementMode {
    #[default]
    Allow,
    Reject,
}

impl EnforcementMode {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Reject => "reject",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Allow, Self::Reject].into_iter().find(|mode| mode.as_str() == text)
    }
}

/// A property definition as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PropertyDefinition {
    pub id: Uuid,
    pub name: String,
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub is_numerical: bool,
    pub property_type: Option<PropertyType>,
    /// Null unless the request filters by event names.
    pub is_seen_on_filtered_events: Option<bool>,
    pub updated_at: Timestamp,
    pub updated_by: Option<User>,
    pub verified: bool,
    pub verified_at: Option<Timestamp>,
    pub verified_by: Option<User>,
    pub hidden: bool,
    pub query_usage_30_day: Option<i64>,
}
