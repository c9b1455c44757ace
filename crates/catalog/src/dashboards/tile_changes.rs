//! Changes to the tiles of one dashboard.

use std::collections::{HashMap, HashSet};

use model::{Button, InsightId, NoteId, TileId, TilePresentation};
use serde_json::{Map, Value};

use super::board::Board;
use super::inherited_access::InheritedAccess;
use super::insights::NewInsight;
use super::tiles::{self, Content, TileState};
use crate::db::Tx;
use crate::objects::edit::set;
use crate::{Error, Result};

/// A tile of a new dashboard.
pub struct NewTile {
    pub presentation: TilePresentation,
    pub content: NewContent,
}

pub enum NewContent {
    Insight(InsightId),
    NewInsight(Box<NewInsight>),
    Note(String),
    Button(Button),
}

/// A partial update of a tile, or a new text or button; absent fields stay unchanged.
#[derive(Default)]
pub struct TileChange {
    pub id: Option<TileId>,
    pub content: ContentChange,
    pub deleted: Option<bool>,
    pub layouts: Option<Map<String, Value>>,
    pub color: Option<Option<String>>,
    pub filters_overrides: Option<Map<String, Value>>,
    pub show_description: Option<Option<bool>>,
    pub transparent_background: Option<Option<bool>>,
}

#[derive(Default)]
pub enum ContentChange {
    #[default]
    Same,
    /// Shows a note that the dashboard already has; `Some` replaces its text.
    Note(NoteId, Option<String>),
    /// Shows a new note with this text.
    NewNote(String),
    Button(Button),
}

/// A duplicate of a tile on the same dashboard.
pub struct TileCopy {
    pub id: TileId,
    pub layouts: Option<Map<String, Value>>,
}

impl NewTile {
    pub(crate) fn into_state(self) -> TileState {
        let content = match self.content {
            NewContent::Insight(id) => Content::Insight(id),
            NewContent::NewInsight(new) => Content::NewInsight(new),
            NewContent::Note(body) => Content::Note(None, body),
            NewContent::Button(button) => Content::Button(None, button),
        };
        TileState { id: None, presentation: self.presentation, content, deleted: false }
    }
}

impl Board {
    pub(crate) fn change_tile(
        &mut self,
        change: TileChange,
        access: &InheritedAccess,
    ) -> Result<()> {
        let tile = match change.content {
            ContentChange::Same => {
                let id = change.id.ok_or_else(|| Error::refused(Some("tiles"), NO_TILE))?;
                self.tile(id, access)?
            }
            ContentChange::Note(id, body) => self.change_note(id, change.id, body)?,
            ContentChange::NewNote(body) => match change.id {
                None => self.push(Content::Note(None, body)),
                Some(id) => {
                    let tile = self.tile(id, access)?;
                    if !matches!(tile.content, Content::Note(..)) {
                        return Err(Error::refused(Some("text"), "This tile shows no text."));
                    }
                    tile.content = Content::Note(None, body);
                    tile
                }
            },
            ContentChange::Button(button) => match change.id {
                None => self.push(Content::Button(None, button)),
                Some(id) => {
                    let tile = self.tile(id, access)?;
                    let Content::Button(current_id, _) = tile.content else {
                        let detail = "This tile shows no button.";
                        return Err(Error::refused(Some("button_tile"), detail));
                    };
                    tile.content = Content::Button(current_id, button);
                    tile
                }
            },
        };
        if change.deleted.is_some_and(|deleted| deleted != tile.deleted) {
            access.check_may_edit(&tile.content)?;
        }
        set(&mut tile.deleted, change.deleted);
        set(&mut tile.presentation.layouts, change.layouts);
        set(&mut tile.presentation.color, change.color);
        set(&mut tile.presentation.filters_overrides, change.filters_overrides);
        set(&mut tile.presentation.show_description, change.show_description);
        set(&mut tile.presentation.transparent_background, change.transparent_background);
        Ok(())
    }

