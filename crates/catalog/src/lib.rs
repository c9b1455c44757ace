//! Relational truth: organizations, projects, users, keys, and everything people edit.
//!
//! Capture asks it for tokens, the API reads and writes it, and the pipeline keeps persons, groups
//! and definitions in it together with how far it has come.
//! SQL is written once for SQLite and PostgreSQL; what differs is in `dialect.rs`. It never
//! speaks HTTP and holds no event rows.

mod access_controls;
mod actions;
mod activity;
mod annotations;
mod ask;
mod boards;
mod bootstrap;
mod bulk;
mod changes;
mod cohort_calculation;
mod cohort_filling;
mod cohort_members;
mod cohort_references;
mod cohorts;
mod collaborators;
mod dashboards;
mod db;
mod dead_letters;
mod definition_room;
mod definitions;
mod dialect;
mod edit;
mod error;
mod event_definitions;
mod flags;
mod groups;
mod ingest;
mod insight_lists;
mod insight_making;
mod insights;
mod instance;
mod integrity;
mod keys;
mod looked;
mod members;
mod migrate;
mod organizations;
mod persons;
mod projects;
mod property_definitions;
mod reached;
mod roles;
mod scans;
mod search;
mod secret;
mod select;
mod sessions;
mod sharing;
mod tags;
mod telling;
mod tile_changes;
mod tiles;
mod tokens;
mod users;
mod values;
mod vault;
mod warnings;

use db::args;
use definition_room::DefinitionRoom;
use std::path::Path;
use std::sync::Arc;

use model::Clock;
use tokio::sync::{Notify, watch};

pub use access_controls::{AccessRule, ProjectStanding, RuleSubject, RuleTarget};
pub use actions::{ActionChange, NewAction};
pub use activity::{
    ActivityFilter, Actor, Change, ChangeAction, Detail, Direction, Entry, Logged, Mark, SCOPES,
};
pub use annotations::{AnnotationChange, AnnotationFilter, NewAnnotation};
pub use boards::{Contents, DashboardChange, NewDashboard};
pub use bootstrap::{Bootstrapped, FirstStart, Prepared};
pub use changes::Ingested;
pub use cohort_calculation::DueCohort;
pub use cohort_filling::CohortToFill;
pub use cohort_members::NamedBy;
pub use cohorts::{CohortChange, CohortFilter, NewCohort, NewCohortKind};
pub use collaborators::Collaborator;
pub use dashboards::{DashboardFilter, DashboardView};
pub use db::{Db, Tx};
pub use dead_letters::{DeadLetter, NewDeadLetter};
pub use definition_room::DefinitionLimits;
pub use edit::Among;
pub use error::{Cause, Error, Result};
pub use event_definitions::{
    EventDefinitionChange, EventDefinitionFilter, EventDefinitionOrder, Origin, Sense,
};
pub use flags::{
    FLAGS_MAX, FlagChange, FlagFilter, FlagOrder, FlagPerson, HashKey, RoleAccess, ScannedPerson,
    Seen, Staleness, UpdatedFlag,
};
pub use groups::{GroupActivity, GroupFilter, GroupType, GroupTypeChange};
pub use ingest::{EventDeletion, IngestBatch, IngestRules, NextNumbers, ProjectChanges};
pub use insight_lists::{InsightFilter, InsightOrder};
pub use insight_making::{Copies, Source};
pub use insights::{INSIGHT_NAME_CHARS_MAX, InsightChange, InsightName, NewInsight};
pub use integrity::{Checked, check_file};
pub use keys::{KeyChange, KeyKeeper, NewKey, PersonalKey};
pub use looked::{CANNOT_SHOW, Looked};
pub use members::{Claim, Member, Standing};
pub use organizations::{OrganizationChange, OrganizationRow};
pub use persons::{PersonActivity, PersonFilter, PersonKey, PersonWithIds};
pub use projects::{NewProject, ProjectChange, ProjectRow};
pub use property_definitions::{PropertyDefinitionChange, PropertyDefinitionFilter};
pub use roles::{RoleChange, RoleMembership, RoleRow};
pub use scans::StoredPerson;
pub use search::{SearchFilter, SearchHit, Searched};
pub use secret::{NOBODYS_HASH, Secret, hash_password, sha256_mark, verify_password};
pub use sharing::{Shareable, Shared, Sharing, SharingChange};
pub use tags::{TAG_CHARS_MAX, TAGS_MAX, normalise_tags};
pub use tile_changes::{ContentChange, NewContent, NewTile, TileChange, TileCopy};
pub use tiles::TILES_MAX;
pub use tokens::TokenOwner;
pub use users::{NewEmail, NewPassword, NewUser, UserChange, UserRow};
pub use vault::Vault;
pub use warnings::WarningRow;

/// A handle that is cheap to clone; one per server.
#[derive(Clone)]
pub struct Catalog {
    db: Arc<Db>,
    clock: Clock,
    vault: Arc<Vault>,
    /// The first journal position that is not applied yet, as far as this process knows.
    applied: Arc<watch::Sender<u64>>,
    /// Told when a cohort is to be calculated.
    cohorts_wanted: Arc<Notify>,
    definitions: Arc<DefinitionRoom>,
}

/// Where the catalog lives.
#[derive(Clone, Debug)]
pub enum Location<'a> {
    /// The embedded default: one file.
    Sqlite(&'a Path),
    /// `postgres://…`
    Postgres(&'a str),
}

impl Catalog {
    /// Opens or creates the catalog, takes it for this process alone, and migrates it.
    pub async fn open(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, vault, clock).await?;
        catalog.db.own().await?;
        migrate::run(&catalog.db, &catalog.clock).await?;
        catalog.check_vault().await?;
        Ok(catalog)
    }

    /// Opens a catalog that a server may be using, for a command that makes one small change.
    pub async fn join(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, vault, clock).await?;
        migrate::check(&catalog.db).await?;
        catalog.check_vault().await?;
        Ok(catalog)
    }

    async fn attach(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let db = match location {
            Location::Sqlite(file) => Db::sqlite(file).await?,
            Location::Postgres(url) => Db::postgres(url).await?,
        };
        let applied = Arc::new(watch::Sender::new(0));
        let (db, vault, cohorts_wanted) = (Arc::new(db), Arc::new(vault), Arc::default());
        let definitions = Arc::default();
        Ok(Self { db, clock, vault, applied, cohorts_wanted, definitions })
    }

    /// Sees that no other server has taken the catalog since its connection broke, and takes it
    /// again; fails with [`Error::Owned`] when one has.
    pub async fn keep(&self) -> Result<()> {
        self.db.own().await
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Fails when the database cannot answer.
    pub async fn ping(&self) -> Result<()> {
        self.db.all("SELECT 1", args![]).await.map(drop)
    }

    /// How many statements ran so far; tests use it to find queries in a loop.
    pub fn statements(&self) -> u64 {
        self.db.statements()
    }

    /// Copies an embedded catalog, as it is at one moment, into a new file.
    pub async fn copy_to(&self, file: &Path) -> Result<()> {
        self.db.copy_to(file).await
    }

    pub async fn begin(&self) -> Result<Tx> {
        self.db.begin().await
    }

    pub async fn close(&self) {
        self.db.close().await;
    }
}
