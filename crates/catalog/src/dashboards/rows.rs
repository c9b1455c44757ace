//! Dashboards: listing and reading. `tiles.rs` has their tiles, `board.rs` the changes.

use std::collections::HashMap;

use model::{
    CreationMode, Dashboard, DashboardHead, DashboardId, DashboardPolicy, DashboardPresentation,
    Insight, InsightId, ObjectKind, ProjectId, Restriction, Tile, TileContent, TileId, Timestamp,
    UserId, Viewer, Visibilities, Visibility, Window,
};

use super::board::CANNOT_EDIT;
use super::{Dashboards, insights, tiles};
use crate::access::CANNOT_VIEW;
use crate::db::dialect::placeholders;
use crate::db::executor::Executor;
use crate::db::select::Condition;
use crate::db::{Row, Tx, args, author};
use crate::objects::edit::Deleted;
use crate::objects::tags;
use crate::{Error, Result};

/// Filters of a list; an absent filter matches everything.
#[derive(Default)]
pub struct DashboardFilter {
    pub creation_mode: Option<CreationMode>,
    /// Tagged with any of these.
    pub tags: Vec<String>,
    /// Excludes dashboards that were generated for a feature.
    pub exclude_generated: bool,
    pub search: Option<String>,
    pub visibility: Visibility,
}

/// A dashboard with its tiles and insights.
pub struct DashboardView {
    pub dashboard: Dashboard,
    pub tiles: Vec<Tile>,
    /// The insights of the tiles.
    pub insights: HashMap<InsightId, Insight>,
}

/// The `object` column of these objects' taggings.
pub(crate) const OBJECT: &str = "dashboard";
/// `last_accessed_at` is updated at most this often, so that most views only read.
const ACCESS_NOTED_SECONDS: i64 = 60;

const HEAD: &str = "d.id, d.project_id, d.name, d.description, d.pinned, d.creation_mode, \
     d.restriction_level, d.created_at, d.last_accessed_at, d.deleted, d.version, \
     c.user_id IS NOT NULL AS collaborates, EXISTS (SELECT 1 FROM sharing_configurations s \
     WHERE s.dashboard_id = d.id AND s.enabled) AS is_shared";
const LOOK: &str = "d.filters, d.variables, d.breakdown_colors, d.data_color_theme_id, \
     d.quick_filter_ids";
/// `$2` is the viewer.
const FROM: &str = "dashboards d LEFT JOIN users u ON u.id = d.created_by \
     LEFT JOIN dashboard_collaborators c ON c.dashboard_id = d.id AND c.user_id = $2";

fn read_head(row: &Row, tags: Vec<String>) -> Result<DashboardHead> {
    let mode: String = row.get("creation_mode")?;
    Ok(DashboardHead {
        id: row.get("id")?,
        name: row.get("name")?,
        description: row.get("description")?,
        pinned: row.get("pinned")?,
        created_at: row.get("created_at")?,
        created_by: author::read(row)?,
        last_accessed_at: row.get("last_accessed_at")?,
        last_viewed_at: None,
        is_shared: row.get("is_shared")?,
        deleted: row.get("deleted")?,
        creation_mode: CreationMode::parse(&mode)
            .ok_or_else(|| Error::corrupt("creation_mode", &mode))?,
        tags,
        restriction_level: restriction(row)?,
        last_refresh: None,
        version: row.get("version")?,
        team_id: row.get("project_id")?,
        is_collaborator: row.get("collaborates")?,
    })
}

pub(crate) fn restriction(row: &Row) -> Result<Restriction> {
    Restriction::try_from(row.get::<i64>("restriction_level")?)
        .map_err(|why| Error::corrupt("restriction_level", why))
}

fn read(row: &Row, tags: Vec<String>) -> Result<Dashboard> {
    let presentation = DashboardPresentation {
        filters: row.json("filters")?,
        variables: row.optional_json("variables")?,
        breakdown_colors: row.json("breakdown_colors")?,
        data_color_theme_id: row.get("data_color_theme_id")?,
        quick_filter_ids: row.json("quick_filter_ids")?,
    };
    Ok(Dashboard { head: read_head(row, tags)?, presentation })
}

