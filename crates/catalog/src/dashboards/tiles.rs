//! Tiles: the insights, texts and buttons on dashboards.

use std::collections::HashMap;

use model::{
    Button, ButtonId, ButtonPlacement, ButtonStyle, DashboardId, InsightId, Note, NoteId,
    ProjectId, Tile, TileContent, TileId, TilePresentation, TileRef, Timestamp, UserId, Visibility,
};
use serde_json::{Map, Value as Json, json};

use super::insights::NewInsight;
use super::{Dashboards, insight_writes};
use crate::activity::Actor;
use crate::db::dialect::placeholders;
use crate::db::executor::Executor;
use crate::db::select::visible;
use crate::db::{Row, Tx, Value, args, author};
use crate::{Error, Result};

/// Our own limit; a dashboard is always loaded with all of its tiles.
pub const TILES_MAX: usize = 500;
/// Deleted tiles stay restorable; past this the oldest are purged.
const DELETED_TILES_MAX: i64 = 500;

/// A tile in memory; new ones have no id yet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TileState {
    pub id: Option<TileId>,
    pub presentation: TilePresentation,
    pub content: Content,
    pub deleted: bool,
}

/// A tile's content; without an id it is inserted when the tile is saved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Insight(InsightId),
    NewInsight(Box<NewInsight>),
    Note(Option<NoteId>, String),
    Button(Option<ButtonId>, Button),
}

impl TileState {
    pub(crate) fn insight(&self) -> Option<InsightId> {
        match self.content {
            Content::Insight(id) => Some(id),
            _ => None,
        }
    }

    /// A new tile with a text or button of its own, so that editing the copy does not change the
    /// original.
    pub(crate) fn detached_copy(&self) -> Self {
        let content = match self.content.clone() {
            Content::Note(_, body) => Content::Note(None, body),
            Content::Button(_, button) => Content::Button(None, button),
            insight @ (Content::Insight(_) | Content::NewInsight(_)) => insight,
        };
        Self { id: None, presentation: self.presentation.clone(), content, deleted: false }
    }

    /// The tile in log entries.
    pub(crate) fn log_value(&self) -> Json {
        let (insight, text, button) = match &self.content {
            Content::Insight(id) => (json!(id), Json::Null, Json::Null),
            Content::NewInsight(new) => (json!(new.name), Json::Null, Json::Null),
            Content::Note(_, body) => (Json::Null, json!(body), Json::Null),
            Content::Button(_, button) => (Json::Null, Json::Null, json!(button)),
        };
        json!({
            "id": self.id, "insight": insight, "text": text, "button_tile": button,
            "layouts": self.presentation.layouts, "color": self.presentation.color,
            "filters_overrides": self.presentation.filters_overrides,
            "show_description": self.presentation.show_description,
            "transparent_background": self.presentation.transparent_background,
            "deleted": self.deleted,
        })
    }
}

const COLUMNS: &str = "t.id, t.dashboard_id, t.insight_id, t.note_id, t.button_id, t.layouts, \
     t.color, t.filters_overrides, t.show_description, t.transparent_background, t.deleted, \
     n.body, n.created_by AS note_by, n.last_modified_by AS note_modified_by, \
     n.last_modified_at AS note_modified_at, b.url, b.text AS label, b.placement, b.style";
const FROM: &str = "dashboard_tiles t LEFT JOIN dashboard_notes n ON n.id = t.note_id \
     LEFT JOIN dashboard_buttons b ON b.id = t.button_id";

fn read_look(row: &Row) -> Result<TilePresentation> {
    Ok(TilePresentation {
        layouts: row.json("layouts")?,
        color: row.get("color")?,
        filters_overrides: row.json("filters_overrides")?,
        show_description: row.get("show_description")?,
        transparent_background: row.get("transparent_background")?,
    })
}

fn read_button(row: &Row) -> Result<Button> {
    let (placement, style): (String, String) = (row.get("placement")?, row.get("style")?);
    Ok(Button {
        url: row.get("url")?,
        text: row.get("label")?,
        placement: ButtonPlacement::parse(&placement)
            .ok_or_else(|| Error::corrupt("placement", &placement))?,
        style: ButtonStyle::parse(&style).ok_or_else(|| Error::corrupt("style", &style))?,
    })
}

