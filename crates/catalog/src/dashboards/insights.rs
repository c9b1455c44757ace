//! Insights: reading, creating and changing one. `insight_lists.rs` has the lists.

use std::collections::{BTreeSet, HashMap};

use model::{
    DashboardId, Insight, InsightId, InsightKind, InsightTile, ProjectId, Timestamp, UserId,
    VerbatimJson, Viewer,
};
use serde_json::{Map, Value};

use super::revalidate::CheckedInsights;
use super::tiles::TILES_MAX;
use super::{Insights, board, insight_writes, rows};
use crate::access::CANNOT_VIEW;
use crate::activity::{Actor, Logged};
use crate::db::dialect::placeholders;
use crate::db::executor::Executor;
use crate::db::{Row, Tx, args, author};
use crate::objects::edit::{Deleted, Editable, check_version, set};
use crate::objects::{lock_dashboards, tags};
use crate::{Error, Result};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewInsight {
    pub name: Option<String>,
    pub derived_name: Option<String>,
    pub description: Option<String>,
    pub query: Option<VerbatimJson>,
    pub filters: Map<String, Value>,
    pub order: Option<i64>,
    pub favorited: bool,
    pub saved: bool,
    pub is_sample: bool,
    pub deleted: bool,
    pub tags: Vec<String>,
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct InsightChange {
    pub name: Option<Option<String>>,
    pub derived_name: Option<Option<String>>,
    pub description: Option<Option<String>>,
    pub query: Option<Option<VerbatimJson>>,
    pub filters: Option<Map<String, Value>>,
    pub order: Option<Option<i64>>,
    pub favorited: Option<bool>,
    pub saved: Option<bool>,
    pub deleted: Option<bool>,
    pub tags: Option<Vec<String>>,
    /// All dashboards that the insight is on afterwards.
    pub dashboards: Option<Vec<DashboardId>>,
    /// The version that the author of the change loaded.
    pub version: Option<i64>,
}

/// An insight in a URL.
#[derive(Clone, Debug)]
pub enum InsightName {
    Id(InsightId),
    Short(String),
}

pub(crate) const OBJECT: &str = "insight";
pub(crate) const COLUMNS: &str = "i.id, i.project_id, i.short_id, i.name, i.derived_name, \
     i.description, i.query, i.filters, i.position, i.favorited, i.saved, i.is_sample, \
     i.created_by, i.created_at, i.updated_at, i.last_modified_by, i.last_modified_at, \
     i.deleted, i.version, v.viewed_at";
/// `$2` is the viewer.
pub(crate) const FROM: &str =
    "insights i LEFT JOIN insight_views v ON v.insight_id = i.id AND v.user_id = $2";
/// PostHog's limit.
pub const INSIGHT_NAME_CHARS_MAX: usize = 400;

pub(crate) const CANNOT_EDIT: &str = "You don't have edit permissions for this insight.";
const CANNOT_ADD: &str = "You don't have permission to add insights to this dashboard.";
const CANNOT_REMOVE: &str = "You don't have permission to remove insights from this dashboard.";

/// Rows with their authors, tags and tiles: three more statements for any number of rows.
pub(crate) async fn read_all(
    executor: &mut impl Executor,
    project: ProjectId,
    viewer: Option<UserId>,
    rows: &[Row],
) -> Result<Vec<Insight>> {
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    let mut people: Vec<UserId> = Vec::new();
    for row in rows {
        people.extend(row.get::<Option<UserId>>("created_by")?);
        people.extend(row.get::<Option<UserId>>("last_modified_by")?);
    }
    let people = author::by_ids(executor, people).await?;
    let mut tags = tags::of_numbered(executor, project, OBJECT, &ids).await?;
    let mut places = places(executor, viewer, &ids).await?;
    let author = |row: &Row, name: &str| -> Result<_> {
        let id: Option<UserId> = row.get(name)?;
        Ok(id.and_then(|id| people.get(&id).cloned()))
    };
    let mut insights = Vec::with_capacity(rows.len());
    for (row, id) in rows.iter().zip(ids) {
        let places = places.remove(&id).unwrap_or_default();
        insights.push(Insight {
            id: InsightId(id),
            short_id: row.get("short_id")?,
            name: row.get("name")?,
            derived_name: row.get("derived_name")?,
            filters: row.json("filters")?,
            query: written(row)?,
            order: row.get("position")?,
            deleted: row.get("deleted")?,
            dashboards: places.iter().map(|place| place.dashboard).collect(),
            created_at: row.get("created_at")?,
            created_by: author(row, "created_by")?,
            description: row.get("description")?,
            updated_at: row.get("updated_at")?,
            tags: tags.remove(&id).unwrap_or_default(),
            favorited: row.get("favorited")?,
            saved: row.get("saved")?,
            last_modified_at: row.get("last_modified_at")?,
            last_modified_by: author(row, "last_modified_by")?,
            is_sample: row.get("is_sample")?,
            last_viewed_at: row.get("viewed_at")?,
            version: row.get("version")?,
            team_id: row.get("project_id")?,
            tiles: places,
        });
    }
    Ok(insights)
}

fn written(row: &Row) -> Result<Option<VerbatimJson>> {
    let text: Option<String> = row.get("query")?;
    text.map(VerbatimJson::from_stored).transpose().map_err(|why| Error::corrupt("query", why))
}

/// The tiles on live dashboards of each of several insights.
async fn places(
    executor: &mut impl Executor,
    viewer: Option<UserId>,
    ids: &[i64],
) -> Result<HashMap<i64, Vec<InsightTile>>> {
    let mut places: HashMap<i64, Vec<InsightTile>> = HashMap::new();
    if ids.is_empty() {
        return Ok(places);
    }
    let mut values = args![viewer];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| (*id).into()));
    let sql = format!(
        "SELECT t.id, t.insight_id, t.dashboard_id, d.restriction_level, d.created_by, \
         c.user_id IS NOT NULL AS collaborates FROM dashboard_tiles t \
         JOIN dashboards d ON d.id = t.dashboard_id LEFT JOIN dashboard_collaborators c \
         ON c.dashboard_id = d.id AND c.user_id = $1 \
         WHERE t.insight_id IN {marks} AND NOT t.deleted AND NOT d.deleted ORDER BY t.id"
    );
    for row in executor.fetch(sql, values).await? {
        let dashboard = row.get("dashboard_id")?;
        places.entry(row.get("insight_id")?).or_default().push(InsightTile {
            tile: row.get("id")?,
            dashboard,
            policy: rows::guard(&row, dashboard)?,
        });
    }
    Ok(places)
}

