//! How dashboards change, together with what lies on them.
//!
//! Dashboards, tiles and insights refer to each other in circles. So that nobody waits in one,
//! whoever writes any of them first takes the project's turn, which its row stands for.

use std::collections::HashMap;

use model::{
    CreationMode, Dashboard, DashboardId, DashboardLook, InsightId, ObjectKind, ProjectId,
    Restriction, TileId, Timestamp, Viewer,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::inherited_access::Reached;
use super::insight_writes::{self, DashboardSource, Shown};
use super::insights::NewInsight;
use super::revalidate::CheckedInsights;
use super::tile_changes::{NewTile, TileChange, TileCopy};
use super::tiles::{self, Content, TILES_MAX, TileState, Writing};
use super::{Dashboards, rows};
use crate::access::{CANNOT_MAKE, CANNOT_VIEW};
use crate::activity::{Actor, Change, ChangeAction, Logged};
use crate::db::{Tx, args};
use crate::objects::edit::{Editable, set};
use crate::objects::{lock_dashboards, tags};
use crate::{Error, Result, projects};

pub struct NewDashboard {
    pub name: Option<String>,
    pub description: String,
    pub pinned: bool,
    pub tags: Vec<String>,
    pub restriction_level: Restriction,
    pub look: DashboardLook,
    pub deleted: bool,
    pub creation_mode: CreationMode,
    pub contents: DashboardContents,
}

/// What a new dashboard starts with.
pub enum DashboardContents {
    Tiles(Vec<NewTile>),
    /// What is on another one, and how that looks where nothing else is said.
    CopyOf(DashboardSource),
}

/// What may change; absent fields stay.
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
    /// With `deleted`: insights that are on no other dashboard go too, if one may edit them.
    pub delete_insights: bool,
}

pub(crate) const CANNOT_EDIT: &str = "You don't have edit permissions for this dashboard.";
const CANNOT_EDIT_DESTINATION: &str =
    "You don't have edit permissions for the destination dashboard.";
const CANNOT_RESTRICT: &str = "Only the dashboard owner and project admins have the restriction \
     rights required to change the dashboard's restriction level.";

/// A dashboard and all of its tiles, deleted ones too.
#[derive(Clone, PartialEq, Serialize)]
pub(crate) struct Board {
    #[serde(flatten)]
    pub dashboard: Dashboard,
    #[serde(skip)]
    pub tiles: Vec<TileState>,
    /// Who changes it, and when.
    #[serde(skip)]
    actor: Actor,
    #[serde(skip)]
    at: Option<Timestamp>,
}

impl Logged for Board {
    const SCOPE: &'static str = "Dashboard";
    const UNLOGGED: &'static [&'static str] = &["last_accessed_at"];

    fn item_id(&self) -> String {
        self.dashboard.head.id.to_string()
    }

    fn item_name(&self) -> Option<String> {
        self.dashboard.head.name.clone()
    }

    /// Only the tiles that differ: a dashboard may have hundreds.
    fn further_changes(before: &Self, after: &Self) -> Vec<Change> {
        let told = |own: &[TileState], other: &[TileState]| -> Vec<Value> {
            own.iter().filter(|tile| !other.contains(tile)).map(TileState::told).collect()
        };
        let (old, new) = (told(&before.tiles, &after.tiles), told(&after.tiles, &before.tiles));
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
        let (head, look) = (&self.dashboard.head, &self.dashboard.look);
        if self.dashboard != before.dashboard {
            tx.run(
                "UPDATE dashboards SET name = $2, description = $3, pinned = $4, deleted = $5, \
                 restriction_level = $6, filters = $7, variables = $8, breakdown_colors = $9, \
                 data_color_theme_id = $10, quick_filter_ids = $11 WHERE id = $1",
                args![
                    head.id,
                    head.name.as_deref(),
                    head.description.as_str(),
                    head.pinned,
                    head.deleted,
                    i64::from(head.restriction_level),
                    Value::Object(look.filters.clone()),
                    look.variables.clone().map(Value::Object),
                    Value::Array(look.breakdown_colors.clone()),
                    look.data_color_theme_id,
                    Value::Array(look.quick_filter_ids.clone()),
                ],
            )
            .await?;
        }
        if head.tags != before.dashboard.head.tags {
            let (object, id) = (rows::OBJECT, head.id.to_string());
            tags::replace(tx, head.team_id, object, id, &head.tags).await?;
        }
        let writing = Writing {
            actor: &self.actor,
            project: head.team_id,
            dashboard: head.id,
            now: self.at.unwrap_or(head.created_at),
        };
        writing.save(tx, &before.tiles, &self.tiles).await?;
        self.number_new_tiles(tx, before).await
    }

    fn project(&self) -> ProjectId {
        self.dashboard.head.team_id
    }

    fn is_deleted(&self) -> bool {
        self.dashboard.head.deleted
    }

    /// Nothing shows when a dashboard was changed; its new tiles need the time.
    fn set_updated_at(&mut self, now: Timestamp) {
        self.at = Some(now);
    }
}

