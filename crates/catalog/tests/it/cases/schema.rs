//! Migrations, the first start, and who may open a catalog.

use catalog::Error;

use crate::store::{KEY, Place, first_start};

const APPLIED: &str = "SELECT CAST(version AS TEXT) || '@' || CAST(applied_at AS TEXT) FROM schema_migrations \
     ORDER BY version";

pub async fn an_empty_database_is_migrated_once(place: Place) {
    place.open().await.unwrap().close().await;
    let applied = place.sql(APPLIED).await;
    assert!(!applied.is_empty());
    place.clock.advance_seconds(60);
    let again = place.open().await.unwrap();
    again.ping().await.unwrap();
    assert_eq!(place.sql(APPLIED).await, applied);
}

pub async fn a_newer_schema_is_refused(place: Place) {
    place.open().await.unwrap().close().await;
    place.sql("INSERT INTO schema_migrations (version, applied_at) VALUES (999, 0)").await;
    for refused in [place.open().await, place.join().await] {
        let error = refused.err().unwrap();
        assert!(matches!(error, Error::NewerSchema { found: 999, known: 1.. }), "{error}");
        assert!(error.to_string().contains("newer"));
    }
}

pub async fn a_command_beside_a_server_never_migrates(place: Place) {
    let server = place.open().await.unwrap();
    place.join().await.unwrap().close().await;
    server.close().await;
    place.sql("DELETE FROM schema_migrations").await;
    let error = place.join().await.err().unwrap();
    assert!(matches!(error, Error::OlderSchema { found: 0, known: 1.. }), "{error}");
}

/// Builds before version 8 marked every tile of a dashboard that was deleted.
pub async fn what_an_older_build_deleted_keeps_its_tiles(place: Place) {
    let catalog = place.open().await.unwrap();
    catalog.bootstrap(first_start()).await.unwrap().unwrap();
    catalog.close().await;
    place.sql("DELETE FROM schema_migrations WHERE version >= 8").await;
    place.sql("DROP TABLE sharing_tokens").await;
    place.undo_version_11().await;
    for (id, is_deleted) in [(1, "FALSE"), (2, "TRUE")] {
        place
            .sql(&format!(
                "INSERT INTO dashboards (id, project_id, description, pinned, creation_mode, \
                 restriction_level, filters, breakdown_colors, quick_filter_ids, created_at, \
                 deleted) VALUES ({id}, 1, '', FALSE, 'default', 21, '{{}}', '[]', '[]', 0, \
                 {is_deleted})"
            ))
            .await;
        place
            .sql(&format!(
                "INSERT INTO dashboard_tiles (dashboard_id, layouts, filters_overrides, deleted) \
                 VALUES ({id}, '{{}}', '{{}}', TRUE), ({id}, '{{}}', '{{}}', {is_deleted})"
            ))
            .await;
    }
    place.open().await.unwrap().close().await;
    let live = "SELECT CAST(dashboard_id AS TEXT) FROM dashboard_tiles WHERE NOT deleted \
                ORDER BY id";
    assert_eq!(place.sql(live).await, ["1", "2", "2"]);
}

pub async fn the_first_start_happens_once(place: Place) {
    let everything = "SELECT CAST(COUNT(*) AS TEXT) FROM users UNION ALL \
                      SELECT hash FROM personal_api_keys UNION ALL \
                      SELECT api_token FROM projects UNION ALL SELECT name FROM organizations";
    let catalog = place.open().await.unwrap();
    let made = catalog.bootstrap(first_start()).await.unwrap().unwrap();
    assert_eq!(made.project.0, 1);
    assert_eq!(made.personal_api_key.reveal(), KEY);
    let before = place.sql(everything).await;
    catalog.close().await;
    let catalog = place.open().await.unwrap();
    let other = catalog::BootstrapOptions { admin_email: Some("x@y".into()), ..first_start() };
    assert!(catalog.bootstrap(other).await.unwrap().is_none());
    assert_eq!(place.sql(everything).await, before);

    let (key, owner) = catalog.keys().authenticate(KEY).await.unwrap().unwrap();
    assert_eq!(owner.user.email, "admin@example.com");
    assert_eq!(key.scopes.as_words(), ["*"]);
    assert_eq!(owner.current_project, Some(made.project));
    assert!(catalog.projects().by_token("phc_test").await.unwrap().is_some());
}

pub async fn one_server_owns_a_postgres_catalog(place: Place) {
    let first = place.open().await.unwrap();
    let second = place.open().await;
    if !place.is_postgres() {
        // A file is guarded by the lock of its folder, which the server holds.
        assert!(second.is_ok());
        return;
    }
    assert!(matches!(second.err().unwrap(), Error::Owned));
    place.join().await.unwrap();
    first.close().await;
    place.open().await.unwrap();
}
