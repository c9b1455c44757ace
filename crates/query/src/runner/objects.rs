//! The rows of `system` tables: the project's objects that the caller may view.

use std::collections::BTreeMap;

use catalog::{
    AnnotationFilter, CohortFilter, DashboardFilter, FlagFilter, InsightFilter, ProjectRow,
};
use model::{LIMIT_MAX, ObjectKind, UserId, Window};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::access::ReferencedObjects;
use super::{Inner, QueryRequest};
use crate::referenced_names::ReferencedNames;
use crate::{Error, Result};

/// Objects of one table, and bytes of the rows of all tables of a query as JSON: a statement holds them
/// as constants.
const OBJECTS_MAX: usize = 10_000;
const ROWS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Rows by the name of their table.
pub(super) type ObjectRows = BTreeMap<&'static str, Vec<Json>>;

impl Inner {
    /// The rows of the tables of objects that a query names. They count as referenced.
    pub async fn object_rows(
        &self,
        project: &ProjectRow,
        names: &ReferencedNames,
        request: &QueryRequest,
        referenced: &mut ReferencedObjects,
    ) -> Result<ObjectRows> {
        let (mut tables, mut bytes) = (ObjectRows::new(), 0);
        for (table, object) in names.object_tables() {
            if !request.readable.contains(object) {
                let why =
                    format!("{table} can only be read by a query with the scope {object}:read.");
                return Err(Error::Invalid(why));
            }
            let kind = ObjectKind::parse(object);
            let mut rows = Vec::new();
            loop {
                let window = Window { limit: LIMIT_MAX, offset: rows.len() as i64 };
                let page = self.page_of(table, project, request, window).await?;
                let is_last = (page.len() as i64) < LIMIT_MAX;
                bytes += page.iter().map(|row| row.to_string().len()).sum::<usize>();
                rows.extend(page);
                if rows.len() > OBJECTS_MAX || bytes > ROWS_BYTES_MAX {
                    return Err(Error::Invalid(format!("{table} has too many rows to be read.")));
                }
                if is_last {
                    break;
                }
            }
            for row in &rows {
                if let (Some(kind), Some(id)) = (kind, row["id"].as_i64()) {
                    referenced.add(kind, id);
                }
            }
            if *table == "system.dashboard_tiles" {
                rows = rows.iter().flat_map(tiles).collect();
            }
            for row in &mut rows {
                row["team_id"] = json!(project.id);
            }
            tables.insert(*table, rows);
        }
        Ok(tables)
    }

    async fn page_of(
        &self,
        table: &str,
        project: &ProjectRow,
        request: &QueryRequest,
        window: Window,
    ) -> Result<Vec<Json>> {
        let (catalog, id, visibility) = (&self.catalog, project.id, &request.visibility);
        Ok(match table {
            "system.actions" => {
                let visible = visibility.of(ObjectKind::Action);
                let (actions, _) = catalog.actions().list(id, visible, window).await?;
                let rows = actions.iter().map(|action| {
                    let mut row = row(action);
                    row["steps_json"] = row["steps"].take();
                    row["updated_at"] = json!(action.updated_at);
                    row
                });
                rows.collect()
            }
            "system.annotations" => {
                let filter =
                    AnnotationFilter { visibility: visibility.clone(), ..Default::default() };
                let (annotations, _) = catalog.annotations().list(id, &filter, window).await?;
                let rows = annotations.iter().map(|annotation| {
                    let mut row = row(annotation);
                    row["dashboard_item_id"] = row["dashboard_item"].take();
                    row
                });
                rows.collect()
            }
            "system.cohorts" => {
                let filter = CohortFilter::default();
                let (cohorts, _) = catalog.cohorts().list(id, &filter, window).await?;
                cohorts.iter().map(row).collect()
            }
            "system.dashboards" => {
                let visibility = visibility.of(ObjectKind::Dashboard).clone();
                let filter = DashboardFilter { visibility, ..Default::default() };
                // Only who collaborates depends on the viewer, which no column tells.
                let (dashboards, _) =
                    catalog.dashboards().list(id, UserId(0), &filter, window).await?;
                dashboards.iter().map(row).collect()
            }
            "system.feature_flags" => {
                let visibility = visibility.of(ObjectKind::FeatureFlag).clone();
                let filter = FlagFilter { visibility, ..Default::default() };
                let (flags, _) = catalog.flags().list(id, &filter, window).await?;
                flags.iter().map(row).collect()
            }
            "system.insights" | "system.dashboard_tiles" => {
                let filter = InsightFilter { visibility: visibility.clone(), ..Default::default() };
                let (insights, _) = catalog.insights().list(id, None, &filter, window).await?;
                let rows = insights.iter().map(|insight| {
                    let mut row = row(insight);
                    let tile = |tile: &model::InsightTile| json!([tile.tile, tile.dashboard]);
                    row["tiles"] = insight.tiles.iter().map(tile).collect();
                    row
                });
                rows.collect()
            }
            "system.insight_variables" => {
                let (variables, _) = catalog.insight_variables().list(id, window).await?;
                variables.iter().map(row).collect()
            }
            "system.group_type_mappings" => {
                let types = catalog.groups().types(id).await?;
                let rows = types.iter().map(|kind| {
                    json!({
                        "id": kind.index, "group_type": kind.name, "group_type_index": kind.index,
                        "name_singular": kind.name_singular, "name_plural": kind.name_plural,
                    })
                });
                rows.collect()
            }
            "system.teams" => vec![json!({
                "id": id, "name": project.name, "timezone": project.timezone,
                "created_at": project.created_at, "updated_at": project.updated_at,
            })],
            _ => Vec::new(),
        })
    }
}

/// An object as the API returns it, with the ids of users in place of the users.
fn row(object: &impl Serialize) -> Json {
    let mut row = json!(object);
    for (user, id) in [("created_by", "created_by_id"), ("last_modified_by", "last_modified_by_id")]
    {
        row[id] = row[user].get("id").cloned().unwrap_or_default();
    }
    row
}

/// The tiles of an insight.
fn tiles(insight: &Json) -> Vec<Json> {
    let tiles = insight["tiles"].as_array().into_iter().flatten();
    let row = |tile: &Json| json!({ "id": tile[0], "dashboard_id": tile[1], "insight_id": insight["id"] });
    tiles.map(row).collect()
}
