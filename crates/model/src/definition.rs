//! What is known of events and properties by having seen them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ProjectId, Timestamp};

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
pub struct SeenEvent {
    pub project: ProjectId,
    pub name: String,
    pub at: Timestamp,
}

/// A property, and the type its value looked like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenProperty {
    pub project: ProjectId,
    pub owner: PropertyOwner,
    pub name: String,
    pub kind: Option<PropertyType>,
}

/// What a batch of events showed and the catalog may not know yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sightings {
    pub events: Vec<SeenEvent>,
    pub properties: Vec<SeenProperty>,
    /// Event names and the properties they came with.
    pub pairs: Vec<(ProjectId, String, String)>,
}

impl Sightings {
    pub const fn is_empty(&self) -> bool {
        self.events.is_empty() && self.properties.is_empty() && self.pairs.is_empty()
    }
}
