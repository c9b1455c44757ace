//! The viewer's access to insights through the dashboard they are on.
//!
//! Insights that access rules hide count as missing. Adding an insight to a dashboard or removing
//! it changes the insight, so it takes edit access to the insight too.

use std::collections::{BTreeSet, HashMap};

use model::{AccessLevel, InsightId, ProjectId, Viewer};

use super::board::Board;
use super::insights;
use super::tiles::{Content, TileState};
use crate::db::Tx;
use crate::objects::edit::Editable as _;
use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct InheritedAccess(HashMap<InsightId, AccessLevel>);

impl InheritedAccess {
    /// For the insights on the tiles of a dashboard, including deleted tiles.
    pub(crate) async fn of_board(tx: &mut Tx, board: &Board, viewer: Viewer<'_>) -> Result<Self> {
        Self::of_tiles(tx, board.project(), &board.tiles, viewer).await
    }

    pub(crate) async fn of_tiles(
        tx: &mut Tx,
        project: ProjectId,
        tiles: &[TileState],
        viewer: Viewer<'_>,
    ) -> Result<Self> {
        let ids: BTreeSet<InsightId> = tiles.iter().filter_map(TileState::insight).collect();
        let ids = ids.into_iter().collect();
        let insights = insights::by_ids(tx, project, Some(viewer.user), ids).await?;
        let levels = insights.iter().map(|insight| (insight.id, insight.rights(viewer).level));
        Ok(Self(levels.collect()))
    }

    /// Texts and buttons have the access of their dashboard, which the caller has checked.
    fn level(&self, content: &Content) -> AccessLevel {
        match content {
            Content::Insight(id) => self.0.get(id).copied().unwrap_or(AccessLevel::None),
            Content::NewInsight(_) | Content::Note(..) | Content::Button(..) => {
                AccessLevel::Manager
            }
        }
    }

    pub(crate) fn can_view(&self, content: &Content) -> bool {
        self.level(content) > AccessLevel::None
    }

    pub(crate) fn check_may_edit(&self, content: &Content) -> Result<()> {
        match self.level(content) >= AccessLevel::Editor {
            true => Ok(()),
            false => Err(Error::Forbidden(insights::CANNOT_EDIT)),
        }
    }

    /// Those of the insights that the viewer may edit.
    pub(crate) fn editable(&self, mut ids: Vec<InsightId>) -> Vec<InsightId> {
        ids.retain(|id| self.0.get(id).is_some_and(|level| *level >= AccessLevel::Editor));
        ids
    }
}
