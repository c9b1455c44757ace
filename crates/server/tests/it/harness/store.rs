//! The catalogs that tests run on: SQLite and PostgreSQL.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use catalog::{Catalog, Location, Secret, Vault};
use model::Clock;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

const POSTGRES_URL: &str = "HEDGEROW_TEST_POSTGRES_URL";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// The template database with the schema, created once; each test's database is a copy. Its secret key is
/// not set, so that every server can use its own.
static SCHEMA: LazyLock<String> = LazyLock::new(|| {
    let name = format!("it_{}_schema", std::process::id());
    administer(&format!("CREATE DATABASE {name} STRATEGY FILE_COPY"));
    let url = url_of(&name);
    let vault = Vault::new(&Secret::given("nobody's"));
    block_on(async {
        drop(Catalog::open(Location::Postgres(&url), vault, Clock::system()).await.unwrap());
        let mut connection = PgConnection::connect(&url).await.unwrap();
        sqlx::query("DELETE FROM instance").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    });
    wait_until_unused(&name);
    name
});

/// The database of one test; dropped with it.
pub struct Database {
    pub url: String,
    name: String,
}

impl Store {
    /// False without PostgreSQL: the test is skipped with a message, except in CI.
    pub fn postgres_available() -> bool {
        if std::env::var_os(POSTGRES_URL).is_some() {
            return true;
        }
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "{POSTGRES_URL} is not set; run the tests under tools/with-postgres"
        );
        println!("skipped: {POSTGRES_URL} is not set (tools/with-postgres sets it)");
        false
    }

    pub(super) fn database(self) -> Option<Database> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if self == Self::Sqlite {
            return None;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("it_{}_{number}", std::process::id());
        administer(&format!("CREATE DATABASE {name} TEMPLATE {} STRATEGY FILE_COPY", *SCHEMA));
        Some(Database { url: url_of(&name), name })
    }
}

impl Database {
    /// Waits until PostgreSQL has closed all sessions.
    pub fn wait_until_unused(&self) {
        wait_until_unused(&self.name);
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        administer(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

pub(super) fn write(database: Option<&Database>, file: &Path, sql: &str) {
    let statements = sqlx::raw_sql(AssertSqlSafe(sql));
    block_on(async {
        match database {
            Some(database) => {
                let mut connection = PgConnection::connect(&database.url).await.unwrap();
                statements.execute(&mut connection).await.unwrap();
            }
            None => {
                let url = format!("sqlite://{}", file.display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                statements.execute(&mut connection).await.unwrap();
            }
        }
    });
}

fn server_url() -> String {
    std::env::var(POSTGRES_URL).unwrap()
}

fn url_of(database: &str) -> String {
    let server = server_url();
    let (server, _) = server.rsplit_once('/').unwrap();
    format!("{server}/{database}")
}

fn wait_until_unused(database: &str) {
    let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1";
    while on_server(async |connection: &mut PgConnection| {
        sqlx::query_scalar::<_, i64>(sql).bind(database).fetch_one(connection).await.unwrap()
    }) > 0
    {
        std::thread::yield_now();
    }
}

fn administer(sql: &str) {
    on_server(async |connection: &mut PgConnection| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
    });
}

fn on_server<T>(work: impl AsyncFnOnce(&mut PgConnection) -> T) -> T {
    block_on(async {
        let mut connection = PgConnection::connect(&server_url()).await.unwrap();
        let done = work(&mut connection).await;
        connection.close().await.unwrap();
        done
    })
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}
