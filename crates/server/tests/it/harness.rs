//! The servers that tests start, on SQLite or PostgreSQL.

use std::sync::LazyLock;

use catalog::{Catalog, Location, Secret, Vault};
use model::Clock;
use testing::database::PostgresTemplate;

pub use testing::database::postgres_available;
pub use testing::server::{
    ADMIN_EMAIL, ADMIN_PASSWORD, Instance, PERSONAL_KEY, PROJECT_KEY, Process, Relay, Request,
    Response, Server, raw,
};

/// Expands each case into a test on SQLite and one on PostgreSQL.
macro_rules! on_both_stores {
    ($($case:ident),+ $(,)?) => {
        mod sqlite {$(
            #[test]
            fn $case() {
                super::$case($crate::harness::Store::Sqlite);
            }
        )+}
        mod postgres {$(
            #[test]
            fn $case() {
                if $crate::harness::postgres_available() {
                    super::$case($crate::harness::Store::Postgres);
                }
            }
        )+}
    };
}
pub(crate) use on_both_stores;

/// The catalog of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

/// The schema, migrated once. It has no secret key, so that every server can use its own.
static SCHEMA: LazyLock<PostgresTemplate> = LazyLock::new(|| {
    PostgresTemplate::new(|database| {
        let vault = Vault::new(&Secret::given("nobody's"));
        let opened = Catalog::open(Location::Postgres(&database.url), vault, Clock::system());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { drop(opened.await.unwrap()) });
        database.execute("DELETE FROM instance");
    })
});

impl Store {
    pub fn instance(self) -> Instance {
        let database = (self == Self::Postgres).then(|| SCHEMA.copy());
        Instance::new(env!("CARGO_BIN_EXE_hedgerow"), database)
    }

    pub fn start(self) -> Server {
        self.instance().serve()
    }

    /// With further or overridden settings.
    pub fn start_with(self, environment: &[(&str, &str)]) -> Server {
        let mut instance = self.instance();
        for (name, value) in environment {
            instance.set(name, value);
        }
        instance.serve()
    }
}
