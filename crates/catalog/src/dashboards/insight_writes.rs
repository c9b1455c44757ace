//! Creating, copying, deleting and restoring insights together with their dashboards.

use std::collections::HashMap;

use model::{
    DashboardId, DashboardPresentation, Insight, InsightId, InsightKind, ObjectKind, ProjectId,
    Timestamp, UserId, VerbatimJson, Viewer, Visibility,
};
use serde::Serialize;
use serde_json::Value as Json;

use super::board;
use super::inherited_access::InheritedAccess;
use super::insights::{INSIGHT_NAME_CHARS_MAX, NewInsight, OBJECT, by_ids};
use super::tiles::{Content, TileState};
use crate::activity::{Actor, Logged};
use crate::db::dialect::placeholders;
use crate::db::{Tx, Value, args, secret};
use crate::objects::tags;
use crate::{Error, Result};

/// A dashboard to copy.
pub struct DashboardSource {
    pub dashboard: DashboardId,
    pub depth: CopyDepth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDepth {
    /// New tiles with the same insights.
    Tiles,
    /// New tiles with copies of the insights.
    Insights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SoftDelete {
    Delete,
    Restore,
}

const SHORT_ID_CHARS: usize = 8;
/// With 62^8 short ids a collision is rare; five in a row mean another fault.
const SHORT_ID_TRIES_MAX: usize = 5;
const COPY_SUFFIX: &str = " (Copy)";

/// What the log needs of a new insight.
#[derive(Serialize)]
struct LoggedInsight<'a> {
    id: InsightId,
    short_id: &'a str,
    name: Option<&'a str>,
}

impl Logged for LoggedInsight<'_> {
    const SCOPE: &'static str = Insight::SCOPE;

    fn item_id(&self) -> String {
        self.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.name.map(str::to_owned)
    }

    fn short_id(&self) -> Option<String> {
        Some(self.short_id.to_owned())
    }
}

/// Inserts an insight that is on no dashboard yet.
pub(crate) async fn insert(
    tx: &mut Tx,
    actor: &Actor,
    project: ProjectId,
    new: &NewInsight,
    now: Timestamp,
) -> Result<InsightId> {
    let kind = InsightKind::of(new.query.as_deref(), &new.filters);
    for _ in 0..SHORT_ID_TRIES_MAX {
        let short_id = secret::short_name(SHORT_ID_CHARS);
        let sql = "INSERT INTO insights (project_id, short_id, name, derived_name, description, \
                   query, filters, kind, position, favorited, saved, is_sample, created_by, \
                   created_at, updated_at, last_modified_by, last_modified_at, deleted) \
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $14, \
                   $13, $14, $15) ON CONFLICT (project_id, short_id) DO NOTHING RETURNING id";
        let values = args![
            project,
            short_id.as_str(),
            new.name.as_deref(),
            new.derived_name.as_deref(),
            new.description.as_deref(),
            new.query.as_ref().map(VerbatimJson::text),
            Json::Object(new.filters.clone()),
            kind.map(InsightKind::as_str),
            new.order,
            new.favorited,
            new.saved,
            new.is_sample,
            actor.user,
            now,
            new.deleted,
        ];
        let Some(row) = tx.optional(sql, values).await? else { continue };
        let id: InsightId = row.get("id")?;
        tags::replace(tx, project, OBJECT, id.to_string(), &new.tags).await?;
        let name = new.name.as_deref().or(new.derived_name.as_deref());
        tx.log_created(actor, &LoggedInsight { id, short_id: &short_id, name }, now).await?;
        return Ok(id);
    }
    Err(Error::corrupt("short_id", "no free one was found"))
}

/// Live insights on this dashboard, deleted or not, that are on no other live dashboard.
pub(crate) async fn exclusively_on(tx: &mut Tx, dashboard: DashboardId) -> Result<Vec<InsightId>> {
    let sql = "SELECT t.insight_id FROM dashboard_tiles t JOIN insights i ON i.id = t.insight_id \
               WHERE t.dashboard_id = $1 AND NOT t.deleted AND NOT i.deleted AND NOT EXISTS \
               (SELECT 1 FROM dashboard_tiles o JOIN dashboards d ON d.id = o.dashboard_id \
               WHERE o.insight_id = t.insight_id AND o.dashboard_id <> $1 AND NOT o.deleted \
               AND NOT d.deleted)";
    tx.all(sql, args![dashboard]).await?.iter().map(|row| row.get("insight_id")).collect()
}

/// Deleted insights on live tiles of this dashboard.
pub(crate) async fn deleted_on(tx: &mut Tx, dashboard: DashboardId) -> Result<Vec<InsightId>> {
    let sql = "SELECT t.insight_id FROM dashboard_tiles t JOIN insights i ON i.id = t.insight_id \
               WHERE t.dashboard_id = $1 AND i.deleted AND NOT t.deleted";
    tx.all(sql, args![dashboard]).await?.iter().map(|row| row.get("insight_id")).collect()
}

