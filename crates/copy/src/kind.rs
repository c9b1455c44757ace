//! What is copied, and the names of single objects.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of object. The names are stored in ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Setting,
    GroupType,
    EventDefinition,
    PropertyDefinition,
    Cohort,
    Action,
    Dashboard,
    Insight,
    /// Insights by their short id, as other insights refer to them.
    ShortId,
    Flag,
    Annotation,
    Tile,
    /// The members of a static cohort, by the cohort's id.
    Members,
}

impl Kind {
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Setting => "setting",
            Self::GroupType => "group type",
            Self::EventDefinition => "event definition",
            Self::PropertyDefinition => "property definition",
            Self::Cohort => "cohort",
            Self::Action => "action",
            Self::Dashboard => "dashboard",
            Self::Insight | Self::ShortId => "insight",
            Self::Flag => "feature flag",
            Self::Annotation => "annotation",
            Self::Tile => "tile",
            Self::Members => "members of cohort",
        }
    }

    /// The kinds whose objects have ids, can refer to each other and are created by a POST.
    pub const OBJECTS: [Self; 6] =
        [Self::Cohort, Self::Action, Self::Dashboard, Self::Insight, Self::Flag, Self::Annotation];

    /// The last part of the path of the list of an object kind.
    pub const fn collection(self) -> &'static str {
        match self {
            Self::Setting => "",
            Self::GroupType => "groups_types",
            Self::EventDefinition => "event_definitions",
            Self::PropertyDefinition => "property_definitions",
            Self::Cohort | Self::Members => "cohorts",
            Self::Action => "actions",
            Self::Dashboard | Self::Tile => "dashboards",
            Self::Insight | Self::ShortId => "insights",
            Self::Flag => "feature_flags",
            Self::Annotation => "annotations",
        }
    }
}

/// An object of the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub kind: Kind,
    pub id: String,
}

impl Key {
    pub fn new(kind: Kind, id: impl Into<String>) -> Self {
        Self { kind, id: id.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{} {}", self.kind.noun(), self.id)
    }
}