fn read_state(row: &Row) -> Result<TileState> {
    let content = if let Some(insight) = row.get("insight_id")? {
        Content::Insight(insight)
    } else if let Some(note) = row.get::<Option<NoteId>>("note_id")? {
        Content::Note(Some(note), row.get("body")?)
    } else {
        Content::Button(Some(row.get("button_id")?), read_button(row)?)
    };
    let presentation = read_look(row)?;
    Ok(TileState { id: Some(row.get("id")?), presentation, content, deleted: row.get("deleted")? })
}

/// All tiles of a dashboard, including deleted ones.
pub(crate) async fn all_of(tx: &mut Tx, dashboard: DashboardId) -> Result<Vec<TileState>> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE t.dashboard_id = $1 ORDER BY t.id");
    tx.all(sql, args![dashboard]).await?.iter().map(read_state).collect()
}

/// The live tiles of a dashboard. Texts list the other dashboards they are on, as far as `others`
/// makes those visible.
pub(crate) async fn live(
    executor: &mut impl Executor,
    project: ProjectId,
    dashboard: DashboardId,
    others: &Visibility,
) -> Result<Vec<Tile>> {
    let sql = format!(
        "SELECT {COLUMNS} FROM {FROM} JOIN dashboards d ON d.id = t.dashboard_id \
         LEFT JOIN insights i ON i.id = t.insight_id WHERE t.dashboard_id = $1 \
         AND NOT d.deleted AND NOT t.deleted AND (i.id IS NULL OR NOT i.deleted) \
         ORDER BY t.id"
    );
    let rows = executor.fetch(sql, args![dashboard]).await?;
    let mut user_ids: Vec<UserId> = Vec::new();
    let mut notes: Vec<NoteId> = Vec::new();
    for row in &rows {
        user_ids.extend(row.get::<Option<UserId>>("note_by")?);
        user_ids.extend(row.get::<Option<UserId>>("note_modified_by")?);
        notes.extend(row.get::<Option<NoteId>>("note_id")?);
    }
    let user_ids = author::by_ids(executor, user_ids).await?;
    let mut tiles_by_note = tiles_of_notes(executor, &notes, others).await?;
    let author = |row: &Row, name: &str| -> Result<_> {
        let id: Option<UserId> = row.get(name)?;
        Ok(id.and_then(|id| user_ids.get(&id).cloned()))
    };
    let mut tiles = Vec::with_capacity(rows.len());
    for row in &rows {
        let content = match read_state(row)?.content {
            Content::Insight(id) => TileContent::Insight(id),
            Content::Note(Some(id), body) => TileContent::Note(Box::new(Note {
                id,
                body,
                created_by: author(row, "note_by")?,
                last_modified_by: author(row, "note_modified_by")?,
                last_modified_at: row.get("note_modified_at")?,
                team: project,
                dashboard_tiles: tiles_by_note.remove(&id).unwrap_or_default(),
            })),
            Content::Button(Some(id), button) => TileContent::Button(id, button),
            Content::NewInsight(_) | Content::Note(None, _) | Content::Button(None, _) => continue,
        };
        tiles.push(Tile { id: row.get("id")?, presentation: read_look(row)?, content });
    }
    Ok(tiles)
}

impl Dashboards<'_> {
    /// Filter overrides of a dashboard's tiles, by insight.
    pub async fn tile_filters(
        self,
        on: DashboardId,
    ) -> Result<HashMap<InsightId, Map<String, Json>>> {
        let sql = "SELECT insight_id, filters_overrides FROM dashboard_tiles \
                   WHERE dashboard_id = $1 AND NOT deleted AND insight_id IS NOT NULL";
        let rows = self.core.db.all(sql, args![on]).await?;
        rows.iter()
            .map(|row| Ok((row.get("insight_id")?, row.json("filters_overrides")?)))
            .collect()
    }
}

async fn tiles_of_notes(
    executor: &mut impl Executor,
    notes: &[NoteId],
    visibility: &Visibility,
) -> Result<HashMap<NoteId, Vec<TileRef>>> {
    let mut tiles: HashMap<NoteId, Vec<TileRef>> = HashMap::new();
    if notes.is_empty() {
        return Ok(tiles);
    }
    let mut values: Vec<Value> = notes.iter().map(|id| (*id).into()).collect();
    let marks = placeholders(1, notes.len());
    let visible_sql = visible(visibility, "d", &mut values).unwrap_or_else(|| "TRUE".into());
    let sql = format!(
        "SELECT t.id, t.note_id, t.dashboard_id, t.deleted FROM dashboard_tiles t \
         JOIN dashboards d ON d.id = t.dashboard_id \
         WHERE t.note_id IN {marks} AND NOT t.deleted AND NOT d.deleted AND {visible_sql} ORDER BY t.id"
    );
    for row in executor.fetch(sql, values).await? {
        tiles.entry(row.get("note_id")?).or_default().push(TileRef {
            id: row.get("id")?,
            dashboard_id: row.get("dashboard_id")?,
            deleted: row.get("deleted")?,
        });
    }
    Ok(tiles)
}