/// When insights are restored with their dashboard, removes them from dashboards that the viewer
/// may not edit.
pub(crate) async fn remove_from_uneditable(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    ids: &[InsightId],
) -> Result<()> {
    let insights = by_ids(tx, actor.project_id()?, actor.user, ids.to_vec()).await?;
    let places = insights.iter().flat_map(|insight| &insight.tiles);
    let closed = places.filter(|place| !place.policy.rights(viewer).can_edit());
    let tiles: Vec<Value> = closed.map(|place| place.tile.into()).collect();
    let sql = "UPDATE dashboard_tiles SET deleted = TRUE WHERE id IN {list}";
    tx.run_in(sql, args![], &tiles).await
}

/// Deletes or restores insights together with their dashboard.
pub(crate) async fn soft_delete(
    tx: &mut Tx,
    actor: &Actor,
    ids: Vec<InsightId>,
    action: SoftDelete,
    now: Timestamp,
) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut values = args![action == SoftDelete::Delete, now];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| (*id).into()));
    let before = by_ids(tx, actor.project_id()?, actor.user, ids).await?;
    let sql = format!(
        "UPDATE insights SET deleted = $1, updated_at = $2, version = version + 1 WHERE id IN {marks}"
    );
    tx.run(sql, values).await?;
    for insight in before {
        let after = Insight { deleted: action == SoftDelete::Delete, ..insight.clone() };
        tx.log_updated(actor, &insight, &after, now).await?;
    }
    Ok(())
}

/// Drops tiles whose insight is deleted or hidden from the viewer; with [`CopyDepth::Insights`],
/// replaces each insight by a copy.
pub(crate) async fn copyable_tiles(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    tiles: Vec<TileState>,
    depth: CopyDepth,
) -> Result<Vec<TileState>> {
    let project = actor.project_id()?;
    let (ids, visibility) =
        (tiles.iter().filter_map(TileState::insight), viewer.visibility(ObjectKind::Insight));
    let live = copies_of(tx, project, actor.user, ids.collect(), &visibility).await?;
    if depth == CopyDepth::Tiles {
        let access = InheritedAccess::of_tiles(tx, project, &tiles, viewer).await?;
        let is_shown = |tile: &&TileState| tile.insight().is_none_or(|id| live.contains_key(&id));
        let mut shown = tiles.iter().filter(is_shown);
        shown.try_for_each(|tile| access.check_may_edit(&tile.content))?;
    }
    let copy = |tile: TileState| {
        let content = match (tile.content, depth) {
            (Content::Insight(id), CopyDepth::Tiles) => {
                live.contains_key(&id).then_some(Content::Insight(id))?
            }
            (Content::Insight(id), CopyDepth::Insights) => {
                Content::NewInsight(Box::new(live.get(&id)?.clone()))
            }
            (other, _) => other,
        };
        Some(TileState { content, ..tile })
    };
    Ok(tiles.into_iter().filter_map(copy).collect())
}

/// Copies of these insights, without those that are deleted or hidden.
pub(crate) async fn copies_of(
    tx: &mut Tx,
    project: ProjectId,
    viewer: Option<UserId>,
    ids: Vec<InsightId>,
    visibility: &Visibility,
) -> Result<HashMap<InsightId, NewInsight>> {
    let insights = by_ids(tx, project, viewer, ids).await?;
    let is_visible = |insight: &Insight| {
        visibility.holds(insight.id.0, insight.created_by.as_ref().map(|author| author.id))
    };
    let live = insights.into_iter().filter(|insight| !insight.deleted && is_visible(insight));
    Ok(live.map(|insight| (insight.id, copy_of(insight))).collect())
}

fn copy_of(insight: Insight) -> NewInsight {
    let name_chars = INSIGHT_NAME_CHARS_MAX - COPY_SUFFIX.len();
    let with_suffix =
        |name: String| name.chars().take(name_chars).chain(COPY_SUFFIX.chars()).collect();
    NewInsight {
        name: insight.name.map(with_suffix),
        derived_name: insight.derived_name,
        description: insight.description,
        query: insight.query,
        filters: insight.filters,
        order: insight.order,
        favorited: insight.favorited,
        saved: insight.saved,
        is_sample: insight.is_sample,
        deleted: false,
        tags: insight.tags,
    }
}

/// Presentation and tiles of a new dashboard that copies another.
pub(crate) async fn contents_of(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    source: DashboardSource,
) -> Result<(DashboardPresentation, Vec<TileState>)> {
    let missing = |error| match error {
        Error::NotFound => Error::refused(Some("use_dashboard"), "Invalid value provided"),
        other => other,
    };
    let DashboardSource { dashboard, depth } = source;
    let source = board::lock_live(tx, actor, dashboard).await.map_err(missing)?;
    if !source.dashboard.head.policy().rights(viewer).can_view() {
        return Err(missing(Error::NotFound));
    }
    let shown = source.tiles.into_iter().filter(|tile| !tile.deleted);
    let tiles: Vec<TileState> = shown.map(|tile| tile.detached_copy()).collect();
    let tiles = copyable_tiles(tx, actor, viewer, tiles, depth).await?;
    Ok((source.dashboard.presentation, tiles))
}
