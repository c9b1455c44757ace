//! An empty database for each case, and a bootstrapped catalog in it.

use catalog::{
    Actor, BootstrapOptions, Catalog, Location, NewUser, PersonalKey, ProjectRow, Result, Secret,
    UserRow, Vault,
};
use model::{Clock, MembershipLevel, OrganizationId, Timestamp, Window};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use testing::database::Database;

pub const KEY: &str = "phx_test";
pub const EVERYTHING: Window = Window { limit: 1_000, offset: 0 };

/// The database of one test case.
pub struct TestDatabase {
    pub clock: Clock,
    database: Database,
}

/// A bootstrapped catalog.
pub struct Fixture {
    pub catalog: Catalog,
    pub organization: OrganizationId,
    pub owner: UserRow,
    pub key: PersonalKey,
    pub project: ProjectRow,
}

impl TestDatabase {
    pub fn sqlite() -> Self {
        Self::at(Database::sqlite())
    }

    pub fn postgres() -> Option<Self> {
        Database::postgres().map(Self::at)
    }

    fn at(database: Database) -> Self {
        Self { clock: Clock::at(Timestamp::from_micros(1_709_287_200_000_000)), database }
    }

    pub fn is_postgres(&self) -> bool {
        matches!(self.database, Database::Postgres(_))
    }

    pub async fn open(&self) -> Result<Catalog> {
        self.open_with("secret").await
    }

    pub async fn open_with(&self, secret_key: &str) -> Result<Catalog> {
        let (vault, at) = (Vault::new(&Secret::given(secret_key)), self.database.location());
        Catalog::open(self.location(&at), vault, self.clock.clone()).await
    }

    pub async fn join(&self) -> Result<Catalog> {
        let (vault, at) = (Vault::new(&Secret::given("secret")), self.database.location());
        Catalog::join(self.location(&at), vault, self.clock.clone()).await
    }

    fn location<'a>(&self, at: &'a str) -> Location<'a> {
        match self.database {
            Database::Sqlite(_) => Location::Sqlite(at.as_ref()),
            Database::Postgres(_) => Location::Postgres(at),
        }
    }

    /// Reverts the migrations from 11 on, for tests of data that older releases wrote.
    pub async fn undo_migrations_from_11(&self) {
        for statement in [
            "DROP TABLE feed_changes",
            "DROP TABLE insight_variables",
            "ALTER TABLE dashboards DROP COLUMN version",
            "ALTER TABLE insights DROP COLUMN version",
            "DROP TABLE setup_links",
            "DROP TABLE login_networks",
            "CREATE INDEX distinct_ids_by_person ON distinct_ids (project_id, person_no)",
            "DROP INDEX distinct_ids_by_person_no",
        ] {
            self.sql(statement).await;
        }
    }

    /// Runs a statement outside of the catalog, and returns its first column.
    pub async fn sql(&self, sql: &str) -> Vec<String> {
        self.database.sql(sql).await
    }

    /// The error of the last statement, on a connection of its own.
    pub async fn failure(&self, statements: &[&str]) -> sqlx::Error {
        let (last, before) = statements.split_last().unwrap();
        let sql = |text: &str| sqlx::raw_sql(AssertSqlSafe(text.to_owned()));
        match &self.database {
            Database::Sqlite(folder) => {
                let file = folder.path().join("other.sqlite");
                let url = format!("sqlite://{}?mode=rwc", file.display());
                let mut connection = SqliteConnection::connect(&url).await.unwrap();
                for statement in before {
                    sql(statement).execute(&mut connection).await.unwrap();
                }
                sql(last).execute(&mut connection).await.unwrap_err()
            }
            Database::Postgres(database) => {
                let mut connection = PgConnection::connect(&database.url).await.unwrap();
                for statement in before {
                    sql(statement).execute(&mut connection).await.unwrap();
                }
                sql(last).execute(&mut connection).await.unwrap_err()
            }
        }
    }

    /// `scope activity name` of every log entry, oldest first.
    pub async fn log(&self) -> Vec<String> {
        self.sql("SELECT scope || ' ' || activity FROM activity_log ORDER BY id").await
    }

    /// The `detail` of the newest log entries, newest first.
    pub async fn details(&self) -> Vec<serde_json::Value> {
        let rows = self.sql("SELECT detail FROM activity_log ORDER BY id DESC").await;
        rows.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
    }

    pub async fn bootstrapped(&self) -> Fixture {
        let catalog = self.open().await.unwrap();
        assert!(catalog.bootstrap(bootstrap_options()).await.unwrap().is_some());
        let (key, owner) = catalog.keys().authenticate(KEY).await.unwrap().unwrap();
        let organization = owner.current_organization.unwrap();
        let project = catalog.projects().get(owner.current_project.unwrap()).await.unwrap();
        Fixture { catalog, organization, owner, key, project }
    }
}

pub fn bootstrap_options() -> BootstrapOptions {
    BootstrapOptions {
        project_api_key: Some(Secret::given("phc_test")),
        personal_api_key: Some(Secret::given(KEY)),
        admin_email: Some("admin@example.com".into()),
        admin_password: Some(Secret::given("correct horse battery")),
    }
}

impl Fixture {
    pub fn actor(&self) -> Actor {
        self.actor_of(&self.owner)
    }

    pub fn actor_of(&self, user: &UserRow) -> Actor {
        Actor { user: Some(user.user.id), organization: self.organization, project: None }
    }

    pub async fn add(&self, email: &str, level: MembershipLevel) -> UserRow {
        let new = person(email);
        let member = self.catalog.members().add(&self.actor(), new, level).await.unwrap();
        self.catalog.users().get(member.user.id).await.unwrap()
    }
}

pub fn person(email: &str) -> NewUser {
    NewUser { email: email.into(), first_name: String::new(), password_hash: None }
}
