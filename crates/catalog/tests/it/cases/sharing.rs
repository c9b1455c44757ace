//! How long the tokens of a link are good, and what may come behind one.

use catalog::{
    Actor, CheckedInsights, DashboardChange, Deleted, Error, InsightChange, InsightName,
    LINK_EXPOSES_HIDDEN, NewInsight, Result, ShareTarget, SharingChange, TileChange,
};
use model::{Access, DashboardId, Insight, TileId, VerbatimJson, Viewer};

use crate::store::{Home, Place};

const GRACE_SECONDS: i64 = 300;

impl Home {
    /// A dashboard whose link is switched on, by its token.
    async fn shared(&self, board: DashboardId) -> String {
        let access = Access::default();
        let (actor, viewer) = self.sharer(&access);
        let change = SharingChange { enabled: Some(true), settings: None };
        let target = ShareTarget::Dashboard(board);
        let on = self
            .catalog
            .sharing()
            .update(&actor, viewer, target, change, &CheckedInsights::default())
            .await
            .unwrap();
        on.access_token.reveal().to_owned()
    }

    async fn renewed(&self, board: DashboardId) -> String {
        let access = Access::default();
        let (actor, viewer) = self.sharer(&access);
        let target = ShareTarget::Dashboard(board);
        let renewed = self
            .catalog
            .sharing()
            .rotate_token(&actor, viewer, target, GRACE_SECONDS, &CheckedInsights::default())
            .await;
        renewed.unwrap().access_token.reveal().to_owned()
    }

    fn sharer<'a>(&self, access: &'a Access) -> (Actor, Viewer<'a>) {
        let actor = Actor { project: Some(self.project.id), ..self.actor() };
        (actor, Viewer { user: self.owner.user.id, is_admin: true, access })
    }

    /// What a token opens.
    async fn opened(&self, token: &str) -> Option<ShareTarget> {
        self.catalog.sharing().resolve(token).await.unwrap().map(|shared| shared.target)
    }
}

async fn board(place: &Place, id: i64) -> DashboardId {
    let sql = "INSERT INTO dashboards (id, project_id, description, pinned, creation_mode, \
               restriction_level, filters, breakdown_colors, quick_filter_ids, created_at, \
               deleted) VALUES ($, 1, '', FALSE, 'default', 21, '{}', '[]', '[]', 0, FALSE)";
    place.sql(&sql.replace('$', &id.to_string())).await;
    DashboardId(id)
}

// contract: management 73
pub async fn every_token_before_the_present_one_has_its_own_grace(place: Place) {
    let home = place.home().await;
    let (one, other) = (board(&place, 1).await, board(&place, 2).await);
    let first = home.shared(one).await;
    let elsewhere = home.shared(other).await;
    place.clock.advance_seconds(1);
    let second = home.renewed(one).await;
    place.clock.advance_seconds(GRACE_SECONDS - 1);
    let third = home.renewed(one).await;
    for token in [&first, &second, &third] {
        assert_eq!(home.opened(token).await, Some(ShareTarget::Dashboard(one)));
    }
    place.clock.advance_seconds(1);
    assert_eq!(home.opened(&first).await, None);
    assert!(home.opened(&second).await.is_some());
    place.clock.advance_seconds(GRACE_SECONDS - 2);
    assert!(home.opened(&second).await.is_some());
    place.clock.advance_seconds(1);
    assert_eq!(home.opened(&second).await, None);
    assert!(home.opened(&third).await.is_some());
    assert_eq!(home.opened(&elsewhere).await, Some(ShareTarget::Dashboard(other)));

    let kept = "SELECT token_hash FROM sharing_tokens";
    assert_eq!(place.sql(kept).await.len(), 2);
    home.renewed(other).await;
    let kept = place.sql(kept).await;
    assert_eq!(kept.len(), 1, "those that are too old are gone");
    assert_ne!(kept[0], elsewhere, "and no token can be read");
}

pub async fn of_too_many_renewed_tokens_the_oldest_goes(place: Place) {
    const KEPT_MAX: usize = 100;
    let home = place.home().await;
    let (one, other) = (board(&place, 1).await, board(&place, 2).await);
    let elsewhere = home.shared(other).await;
    home.renewed(other).await;
    let mut tokens = vec![home.shared(one).await];
    for _ in 0..=KEPT_MAX {
        tokens.push(home.renewed(one).await);
    }
    assert_eq!(home.opened(&tokens[0]).await, None);
    for token in [&tokens[1], &tokens[KEPT_MAX], &tokens[KEPT_MAX + 1], &elsewhere] {
        assert!(home.opened(token).await.is_some());
    }
}

