//! Databases for tests: SQLite files, and databases of the PostgreSQL server that
//! `tools/with-postgres` starts.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};
use tempfile::TempDir;

const POSTGRES_URL: &str = "HEDGEROW_TEST_POSTGRES_URL";

/// False without a PostgreSQL server: the test prints that it is skipped. CI requires one.
pub fn postgres_available() -> bool {
    if std::env::var_os(POSTGRES_URL).is_some() {
        return true;
    }
    let ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(!ci, "{POSTGRES_URL} is not set; run the tests under tools/with-postgres");
    println!("skipped: {POSTGRES_URL} is not set (tools/with-postgres sets it)");
    false
}

/// An empty database for one test; dropped with it.
pub enum Database {
    /// The directory of `catalog.sqlite`.
    Sqlite(TempDir),
    Postgres(PostgresDatabase),
}

impl Database {
    pub fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    /// `None` if [`postgres_available`] is false.
    pub fn postgres() -> Option<Self> {
        postgres_available().then(|| Self::Postgres(PostgresDatabase::create("")))
    }

    /// Another empty database of the same engine.
    pub fn another(&self) -> Self {
        match self {
            Self::Sqlite(_) => Self::sqlite(),
            Self::Postgres(_) => Self::Postgres(PostgresDatabase::create("")),
        }
    }

    /// The path of the SQLite file, or the URL.
    pub fn location(&self) -> String {
        match self {
            Self::Sqlite(dir) => dir.path().join("catalog.sqlite").display().to_string(),
            Self::Postgres(database) => database.url.clone(),
        }
    }

    /// Runs a statement outside of the catalog, and returns its first column.
    pub async fn sql(&self, sql: &str) -> Vec<String> {
        let (sql, location) = (AssertSqlSafe(sql.to_owned()), self.location());
        match self {
            Self::Sqlite(_) => {
                let mut connection = sqlite(location.as_ref()).await;
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
            Self::Postgres(_) => {
                let mut connection = PgConnection::connect(&location).await.unwrap();
                let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
                rows.iter().map(|row| row.get(0)).collect()
            }
        }
    }
}

async fn sqlite(file: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", file.display())).await.unwrap()
}

/// Runs statements on an SQLite file.
pub fn execute_sqlite(file: &Path, sql: &str) {
    block_on(async || {
        let mut connection = sqlite(file).await;
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.unwrap();
    });
}

/// A database of the PostgreSQL server; dropped with its handle.
pub struct PostgresDatabase {
    pub url: String,
    name: String,
}

impl PostgresDatabase {
    fn create(template: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        administer(&format!("CREATE DATABASE {name} {template} STRATEGY FILE_COPY"));
        let server = server_url();
        let (server, _) = server.rsplit_once('/').unwrap();
        Self { url: format!("{server}/{name}"), name }
    }

    /// Runs statements.
    pub fn execute(&self, sql: &str) {
        on_server(&self.url, async |connection| {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
        });
    }

    /// Waits until PostgreSQL has closed all sessions.
    pub fn wait_until_unused(&self) {
        let sql = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1";
        while on_server(&server_url(), async |connection| {
            let count = sqlx::query_scalar::<_, i64>(sql).bind(&self.name);
            count.fetch_one(connection).await.unwrap()
        }) > 0
        {
            std::thread::yield_now();
        }
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        administer(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// A database whose copies start with its schema and rows: faster than to migrate each.
pub struct PostgresTemplate(PostgresDatabase);

impl PostgresTemplate {
    /// `fill` must close its connections.
    pub fn new(fill: impl FnOnce(&PostgresDatabase)) -> Self {
        let database = PostgresDatabase::create("");
        fill(&database);
        database.wait_until_unused();
        Self(database)
    }

    pub fn copy(&self) -> PostgresDatabase {
        PostgresDatabase::create(&format!("TEMPLATE {}", self.0.name))
    }
}

fn server_url() -> String {
    std::env::var(POSTGRES_URL).unwrap()
}

fn administer(sql: &str) {
    on_server(&server_url(), async |connection| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(connection).await.unwrap();
    });
}

fn on_server<T: Send>(url: &str, work: impl AsyncFnOnce(&mut PgConnection) -> T + Send) -> T {
    block_on(async || {
        let mut connection = PgConnection::connect(url).await.unwrap();
        let done = work(&mut connection).await;
        connection.close().await.unwrap();
        done
    })
}

/// Runs on a thread of its own, since the caller may be in a runtime.
fn block_on<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(work())
    };
    std::thread::scope(|scope| scope.spawn(run).join().unwrap())
}
