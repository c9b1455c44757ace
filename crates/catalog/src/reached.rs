//! How far somebody goes with insights that they reach through a dashboard.
//!
//! What rules hide is not there. What they only show stays as it is: an insight that goes on a
//! dashboard or off it is changed, as by its own list of dashboards.

use std::collections::{BTreeSet, HashMap};

use model::{AccessLevel, InsightId, ObjectKind, ProjectId, Viewer};

use crate::boards::Board;
use crate::db::{Tx, args};
use crate::edit::Editable as _;
use crate::tiles::{Content, TileState};
use crate::{Error, Result, insights};

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
        let ids: Vec<_> = ids.into_iter().map(Into::into).collect();
        let sql = "SELECT id, created_by FROM insights WHERE project_id = $1 AND id IN {list}";
        let rows = tx.all_in(sql, args![project], &ids).await?;
        let level = |id: InsightId, author| viewer.level(ObjectKind::Insight, id.0, author);
        let levels = rows.iter().map(|row| {
            let id = row.get("id")?;
            Ok((id, level(id, row.get("created_by")?)))
        });
        Ok(Self(levels.collect::<Result<_>>()?))
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
