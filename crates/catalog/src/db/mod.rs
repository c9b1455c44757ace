//! One way to run a statement on either engine.
//!
//! Values and rows are reduced to what both engines store alike: integers, text, booleans and
//! bytes. Times are microseconds, uuids and JSON are text. Reads may run beside the writer;
//! every write runs in a [`Tx`].

pub(crate) mod author;
pub(crate) mod bulk;
mod columns;
pub(crate) mod dialect;
pub(crate) mod error;
pub(crate) mod executor;
mod handle;
mod inline_sqlite;
pub(crate) mod migrate;
mod notify;
pub(crate) mod object_tables;
pub(crate) mod secret;
pub(crate) mod select;
pub(crate) mod vault;

use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::ProjectId;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgPool, PgPoolOptions, PgRow, Postgres};
use sqlx::sqlite::{
    Sqlite, SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePool,
    SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Arguments, AssertSqlSafe, Connection, Encode, Row as _, Transaction, Type};
use tokio::sync::Mutex;

use crate::{Error, Result};
use dialect::Dialect;
use error::Cause;
use inline_sqlite::Here;
use notify::{Announcement, Changes};

pub(crate) use handle::{Core, handle};

/// SQLite reads in parallel; more connections than this only cost memory on a small machine.
const SQLITE_READERS_MAX: u32 = 4;
const POSTGRES_CONNECTIONS_MAX: u32 = 16;
/// What the one writer keeps of the file; persons are everywhere in it.
const SQLITE_WRITER_CACHE_KIB: u32 = 16 << 10;
/// Pages of the log (4 KiB each) before they are copied into the file.
const SQLITE_WAL_PAGES: u32 = 8 << 10;
/// How long a request waits for a connection before it is told that the catalog is away.
const ACQUIRE_WAIT: Duration = Duration::from_secs(5);
/// Another process (an admin command) may hold SQLite's write lock this long.
const SQLITE_BUSY_WAIT: Duration = Duration::from_secs(10);
/// How long a server that has just ended may still hold its lock, and how often to look.
const OWNER_WAIT: Duration = Duration::from_secs(1);
const OWNER_PAUSE: Duration = Duration::from_millis(50);
/// PostgreSQL's advisory lock of the one server that owns a catalog ("hedgerow" in ASCII).
const OWNER_LOCK: i64 = 0x6865_6467_6572_6f77;

pub struct Db {
    engine: Engine,
    statements: AtomicU64,
    /// Keeps PostgreSQL's advisory lock for as long as this server lives.
    owner: Mutex<Option<sqlx::PgConnection>>,
    changes: Arc<Changes>,
}

enum Engine {
    Sqlite { readers: SqlitePool, writer: SqlitePool },
    Postgres { pool: PgPool, options: Box<PgConnectOptions> },
}

/// A transaction that rolls back unless it is committed.
pub struct Tx {
    inner: TxInner,
    /// Whether many rows are written where the caller is.
    here: bool,
    announcement: Announcement,
}

enum TxInner {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Int(Option<i64>),
    Text(Option<String>),
    Bool(Option<bool>),
    Bytes(Option<Vec<u8>>),
}

pub(crate) enum Row {
    Sqlite(SqliteRow),
    Here(inline_sqlite::Found),
    Postgres(PgRow),
}

impl Value {
    /// PostgreSQL cannot hold U+0000 in text; what one engine refuses both do.
    fn check(&self) -> Result<()> {
        match self {
            Self::Text(Some(text)) if text.contains('\0') => {
                Err(Error::refused(None, "Null characters are not allowed."))
            }
            _ => Ok(()),
        }
    }
}

macro_rules! args {
    ($($value:expr),* $(,)?) => { vec![$($crate::db::Value::from($value)),*] };
}
pub(crate) use args;

