//! Insights as stored objects: a query, its metadata, and the dashboard tiles that show it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    DashboardId, DashboardPolicy, InsightId, ObjectKind, ProjectId, TileId, Timestamp, User,
    VerbatimJson, Viewer,
};
use crate::{Privilege, Restriction, Rights};

/// A saved insight, without its result.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Insight {
    pub id: InsightId,
    pub short_id: String,
    pub name: Option<String>,
    pub derived_name: Option<String>,
    /// Legacy form of `query`; empty when there is one.
    pub filters: Map<String, Value>,
    /// As it was sent.
    #[schemars(schema_with = "crate::json_shapes::stored_query")]
    pub query: Option<VerbatimJson>,
    pub order: Option<i64>,
    pub deleted: bool,
    pub dashboards: Vec<DashboardId>,
    pub created_at: Timestamp,
    pub created_by: Option<User>,
    pub description: Option<String>,
    pub updated_at: Timestamp,
    pub tags: Vec<String>,
    pub favorited: bool,
    pub saved: bool,
    pub last_modified_at: Timestamp,
    pub last_modified_by: Option<User>,
    pub is_sample: bool,
    /// By the caller.
    pub last_viewed_at: Option<Timestamp>,
    /// Increased by every change.
    pub version: i64,
    #[serde(skip)]
    pub team_id: ProjectId,
    /// The live tiles that show it.
    #[serde(skip)]
    pub tiles: Vec<InsightTile>,
}

/// A tile that shows an insight, and the policy of its dashboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InsightTile {
    pub tile: TileId,
    pub dashboard: DashboardId,
    pub policy: DashboardPolicy,
}

impl Insight {
    /// Takes the strictest restriction of its dashboards and the best privilege on any of them,
    /// then applies the access rules.
    pub fn rights(&self, viewer: Viewer) -> Rights {
        let author = self.created_by.as_ref().map(|author| author.id);
        let can_restrict = viewer.is_admin || author == Some(viewer.user);
        let level = viewer.level(ObjectKind::Insight, self.id.0, author);
        let on = || self.tiles.iter().map(|tile| tile.policy.rights(viewer));
        let restriction = on().map(|rights| rights.restriction).max();
        let privilege = on().map(|rights| rights.privilege).max();
        let rights = Rights {
            restriction: restriction.unwrap_or(Restriction::Everyone),
            privilege: privilege.unwrap_or(Privilege::Edit),
            can_restrict: can_restrict && privilege != Some(Privilege::View),
            level,
        };
        rights.reconciled()
    }
}

/// The insight type that lists filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsightKind {
    Trends,
    Funnels,
    Retention,
    Paths,
    Stickiness,
    Lifecycle,
    Sql,
    Json,
}

impl InsightKind {
    const ALL: [Self; 8] = [
        Self::Trends,
        Self::Funnels,
        Self::Retention,
        Self::Paths,
        Self::Stickiness,
        Self::Lifecycle,
        Self::Sql,
        Self::Json,
    ];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trends => "TRENDS",
            Self::Funnels => "FUNNELS",
            Self::Retention => "RETENTION",
            Self::Paths => "PATHS",
            Self::Stickiness => "STICKINESS",
            Self::Lifecycle => "LIFECYCLE",
            Self::Sql => "SQL",
            Self::Json => "JSON",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(text))
    }

    /// The kind of a stored insight, from its query or its legacy filters.
    pub fn of(query: Option<&Map<String, Value>>, filters: &Map<String, Value>) -> Option<Self> {
        match query {
            Some(query) => Self::of_query(query).ok(),
            None => Self::parse(filters.get("insight")?.as_str()?),
        }
    }

    /// The kind of a query node, looking through wrappers; an error message if it has none.
    pub fn of_query(query: &Map<String, Value>) -> Result<Self, String> {
        let source = || match query.get("source") {
            Some(Value::Object(source)) => Self::of_source(source),
            Some(_) => Err("source: Input should be a valid dictionary".into()),
            None => Err("source: Field required".into()),
        };
        match kind(query)? {
            "InsightVizNode" | "DataVisualizationNode" => source(),
            // A table shows rows of any source.
            "DataTableNode" => source().map(|_| Self::Json),
            "SavedInsightNode" => Ok(Self::Json),
            _ => Self::of_source(query),
        }
    }

    fn of_source(source: &Map<String, Value>) -> Result<Self, String> {
        Ok(match kind(source)? {
            "TrendsQuery" => Self::Trends,
            "FunnelsQuery" => Self::Funnels,
            "RetentionQuery" => Self::Retention,
            "PathsQuery" => Self::Paths,
            "StickinessQuery" => Self::Stickiness,
            "LifecycleQuery" => Self::Lifecycle,
            "HogQLQuery" => Self::Sql,
            "EventsQuery"
            | "EventsNode"
            | "ActionsNode"
            | "PersonsNode"
            | "ActorsQuery"
            | "InsightActorsQuery"
            | "FunnelsActorsQuery"
            | "FunnelCorrelationQuery"
            | "GroupsQuery" => Self::Json,
            other => return Err(format!("kind: \"{other}\" is not a kind of query")),
        })
    }
}

fn kind(query: &Map<String, Value>) -> Result<&str, String> {
    match query.get("kind") {
        Some(Value::String(kind)) => Ok(kind),
        Some(_) => Err("kind: Input should be a valid string".into()),
        None => Err("kind: Field required".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn insight_kind_is_that_of_the_query_or_its_source() {
        for (query, expected) in [
            (json!({ "kind": "TrendsQuery" }), Some("TRENDS")),
            (
                json!({ "kind": "InsightVizNode", "source": { "kind": "PathsQuery" } }),
                Some("PATHS"),
            ),
            (
                json!({ "kind": "DataVisualizationNode", "source": { "kind": "HogQLQuery" } }),
                Some("SQL"),
            ),
            (json!({ "kind": "DataTableNode", "source": { "kind": "HogQLQuery" } }), Some("JSON")),
            (json!({ "kind": "SavedInsightNode", "shortId": "x" }), Some("JSON")),
            (json!({ "kind": "InsightVizNode" }), None),
            (json!({ "kind": "InsightVizNode", "source": [] }), None),
            (json!({ "kind": "InsightVizNode", "source": { "kind": "Nope" } }), None),
            (json!({ "kind": 5 }), None),
            (json!({}), None),
        ] {
            let kind = InsightKind::of_query(query.as_object().unwrap());
            assert_eq!(kind.ok().map(InsightKind::as_str), expected, "{query}");
        }
        let legacy = json!({ "insight": "FUNNELS" });
        let kind = InsightKind::of(None, legacy.as_object().unwrap());
        assert_eq!(kind, Some(InsightKind::Funnels));
    }
}