/// The context of a write of tiles.
pub(crate) struct TileWriter<'a> {
    pub actor: &'a Actor,
    pub project: ProjectId,
    pub dashboard: DashboardId,
    pub now: Timestamp,
}

/// The content's foreign key; exactly one of the three is set.
type ContentKeys = (Option<InsightId>, Option<NoteId>, Option<ButtonId>);

impl TileWriter<'_> {
    /// Writes the differences: one statement for all new tiles and one for all changed ones.
    pub(crate) async fn save(
        &self,
        tx: &mut Tx,
        before: &[TileState],
        after: &[TileState],
    ) -> Result<()> {
        let old_tiles: HashMap<TileId, &TileState> =
            before.iter().filter_map(|tile| Some((tile.id?, tile))).collect();
        let (mut inserted, mut changed) = (Vec::new(), Vec::new());
        let mut orphaned_notes: Vec<NoteId> = Vec::new();
        for tile in after {
            let old = tile.id.and_then(|id| old_tiles.get(&id).copied());
            if old == Some(tile) {
                continue;
            }
            let target = self.target(tx, &tile.content, old.map(|old| &old.content)).await?;
            match tile.id {
                Some(id) => changed.push((id, tile, target)),
                None => inserted.push((tile, target)),
            }
            if let Some(Content::Note(Some(note), _)) = old.map(|old| &old.content)
                && target.1 != Some(*note)
            {
                orphaned_notes.push(*note);
            }
        }
        // Updates first, so that a restored tile is not purged with the deleted ones.
        update(tx, &changed).await?;
        self.insert(tx, &inserted).await?;
        delete_unused_notes(tx, &orphaned_notes).await
    }

    /// Inserts or updates the tile's content, and returns its foreign key.
    async fn target(
        &self,
        tx: &mut Tx,
        content: &Content,
        old: Option<&Content>,
    ) -> Result<ContentKeys> {
        Ok(match content {
            Content::Insight(id) => (Some(*id), None, None),
            Content::NewInsight(new) => {
                let id =
                    insight_writes::insert(tx, self.actor, self.project, new, self.now).await?;
                (Some(id), None, None)
            }
            Content::Note(id, body) => (None, Some(self.note(tx, *id, body, old).await?), None),
            Content::Button(id, button) => {
                (None, None, Some(self.button(tx, *id, button, old).await?))
            }
        })
    }

    async fn note(
        &self,
        tx: &mut Tx,
        id: Option<NoteId>,
        body: &str,
        old: Option<&Content>,
    ) -> Result<NoteId> {
        let Some(id) = id else {
            let sql = "INSERT INTO dashboard_notes (project_id, body, created_by, \
                       last_modified_by, last_modified_at) VALUES ($1, $2, $3, $3, $4) RETURNING id";
            let values = args![self.project, body, self.actor.user, self.now];
            return tx.one(sql, values).await?.get("id");
        };
        if !matches!(old, Some(Content::Note(_, known)) if known == body) {
            tx.run(
                "UPDATE dashboard_notes SET body = $2, last_modified_by = $3, \
                 last_modified_at = $4 WHERE id = $1",
                args![id, body, self.actor.user, self.now],
            )
            .await?;
        }
        Ok(id)
    }

    async fn button(
        &self,
        tx: &mut Tx,
        id: Option<ButtonId>,
        button: &Button,
        old: Option<&Content>,
    ) -> Result<ButtonId> {
        let (placement, style) = (button.placement.as_str(), button.style.as_str());
        let (url, text) = (button.url.as_str(), button.text.as_str());
        let Some(id) = id else {
            let sql = "INSERT INTO dashboard_buttons (project_id, url, text, placement, style) \
                       VALUES ($1, $2, $3, $4, $5) RETURNING id";
            let values = args![self.project, url, text, placement, style];
            return tx.one(sql, values).await?.get("id");
        };
        if !matches!(old, Some(Content::Button(_, known)) if known == button) {
            tx.run(
                "UPDATE dashboard_buttons SET url = $2, text = $3, placement = $4, style = $5 \
                 WHERE id = $1",
                args![id, url, text, placement, style],
            )
            .await?;
        }
        Ok(id)
    }

    async fn insert(&self, tx: &mut Tx, inserted: &[(&TileState, ContentKeys)]) -> Result<()> {
        if inserted.is_empty() {
            return Ok(());
        }
        let mut values: Vec<Value> = Vec::new();
        let rows: Vec<String> = inserted
            .iter()
            .map(|(tile, (insight, note, button))| {
                let first = values.len() + 1;
                values.extend(args![self.dashboard, *insight, *note, *button]);
                values.extend(look_values(tile));
                placeholders(first, values.len() + 1 - first)
            })
            .collect();
        let sql = format!(
            "INSERT INTO dashboard_tiles (dashboard_id, insight_id, note_id, button_id, layouts, \
             color, filters_overrides, show_description, transparent_background, deleted) \
             VALUES {}",
            rows.join(", ")
        );
        tx.run(sql, values).await?;
        let sql = "DELETE FROM dashboard_tiles WHERE dashboard_id = $1 AND deleted AND id NOT IN \
                   (SELECT id FROM dashboard_tiles WHERE dashboard_id = $1 AND deleted \
                   ORDER BY id DESC LIMIT $2) RETURNING note_id, button_id";
        let (mut notes, mut buttons): (Vec<NoteId>, Vec<ButtonId>) = Default::default();
        for purged in tx.all(sql, args![self.dashboard, DELETED_TILES_MAX]).await? {
            notes.extend(purged.get::<Option<NoteId>>("note_id")?);
            buttons.extend(purged.get::<Option<ButtonId>>("button_id")?);
        }
        delete_unused_notes(tx, &notes).await?;
        delete_unused_buttons(tx, &buttons).await
    }
}