/// One dashboard; `rest` is a further condition or the dialect's row lock.
async fn find(
    executor: &mut impl Executor,
    (project, id): (ProjectId, DashboardId),
    viewer: Option<UserId>,
    rest: String,
) -> Result<Dashboard> {
    let sql = format!(
        "SELECT {HEAD}, {LOOK}, {} FROM {FROM} WHERE d.project_id = $1 AND d.id = $3{rest}",
        author::COLUMNS,
    );
    let rows = executor.fetch(sql, args![project, viewer, id]).await?;
    let row = rows.first().ok_or(Error::NotFound)?;
    let mut tags = tags::of_numbered(executor, project, OBJECT, &[id.0]).await?;
    read(row, tags.remove(&id.0).unwrap_or_default())
}

/// Reads and locks the dashboard, deleted or not.
pub(crate) async fn lock(
    tx: &mut Tx,
    project: ProjectId,
    id: DashboardId,
    viewer: Option<UserId>,
) -> Result<Dashboard> {
    let rest = tx.dialect().for_update_of("d");
    find(tx, (project, id), viewer, rest).await
}

/// The edit policy of each of these dashboards; missing ones are left out.
pub(crate) async fn guards(
    tx: &mut Tx,
    project: ProjectId,
    viewer: Option<UserId>,
    ids: &[DashboardId],
) -> Result<HashMap<DashboardId, DashboardPolicy>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let mut values = args![project, viewer];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| (*id).into()));
    let sql = format!(
        "SELECT d.id, d.restriction_level, d.created_by, c.user_id IS NOT NULL AS collaborates \
         FROM {FROM} WHERE d.project_id = $1 AND d.id IN {marks} AND NOT d.deleted"
    );
    let rows = tx.all(sql, values).await?;
    rows.iter().map(|row| Ok((row.get("id")?, guard(row, row.get("id")?)?))).collect()
}

/// Reads `restriction_level`, `created_by` and `collaborates`.
pub(crate) fn guard(row: &Row, dashboard: DashboardId) -> Result<DashboardPolicy> {
    Ok(DashboardPolicy {
        dashboard,
        restriction: restriction(row)?,
        author: row.get("created_by")?,
        is_collaborator: row.get("collaborates")?,
    })
}

