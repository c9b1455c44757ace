//! Dashboards with their tiles: creating, changing, copying and reordering.
//!
//! Rows of dashboards, tiles and insights reference each other in cycles. Every writer of one of
//! them takes the lock of [`lock_dashboards`] first, which prevents deadlocks.

use std::collections::HashMap;

use model::{
    CreationMode, Dashboard, DashboardId, DashboardPresentation, InsightId, ObjectKind, ProjectId,
    Restriction, TileId, Timestamp, Viewer,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::inherited_access::InheritedAccess;
use super::insight_writes::{self, DashboardSource, SoftDelete};
use super::insights::NewInsight;
use super::revalidate::CheckedInsights;
use super::tile_changes::{NewTile, TileChange, TileCopy};
use super::tiles::{self, Content, TILES_MAX, TileState, TileWriter};
use super::{Dashboards, rows};
use crate::access::{CANNOT_CREATE, CANNOT_VIEW};
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::{Tx, args};
use crate::objects::edit::{Editable, check_version, set};
use crate::objects::{lock_dashboards, tags};
use crate::{Error, Result, projects};

pub struct NewDashboard {
    pub name: Option<String>,
    pub description: String,
    pub pinned: bool,
    pub tags: Vec<String>,
    pub restriction_level: Restriction,
    pub presentation: DashboardPresentation,
    pub deleted: bool,
    pub creation_mode: CreationMode,
    pub contents: DashboardContents,
}

/// The initial tiles of a dashboard.
pub enum DashboardContents {
    Tiles(Vec<NewTile>),
    /// The tiles of another dashboard, and its presentation where the request has none.
    CopyOf(DashboardSource),
}

/// A partial update; absent fields stay unchanged.
#[derive(Default)]
pub struct DashboardChange {
    pub name: Option<Option<String>>,
    pub description: Option<String>,
    pub pinned: Option<bool>,
    pub deleted: Option<bool>,
    pub tags: Option<Vec<String>>,
    pub restriction_level: Option<Restriction>,
    pub filters: Option<Map<String, Value>>,
    pub variables: Option<Option<Map<String, Value>>>,
    pub breakdown_colors: Option<Vec<Value>>,
    pub data_color_theme_id: Option<Option<i64>>,
    pub quick_filter_ids: Option<Vec<Value>>,
    pub tiles: Vec<TileChange>,
    pub copied_tiles: Vec<TileCopy>,
    /// With `deleted`: also deletes the insights that are on no other dashboard, if the viewer may
    /// edit them.
    pub delete_insights: bool,
    /// The version that the author of the change loaded.
    pub version: Option<i64>,
}

pub(crate) const CANNOT_EDIT: &str = "You don't have edit permissions for this dashboard.";
const CANNOT_EDIT_DESTINATION: &str =
    "You don't have edit permissions for the destination dashboard.";
const CANNOT_RESTRICT: &str = "Only the dashboard owner and project admins have the restriction \
     rights required to change the dashboard's restriction level.";

/// A dashboard with all of its tiles, including deleted ones.
#[derive(Clone, PartialEq, Serialize)]
pub(crate) struct Board {
    #[serde(flatten)]
    pub dashboard: Dashboard,
    #[serde(skip)]
    pub tiles: Vec<TileState>,
    /// Who changes the dashboard.
    #[serde(skip)]
    actor: Actor,
    #[serde(skip)]
    at: Option<Timestamp>,
}

impl Logged for Board {
    const SCOPE: &'static str = "Dashboard";
    const UNLOGGED: &'static [&'static str] = &["last_accessed_at", "version"];

    fn item_id(&self) -> String {
        self.dashboard.head.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.dashboard.head.name.clone()
    }

    /// Logs only the tiles that differ, since a dashboard may have hundreds.
    fn further_changes(before: &Self, after: &Self) -> Vec<Change> {
        let changed_tiles = |tiles: &[TileState], other: &[TileState]| -> Vec<Value> {
            tiles.iter().filter(|tile| !other.contains(tile)).map(TileState::log_value).collect()
        };
        let (old, new) = (
            changed_tiles(&before.tiles, &after.tiles),
            changed_tiles(&after.tiles, &before.tiles),
        );
        if old.is_empty() && new.is_empty() {
            return Vec::new();
        }
        let (scope, action, field) = (Self::SCOPE.into(), ChangeAction::Changed, "tiles");
        let (before, after) = (Some(json!(old)), Some(json!(new)));
        vec![Change { scope, action, field: Some(field.into()), before, after }]
    }
}