impl Db {
    pub(crate) async fn sqlite(file: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A commit that was answered must survive a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(SQLITE_BUSY_WAIT);
        // Pages that batch after batch changes are copied to the file once for all of them.
        let writing = options
            .clone()
            .pragma("cache_size", format!("-{SQLITE_WRITER_CACHE_KIB}"))
            // Else what a statement of many rows would need to be undone goes to a file each time.
            .pragma("temp_store", "MEMORY")
            .pragma("wal_autocheckpoint", SQLITE_WAL_PAGES.to_string());
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(SQLITE_BUSY_WAIT)
            // Another one would begin without the pages of the batches before.
            .max_lifetime(None)
            .idle_timeout(None)
            // A full or failing disk ends a transaction behind the driver's back, which then takes
            // the connection to be in it for ever.
            .before_acquire(|writer, _| Box::pin(async move { Ok(!writer.is_in_transaction()) }))
            .connect_with(writing)
            .await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS_MAX)
            .acquire_timeout(ACQUIRE_WAIT)
            .connect_lazy_with(options.read_only(true));
        Ok(Self::over(Engine::Sqlite { readers, writer }))
    }

    /// Only of SQLite: PostgreSQL has tools of its own.
    pub(crate) async fn copy_to(&self, file: &Path) -> Result<()> {
        let Engine::Sqlite { writer, .. } = &self.engine else {
            return Err(Error::refused(None, "Only an embedded catalog can be copied."));
        };
        let file = file.display().to_string();
        sqlite_rows(writer, "VACUUM INTO $1".to_owned(), args![file]).await.map(drop)
    }

    pub(crate) async fn postgres(url: &str) -> Result<Self> {
        let options = PgConnectOptions::from_str(url)?;
        let pool = PgPoolOptions::new()
            .max_connections(POSTGRES_CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_WAIT)
            .connect_with(options.clone())
            .await?;
        Ok(Self::over(Engine::Postgres { pool, options: Box::new(options) }))
    }

    fn over(engine: Engine) -> Self {
        Self {
            engine,
            statements: AtomicU64::new(0),
            owner: Mutex::new(None),
            changes: Arc::default(),
        }
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        match self.engine {
            Engine::Sqlite { .. } => Dialect::Sqlite,
            Engine::Postgres { .. } => Dialect::Postgres,
        }
    }

    /// Takes the catalog for this server alone, or sees that it still has it. SQLite's folder has
    /// a lock file of its own.
    pub(crate) async fn own(&self) -> Result<()> {
        let Engine::Postgres { options, .. } = &self.engine else { return Ok(()) };
        let owned = tokio::time::timeout(ACQUIRE_WAIT, self.own_postgres(options)).await;
        owned.unwrap_or(Err(Error::Unavailable(Cause::Driver(sqlx::Error::PoolTimedOut))))
    }

    async fn own_postgres(&self, options: &PgConnectOptions) -> Result<()> {
        let mut owner = self.owner.lock().await;
        if let Some(connection) = owner.as_mut()
            && connection.ping().await.is_ok()
        {
            return Ok(());
        }
        // With the connection went the lock, and somebody else may have taken it.
        *owner = None;
        let mut connection = sqlx::PgConnection::connect_with(options).await?;
        let asked = Instant::now();
        loop {
            let taken: bool = sqlx::query("SELECT pg_try_advisory_lock($1) AS taken")
                .bind(OWNER_LOCK)
                .fetch_one(&mut connection)
                .await?
                .try_get("taken")?;
            if taken {
                *owner = Some(connection);
                return Ok(());
            }
            if asked.elapsed() >= OWNER_WAIT {
                return Err(Error::Owned);
            }
            tokio::time::sleep(OWNER_PAUSE).await;
        }
    }

    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    pub(crate) async fn all(&self, sql: impl Into<String>, values: Vec<Value>) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        match &self.engine {
            Engine::Sqlite { readers, .. } => sqlite_rows(readers, sql.into(), values).await,
            Engine::Postgres { pool, .. } => postgres_rows(pool, sql.into(), values).await,
        }
    }

    /// All rows of a query whose `{list}`, behind all other values, is any of `wanted`, each of which
    /// is there once. They come in no order, for who writes next. Of SQLite the writer is asked, where
    /// the caller is: it still has the pages of the batches before, while those of readers are void
    /// after each.
    pub(crate) async fn all_in_here(
        &self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        let Engine::Sqlite { writer, .. } = &self.engine else {
            return self.all_in(sql, fixed, wanted).await;
        };
        self.statements.fetch_add(1, Ordering::Relaxed);
        let mut writer = writer.acquire().await?;
        let found =
            Here::of(&mut writer).await?.find(&sql.replace("{list}", "(?)"), &fixed, wanted);
        // Whether what failed could be ended is not known to the driver.
        if found.is_err() {
            writer.close_on_drop();
        }
        found
    }

    pub(crate) async fn optional(
        &self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<Option<Row>> {
        Ok(self.all(sql, values).await?.into_iter().next())
    }

    pub(crate) async fn one(&self, sql: impl Into<String>, values: Vec<Value>) -> Result<Row> {
        self.optional(sql, values).await?.ok_or(Error::NotFound)
    }

    pub(crate) async fn begin(&self) -> Result<Tx> {
        let inner = match &self.engine {
            // Taking the write lock at once: a later upgrade could only fail.
            Engine::Sqlite { writer, .. } => {
                TxInner::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?)
            }
            Engine::Postgres { pool, .. } => TxInner::Postgres(pool.begin().await?),
        };
        Ok(Tx { inner, here: false, announcement: Announcement::of(self.changes.clone()) })
    }

    /// The same for a caller on a thread of its own: SQLite writes many rows on it.
    pub(crate) async fn begin_here(&self) -> Result<Tx> {
        Ok(Tx { here: true, ..self.begin().await? })
    }

    pub(crate) fn changes(&self) -> &Changes {
        &self.changes
    }

    pub(crate) async fn close(&self) {
        if let Some(owner) = self.owner.lock().await.take()
            && let Err(cause) = owner.close().await
        {
            tracing::warn!(error = %cause, "closing the owner connection failed");
        }
        match &self.engine {
            Engine::Sqlite { readers, writer } => {
                readers.close().await;
                writer.close().await;
            }
            Engine::Postgres { pool, .. } => pool.close().await,
        }
    }
}

