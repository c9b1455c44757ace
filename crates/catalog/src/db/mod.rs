//! Runs statements on SQLite or PostgreSQL, and what all areas share.
//!
//! Values and rows are reduced to types that both engines store alike: integers, strings, booleans
//! and bytes. Timestamps are microseconds; UUIDs and JSON are strings. Reads may run concurrently
//! with the writer; every write runs in a [`Tx`].

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
use inline_sqlite::InlineSqlite;
use notify::{ChangeFeed, Invalidation};

pub(crate) use handle::{Core, handle};

/// SQLite reads concurrently; more connections only cost memory on a small machine.
const SQLITE_READERS_MAX: u32 = 4;
const POSTGRES_CONNECTIONS_MAX: u32 = 16;
/// Page cache of the writer; accesses to persons are spread over the whole file.
const SQLITE_WRITER_CACHE_KIB: u32 = 16 << 10;
/// Pages of 4 KiB in the write-ahead log before a checkpoint.
const SQLITE_WAL_PAGES: u32 = 8 << 10;
/// Timeout of a request for a connection, after which the catalog counts as unavailable.
const ACQUIRE_WAIT: Duration = Duration::from_secs(5);
/// How long another process, such as an admin command, may hold SQLite's write lock.
const SQLITE_BUSY_WAIT: Duration = Duration::from_secs(10);
/// How long a stopping server may still hold the owner lock, and the interval of retries.
const OWNER_WAIT: Duration = Duration::from_secs(1);
const OWNER_PAUSE: Duration = Duration::from_millis(50);
/// PostgreSQL's default isolation level gives each statement a snapshot of its own.
const POSTGRES_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// Key of the advisory lock that the owning server holds in PostgreSQL ("hedgerow" in ASCII).
const OWNER_LOCK: i64 = 0x6865_6467_6572_6f77;

pub struct Db {
    engine: Engine,
    statements: AtomicU64,
    /// The connection that holds PostgreSQL's advisory lock while this server runs.
    owner: Mutex<Option<sqlx::PgConnection>>,
    change_feed: Arc<ChangeFeed>,
}

enum Engine {
    Sqlite { readers: SqlitePool, writer: SqlitePool },
    Postgres { pool: PgPool, options: Box<PgConnectOptions> },
}

/// A transaction that rolls back unless it is committed.
pub struct Tx {
    inner: TxInner,
    /// Whether bulk writes run inline, on the caller's thread.
    inline: bool,
    invalidation: Invalidation,
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
    Inline(inline_sqlite::InlineRow),
    Postgres(PgRow),
}

impl Value {
    /// PostgreSQL cannot store U+0000 in strings, so both engines reject it.
    fn check(&self) -> Result<()> {
        match self {
            Self::Text(Some(text)) if text.contains('\0') => {
                Err(Error::refused(None, "Null characters are not allowed."))
            }
            _ => Ok(()),
        }
    }

    /// Bytes of a string or blob.
    fn bytes(&self) -> usize {
        match self {
            Self::Text(Some(text)) => text.len(),
            Self::Bytes(Some(bytes)) => bytes.len(),
            _ => 0,
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
            // An acknowledged commit must survive a power failure.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(SQLITE_BUSY_WAIT);
        // A large log lets one checkpoint write pages that many batches changed.
        let writing = options
            .clone()
            .pragma("cache_size", format!("-{SQLITE_WRITER_CACHE_KIB}"))
            // Statement journals of bulk writes would go to a temporary file otherwise.
            .pragma("temp_store", "MEMORY")
            .pragma("wal_autocheckpoint", SQLITE_WAL_PAGES.to_string());
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(SQLITE_BUSY_WAIT)
            // A new connection would start with a cold page cache.
            .max_lifetime(None)
            .idle_timeout(None)
            // When a full or failing disk makes SQLite roll back by itself, sqlx still believes
            // that the connection is in a transaction.
            .before_acquire(|writer, _| Box::pin(async move { Ok(!writer.is_in_transaction()) }))
            .connect_with(writing)
            .await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(SQLITE_READERS_MAX)
            .acquire_timeout(ACQUIRE_WAIT)
            .connect_lazy_with(options.read_only(true));
        Ok(Self::new(Engine::Sqlite { readers, writer }))
    }

    /// SQLite only; PostgreSQL has its own backup tools.
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
        Ok(Self::new(Engine::Postgres { pool, options: Box::new(options) }))
    }

    fn new(engine: Engine) -> Self {
        Self {
            engine,
            statements: AtomicU64::new(0),
            owner: Mutex::new(None),
            change_feed: Arc::default(),
        }
    }

    pub(crate) const fn dialect(&self) -> Dialect {
        match self.engine {
            Engine::Sqlite { .. } => Dialect::Sqlite,
            Engine::Postgres { .. } => Dialect::Postgres,
        }
    }