impl Editable for Board {
    type Id = DashboardId;

    async fn lock(tx: &mut Tx, actor: &Actor, id: DashboardId) -> Result<Self> {
        let project = actor.project_id()?;
        lock_dashboards(tx, project).await?;
        let dashboard = rows::lock(tx, project, id, actor.user).await?;
        Ok(Self { dashboard, tiles: tiles::all_of(tx, id).await?, actor: *actor, at: None })
    }

    async fn save(&mut self, tx: &mut Tx, before: &Self) -> Result<()> {
        let (head, presentation) = (&self.dashboard.head, &self.dashboard.presentation);
        if self.dashboard != before.dashboard {
            tx.run(
                "UPDATE dashboards SET name = $2, description = $3, pinned = $4, deleted = $5, \
                 restriction_level = $6, filters = $7, variables = $8, breakdown_colors = $9, \
                 data_color_theme_id = $10, quick_filter_ids = $11, version = $12 WHERE id = $1",
                args![
                    head.id,
                    head.name.as_deref(),
                    head.description.as_str(),
                    head.pinned,
                    head.deleted,
                    i64::from(head.restriction_level),
                    Value::Object(presentation.filters.clone()),
                    presentation.variables.clone().map(Value::Object),
                    Value::Array(presentation.breakdown_colors.clone()),
                    presentation.data_color_theme_id,
                    Value::Array(presentation.quick_filter_ids.clone()),
                    head.version,
                ],
            )
            .await?;
        }
        if head.tags != before.dashboard.head.tags {
            let (object, id) = (rows::OBJECT, head.id.to_string());
            tags::replace(tx, head.team_id, object, id, &head.tags).await?;
        }
        let writing = TileWriter {
            actor: &self.actor,
            project: head.team_id,
            dashboard: head.id,
            now: self.at.unwrap_or(head.created_at),
        };
        writing.save(tx, &before.tiles, &self.tiles).await?;
        self.assign_ids(tx, before).await
    }

    fn project(&self) -> ProjectId {
        self.dashboard.head.team_id
    }

    fn is_deleted(&self) -> bool {
        self.dashboard.head.deleted
    }

    /// Dashboards have no `updated_at`; new tiles use the time.
    fn mark_changed(&mut self, now: Timestamp) {
        self.at = Some(now);
        self.dashboard.head.version += 1;
    }
}

impl Board {
    pub(crate) fn check_may_edit(&self, viewer: Viewer<'_>, refusal: &'static str) -> Result<()> {
        match self.dashboard.head.policy().rights(viewer).can_edit() {
            true => Ok(()),
            false => Err(Error::Forbidden(refusal)),
        }
    }

    /// Creating insights together with their tiles takes the permission to create insights.
    pub(crate) fn check_may_create(&self, viewer: Viewer<'_>) -> Result<()> {
        let is_made = |tile: &TileState| matches!(tile.content, Content::NewInsight(_));
        match self.tiles.iter().any(is_made) && !viewer.can_create(ObjectKind::Insight) {
            true => Err(Error::Forbidden(CANNOT_CREATE)),
            false => Ok(()),
        }
    }