pub(crate) async fn by_ids(
    executor: &mut impl Executor,
    project: ProjectId,
    viewer: Option<UserId>,
    ids: Vec<InsightId>,
) -> Result<Vec<Insight>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut values = args![project, viewer];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.into_iter().map(Into::into));
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE i.project_id = $1 AND i.id IN {marks}");
    let rows = executor.fetch(sql, values).await?;
    read_all(executor, project, viewer, &rows).await
}

impl Logged for Insight {
    const SCOPE: &'static str = "Insight";
    const UNLOGGED: &'static [&'static str] =
        &["updated_at", "last_modified_at", "last_modified_by", "last_viewed_at", "version"];

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.name.clone().or_else(|| self.derived_name.clone())
    }

    fn short_id(&self) -> Option<String> {
        Some(self.short_id.clone())
    }
}

impl Editable for Insight {
    type Id = InsightId;

    async fn lock(tx: &mut Tx, actor: &Actor, id: InsightId) -> Result<Self> {
        let project = actor.project_id()?;
        lock_dashboards(tx, project).await?;
        let lock = tx.dialect().for_update_of("i");
        let sql =
            format!("SELECT {COLUMNS} FROM {FROM} WHERE i.project_id = $1 AND i.id = $3{lock}");
        let rows = tx.all(sql, args![project, actor.user, id]).await?;
        read_all(tx, project, actor.user, &rows).await?.pop().ok_or(Error::NotFound)
    }

    async fn save(&mut self, tx: &mut Tx, before: &Self) -> Result<()> {
        let kind = InsightKind::of(self.query.as_deref(), &self.filters);
        tx.run(
            "UPDATE insights SET name = $2, derived_name = $3, description = $4, query = $5, \
             filters = $6, kind = $7, position = $8, favorited = $9, saved = $10, deleted = $11, \
             updated_at = $12, last_modified_at = $12, version = $13 WHERE id = $1",
            args![
                self.id,
                self.name.as_deref(),
                self.derived_name.as_deref(),
                self.description.as_deref(),
                self.query.as_ref().map(VerbatimJson::text),
                Value::Object(self.filters.clone()),
                kind.map(InsightKind::as_str),
                self.order,
                self.favorited,
                self.saved,
                self.deleted,
                self.updated_at,
                self.version,
            ],
        )
        .await?;
        if self.tags != before.tags {
            tags::replace(tx, self.team_id, OBJECT, self.id.to_string(), &self.tags).await?;
        }
        let is_new = |id: &&DashboardId| !before.dashboards.contains(id);
        add_tiles(tx, self.id, self.dashboards.iter().filter(is_new)).await?;
        let is_left = |id: &&DashboardId| !self.dashboards.contains(id);
        for dashboard in before.dashboards.iter().filter(is_left) {
            let sql = "UPDATE dashboard_tiles SET deleted = TRUE \
                       WHERE dashboard_id = $1 AND insight_id = $2";
            tx.run(sql, args![*dashboard, self.id]).await?;
            board::increase_version(tx, *dashboard).await?;
        }
        Ok(())
    }

