//! Relational truth: organizations, projects, users, keys, and everything people edit.
//!
//! Capture looks up tokens here, the API reads and writes it, and the pipeline stores persons, groups
//! and definitions in it together with its journal offset. SQL is written once for SQLite and
//! PostgreSQL; `db/dialect.rs` has the differences. The crate never speaks HTTP and holds no event
//! rows.
//!
//! Each folder is an area behind one or more handles, such as [`Catalog::flags`]. `xtask tidy`
//! checks which area may use which; what all of them need is in `db`.

mod access;
mod accounts;
mod activity;
mod activity_scopes;
mod cohorts;
mod dashboards;
mod db;
mod definitions;
mod feed;
mod flags;
mod ingest;
mod integrity;
mod objects;
mod persons;
mod projects;

use std::path::Path;
use std::sync::Arc;

use model::Clock;
use tokio::sync::Notify;

use db::{Core, args, migrate};
use definitions::quota::DefinitionQuota;
use ingest::IngestState;

pub use access::{AccessControl, AccessRule, EffectiveAccess, RuleSubject, RuleTarget};
pub use accounts::bootstrap::{BootstrapOptions, Bootstrapped, PreparedBootstrap};
pub use accounts::keys::{KeyChange, KeyEditor, NewKey, PersonalKey};
pub use accounts::members::{Member, MemberAccess, RequestPassword};
pub use accounts::organizations::{OrganizationChange, OrganizationRow};
pub use accounts::roles::{RoleChange, RoleMembership, RoleRow};
pub use accounts::setup_links::{InstanceSetup, NewSetupLink, Setup, SetupLink, SetupPurpose};
pub use accounts::users::{NewEmail, NewPassword, NewUser, UserChange, UserRow};
pub use accounts::{Keys, Members, Organizations, Roles, Sessions, SetupLinks, Users};
pub use activity::{
    Activity, ActivityChoices, ActivityFilter, Actor, Change, ChangeAction, Detail, Direction,
    Entry, LogCursor, Logged,
};
pub use activity_scopes::SCOPES;
pub use cohorts::calculation::DueCohort;
pub use cohorts::evaluation::CohortFilters;
pub use cohorts::filling::CohortFromFlag;
pub use cohorts::members::PersonIdKind;
pub use cohorts::usage::{CohortUser, CohortUsers};
pub use cohorts::{CohortChange, CohortFilter, Cohorts, NewCohort, NewCohortKind};
pub use dashboards::annotations::{AnnotationChange, AnnotationFilter, NewAnnotation};
pub use dashboards::board::{DashboardChange, DashboardContents, NewDashboard};
pub use dashboards::collaborators::Collaborator;
pub use dashboards::insight_lists::{InsightFilter, InsightOrder};
pub use dashboards::insight_variables::{InsightVariableChange, VARIABLES_MAX};
pub use dashboards::insight_writes::{CopyDepth, DashboardSource};
pub use dashboards::insights::{INSIGHT_NAME_CHARS_MAX, InsightChange, InsightName, NewInsight};
pub use dashboards::revalidate::{CheckedInsights, LINK_EXPOSES_HIDDEN};
pub use dashboards::rows::{DashboardFilter, DashboardView};
pub use dashboards::sharing::{ResolvedLink, ShareTarget, SharingChange, SharingConfig};
pub use dashboards::tile_changes::{ContentChange, NewContent, NewTile, TileChange, TileCopy};
pub use dashboards::tiles::TILES_MAX;
pub use dashboards::{
    Annotations, Collaborators, Dashboards, InsightVariables, Insights, SharingLinks,
};
pub use db::error::{Cause, Error, Result};
pub use db::secret::{DUMMY_PASSWORD_HASH, Secret, hash_password, hash_token, verify_password};
pub use db::vault::Vault;
pub use db::{Db, Tx};
pub use definitions::actions::{ActionChange, NewAction};
pub use definitions::events::{
    EventDefinitionChange, EventDefinitionFilter, EventDefinitionOrder, Origin, SortOrder,
};
pub use definitions::properties::{PropertyDefinitionChange, PropertyDefinitionFilter};
pub use definitions::quota::DefinitionLimits;
pub use definitions::{Actions, Definitions, EventDefinitions, PropertyDefinitions};
pub use feed::{Changed, FedDistinctId, Feed, FeedChange};
pub use flags::{
    ExpectedVersion, FLAGS_MAX, FlagChange, FlagFilter, FlagOrder, FlagPerson, Flags, HashKey,
    RoleGrant, Staleness, TagEdit, UpdatedFlag,
};
pub use ingest::dead_letters::{DeadLetter, NewDeadLetter};
pub use ingest::listeners::IngestOutcome;
pub use ingest::warnings::WarningRow;
pub use ingest::{
    DeadLetters, EventDeletion, Ingest, IngestBatch, IngestRules, ProjectChanges, Warnings,
};
pub use integrity::{FileCheck, check_file};
pub use objects::Objects;
pub use objects::edit::Deleted;
pub use objects::search::{SearchFilter, SearchHit, SearchKind};
pub use objects::tags::{TAG_CHARS_MAX, TAGS_MAX, normalize_tags};
pub use persons::groups::{GroupActivity, GroupFilter, GroupType, GroupTypeChange};
pub use persons::identities::{FIRST_DENSE_ID, NextDenseIds};
pub use persons::scans::{PersonProperties, PersonSource, ScannedPerson, StoredPerson};
pub use persons::{Groups, PersonActivity, PersonFilter, PersonKey, PersonWithIds, Persons};
pub use projects::tokens::TokenOwner;
pub use projects::{AccessRules, NewProject, ProjectChange, ProjectRow, Projects};