    /// `insights` are the copies for contents_of tiles, by the insight they copy.
    fn apply(
        &mut self,
        change: DashboardChange,
        viewer: Viewer<'_>,
        access: &InheritedAccess,
        insights: &HashMap<InsightId, NewInsight>,
    ) -> Result<()> {
        self.check_may_edit(viewer, CANNOT_EDIT)?;
        check_version("dashboard", change.version, self.dashboard.head.version)?;
        let rights = self.dashboard.head.policy().rights(viewer);
        let (head, presentation) = (&mut self.dashboard.head, &mut self.dashboard.presentation);
        let restricts = change.restriction_level.is_some_and(|to| to != head.restriction_level);
        if restricts && !rights.can_restrict {
            return Err(Error::Forbidden(CANNOT_RESTRICT));
        }
        set(&mut head.name, change.name);
        set(&mut head.description, change.description);
        set(&mut head.pinned, change.pinned);
        set(&mut head.deleted, change.deleted);
        set(&mut head.tags, change.tags);
        set(&mut head.restriction_level, change.restriction_level);
        set(&mut presentation.filters, change.filters);
        set(&mut presentation.variables, change.variables);
        set(&mut presentation.breakdown_colors, change.breakdown_colors);
        set(&mut presentation.data_color_theme_id, change.data_color_theme_id);
        set(&mut presentation.quick_filter_ids, change.quick_filter_ids);
        for tile in change.tiles {
            self.change_tile(tile, access)?;
        }
        for copy in change.copied_tiles {
            self.duplicate_tile(copy, access, insights)?;
        }
        self.check_may_create(viewer)?;
        self.check_tile_limit()
    }

    pub(crate) fn check_tile_limit(&self) -> Result<()> {
        if self.tiles.iter().filter(|tile| !tile.deleted).count() > TILES_MAX {
            let detail = format!("A dashboard holds at most {TILES_MAX} tiles.");
            return Err(Error::refused(Some("tiles"), detail));
        }
        Ok(())
    }

    /// A tile that is not deleted and that the viewer may see.
    fn live_tile(&mut self, id: TileId, access: &InheritedAccess) -> Option<&mut TileState> {
        let matches = |tile: &&mut TileState| {
            tile.id == Some(id) && !tile.deleted && access.can_view(&tile.content)
        };
        self.tiles.iter_mut().find(matches)
    }
}

