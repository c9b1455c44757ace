//! The usage dashboard of a flag: created once, enriched once, renamed with the flag.

use model::flag::{FeatureFlag, usage};
use model::{
    CreationMode, DashboardId, DashboardPresentation, FlagId, Insight, Restriction,
    TilePresentation, Viewer,
};

use super::{Flags, find};
use crate::activity::Actor;
use crate::dashboards::Dashboards;
use crate::dashboards::board::{Board, CANNOT_EDIT, DashboardContents, NewDashboard};
use crate::dashboards::insights::NewInsight;
use crate::dashboards::tile_changes::{NewContent, NewTile};
use crate::dashboards::tiles::{Content, TileState};
use crate::db::{Tx, args};
use crate::objects::lock_dashboards;
use crate::{Error, Result};

fn tile(insight: usage::UsageInsight) -> NewTile {
    let content = NewContent::NewInsight(Box::new(NewInsight {
        name: Some(insight.name.to_owned()),
        description: Some(insight.description.to_owned()),
        query: Some(insight.query.into()),
        saved: true,
        is_sample: true,
        ..NewInsight::default()
    }));
    NewTile {
        presentation: TilePresentation { layouts: insight.layouts, ..TilePresentation::default() },
        content,
    }
}

fn new_dashboard(key: &str) -> NewDashboard {
    NewDashboard {
        name: Some(usage::dashboard_name(key)),
        description: usage::dashboard_description(key),
        pinned: false,
        tags: Vec::new(),
        restriction_level: Restriction::Everyone,
        presentation: DashboardPresentation::default(),
        deleted: false,
        creation_mode: CreationMode::Template,
        contents: DashboardContents::Tiles(usage::insights(key).into_iter().map(tile).collect()),
    }
}

/// The flag's usage dashboard, if it is live.
async fn live_dashboard(tx: &mut Tx, flag: &FeatureFlag) -> Result<Option<DashboardId>> {
    let sql = "SELECT id FROM dashboards WHERE project_id = $1 AND id = $2 AND NOT deleted";
    let row = tx.optional(sql, args![flag.team_id, flag.usage_dashboard]).await?;
    row.map(|row| row.get("id")).transpose()
}

impl Flags<'_> {
    /// Creates the flag's usage dashboard, unless it has a live one.
    pub async fn create_usage_dashboard(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: FlagId,
    ) -> Result<FeatureFlag> {
        let project = actor.project_id()?;
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, project).await?;
        let now = self.core.clock.now();
        let before = find(&mut tx, project, id, now).await?;
        if before.deleted {
            return Err(Error::refused(None, "The feature flag is deleted."));
        }
        if live_dashboard(&mut tx, &before).await?.is_some() {
            return Ok(before);
        }
        let new = new_dashboard(&before.key);
        let dashboard = Dashboards::new(self.core).create_in(&mut tx, actor, viewer, new).await?;
        let sql = "UPDATE feature_flags SET usage_dashboard_id = $2, \
                   usage_dashboard_enriched = FALSE WHERE id = $1";
        tx.run(sql, args![id, dashboard]).await?;
        let after = find(&mut tx, project, id, now).await?;
        tx.log_updated(actor, &before, &after, now).await?;
        tx.commit().await?;
        Ok(after)
    }

    /// Adds insights of who viewed and used the feature, once, if such events were observed.
    pub async fn enrich_usage_dashboard(
        self,
        actor: &Actor,
        viewer: Viewer<'_>,
        id: FlagId,
    ) -> Result<FeatureFlag> {
        let project = actor.project_id()?;
        let refused = |why: &str| Err(Error::refused(None, why));
        let mut tx = self.core.db.begin().await?;
        lock_dashboards(&mut tx, project).await?;
        let flag = find(&mut tx, project, id, self.core.clock.now()).await?;
        let Some(dashboard) = live_dashboard(&mut tx, &flag).await? else {
            return refused("The feature flag has no usage dashboard.");
        };
        let sql = "SELECT usage_dashboard_enriched FROM feature_flags WHERE id = $1";
        if tx.one(sql, args![id]).await?.get("usage_dashboard_enriched")? {
            return refused("The usage dashboard has these insights already.");
        }
        if !flag.has_enriched_analytics {
            return refused("No event has told who saw or used this feature.");
        }
        let apply = |board: &mut Board, _| {
            board.check_may_edit(viewer, CANNOT_EDIT)?;
            let added = usage::enriched_insights(&flag.key).into_iter();
            board.tiles.extend(added.map(|insight| tile(insight).into_state()));
            board.check_may_create(viewer)?;
            board.check_tile_limit()
        };
        self.core.edit_in(&mut tx, actor, dashboard, apply).await?;
        let sql = "UPDATE feature_flags SET usage_dashboard_enriched = TRUE WHERE id = $1";
        tx.run(sql, args![id]).await?;
        tx.commit().await?;
        Ok(flag)
    }

    /// Renames a usage dashboard with its flag; user-chosen names stay.
    pub(super) async fn rename_usage_dashboard(
        self,
        tx: &mut Tx,
        actor: &Actor,
        before: &FeatureFlag,
        new: &str,
    ) -> Result<()> {
        // The suffix of a key that was freed for another flag.
        let old = before.key.strip_suffix(&format!(":deleted:{}", before.id));
        let old = old.unwrap_or(&before.key);
        if old == new {
            return Ok(());
        }
        let Some(dashboard) = live_dashboard(tx, before).await? else { return Ok(()) };
        let apply = |board: &mut Board, _| {
            let head = &mut board.dashboard.head;
            if head.name.as_deref() == Some(&usage::dashboard_name(old)) {
                head.name = Some(usage::dashboard_name(new));
            }
            if head.description == usage::dashboard_description(old) {
                head.description = usage::dashboard_description(new);
            }
            Ok(())
        };
        let board: Board = self.core.edit_in(tx, actor, dashboard, apply).await?;
        for tile in board.tiles.iter().filter(|tile| !tile.deleted) {
            let TileState { content: Content::Insight(insight), .. } = tile else { continue };
            let apply = |insight: &mut Insight, _| {
                if let Some(query) = &mut insight.query {
                    query.edit(|fields| usage::rename(fields, old, new));
                }
                Ok(())
            };
            match self.core.edit_in(tx, actor, *insight, apply).await {
                Ok(_) | Err(Error::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