impl Tx {
    pub(crate) const fn dialect(&self) -> Dialect {
        match self.inner {
            TxInner::Sqlite(_) => Dialect::Sqlite,
            TxInner::Postgres(_) => Dialect::Postgres,
        }
    }

    pub(crate) async fn all(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<Vec<Row>> {
        match &mut self.inner {
            TxInner::Sqlite(tx) => sqlite_rows(&mut **tx, sql.into(), values).await,
            TxInner::Postgres(tx) => postgres_rows(&mut **tx, sql.into(), values).await,
        }
    }

    pub(crate) async fn optional(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<Option<Row>> {
        Ok(self.all(sql, values).await?.into_iter().next())
    }

    pub(crate) async fn one(&mut self, sql: impl Into<String>, values: Vec<Value>) -> Result<Row> {
        self.optional(sql, values).await?.ok_or(Error::NotFound)
    }

    /// Runs a statement that answers no rows and tells how many it changed.
    pub(crate) async fn run(&mut self, sql: impl Into<String>, values: Vec<Value>) -> Result<u64> {
        let sql = AssertSqlSafe(sql.into());
        Ok(match &mut self.inner {
            TxInner::Sqlite(tx) => {
                let arguments = arguments::<SqliteArguments>(values)?;
                sqlx::query_with(sql, arguments).execute(&mut **tx).await?.rows_affected()
            }
            TxInner::Postgres(tx) => {
                let arguments = arguments::<PgArguments>(values)?;
                sqlx::query_with(sql, arguments).execute(&mut **tx).await?.rows_affected()
            }
        })
    }

    /// SQLite's connection, if many rows are written where the caller is.
    pub(crate) async fn here(&mut self) -> Result<Option<Here<'_>>> {
        match &mut self.inner {
            TxInner::Sqlite(tx) if self.here => Here::of(tx).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Runs several statements without arguments, as a migration needs.
    pub(crate) async fn script(&mut self, sql: String) -> Result<()> {
        match &mut self.inner {
            TxInner::Sqlite(tx) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **tx).await?;
            }
            TxInner::Postgres(tx) => {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **tx).await?;
            }
        }
        Ok(())
    }

    /// What others keep in memory about this project is stale once the transaction has ended.
    pub(crate) fn changes_project(&mut self, project: ProjectId) {
        self.announcement.add(project);
    }

    /// A definition is gone, and comes back when it is seen again.
    pub(crate) fn changes_definitions(&mut self) {
        self.announcement.add_definitions();
    }

    pub async fn commit(self) -> Result<()> {
        match self.inner {
            TxInner::Sqlite(tx) => tx.commit().await?,
            TxInner::Postgres(tx) => tx.commit().await?,
        }
        Ok(())
    }
}

async fn sqlite_rows<'e, E>(on: E, sql: String, values: Vec<Value>) -> Result<Vec<Row>>
where
    E: sqlx::Executor<'e, Database = Sqlite>,
{
    let arguments = arguments::<SqliteArguments>(values)?;
    let rows = sqlx::query_with(AssertSqlSafe(sql), arguments).fetch_all(on).await?;
    Ok(rows.into_iter().map(Row::Sqlite).collect())
}

async fn postgres_rows<'e, E>(on: E, sql: String, values: Vec<Value>) -> Result<Vec<Row>>
where
    E: sqlx::Executor<'e, Database = Postgres>,
{
    let arguments = arguments::<PgArguments>(values)?;
    let rows = sqlx::query_with(AssertSqlSafe(sql), arguments).fetch_all(on).await?;
    Ok(rows.into_iter().map(Row::Postgres).collect())
}

fn arguments<A>(values: Vec<Value>) -> Result<A>
where
    A: Arguments,
    Option<i64>: for<'t> Encode<'t, A::Database> + Type<A::Database>,
    Option<String>: for<'t> Encode<'t, A::Database> + Type<A::Database>,
    Option<bool>: for<'t> Encode<'t, A::Database> + Type<A::Database>,
    Option<Vec<u8>>: for<'t> Encode<'t, A::Database> + Type<A::Database>,
{
    let mut arguments = A::default();
    for value in values {
        value.check()?;
        match value {
            Value::Int(int) => arguments.add(int),
            Value::Text(text) => arguments.add(text),
            Value::Bool(bool) => arguments.add(bool),
            Value::Bytes(bytes) => arguments.add(bytes),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(arguments)
}