/// Builds before version 9 kept one token before the present one, beside it.
pub async fn a_token_that_an_older_build_renewed_keeps_its_grace(place: Place) {
    let home = place.home().await;
    let one = board(&place, 1).await;
    let old = home.shared(one).await;
    home.renewed(one).await;
    home.catalog.close().await;
    for statement in [
        "UPDATE sharing_configurations SET previous_expires_at = (SELECT expires_at FROM \
         sharing_tokens), previous_hash = (SELECT token_hash FROM sharing_tokens)",
        "DROP TABLE sharing_tokens",
        "DELETE FROM schema_migrations WHERE version >= 9",
    ] {
        place.sql(statement).await;
    }
    place.undo_version_11().await;
    let home = Home { catalog: place.open().await.unwrap(), ..home };
    assert_eq!(home.opened(&old).await, Some(ShareTarget::Dashboard(one)));
    place.clock.advance_seconds(GRACE_SECONDS);
    assert_eq!(home.opened(&old).await, None);
}

/// Whatever was looked at before, a transaction decides by what is there.
pub async fn a_link_that_came_on_after_a_look_shows_nothing_more(place: Place) {
    let home = place.home().await;
    let (from, to) = (board(&place, 1).await, board(&place, 2).await);
    let aside = board(&place, 3).await;
    let access = Access::default();
    let (actor, viewer) = home.sharer(&access);
    let catalog = &home.catalog;
    let id =
        catalog.insights().create(&actor, viewer, NewInsight::default(), &[from]).await.unwrap();
    let tile =
        TileId(place.sql("SELECT CAST(id AS TEXT) FROM dashboard_tiles").await[0].parse().unwrap());
    let name = InsightName::Id(id);
    let found =
        catalog.insights().get(home.project.id, &name, None, Deleted::Exclude).await.unwrap();
    home.shared(to).await;

    let on = || SharingChange { enabled: Some(true), settings: None };
    let join = |on: &[DashboardId]| InsightChange {
        dashboards: Some(on.to_vec()),
        ..InsightChange::default()
    };
    let off = |deleted: bool| DashboardChange {
        tiles: vec![TileChange { id: Some(tile), deleted: Some(deleted), ..TileChange::default() }],
        ..DashboardChange::default()
    };
    let refused = |result: Result<()>| {
        assert!(matches!(result, Err(Error::Forbidden(LINK_EXPOSES_HIDDEN))), "{result:?}");
    };
    let mut asked_otherwise = CheckedInsights::default();
    let query = Some(VerbatimJson::parse(r#"{"kind":"TrendsQuery"}"#).unwrap());
    asked_otherwise.add(&Insight { query, ..found.clone() });
    for looked in [&CheckedInsights::default(), &asked_otherwise] {
        refused(catalog.dashboards().move_tile(&actor, viewer, (from, to), tile, looked).await);
        refused(catalog.dashboards().copy_tile(&actor, viewer, (from, to), tile, looked).await);
        refused(catalog.insights().update(&actor, viewer, id, join(&[from, to]), looked).await);
        for target in [ShareTarget::Dashboard(from), ShareTarget::Insight(id)] {
            let shared = catalog.sharing().update(&actor, viewer, target, on(), looked).await;
            refused(shared.map(drop));
            let renewed = catalog.sharing().rotate_token(&actor, viewer, target, 1, looked).await;
            refused(renewed.map(drop));
        }
    }
    let on_boards = "SELECT CAST(dashboard_id AS TEXT) FROM dashboard_tiles ORDER BY dashboard_id";
    assert_eq!(place.sql(on_boards).await, ["1"]);
    let links = "SELECT CAST(dashboard_id AS TEXT) FROM sharing_configurations WHERE enabled";
    assert_eq!(place.sql(links).await, ["2"]);
    // Where no link is on, nobody needs to look.
    let none = CheckedInsights::default();
    catalog.dashboards().copy_tile(&actor, viewer, (from, aside), tile, &none).await.unwrap();

    let mut looked = CheckedInsights::default();
    looked.add(&found);
    let all = join(&[from, to, aside]);
    catalog.insights().update(&actor, viewer, id, all, &looked).await.unwrap();
    catalog.dashboards().update(&actor, viewer, from, off(true), &none).await.unwrap();
    let target = ShareTarget::Dashboard(from);
    catalog.sharing().update(&actor, viewer, target, on(), &none).await.unwrap();
    refused(catalog.dashboards().update(&actor, viewer, from, off(false), &none).await);
    catalog.dashboards().update(&actor, viewer, from, off(false), &looked).await.unwrap();
    let deleted = |deleted| InsightChange { deleted: Some(deleted), ..InsightChange::default() };
    catalog.insights().update(&actor, viewer, id, deleted(true), &none).await.unwrap();
    refused(catalog.insights().update(&actor, viewer, id, deleted(false), &none).await);
    catalog.insights().update(&actor, viewer, id, deleted(false), &looked).await.unwrap();
}