    fn project(&self) -> ProjectId {
        self.team_id
    }

    fn is_deleted(&self) -> bool {
        self.deleted
    }

    fn mark_changed(&mut self, now: Timestamp) {
        (self.updated_at, self.last_modified_at) = (now, now);
        self.version += 1;
    }
}

/// Adds an insight to dashboards; restores a deleted tile with its id and layout.
async fn add_tiles(
    tx: &mut Tx,
    insight: InsightId,
    dashboards: impl Iterator<Item = &DashboardId>,
) -> Result<()> {
    for dashboard in dashboards {
        let sql = "SELECT COUNT(*) AS total FROM dashboard_tiles \
                   WHERE dashboard_id = $1 AND NOT deleted";
        if tx.one(sql, args![*dashboard]).await?.get::<i64>("total")? >= TILES_MAX as i64 {
            let detail = format!("A dashboard holds at most {TILES_MAX} tiles.");
            return Err(Error::refused(Some("dashboards"), detail));
        }
        tx.run(
            "INSERT INTO dashboard_tiles (dashboard_id, insight_id, layouts, filters_overrides, \
             deleted) VALUES ($1, $2, '{}', '{}', FALSE) \
             ON CONFLICT (dashboard_id, insight_id) DO UPDATE SET deleted = FALSE",
            args![*dashboard, insight],
        )
        .await?;
        board::increase_version(tx, *dashboard).await?;
    }
    Ok(())
}

