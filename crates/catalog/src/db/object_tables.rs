//! The tables of the objects that access rules can be about.

use model::ObjectKind;

/// Table, title column and log scope of a kind of object.
pub(crate) struct ObjectTable {
    pub table: &'static str,
    /// Selects `title` and `short_id`, whatever the table's columns are called.
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
