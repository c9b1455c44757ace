//! A newtype for every id, so that the compiler tells a project's id from a user's.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $inner:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// Project, environment and team are the same object here and share one id.
    ProjectId,
    i64
);
id!(UserId, i64);
id!(OrganizationId, Uuid);
id!(AnnotationId, i64);
id!(ActionId, i64);
id!(FlagId, i64);
id!(CohortId, i64);

/// An id in a filter: a number, or its digits as a string.
fn number(value: &serde_json::Value) -> Option<i64> {
    match value {
        serde_json::Value::String(digits) => digits.parse().ok(),
        number => number.as_i64(),
    }
}

impl CohortId {
    pub fn from_json(value: &serde_json::Value) -> Option<Self> {
        number(value).map(Self)
    }

    /// From an event filter, which may also hold the id in a list of one.
    pub fn from_filter(value: &serde_json::Value) -> Option<Self> {
        match value {
            serde_json::Value::String(digits) => digits.trim().parse().ok().map(Self),
            serde_json::Value::Array(one) if one.len() == 1 => one[0].as_i64().map(Self),
            other => other.as_i64().map(Self),
        }
    }
}

impl ActionId {
    pub fn from_json(value: &serde_json::Value) -> Option<Self> {
        number(value).map(Self)
    }
}

id!(DashboardId, i64);
id!(TileId, i64);
id!(
    /// A note on a dashboard; several tiles may show it.
    NoteId,
    i64
);
id!(
    /// A link on a dashboard.
    ButtonId,
    i64
);
id!(InsightId, i64);
