//! Where objects with access rules are stored.

use model::ObjectKind;

/// Where objects of a kind are, and what the log calls them.
pub(crate) struct ObjectTable {
    pub table: &'static str,
    /// Columns of the same two names for every kind.
    pub title: &'static str,
    pub scope: &'static str,
}

impl ObjectTable {
    pub(crate) fn of(kind: ObjectKind) -> Self {
        let (table, title, scope) = match kind {
            ObjectKind::Action => ("actions", "name AS title, NULL AS short_id", "Action"),
            ObjectKind::Dashboard => ("dashboards", "name AS title, NULL AS short_id", "Dashboard"),
            ObjectKind::FeatureFlag => {
                ("feature_flags", "key AS title, NULL AS short_id", "FeatureFlag")
            }
            ObjectKind::Insight => {
                ("insights", "COALESCE(name, derived_name) AS title, short_id", "Insight")
            }
        };
        Self { table, title, scope }
    }
}