impl Insights<'_> {
    pub async fn get(
        self,
        project: ProjectId,
        name: &InsightName,
        viewer: Option<UserId>,
        deleted: Deleted,
    ) -> Result<Insight> {
        let (column, value) = match name {
            InsightName::Id(id) => ("i.id", (*id).into()),
            InsightName::Short(id) => ("i.short_id", id.as_str().into()),
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM {FROM} WHERE i.project_id = $1 AND {column} = $3{}",
            deleted.condition("i"),
        );
        let mut values = args![project, viewer];
        values.push(value);
        let executor = &mut &self.core.db;
        let rows = executor.all(sql, values).await?;
        read_all(executor, project, viewer, &rows).await?.pop().ok_or(Error::NotFound)
    }

    /// [`Error::Forbidden`] when access rules hide it from the viewer.
    pub async fn get_visible(
        self,
        project: ProjectId,
        name: &InsightName,
        viewer: Viewer<'_>,
    ) -> Result<Insight> {
        let insight = self.get(project, name, Some(viewer.user), Deleted::Exclude).await?;
        match insight.rights(viewer).can_view() {
            true => Ok(insight),
            false => Err(Error::Forbidden(CANNOT_VIEW)),
        }
    }

    /// [`Error::Forbidden`] when the viewer may not edit it.
    pub async fn get_editable(
        self,
        project: ProjectId,
        name: &InsightName,
        viewer: Viewer<'_>,
        deleted: Deleted,
    ) -> Result<Insight> {
        let insight = self.get(project, name, Some(viewer.user), deleted).await?;
        match insight.rights(viewer).can_edit() {
            true => Ok(insight),
            false => Err(Error::Forbidden(CANNOT_EDIT)),
        }
    }

    pub async fn create(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        new: NewInsight,
        on: &[DashboardId],
    ) -> Result<InsightId> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, project).await?;
        let on: BTreeSet<DashboardId> = on.iter().copied().collect();
        check_dashboards(&mut tx, project, viewer, on.iter().copied().collect()).await?;
        let id =
            insight_writes::insert(&mut tx, actor, project, &new, self.core.clock.now()).await?;
        add_tiles(&mut tx, id, on.iter()).await?;
        tx.commit().await?;
        Ok(id)
    }

    pub async fn update(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: InsightId,
        change: InsightChange,
        checked: &CheckedInsights,
    ) -> Result<()> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        let before = Insight::lock(&mut tx, actor, id).await?;
        let requested: Option<BTreeSet<DashboardId>> =
            change.dashboards.map(|ids| ids.into_iter().collect());
        // A hidden dashboard counts as missing, even if the insight is on it.
        let is_hidden = |id: &DashboardId| {
            let place = before.tiles.iter().find(|place| place.dashboard == *id);
            place.is_some_and(|place| !place.policy.rights(viewer).can_view())
        };
        let is_new = |id: &&DashboardId| !before.dashboards.contains(id) || is_hidden(id);
        let new = requested.iter().flatten().filter(is_new);
        check_dashboards(&mut tx, project, viewer, new.copied().collect()).await?;
        let mut changed_at = None;
        let apply = |insight: &mut Insight, now| {
            changed_at = Some(now);
            if !insight.rights(viewer).can_edit() {
                return Err(Error::Forbidden(CANNOT_EDIT));
            }
            check_version("insight", change.version, insight.version)?;
            set(&mut insight.name, change.name);
            set(&mut insight.derived_name, change.derived_name);
            set(&mut insight.description, change.description);
            set(&mut insight.filters, change.filters);
            if let Some(query) = change.query {
                // A query replaces legacy filters.
                if query.is_some() {
                    insight.filters.clear();
                }
                insight.query = query;
            }
            set(&mut insight.order, change.order);
            set(&mut insight.favorited, change.favorited);
            set(&mut insight.saved, change.saved);
            let may = |place: &InsightTile| place.policy.rights(viewer).can_edit();
            // Deleting an insight removes it from all of its dashboards, restoring adds it to them
            // again.
            let (was_deleted, all_may) = (insight.deleted, insight.tiles.iter().all(may));
            match change.deleted {
                Some(true) if !was_deleted && !all_may => {
                    return Err(Error::Forbidden(CANNOT_REMOVE));
                }
                Some(false) if was_deleted && !all_may => {
                    return Err(Error::Forbidden(CANNOT_ADD));
                }
                _ => {}
            }
            set(&mut insight.deleted, change.deleted);
            set(&mut insight.tags, change.tags);
            let Some(requested) = requested else { return Ok(()) };
            // A list of dashboards from the viewer does not affect dashboards that are hidden from
            // the viewer.
            let stays = |place: &&InsightTile| {
                requested.contains(&place.dashboard) || !place.policy.rights(viewer).can_view()
            };
            if !insight.tiles.iter().all(|place| stays(&place) || may(place)) {
                return Err(Error::Forbidden(CANNOT_REMOVE));
            }
            let mut on: Vec<DashboardId> =
                insight.tiles.iter().filter(stays).map(|place| place.dashboard).collect();
            on.extend(requested.iter().filter(|id| !insight.dashboards.contains(id)));
            insight.dashboards = on;
            Ok(())
        };
        let edited = self.core.edit_in(&mut tx, actor, id, apply).await?;
        let joins = match before.deleted && !edited.deleted {
            true => showing(&mut tx, id).await?,
            false => {
                let is_new = |on: &&DashboardId| !before.dashboards.contains(on);
                edited.dashboards.iter().filter(is_new).copied().collect()
            }
        };
        checked.revalidate_added(&mut tx, project, vec![id], &joins).await?;
        if Some(edited.updated_at) == changed_at {
            let sql = "UPDATE insights SET last_modified_by = $2 WHERE id = $1";
            tx.run(sql, args![id, actor.user]).await?;
        }
        tx.commit().await
    }
}

/// The dashboards with a live tile of an insight, including deleted dashboards.
async fn showing(tx: &mut Tx, insight: InsightId) -> Result<Vec<DashboardId>> {
    let sql = "SELECT dashboard_id FROM dashboard_tiles WHERE insight_id = $1 AND NOT deleted";
    tx.all(sql, args![insight]).await?.iter().map(|row| row.get("dashboard_id")).collect()
}

/// Checks that the dashboards to add are visible to the viewer and editable.
async fn check_dashboards(
    tx: &mut Tx,
    project: ProjectId,
    viewer: Viewer<'_>,
    ids: Vec<DashboardId>,
) -> Result<()> {
    let guards = rows::guards(tx, project, Some(viewer.user), &ids).await?;
    if guards.values().filter(|guard| guard.rights(viewer).can_view()).count() < ids.len() {
        return Err(Error::refused(Some("dashboards"), "Dashboard not found"));
    }
    if !guards.values().all(|guard| guard.rights(viewer).can_edit()) {
        return Err(Error::Forbidden(CANNOT_ADD));
    }
    Ok(())
}