    /// Takes or renews exclusive ownership of the catalog. SQLite's data directory has a lock file
    /// instead.
    pub(crate) async fn take_ownership(&self) -> Result<()> {
        let Engine::Postgres { options, .. } = &self.engine else { return Ok(()) };
        let owned = tokio::time::timeout(ACQUIRE_WAIT, self.lock_postgres(options)).await;
        owned.unwrap_or(Err(Error::Unavailable(Cause::Driver(sqlx::Error::PoolTimedOut))))
    }

    async fn lock_postgres(&self, options: &PgConnectOptions) -> Result<()> {
        let mut owner = self.owner.lock().await;
        if let Some(connection) = owner.as_mut()
            && connection.ping().await.is_ok()
        {
            return Ok(());
        }
        // The broken connection released the lock, and another server may hold it now.
        *owner = None;
        let mut connection = sqlx::PgConnection::connect_with(options).await?;
        let begun = Instant::now();
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
            if begun.elapsed() >= OWNER_WAIT {
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

    /// All rows of a query with `{list}` expanded to `wanted`, which has no duplicates, in any
    /// order. On SQLite it runs inline on the writer's connection: its page cache is warm from the
    /// batches before, whereas each commit invalidates those of the readers.
    pub(crate) async fn all_in_inline(
        &self,
        sql: &str,
        fixed: Vec<Value>,
        wanted: &[Value],
    ) -> Result<Vec<Row>> {
        self.statements.fetch_add(1, Ordering::Relaxed);
        let writer = match &self.engine {
            Engine::Sqlite { writer, .. } => writer,
            Engine::Postgres { pool, .. } => {
                return bulk::all_in_array(pool, sql, fixed, wanted).await;
            }
        };
        let mut writer = writer.acquire().await?;
        let rows = InlineSqlite::of(&mut writer).await?.find(
            &sql.replace("{list}", "(?)"),
            &fixed,
            wanted,
        );
        // sqlx does not know whether the failed transaction has ended.
        if rows.is_err() {
            writer.close_on_drop();
        }
        rows
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
            // Takes the write lock immediately: upgrading a read transaction later could fail.
            Engine::Sqlite { writer, .. } => {
                TxInner::Sqlite(writer.begin_with("BEGIN IMMEDIATE").await?)
            }
            Engine::Postgres { pool, .. } => TxInner::Postgres(pool.begin().await?),
        };
        Ok(Tx { inner, inline: false, invalidation: Invalidation::of(self.change_feed.clone()) })
    }

    /// A snapshot to read several statements from. On SQLite it neither takes nor waits for the
    /// write lock, and its connection refuses writes.
    pub(crate) async fn begin_read(&self) -> Result<Tx> {
        let inner = match &self.engine {
            Engine::Sqlite { readers, .. } => TxInner::Sqlite(readers.begin().await?),
            Engine::Postgres { pool, .. } => {
                TxInner::Postgres(pool.begin_with(POSTGRES_SNAPSHOT).await?)
            }
        };
        Ok(Tx { inner, inline: false, invalidation: Invalidation::of(self.change_feed.clone()) })
    }

    /// Like [`Db::begin`], with bulk writes on the caller's thread on SQLite.
    pub(crate) async fn begin_inline(&self) -> Result<Tx> {
        Ok(Tx { inline: true, ..self.begin().await? })
    }

    pub(crate) fn change_feed(&self) -> &ChangeFeed {
        &self.change_feed
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

    /// Runs a statement without a result set, and returns the number of rows changed.
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

    /// The inline SQLite connection, if this transaction has one.
    pub(crate) async fn inline(&mut self) -> Result<Option<InlineSqlite<'_>>> {
        match &mut self.inner {
            TxInner::Sqlite(tx) if self.inline => InlineSqlite::of(tx).await.map(Some),
            _ => Ok(None),
        }
    }

    /// Runs several statements without parameters, for migrations.
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

    /// Invalidates caches of this project when the transaction ends.
    pub(crate) fn invalidate_project(&mut self, project: ProjectId) {
        self.invalidation.add(project);
    }

    /// Whether a warehouse is told of changes of persons, groups and cohorts.
    pub(crate) fn has_feed(&self) -> bool {
        self.invalidation.has_feed()
    }

    /// Notifies who tells the warehouse when the transaction ends.
    pub(crate) fn notify_feed(&mut self) {
        self.invalidation.add_to_feed();
    }

    /// Invalidates caches of definitions when the transaction ends: a deleted one is created again
    /// when it is next observed.
    pub(crate) fn invalidate_definitions(&mut self) {
        self.invalidation.add_definitions();
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
