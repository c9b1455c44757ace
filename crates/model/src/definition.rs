//! What is known of events and properties by having seen them.

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

/// Whose property it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PropertyOwner {
    Event,
    Person,
    /// By the index of the group's type.
    Group(u8),
}

/// An event name, seen at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedEvent {
    pub project: ProjectId,
    pub name: String,
    pub at: Timestamp,
}

/// A property, and the type its value looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedProperty {
    pub project: ProjectId,
    pub owner: PropertyOwner,
    pub name: String,
    pub kind: Option<PropertyType>,
}

/// What an event told about a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFlag {
    pub project: ProjectId,
    pub key: String,
    pub observation: FlagObservation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagObservation {
    /// It was asked, at this minute.
    Called(Timestamp),
    /// Somebody saw or used what it shows.
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

/// Volumes are told over this many days, today's included.
pub const VOLUME_DAYS: i64 = 30;

/// What a batch of events showed and the catalog may not know yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observations {
    pub events: Vec<ObservedEvent>,
    pub properties: Vec<ObservedProperty>,
    /// Event names and the properties they came with.
    pub pairs: Vec<(ProjectId, String, String)>,
    pub flags: Vec<ObservedFlag>,
    pub volumes: Volumes,
    /// A new day has come: volumes before this one are of no use any more.
    pub volumes_since: Option<Day>,
}

/// What is known of an event by its name, as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct EventDefinition {
    pub id: Uuid,
    pub name: String,
    pub owner: Option<User>,
    pub description: Option<String>,
    pub tags: Vec<String>,
    /// When it was first seen.
    pub created_at: Option<Timestamp>,
    pub updated_at: Timestamp,
    pub updated_by: Option<User>,
    /// To the hour.
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
    /// Null unless somebody made it by hand.
    pub created_by: Option<User>,
    pub post_to_slack: bool,
    pub default_columns: Vec<String>,
    pub media_preview_urls: Vec<String>,
    /// Events of the last thirty days, as they arrived.
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

/// What is known of a property by its name, as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PropertyDefinition {
    pub id: Uuid,
    pub name: String,
    pub description: Option<String>,
    pub tags: Vec<String>,
    pub is_numerical: bool,
    pub property_type: Option<PropertyType>,
    /// Null unless events were named to look at.
    pub is_seen_on_filtered_events: Option<bool>,
    pub updated_at: Timestamp,
    pub updated_by: Option<User>,
    pub verified: bool,
    pub verified_at: Option<Timestamp>,
    pub verified_by: Option<User>,
    pub hidden: bool,
    pub query_usage_30_day: Option<i64>,
}
