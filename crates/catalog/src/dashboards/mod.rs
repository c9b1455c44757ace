//! Dashboards and what is on them: tiles, insights, sharing links, collaborators, annotations.

pub(crate) mod annotations;
pub(crate) mod board;
pub(crate) mod collaborators;
mod inherited_access;
pub(crate) mod insight_lists;
pub(crate) mod insight_variables;
pub(crate) mod insight_writes;
pub(crate) mod insights;
pub(crate) mod revalidate;
pub(crate) mod rows;
pub(crate) mod sharing;
pub(crate) mod tile_changes;
pub(crate) mod tiles;

use crate::db::handle;

handle! {
    /// Annotations: dated notes on charts.
    Annotations
}
handle! {
    /// Users who may edit a restricted dashboard.
    Collaborators
}
handle! {
    /// Dashboards and their tiles.
    Dashboards
}
handle! {
    /// Saved insights.
    Insights
}
handle! {
    /// Variables of HogQL statements.
    InsightVariables
}
handle! {
    /// Public links to dashboards and insights.
    SharingLinks
}
