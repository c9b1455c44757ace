//! Migrations, bootstrap, and ownership of a catalog.

use catalog::Error;

use crate::store::{KEY, TestDatabase, bootstrap_options};

const APPLIED: &str = "SELECT CAST(version AS TEXT) || '@' || CAST(applied_at AS TEXT) FROM schema_migrations \
     ORDER BY version";

pub async fn an_empty_database_is_migrated_once(database: TestDatabase) {
    database.open().await.unwrap().close().await;
    let applied = database.sql(APPLIED).await;
    assert!(!applied.is_empty());
    database.clock.advance_seconds(60);
    let again = database.open().await.unwrap();
    again.ping().await.unwrap();
    assert_eq!(database.sql(APPLIED).await, applied);
}

pub async fn a_newer_schema_is_refused(database: TestDatabase) {
    database.open().await.unwrap().close().await;
    database.sql("INSERT INTO schema_migrations (version, applied_at) VALUES (999, 0)").await;
    for refused in [database.open().await, database.join().await] {
        let error = refused.err().unwrap();
        assert!(matches!(error, Error::NewerSchema { found: 999, known: 1.. }), "{error}");
        assert!(error.to_string().contains("newer"));
    }
}

pub async fn join_never_migrates(database: TestDatabase) {
    let server = database.open().await.unwrap();
    database.join().await.unwrap().close().await;
    server.close().await;
    database.sql("DELETE FROM schema_migrations").await;
    let error = database.join().await.err().unwrap();
    assert!(matches!(error, Error::OlderSchema { found: 0, known: 1.. }), "{error}");
}

/// Releases before schema 8 also marked the tiles of a deleted dashboard as deleted.
pub async fn migration_8_restores_tiles_of_deleted_dashboards(database: TestDatabase) {
    let catalog = database.open().await.unwrap();
    catalog.bootstrap(bootstrap_options()).await.unwrap().unwrap();
    catalog.close().await;
    database.sql("DELETE FROM schema_migrations WHERE version >= 8").await;
    database.sql("DROP TABLE sharing_tokens").await;
    database.undo_migrations_from_11().await;
    for (id, is_deleted) in [(1, "FALSE"), (2, "TRUE")] {
        database
            .sql(&format!(
                "INSERT INTO dashboards (id, project_id, description, pinned, creation_mode, \
                 restriction_level, filters, breakdown_colors, quick_filter_ids, created_at, \
                 deleted) VALUES ({id}, 1, '', FALSE, 'default', 21, '{{}}', '[]', '[]', 0, \
                 {is_deleted})"
            ))
            .await;
        database
            .sql(&format!(
                "INSERT INTO dashboard_tiles (dashboard_id, layouts, filters_overrides, deleted) \
                 VALUES ({id}, '{{}}', '{{}}', TRUE), ({id}, '{{}}', '{{}}', {is_deleted})"
            ))
            .await;
    }
    database.open().await.unwrap().close().await;
    let live = "SELECT CAST(dashboard_id AS TEXT) FROM dashboard_tiles WHERE NOT deleted \
                ORDER BY id";
    assert_eq!(database.sql(live).await, ["1", "2", "2"]);
}

pub async fn bootstrap_runs_once(database: TestDatabase) {
    let everything = "SELECT CAST(COUNT(*) AS TEXT) FROM users UNION ALL \
                      SELECT hash FROM personal_api_keys UNION ALL \
                      SELECT api_token FROM projects UNION ALL SELECT name FROM organizations";
    let catalog = database.open().await.unwrap();
    let made = catalog.bootstrap(bootstrap_options()).await.unwrap().unwrap();
    assert_eq!(made.project.0, 1);
    assert_eq!(made.personal_api_key.reveal(), KEY);
    let before = database.sql(everything).await;
    catalog.close().await;
    let catalog = database.open().await.unwrap();
    let other =
        catalog::BootstrapOptions { admin_email: Some("x@y".into()), ..bootstrap_options() };
    assert!(catalog.bootstrap(other).await.unwrap().is_none());
    assert_eq!(database.sql(everything).await, before);

    let (key, owner) = catalog.keys().authenticate(KEY).await.unwrap().unwrap();
    assert_eq!(owner.user.email, "admin@example.com");
    assert_eq!(key.scopes.as_words(), ["*"]);
    assert_eq!(owner.current_project, Some(made.project));
    assert!(catalog.projects().by_token("phc_test").await.unwrap().is_some());
}

pub async fn one_server_owns_a_postgres_catalog(database: TestDatabase) {
    let first = database.open().await.unwrap();
    let second = database.open().await;
    if !database.is_postgres() {
        // For SQLite the server holds a lock file in the data directory.
        assert!(second.is_ok());
        return;
    }
    assert!(matches!(second.err().unwrap(), Error::Owned));
    database.join().await.unwrap();
    first.close().await;
    database.open().await.unwrap();
}