impl Dashboards<'_> {
    /// Pinned dashboards first, then by name.
    pub async fn list(
        self,
        project: ProjectId,
        viewer: UserId,
        filter: &DashboardFilter,
        window: Window,
    ) -> Result<(Vec<DashboardHead>, i64)> {
        let which = "d.project_id = $1 AND NOT d.deleted AND d.creation_mode <> 'unlisted'";
        let mut condition = Condition::new(which, args![project, viewer]);
        if let Some(mode) = filter.creation_mode {
            condition.and("d.creation_mode = ?", mode.as_str());
        }
        if filter.exclude_generated {
            condition.and_sql("(d.name IS NULL OR d.name NOT LIKE 'Generated Dashboard:%')");
        }
        if !filter.tags.is_empty() {
            condition.and_tagged(OBJECT, "d", &filter.tags);
        }
        if let Some(search) = &filter.search {
            condition.and_search(&["d.name", "d.description"], None, search);
        }
        condition.and_visible(&filter.visibility, "d");
        let columns = format!("{HEAD}, {}", author::COLUMNS);
        let order = "d.pinned DESC, COALESCE(d.name, ''), d.id";
        let (rows, total) = self.core.db.page(&columns, FROM, condition, order, window).await?;
        let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
        let mut tags = tags::of_numbered(&mut &self.core.db, project, OBJECT, &ids).await?;
        let dashboards = rows
            .iter()
            .zip(&ids)
            .map(|(row, id)| read_head(row, tags.remove(id).unwrap_or_default()))
            .collect::<Result<_>>()?;
        Ok((dashboards, total))
    }

    pub async fn get(
        self,
        project: ProjectId,
        id: DashboardId,
        viewer: Option<UserId>,
        deleted: Deleted,
    ) -> Result<Dashboard> {
        find(&mut &self.core.db, (project, id), viewer, deleted.condition("d")).await
    }

    /// [`Error::Forbidden`] when access rules hide it from the viewer.
    pub async fn get_visible(
        self,
        project: ProjectId,
        id: DashboardId,
        viewer: Viewer<'_>,
    ) -> Result<Dashboard> {
        let dashboard = self.get(project, id, Some(viewer.user), Deleted::Exclude).await?;
        match dashboard.head.policy().rights(viewer).can_view() {
            true => Ok(dashboard),
            false => Err(Error::Forbidden(CANNOT_VIEW)),
        }
    }

    /// [`Error::Forbidden`] when the viewer may not edit it.
    pub async fn get_editable(
        self,
        project: ProjectId,
        id: DashboardId,
        viewer: Viewer<'_>,
        deleted: Deleted,
    ) -> Result<Dashboard> {
        let dashboard = self.get(project, id, Some(viewer.user), deleted).await?;
        match dashboard.head.policy().rights(viewer).can_edit() {
            true => Ok(dashboard),
            false => Err(Error::Forbidden(CANNOT_EDIT)),
        }
    }

    /// Loads the tiles and insights of a dashboard, in a constant number of statements.
    pub async fn view(
        self,
        dashboard: Dashboard,
        viewer: Option<UserId>,
        visibility: &Visibilities,
    ) -> Result<DashboardView> {
        let executor = &mut &self.core.db;
        let project = dashboard.head.team_id;
        let others = visibility.of(ObjectKind::Dashboard);
        let tiles = tiles::live(executor, project, dashboard.head.id, others).await?;
        let shown = tiles.iter().filter_map(|tile| match tile.content {
            TileContent::Insight(id) => Some(id),
            TileContent::Note(_) | TileContent::Button(..) => None,
        });
        let insights = insights::by_ids(executor, project, viewer, shown.collect()).await?;
        let insights = insights.into_iter().map(|insight| (insight.id, insight)).collect();
        Ok(DashboardView { dashboard, tiles, insights })
    }

    /// The insights that a copy would duplicate: those of `tiles`, or of all live tiles. Insights
    /// hidden from the viewer are left out.
    pub async fn insights_to_copy(
        self,
        project: ProjectId,
        on: DashboardId,
        viewer: Viewer<'_>,
        tiles: Option<&[TileId]>,
    ) -> Result<Vec<Insight>> {
        let sql = "SELECT id, insight_id, deleted FROM dashboard_tiles \
                   WHERE dashboard_id = $1 AND insight_id IS NOT NULL";
        let mut ids = Vec::new();
        for row in self.core.db.all(sql, args![on]).await? {
            let is_copied = match tiles {
                Some(tiles) => tiles.contains(&row.get("id")?),
                None => !row.get::<bool>("deleted")?,
            };
            if is_copied {
                ids.push(row.get("insight_id")?);
            }
        }
        let mut insights =
            insights::by_ids(&mut &self.core.db, project, Some(viewer.user), ids).await?;
        insights.retain(|insight| !insight.deleted && insight.rights(viewer).can_view());
        Ok(insights)
    }

    /// Records that the dashboard is viewed now.
    pub async fn record_access(self, dashboard: &mut Dashboard) -> Result<()> {
        let now = self.core.clock.now();
        let noted = |at: Timestamp| now.seconds_since(at) < ACCESS_NOTED_SECONDS;
        if dashboard.head.last_accessed_at.is_some_and(noted) {
            return Ok(());
        }
        let mut tx = self.core.db.begin().await?;
        let sql = "UPDATE dashboards SET last_accessed_at = $2 WHERE id = $1";
        tx.run(sql, args![dashboard.head.id, now]).await?;
        tx.commit().await?;
        dashboard.head.last_accessed_at = Some(now);
        Ok(())
    }
}