impl Board {
    pub(crate) fn check_may_edit(&self, viewer: Viewer<'_>, refusal: &'static str) -> Result<()> {
        match self.dashboard.head.guard().rights(viewer).can_edit() {
            true => Ok(()),
            false => Err(Error::Forbidden(refusal)),
        }
    }

    /// Insights that are made with their tiles need no less than others.
    pub(crate) fn check_may_make(&self, viewer: Viewer<'_>) -> Result<()> {
        let is_made = |tile: &TileState| matches!(tile.content, Content::NewInsight(_));
        match self.tiles.iter().any(is_made) && !viewer.can_make(ObjectKind::Insight) {
            true => Err(Error::Forbidden(CANNOT_MAKE)),
            false => Ok(()),
        }
    }

    /// `insights` are what copies of tiles show.
    fn apply(
        &mut self,
        change: DashboardChange,
        viewer: Viewer<'_>,
        reached: &Reached,
        insights: &HashMap<InsightId, NewInsight>,
    ) -> Result<()> {
        self.check_may_edit(viewer, CANNOT_EDIT)?;
        let rights = self.dashboard.head.guard().rights(viewer);
        let (head, look) = (&mut self.dashboard.head, &mut self.dashboard.look);
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
        set(&mut look.filters, change.filters);
        set(&mut look.variables, change.variables);
        set(&mut look.breakdown_colors, change.breakdown_colors);
        set(&mut look.data_color_theme_id, change.data_color_theme_id);
        set(&mut look.quick_filter_ids, change.quick_filter_ids);
        for tile in change.tiles {
            self.change_tile(tile, reached)?;
        }
        for copy in change.copied_tiles {
            self.copy_within(copy, reached, insights)?;
        }
        self.check_may_make(viewer)?;
        self.check_room()
    }

    pub(crate) fn check_room(&self) -> Result<()> {
        if self.tiles.iter().filter(|tile| !tile.deleted).count() > TILES_MAX {
            let detail = format!("A dashboard holds at most {TILES_MAX} tiles.");
            return Err(Error::refused(Some("tiles"), detail));
        }
        Ok(())
    }

    /// One that is there for whoever reached it.
    fn live_tile(&mut self, id: TileId, reached: &Reached) -> Option<&mut TileState> {
        let is_it = |tile: &&mut TileState| {
            tile.id == Some(id) && !tile.deleted && reached.sees(&tile.content)
        };
        self.tiles.iter_mut().find(is_it)
    }
}

