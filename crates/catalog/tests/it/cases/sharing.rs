//! Validity of sharing tokens, and revalidation of what links expose.

use catalog::{
    Actor, CheckedInsights, DashboardChange, Deleted, Error, InsightChange, InsightName,
    LINK_EXPOSES_HIDDEN, NewInsight, Result, ShareTarget, SharingChange, TileChange,
};
use model::{Access, DashboardId, Insight, TileId, VerbatimJson, Viewer};

use crate::store::{Fixture, TestDatabase};

const GRACE_SECONDS: i64 = 300;

impl Fixture {
    /// Enables the link of a dashboard, and returns its token.
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

    /// The object that a token grants access to.
    async fn opened(&self, token: &str) -> Option<ShareTarget> {
        self.catalog.sharing().resolve(token).await.unwrap().map(|shared| shared.target)
    }
}

async fn board(database: &TestDatabase, id: i64) -> DashboardId {
    let sql = "INSERT INTO dashboards (id, project_id, description, pinned, creation_mode, \
               restriction_level, filters, breakdown_colors, quick_filter_ids, created_at, \
               deleted) VALUES ($, 1, '', FALSE, 'default', 21, '{}', '[]', '[]', 0, FALSE)";
    database.sql(&sql.replace('$', &id.to_string())).await;
    DashboardId(id)
}

// contract: management 73
pub async fn each_rotated_sharing_token_has_its_own_grace_period(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (one, other) = (board(&database, 1).await, board(&database, 2).await);
    let first = fixture.shared(one).await;
    let elsewhere = fixture.shared(other).await;
    database.clock.advance_seconds(1);
    let second = fixture.renewed(one).await;
    database.clock.advance_seconds(GRACE_SECONDS - 1);
    let third = fixture.renewed(one).await;
    for token in [&first, &second, &third] {
        assert_eq!(fixture.opened(token).await, Some(ShareTarget::Dashboard(one)));
    }
    database.clock.advance_seconds(1);
    assert_eq!(fixture.opened(&first).await, None);
    assert!(fixture.opened(&second).await.is_some());
    database.clock.advance_seconds(GRACE_SECONDS - 2);
    assert!(fixture.opened(&second).await.is_some());
    database.clock.advance_seconds(1);
    assert_eq!(fixture.opened(&second).await, None);
    assert!(fixture.opened(&third).await.is_some());
    assert_eq!(fixture.opened(&elsewhere).await, Some(ShareTarget::Dashboard(other)));

    let kept = "SELECT token_hash FROM sharing_tokens";
    assert_eq!(database.sql(kept).await.len(), 2);
    fixture.renewed(other).await;
    let kept = database.sql(kept).await;
    assert_eq!(kept.len(), 1, "those that are too old are gone");
    assert_ne!(kept[0], elsewhere, "and no token can be read");
}

pub async fn rotating_past_the_limit_revokes_the_oldest_sharing_token(database: TestDatabase) {
    const KEPT_MAX: usize = 100;
    let fixture = database.bootstrapped().await;
    let (one, other) = (board(&database, 1).await, board(&database, 2).await);
    let elsewhere = fixture.shared(other).await;
    fixture.renewed(other).await;
    let mut tokens = vec![fixture.shared(one).await];
    for _ in 0..=KEPT_MAX {
        tokens.push(fixture.renewed(one).await);
    }
    assert_eq!(fixture.opened(&tokens[0]).await, None);
    for token in [&tokens[1], &tokens[KEPT_MAX], &tokens[KEPT_MAX + 1], &elsewhere] {
        assert!(fixture.opened(token).await.is_some());
    }
}

/// Releases before schema 9 stored one earlier token in the row of the current one.
pub async fn migration_9_keeps_the_grace_period_of_a_rotated_token(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let one = board(&database, 1).await;
    let old = fixture.shared(one).await;
    fixture.renewed(one).await;
    fixture.catalog.close().await;
    for statement in [
        "UPDATE sharing_configurations SET previous_expires_at = (SELECT expires_at FROM \
         sharing_tokens), previous_hash = (SELECT token_hash FROM sharing_tokens)",
        "DROP TABLE sharing_tokens",
        "DELETE FROM schema_migrations WHERE version >= 9",
    ] {
        database.sql(statement).await;
    }
    database.undo_migrations_from_11().await;
    let fixture = Fixture { catalog: database.open().await.unwrap(), ..fixture };
    assert_eq!(fixture.opened(&old).await, Some(ShareTarget::Dashboard(one)));
    database.clock.advance_seconds(GRACE_SECONDS);
    assert_eq!(fixture.opened(&old).await, None);
}

/// The transaction decides by the stored state, whatever was checked before.
pub async fn revalidation_catches_a_link_enabled_after_the_check(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (from, to) = (board(&database, 1).await, board(&database, 2).await);
    let aside = board(&database, 3).await;
    let access = Access::default();
    let (actor, viewer) = fixture.sharer(&access);
    let catalog = &fixture.catalog;
    let id =
        catalog.insights().create(&actor, viewer, NewInsight::default(), &[from]).await.unwrap();
    let tile = TileId(
        database.sql("SELECT CAST(id AS TEXT) FROM dashboard_tiles").await[0].parse().unwrap(),
    );
    let name = InsightName::Id(id);
    let found =
        catalog.insights().get(fixture.project.id, &name, None, Deleted::Exclude).await.unwrap();
    fixture.shared(to).await;

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
    assert_eq!(database.sql(on_boards).await, ["1"]);
    let links = "SELECT CAST(dashboard_id AS TEXT) FROM sharing_configurations WHERE enabled";
    assert_eq!(database.sql(links).await, ["2"]);
    // Without an enabled link nothing needs to be checked.
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
