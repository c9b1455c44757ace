//! Insights that are made, copied, hidden and brought back together with their dashboards.

use std::collections::HashMap;

use model::{
    DashboardId, DashboardLook, Insight, InsightId, InsightKind, ObjectKind, ProjectId, Sight,
    Timestamp, UserId, Viewer, Written,
};
use serde::Serialize;
use serde_json::Value as Json;

use super::board;
use super::inherited_access::Reached;
use super::insights::{INSIGHT_NAME_CHARS_MAX, NewInsight, OBJECT, by_ids};
use super::tiles::{Content, TileState};
use crate::activity::{Actor, Logged};
use crate::db::dialect::placeholders;
use crate::db::{Tx, Value, args, secret};
use crate::objects::tags;
use crate::{Error, Result};

/// A dashboard that is copied.
pub struct DashboardSource {
    pub dashboard: DashboardId,
    pub copies: CopyDepth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyDepth {
    /// New tiles that show the same insights.
    Tiles,
    /// The insights are copied too.
    Insights,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Yes,
    No,
}

const SHORT_ID_CHARS: usize = 8;
/// 62^8 names: a second try is rare, a fifth means that something else is wrong.
const SHORT_ID_TRIES_MAX: usize = 5;
const COPY_SUFFIX: &str = " (Copy)";

/// What the log needs of an insight that was just made.
#[derive(Serialize)]
struct Made<'a> {
    id: InsightId,
    short_id: &'a str,
    name: Option<&'a str>,
}

impl Logged for Made<'_> {
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

/// A new insight on no dashboard.
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
            new.query.as_ref().map(Written::text),
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
        tx.log_created(actor, &Made { id, short_id: &short_id, name }, now).await?;
        return Ok(id);
    }
    Err(Error::corrupt("short_id", "no free one was found"))
}

/// Insights that are on this dashboard, deleted or not, and on no other.
pub(crate) async fn only_on(tx: &mut Tx, dashboard: DashboardId) -> Result<Vec<InsightId>> {
    let sql = "SELECT t.insight_id FROM dashboard_tiles t JOIN insights i ON i.id = t.insight_id \
               WHERE t.dashboard_id = $1 AND NOT t.deleted AND NOT i.deleted AND NOT EXISTS \
               (SELECT 1 FROM dashboard_tiles o JOIN dashboards d ON d.id = o.dashboard_id \
               WHERE o.insight_id = t.insight_id AND o.dashboard_id <> $1 AND NOT o.deleted \
               AND NOT d.deleted)";
    tx.all(sql, args![dashboard]).await?.iter().map(|row| row.get("insight_id")).collect()
}

/// Deleted insights that a tile of this dashboard shows.
pub(crate) async fn ever_on(tx: &mut Tx, dashboard: DashboardId) -> Result<Vec<InsightId>> {
    let sql = "SELECT t.insight_id FROM dashboard_tiles t JOIN insights i ON i.id = t.insight_id \
               WHERE t.dashboard_id = $1 AND i.deleted AND NOT t.deleted";
    tx.all(sql, args![dashboard]).await?.iter().map(|row| row.get("insight_id")).collect()
}

/// Insights that come back with one dashboard stay off those that the viewer may not edit.
pub(crate) async fn keep_off_others(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    ids: &[InsightId],
) -> Result<()> {
    let found = by_ids(tx, actor.project_id()?, actor.user, ids.to_vec()).await?;
    let places = found.iter().flat_map(|insight| &insight.places);
    let closed = places.filter(|place| !place.guard.rights(viewer).can_edit());
    let tiles: Vec<Value> = closed.map(|place| place.tile.into()).collect();
    let sql = "UPDATE dashboard_tiles SET deleted = TRUE WHERE id IN {list}";
    tx.run_in(sql, args![], &tiles).await
}

/// Hides insights or brings them back, as a part of what happens to their dashboard.
pub(crate) async fn show(
    tx: &mut Tx,
    actor: &Actor,
    ids: Vec<InsightId>,
    shown: Shown,
    now: Timestamp,
) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut values = args![shown == Shown::No, now];
    let marks = placeholders(values.len() + 1, ids.len());
    values.extend(ids.iter().map(|id| (*id).into()));
    let before = by_ids(tx, actor.project_id()?, actor.user, ids).await?;
    let sql = format!("UPDATE insights SET deleted = $1, updated_at = $2 WHERE id IN {marks}");
    tx.run(sql, values).await?;
    for insight in before {
        let after = Insight { deleted: shown == Shown::No, ..insight.clone() };
        tx.log_updated(actor, &insight, &after, now).await?;
    }
    Ok(())
}

/// Leaves out tiles whose insight is deleted or out of sight; where everything is copied, insights
/// are made anew.
pub(crate) async fn among_live(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    tiles: Vec<TileState>,
    copies: CopyDepth,
) -> Result<Vec<TileState>> {
    let project = actor.project_id()?;
    let (ids, seen) =
        (tiles.iter().filter_map(TileState::insight), viewer.sight(ObjectKind::Insight));
    let live = copies_of(tx, project, actor.user, ids.collect(), &seen).await?;
    if copies == CopyDepth::Tiles {
        let reached = Reached::through(tx, project, &tiles, viewer).await?;
        let is_shown = |tile: &&TileState| tile.insight().is_none_or(|id| live.contains_key(&id));
        let mut shown = tiles.iter().filter(is_shown);
        shown.try_for_each(|tile| reached.check_may_edit(&tile.content))?;
    }
    let copy = |tile: TileState| {
        let content = match (tile.content, copies) {
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

/// What a copy of each of these insights would be; those that are deleted or out of sight are left
/// out.
pub(crate) async fn copies_of(
    tx: &mut Tx,
    project: ProjectId,
    viewer: Option<UserId>,
    ids: Vec<InsightId>,
    seen: &Sight,
) -> Result<HashMap<InsightId, NewInsight>> {
    let found = by_ids(tx, project, viewer, ids).await?;
    let is_seen = |insight: &Insight| {
        seen.holds(insight.id.0, insight.created_by.as_ref().map(|author| author.id))
    };
    let live = found.into_iter().filter(|insight| !insight.deleted && is_seen(insight));
    Ok(live.map(|insight| (insight.id, copy_of(insight))).collect())
}

fn copy_of(insight: Insight) -> NewInsight {
    let room = INSIGHT_NAME_CHARS_MAX - COPY_SUFFIX.len();
    let named = |name: String| name.chars().take(room).chain(COPY_SUFFIX.chars()).collect();
    NewInsight {
        name: insight.name.map(named),
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

/// How a new dashboard looks and what is on it, after another one.
pub(crate) async fn duplicated(
    tx: &mut Tx,
    actor: &Actor,
    viewer: Viewer<'_>,
    source: DashboardSource,
) -> Result<(DashboardLook, Vec<TileState>)> {
    let missing = |error| match error {
        Error::NotFound => Error::refused(Some("use_dashboard"), "Invalid value provided"),
        other => other,
    };
    let DashboardSource { dashboard, copies } = source;
    let source = board::live(tx, actor, dashboard).await.map_err(missing)?;
    if !source.dashboard.head.guard().rights(viewer).can_view() {
        return Err(missing(Error::NotFound));
    }
    let shown = source.tiles.into_iter().filter(|tile| !tile.deleted);
    let tiles: Vec<TileState> = shown.map(|tile| tile.own()).collect();
    let tiles = among_live(tx, actor, viewer, tiles, copies).await?;
    Ok((source.dashboard.look, tiles))
}