impl Dashboards<'_> {
    /// Returns the id of the new dashboard.
    pub async fn create(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        new: NewDashboard,
    ) -> Result<DashboardId> {
        let mut tx = self.core.db.begin().await?;
        let id = self.create_in(&mut tx, actor, viewer, new).await?;
        tx.commit().await?;
        Ok(id)
    }

    /// Like [`Dashboards::create`], in a transaction of the caller.
    pub(crate) async fn create_in(
        self,
        tx: &mut Tx,
        actor: &Actor,
        viewer: Viewer<'_>,
        new: NewDashboard,
    ) -> Result<DashboardId> {
        let project = actor.project_id()?;
        lock_dashboards(tx, project).await?;
        let now = self.core.clock.now();
        let (presentation, tiles) = match new.contents {
            DashboardContents::Tiles(tiles) => {
                (new.presentation, tiles.into_iter().map(NewTile::into_state).collect())
            }
            DashboardContents::CopyOf(source) => {
                let source = insight_writes::contents_of(tx, actor, viewer, source).await?;
                let requested = new.presentation.filters;
                let filters = if requested.is_empty() { source.0.filters } else { requested };
                (DashboardPresentation { filters, ..source.0 }, source.1)
            }
        };
        let id = tx
            .one(
                "INSERT INTO dashboards (project_id, name, description, pinned, creation_mode, \
                 restriction_level, filters, variables, breakdown_colors, data_color_theme_id, \
                 quick_filter_ids, created_by, created_at, deleted) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING id",
                args![
                    project,
                    new.name,
                    new.description,
                    new.pinned,
                    new.creation_mode.as_str(),
                    i64::from(new.restriction_level),
                    Value::Object(presentation.filters),
                    presentation.variables.map(Value::Object),
                    Value::Array(presentation.breakdown_colors),
                    presentation.data_color_theme_id,
                    Value::Array(presentation.quick_filter_ids),
                    actor.user,
                    now,
                    new.deleted,
                ],
            )
            .await?
            .get("id")?;
        let empty = Board::lock(tx, actor, id).await?;
        let mut board = empty.clone();
        (board.dashboard.head.tags, board.tiles) = (new.tags, tiles);
        board.check_may_create(viewer)?;
        board.check_tile_limit()?;
        board.save(tx, &empty).await?;
        tx.log_created(actor, &board, now).await?;
        Ok(id)
    }

    pub async fn update(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: DashboardId,
        change: DashboardChange,
        checked: &CheckedInsights,
    ) -> Result<()> {
        let (deletes, restores) = (change.deleted == Some(true), change.deleted == Some(false));
        let with_insights = change.delete_insights;
        let mut was_deleted = false;
        let mut tx = self.core.db.begin().await?;
        let before = Board::lock(&mut tx, actor, id).await?;
        let access = InheritedAccess::of_board(&mut tx, &before, viewer).await?;
        let copied = before.insights_to_duplicate(&change.copied_tiles);
        let (project, visibility) = (before.project(), viewer.visibility(ObjectKind::Insight));
        let copies =
            insight_writes::copies_of(&mut tx, project, actor.user, copied, &visibility).await?;
        let apply = |board: &mut Board, _| {
            was_deleted = board.is_deleted();
            board.apply(change, viewer, &access, &copies)
        };
        let after = self.core.edit_in(&mut tx, actor, id, apply).await?;
        checked.revalidate_added(&mut tx, project, after.restored_since(&before), &[id]).await?;
        if deletes && !was_deleted {
            if with_insights {
                let lonely = access.editable(insight_writes::exclusively_on(&mut tx, id).await?);
                insight_writes::soft_delete(
                    &mut tx,
                    actor,
                    lonely,
                    SoftDelete::Delete,
                    self.core.clock.now(),
                )
                .await?;
            }
            projects::clear_primary_dashboard(&mut tx, actor.project_id()?, id).await?;
        }
        if restores && was_deleted {
            // The restored dashboard grants access to its insights again.
            let access = InheritedAccess::of_board(&mut tx, &before, viewer).await?;
            let on_it = access.editable(insight_writes::deleted_on(&mut tx, id).await?);
            insight_writes::remove_from_uneditable(&mut tx, actor, viewer, &on_it).await?;
            insight_writes::soft_delete(
                &mut tx,
                actor,
                on_it,
                SoftDelete::Restore,
                self.core.clock.now(),
            )
            .await?;
        }
        tx.commit().await
    }

    /// Moves a tile to another dashboard; its id stays.
    pub async fn move_tile(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        (from, to): (DashboardId, DashboardId),
        tile: TileId,
        checked: &CheckedInsights,
    ) -> Result<()> {
        let refused = || Error::refused(None, "Invalid request data for moving tile.");
        let mut tx = self.core.db.begin().await?;
        let before = lock_live(&mut tx, actor, from).await?;
        before.check_may_edit(viewer, CANNOT_EDIT)?;
        let mut source = before.clone();
        let access = InheritedAccess::of_board(&mut tx, &before, viewer).await?;
        let moved = source.live_tile(tile, &access).ok_or(Error::NotFound)?.clone();
        let target = lock_live(&mut tx, actor, to).await?;
        target.check_may_edit(viewer, CANNOT_EDIT_DESTINATION)?;
        access.check_may_edit(&moved.content)?;
        let shown = moved.insight().into_iter().collect();
        checked.revalidate_added(&mut tx, before.project(), shown, &[to]).await?;
        let same = |other: &&TileState| same_content(&other.content, &moved.content);
        if let Some(existing) = target.tiles.iter().find(same) {
            if !existing.deleted || from == to {
                return Err(refused());
            }
            tx.run("DELETE FROM dashboard_tiles WHERE id = $1", args![existing.id]).await?;
        }
        let mut after = target.clone();
        after.tiles.push(moved);
        after.check_tile_limit()?;
        let sql = "UPDATE dashboard_tiles SET dashboard_id = $2 WHERE id = $1";
        tx.run(sql, args![tile, to]).await?;
        increase_version(&mut tx, from).await?;
        increase_version(&mut tx, to).await?;
        source.tiles.retain(|other| other.id != Some(tile));
        let now = self.core.clock.now();
        tx.log_updated(actor, &before, &source, now).await?;
        tx.log_updated(actor, &target, &after, now).await?;
        tx.commit().await
    }

    /// Copies a tile to another dashboard.
    pub async fn copy_tile(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        (from, to): (DashboardId, DashboardId),
        tile: TileId,
        checked: &CheckedInsights,
    ) -> Result<()> {
        if from == to {
            return Err(Error::refused(None, "Cannot copy a tile to the dashboard it is on."));
        }
        let mut tx = self.core.db.begin().await?;
        let mut source = lock_live(&mut tx, actor, from).await?;
        if !source.dashboard.head.policy().rights(viewer).can_view() {
            return Err(Error::Forbidden(CANNOT_VIEW));
        }
        let access = InheritedAccess::of_board(&mut tx, &source, viewer).await?;
        let copied = source.live_tile(tile, &access).ok_or(Error::NotFound)?.detached_copy();
        if let Content::Insight(id) = copied.content {
            let sql = "SELECT id FROM insights WHERE id = $1 AND NOT deleted";
            tx.one(sql, args![id]).await?;
        }
        // On a dashboard of their own the viewer could share the insight with everyone.
        access.check_may_edit(&copied.content)?;
        let shown = copied.insight().into_iter().collect();
        checked.revalidate_added(&mut tx, source.project(), shown, &[to]).await?;
        let apply = |board: &mut Board, _| {
            board.check_may_edit(viewer, CANNOT_EDIT)?;
            let same = |other: &&mut TileState| same_content(&other.content, &copied.content);
            match board.tiles.iter_mut().find(same) {
                Some(existing) if !existing.deleted => {
                    let detail = "This tile is already on the destination dashboard.";
                    return Err(Error::refused(None, detail));
                }
                Some(existing) => {
                    (existing.deleted, existing.presentation) = (false, copied.presentation)
                }
                None => board.tiles.push(copied),
            }
            board.check_tile_limit()
        };
        self.core.edit_in(&mut tx, actor, to, apply).await?;
        tx.commit().await
    }

    /// Lays the tiles out in this order, two per row; [`Error::NotFound`] if one is missing.
    pub async fn reorder_tiles(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: DashboardId,
        order: &[TileId],
    ) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let before = lock_live(&mut tx, actor, id).await?;
        let access = InheritedAccess::of_board(&mut tx, &before, viewer).await?;
        let apply = |board: &mut Board, _| {
            board.check_may_edit(viewer, CANNOT_EDIT)?;
            for (index, tile) in order.iter().enumerate() {
                let tile = board.live_tile(*tile, &access).ok_or(Error::NotFound)?;
                let (row, column) = (index / 2 * 5, index % 2 * 6);
                let wide = json!({ "x": column, "y": row, "w": 6, "h": 5 });
                let narrow = json!({ "x": 0, "y": index * 5, "w": 1, "h": 5 });
                tile.presentation.layouts.insert("sm".into(), wide);
                tile.presentation.layouts.insert("xs".into(), narrow);
            }
            Ok(())
        };
        self.core.edit_in(&mut tx, actor, id, apply).await?;
        tx.commit().await
    }
}

/// Increases the version of a dashboard whose tiles change without [`Board::save`].
pub(crate) async fn increase_version(tx: &mut Tx, id: DashboardId) -> Result<()> {
    let sql = "UPDATE dashboards SET version = version + 1 WHERE id = $1";
    tx.run(sql, args![id]).await.map(drop)
}

/// Locks a live dashboard.
pub(crate) async fn lock_live(tx: &mut Tx, actor: &Actor, id: DashboardId) -> Result<Board> {
    let board = Board::lock(tx, actor, id).await?;
    if board.is_deleted() { Err(Error::NotFound) } else { Ok(board) }
}

pub(crate) fn same_content(one: &Content, other: &Content) -> bool {
    match (one, other) {
        (Content::Insight(one), Content::Insight(other)) => one == other,
        (Content::Note(Some(one), _), Content::Note(Some(other), _)) => one == other,
        (Content::Button(Some(one), _), Content::Button(Some(other), _)) => one == other,
        _ => false,
    }
}