    /// Fills in the ids of inserted tiles, for the log.
    pub(crate) async fn assign_ids(&mut self, tx: &mut Tx, before: &Self) -> Result<()> {
        let is_new = |tile: &TileState| tile.id.is_none();
        if !self.tiles.iter().any(is_new) {
            return Ok(());
        }
        let known_ids: HashSet<TileId> = before.tiles.iter().filter_map(|tile| tile.id).collect();
        let stored = tiles::all_of(tx, self.dashboard.head.id).await?;
        let inserted =
            stored.into_iter().filter(|tile| tile.id.is_some_and(|id| !known_ids.contains(&id)));
        // Both are in insertion order.
        let new = self.tiles.iter_mut().filter(|tile| tile.id.is_none());
        new.zip(inserted).for_each(|(new, inserted)| *new = inserted);
        Ok(())
    }

    fn tile(&mut self, id: TileId, access: &InheritedAccess) -> Result<&mut TileState> {
        let matches = |tile: &&mut TileState| tile.id == Some(id) && access.can_view(&tile.content);
        let tile_by_id = self.tiles.iter_mut().find(matches);
        tile_by_id.ok_or_else(|| {
            let detail = format!("There is no tile {id} on this dashboard.");
            Error::refused(Some("tiles"), detail)
        })
    }

    fn change_note(
        &mut self,
        note: NoteId,
        on: Option<TileId>,
        body: Option<String>,
    ) -> Result<&mut TileState> {
        let shows =
            |tile: &TileState| matches!(tile.content, Content::Note(Some(id), _) if id == note);
        let tile_of_note = self
            .tiles
            .iter_mut()
            .find(|tile| shows(tile) && on.is_none_or(|on| tile.id == Some(on)));
        let Some(tile) = tile_of_note else {
            let detail = format!("There is no text {note} on this dashboard.");
            return Err(Error::refused(Some("text"), detail));
        };
        if let (Content::Note(_, current), Some(body)) = (&mut tile.content, body) {
            *current = body;
        }
        Ok(tile)
    }

    fn push(&mut self, content: Content) -> &mut TileState {
        let presentation = TilePresentation::default();
        self.tiles.push(TileState { id: None, presentation, content, deleted: false });
        let last = self.tiles.len() - 1;
        &mut self.tiles[last]
    }

    /// Insights whose deleted tiles are live again.
    pub(crate) fn restored_since(&self, before: &Self) -> Vec<InsightId> {
        let off = before.tiles.iter().filter(|tile| tile.deleted);
        let off: HashSet<InsightId> = off.filter_map(TileState::insight).collect();
        let shown = self.tiles.iter().filter(|tile| !tile.deleted);
        shown.filter_map(TileState::insight).filter(|id| off.contains(id)).collect()
    }

    /// The insights of the tiles to duplicate.
    pub(crate) fn insights_to_duplicate(&self, copied: &[TileCopy]) -> Vec<InsightId> {
        let is_copied = |tile: &&TileState| copied.iter().any(|copy| tile.id == Some(copy.id));
        self.tiles.iter().filter(is_copied).filter_map(TileState::insight).collect()
    }

    /// Duplicates a tile. A dashboard has an insight only once, so the duplicate gets a copy of it,
    /// from `insights`.
    pub(crate) fn duplicate_tile(
        &mut self,
        copy: TileCopy,
        access: &InheritedAccess,
        insights: &HashMap<InsightId, NewInsight>,
    ) -> Result<()> {
        let mut tile = self.tile(copy.id, access)?.detached_copy();
        if let Content::Insight(shown) = &tile.content {
            let copied = insights.get(shown).ok_or_else(|| {
                let detail = "The insight of this tile is deleted.";
                Error::refused(Some("duplicate_tiles"), detail)
            })?;
            tile.content = Content::NewInsight(Box::new(copied.clone()));
        }
        set(&mut tile.presentation.layouts, copy.layouts);
        self.tiles.push(tile);
        Ok(())
    }
}

const NO_TILE: &str = "A tile that shows something else than text needs its id.";