/// The catalog of one server; cheap to clone. Each area has a handle.
#[derive(Clone)]
pub struct Catalog {
    core: Arc<Core>,
    /// Notified when a cohort is to be calculated.
    cohorts_requested: Arc<Notify>,
    definition_quota: Arc<DefinitionQuota>,
    ingest: Arc<IngestState>,
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
    /// Opens or creates the catalog, takes exclusive ownership of it, and migrates it.
    pub async fn open(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, vault, clock).await?;
        catalog.core.db.take_ownership().await?;
        migrate::run(&catalog.core.db, &catalog.core.clock).await?;
        catalog.core.check_vault().await?;
        Ok(catalog)
    }

    /// Opens a catalog that a server may be using, for a command that makes one small change.
    pub async fn join(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let catalog = Self::attach(location, vault, clock).await?;
        migrate::check(&catalog.core.db).await?;
        catalog.core.check_vault().await?;
        Ok(catalog)
    }

    async fn attach(location: Location<'_>, vault: Vault, clock: Clock) -> Result<Self> {
        let db = match location {
            Location::Sqlite(file) => Db::sqlite(file).await?,
            Location::Postgres(url) => Db::postgres(url).await?,
        };
        Ok(Self {
            core: Arc::new(Core { db, clock, vault }),
            cohorts_requested: Arc::default(),
            definition_quota: Arc::default(),
            ingest: Arc::default(),
        })
    }

    /// Renews the ownership that [`Catalog::open`] took, after a broken connection; fails with
    /// [`Error::Owned`] when another server has taken the catalog since.
    pub async fn renew_ownership(&self) -> Result<()> {
        self.core.db.take_ownership().await
    }

    pub fn clock(&self) -> &Clock {
        &self.core.clock
    }

    /// Fails when the database does not respond.
    pub async fn ping(&self) -> Result<()> {
        self.core.db.all("SELECT 1", args![]).await.map(drop)
    }

    /// How many statements ran so far; tests use it to find N+1 queries.
    pub fn statements(&self) -> u64 {
        self.core.db.statements()
    }

    /// Copies an embedded catalog, as one snapshot, into a new file.
    pub async fn copy_to(&self, file: &Path) -> Result<()> {
        self.core.db.copy_to(file).await
    }

    pub async fn begin(&self) -> Result<Tx> {
        self.core.db.begin().await
    }

    pub async fn close(&self) {
        self.core.db.close().await;
    }

    /// Fills an empty catalog with the first organization, user, project and keys, in one
    /// transaction; none when it is not empty.
    pub async fn bootstrap(&self, given: BootstrapOptions) -> Result<Option<Bootstrapped>> {
        accounts::Bootstrap::new(&self.core).run(given).await
    }

    /// The same for a start that was prepared before the catalog was open.
    pub async fn bootstrap_prepared(
        &self,
        prepared: PreparedBootstrap,
    ) -> Result<Option<Bootstrapped>> {
        accounts::Bootstrap::new(&self.core).run_prepared(prepared).await
    }
}

macro_rules! handles {
    ($($method:ident: $handle:ident),+ $(,)?) => {
        impl Catalog {
            $(pub fn $method(&self) -> $handle<'_> {
                $handle::new(&self.core)
            })+
        }
    };
}

handles! {
    access: AccessControl,
    access_rules: AccessRules,
    actions: Actions,
    activity: Activity,
    annotations: Annotations,
    collaborators: Collaborators,
    dashboards: Dashboards,
    dead_letters: DeadLetters,
    event_definitions: EventDefinitions,
    feed: Feed,
    flags: Flags,
    groups: Groups,
    insight_variables: InsightVariables,
    insights: Insights,
    keys: Keys,
    members: Members,
    objects: Objects,
    organizations: Organizations,
    persons: Persons,
    projects: Projects,
    property_definitions: PropertyDefinitions,
    roles: Roles,
    sessions: Sessions,
    setup_links: SetupLinks,
    sharing: SharingLinks,
    users: Users,
    warnings: Warnings,
}

/// The handles of areas with state in memory.
impl Catalog {
    pub fn cohorts(&self) -> Cohorts<'_> {
        Cohorts { core: &self.core, requested: &self.cohorts_requested }
    }

    pub fn definitions(&self) -> Definitions<'_> {
        Definitions { core: &self.core, quota: &self.definition_quota }
    }

    pub fn ingest(&self) -> Ingest<'_> {
        Ingest { core: &self.core, state: &self.ingest, quota: &self.definition_quota }
    }
}