impl Dashboards<'_> {
    /// Answers the new dashboard's number; whoever wants more reads it.
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

    /// The same as a part of a larger change.
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
        let (look, tiles) = match new.contents {
            DashboardContents::Tiles(tiles) => {
                (new.look, tiles.into_iter().map(NewTile::into_state).collect())
            }
            DashboardContents::CopyOf(source) => {
                let source = insight_writes::duplicated(tx, actor, viewer, source).await?;
                let own = new.look.filters;
                let filters = if own.is_empty() { source.0.filters } else { own };
                (DashboardLook { filters, ..source.0 }, source.1)
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
                    Value::Object(look.filters),
                    look.variables.map(Value::Object),
                    Value::Array(look.breakdown_colors),
                    look.data_color_theme_id,
                    Value::Array(look.quick_filter_ids),
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
        board.check_may_make(viewer)?;
        board.check_room()?;
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
        let reached = Reached::on(&mut tx, &before, viewer).await?;
        let copied = before.insights_on(&change.copied_tiles);
        let (project, seen) = (before.project(), viewer.sight(ObjectKind::Insight));
        let copies = insight_writes::copies_of(&mut tx, project, actor.user, copied, &seen).await?;
        let apply = |board: &mut Board, _| {
            was_deleted = board.is_deleted();
            board.apply(change, viewer, &reached, &copies)
        };
        let after = self.core.edit_in(&mut tx, actor, id, apply).await?;
        checked.check_joining(&mut tx, project, after.back_since(&before), &[id]).await?;
        if deletes && !was_deleted {
            if with_insights {
                let lonely = reached.editable(insight_writes::only_on(&mut tx, id).await?);
                insight_writes::show(&mut tx, actor, lonely, Shown::No, self.core.clock.now())
                    .await?;
            }
            projects::forget_dashboard(&mut tx, actor.project_id()?, id).await?;
        }
        if restores && was_deleted {
            // Now that it is back, it grants what it did before.
            let reached = Reached::on(&mut tx, &before, viewer).await?;
            let on_it = reached.editable(insight_writes::ever_on(&mut tx, id).await?);
            insight_writes::keep_off_others(&mut tx, actor, viewer, &on_it).await?;
            insight_writes::show(&mut tx, actor, on_it, Shown::Yes, self.core.clock.now()).await?;
        }
        tx.commit().await
    }

    /// Moves a tile, which keeps its number.
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
        let before = live(&mut tx, actor, from).await?;
        before.check_may_edit(viewer, CANNOT_EDIT)?;
        let mut source = before.clone();
        let reached = Reached::on(&mut tx, &before, viewer).await?;
        let moved = source.live_tile(tile, &reached).ok_or(Error::NotFound)?.clone();
        let target = live(&mut tx, actor, to).await?;
        target.check_may_edit(viewer, CANNOT_EDIT_DESTINATION)?;
        reached.check_may_edit(&moved.content)?;
        let shown = moved.insight().into_iter().collect();
        checked.check_joining(&mut tx, before.project(), shown, &[to]).await?;
        let same = |other: &&TileState| shows_same(&other.content, &moved.content);
        if let Some(there) = target.tiles.iter().find(same) {
            if !there.deleted || from == to {
                return Err(refused());
            }
            tx.run("DELETE FROM dashboard_tiles WHERE id = $1", args![there.id]).await?;
        }
        let mut after = target.clone();
        after.tiles.push(moved);
        after.check_room()?;
        let sql = "UPDATE dashboard_tiles SET dashboard_id = $2 WHERE id = $1";
        tx.run(sql, args![tile, to]).await?;
        source.tiles.retain(|known| known.id != Some(tile));
        let now = self.core.clock.now();
        tx.log_updated(actor, &before, &source, now).await?;
        tx.log_updated(actor, &target, &after, now).await?;
        tx.commit().await
    }

    /// Puts what a tile of another dashboard shows on this one, too.
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
        let mut source = live(&mut tx, actor, from).await?;
        if !source.dashboard.head.guard().rights(viewer).can_view() {
            return Err(Error::Forbidden(CANNOT_VIEW));
        }
        let reached = Reached::on(&mut tx, &source, viewer).await?;
        let copied = source.live_tile(tile, &reached).ok_or(Error::NotFound)?.own();
        if let Content::Insight(id) = copied.content {
            let sql = "SELECT id FROM insights WHERE id = $1 AND NOT deleted";
            tx.one(sql, args![id]).await?;
        }
        // Whoever has it on a dashboard of their own may show it to everybody.
        reached.check_may_edit(&copied.content)?;
        let shown = copied.insight().into_iter().collect();
        checked.check_joining(&mut tx, source.project(), shown, &[to]).await?;
        let apply = |board: &mut Board, _| {
            board.check_may_edit(viewer, CANNOT_EDIT)?;
            let same = |other: &&mut TileState| shows_same(&other.content, &copied.content);
            match board.tiles.iter_mut().find(same) {
                Some(there) if !there.deleted => {
                    let detail = "This tile is already on the destination dashboard.";
                    return Err(Error::refused(None, detail));
                }
                Some(there) => (there.deleted, there.look) = (false, copied.look),
                None => board.tiles.push(copied),
            }
            board.check_room()
        };
        self.core.edit_in(&mut tx, actor, to, apply).await?;
        tx.commit().await
    }

    /// Lays the tiles out in this order, two in a row; [`Error::NotFound`] when one is not there.
    pub async fn reorder_tiles(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: DashboardId,
        order: &[TileId],
    ) -> Result<()> {
        let mut tx = self.core.db.begin().await?;
        let before = live(&mut tx, actor, id).await?;
        let reached = Reached::on(&mut tx, &before, viewer).await?;
        let apply = |board: &mut Board, _| {
            board.check_may_edit(viewer, CANNOT_EDIT)?;
            for (index, tile) in order.iter().enumerate() {
                let tile = board.live_tile(*tile, &reached).ok_or(Error::NotFound)?;
                let (row, column) = (index / 2 * 5, index % 2 * 6);
                let wide = json!({ "x": column, "y": row, "w": 6, "h": 5 });
                let narrow = json!({ "x": 0, "y": index * 5, "w": 1, "h": 5 });
                tile.look.layouts.insert("sm".into(), wide);
                tile.look.layouts.insert("xs".into(), narrow);
            }
            Ok(())
        };
        self.core.edit_in(&mut tx, actor, id, apply).await?;
        tx.commit().await
    }
}

/// A dashboard that is not deleted, held until the transaction ends.
pub(crate) async fn live(tx: &mut Tx, actor: &Actor, id: DashboardId) -> Result<Board> {
    let board = Board::lock(tx, actor, id).await?;
    if board.is_deleted() { Err(Error::NotFound) } else { Ok(board) }
}

pub(crate) fn shows_same(one: &Content, other: &Content) -> bool {
    match (one, other) {
        (Content::Insight(one), Content::Insight(other)) => one == other,
        (Content::Note(Some(one), _), Content::Note(Some(other), _)) => one == other,
        (Content::Button(Some(one), _), Content::Button(Some(other), _)) => one == other,
        _ => false,
    }
}
