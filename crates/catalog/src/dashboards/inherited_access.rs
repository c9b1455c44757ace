//! How far somebody goes with insights that they reach through a dashboard.
//!
//! What rules hide is not there. What one may only see stays as it is: an insight that goes on a
//! dashboard or off it is changed, as by its own list of dashboards.

use std::collections::{BTreeSet, HashMap};

use model::{AccessLevel, InsightId, ProjectId, Viewer};

use super::board::Board;
use super::insights;
use super::tiles::{Content, TileState};
use crate::db::Tx;
use crate::objects::edit::Editable as _;
use crate::{Error, Result};

#[derive(Default)]
pub(crate) struct Reached(HashMap<InsightId, AccessLevel>);

impl Reached {
    /// Through the tiles of a dashboard, deleted ones too.
    pub(crate) async fn on(tx: &mut Tx, board: &Board, viewer: Viewer<'_>) -> Result<Self> {
        Self::through(tx, board.project(), &board.tiles, viewer).await
    }

    pub(crate) async fn through(
        tx: &mut Tx,
        project: ProjectId,
        tiles: &[TileState],
        viewer: Viewer<'_>,
    ) -> Result<Self> {
        let ids: BTreeSet<InsightId> = tiles.iter().filter_map(TileState::insight).collect();
        let ids = ids.into_iter().collect();
        let found = insights::by_ids(tx, project, Some(viewer.user), ids).await?;
        let levels = found.iter().map(|insight| (insight.id, insight.rights(viewer).level));
        Ok(Self(levels.collect()))
    }

    /// Notes and links belong to whoever may edit the dashboard.
    fn level(&self, content: &Content) -> AccessLevel {
        match content {
            Content::Insight(id) => self.0.get(id).copied().unwrap_or(AccessLevel::None),
            Content::NewInsight(_) | Content::Note(..) | Content::Button(..) => {
                AccessLevel::Manager
            }
        }
    }

    pub(crate) fn sees(&self, content: &Content) -> bool {
        self.level(content) > AccessLevel::None
    }

    pub(crate) fn check_may_edit(&self, content: &Content) -> Result<()> {
        match self.level(content) >= AccessLevel::Editor {
            true => Ok(()),
            false => Err(Error::Forbidden(insights::CANNOT_EDIT)),
        }
    }

    /// Those among them that the viewer may edit.
    pub(crate) fn editable(&self, mut ids: Vec<InsightId>) -> Vec<InsightId> {
        ids.retain(|id| self.0.get(id).is_some_and(|level| *level >= AccessLevel::Editor));
        ids
    }
}