fn look_values(tile: &TileState) -> Vec<Value> {
    let object = |map: &Map<String, Json>| Json::Object(map.clone());
    let presentation = &tile.presentation;
    args![
        object(&presentation.layouts),
        presentation.color.as_deref(),
        object(&presentation.filters_overrides),
        presentation.show_description,
        presentation.transparent_background,
        tile.deleted,
    ]
}

/// Both engines call the columns of a `VALUES` list `column1`, `column2`, ….
async fn update(tx: &mut Tx, changed: &[(TileId, &TileState, ContentKeys)]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    let mut values: Vec<Value> = Vec::new();
    let rows: Vec<String> = changed
        .iter()
        .map(|(id, tile, (insight, note, button))| {
            let first = values.len() + 1;
            values.extend(args![*id, *insight, *note, *button]);
            values.extend(look_values(tile));
            placeholders(first, values.len() + 1 - first)
        })
        .collect();
    let sql = format!(
        "UPDATE dashboard_tiles SET insight_id = v.column2, note_id = v.column3, \
         button_id = v.column4, layouts = v.column5, color = v.column6, \
         filters_overrides = v.column7, show_description = v.column8, \
         transparent_background = v.column9, deleted = v.column10 \
         FROM (VALUES {}) AS v WHERE dashboard_tiles.id = v.column1",
        rows.join(", ")
    );
    tx.run(sql, values).await?;
    Ok(())
}

/// Deletes texts that no tile references any more.
async fn delete_unused_notes(tx: &mut Tx, ids: &[NoteId]) -> Result<()> {
    let ids: Vec<Value> = ids.iter().map(|id| (*id).into()).collect();
    let sql = "DELETE FROM dashboard_notes WHERE id IN {list} AND NOT EXISTS \
               (SELECT 1 FROM dashboard_tiles t WHERE t.note_id = dashboard_notes.id)";
    tx.run_in(sql, args![], &ids).await
}

async fn delete_unused_buttons(tx: &mut Tx, ids: &[ButtonId]) -> Result<()> {
    let ids: Vec<Value> = ids.iter().map(|id| (*id).into()).collect();
    let sql = "DELETE FROM dashboard_buttons WHERE id IN {list} AND NOT EXISTS \
               (SELECT 1 FROM dashboard_tiles t WHERE t.button_id = dashboard_buttons.id)";
    tx.run_in(sql, args![], &ids).await
}
