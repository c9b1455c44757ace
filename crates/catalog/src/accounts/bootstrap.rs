//! First start: creates an organization, its owner, project 1 and their keys in an empty catalog.

use model::scope::Scopes;
use model::{MembershipLevel, ProjectId};

use tokio::task::JoinHandle;

use super::keys::{self, NewKey};
use super::setup_links::{self, NewSetupLink, SetupPurpose};
use super::users::{self, NewUser};
use super::{Bootstrap, members, organizations};
use crate::Result;
use crate::activity::Actor;
use crate::db::args;
use crate::db::secret::{Secret, hash_password};
use crate::projects::{self, NewProject};

/// Values that the operator chose. Absent keys are generated, and shown once; without a password
/// there is a setup link.
#[derive(Default)]
pub struct BootstrapOptions {
    pub project_api_key: Option<Secret>,
    pub personal_api_key: Option<Secret>,
    pub admin_email: Option<String>,
    pub admin_password: Option<Secret>,
}

/// What the bootstrap created. The secrets cannot be read again afterwards.
#[derive(Debug)]
pub struct Bootstrapped {
    pub project: ProjectId,
    pub project_api_key: Secret,
    pub personal_api_key: Secret,
    pub admin_email: String,
    /// By which the administrator sets a password; none if the operator chose one.
    pub setup_link: Option<NewSetupLink>,
}

/// Bootstrap options whose password is being hashed in the background.
pub struct PreparedBootstrap {
    created: Bootstrapped,
    hash: Option<JoinHandle<Result<String>>>,
}

impl BootstrapOptions {
    /// Generates the absent keys and starts to hash the password. Hashing takes as long as
    /// opening an empty catalog, so a caller who knows that the catalog is new runs both
    /// concurrently.
    pub fn prepare(self) -> PreparedBootstrap {
        let values = Bootstrapped {
            project: ProjectId(1),
            project_api_key: self.project_api_key.unwrap_or_else(|| Secret::random("phc_")),
            personal_api_key: self.personal_api_key.unwrap_or_else(|| Secret::random("phx_")),
            admin_email: self.admin_email.unwrap_or_else(|| ADMIN_EMAIL.into()),
            setup_link: None,
        };
        let hash = self
            .admin_password
            .map(|password| tokio::task::spawn_blocking(move || hash_password(password.reveal())));
        PreparedBootstrap { created: values, hash }
    }
}

const ADMIN_EMAIL: &str = "admin@hedgerow.local";

impl Bootstrap<'_> {
    /// Fills an empty catalog in one transaction; none if it is not empty.
    pub(crate) async fn run(self, given: BootstrapOptions) -> Result<Option<Bootstrapped>> {
        match self.is_empty().await? {
            true => self.fill(given.prepare()).await.map(Some),
            false => Ok(None),
        }
    }

    /// Like [`Self::run`], with options that were prepared before the catalog was open.
    pub(crate) async fn run_prepared(
        self,
        prepared: PreparedBootstrap,
    ) -> Result<Option<Bootstrapped>> {
        match self.is_empty().await? {
            true => self.fill(prepared).await.map(Some),
            false => Ok(None),
        }
    }

    async fn is_empty(self) -> Result<bool> {
        let begun = "SELECT 1 AS begun FROM organizations LIMIT 1";
        Ok(self.core.db.optional(begun, args![]).await?.is_none())
    }

    async fn fill(
        self,
        PreparedBootstrap { created, hash }: PreparedBootstrap,
    ) -> Result<Bootstrapped> {
        let hash = match hash {
            Some(hash) => Some(hash.await.map_err(|why| crate::Error::corrupt("password", why))??),
            None => None,
        };
        let has_password = hash.is_some();
        let now = self.core.clock.now();
        let mut tx = self.core.db.begin().await?;
        let organization = organizations::insert(&mut tx, "My organization", now).await?;
        let new = NewUser {
            email: created.admin_email.clone(),
            first_name: "Admin".into(),
            password_hash: hash,
        };
        let owner = users::insert(&mut tx, &new, now).await?;
        members::insert(&mut tx, organization.id, owner, MembershipLevel::Owner, now).await?;
        let new = NewProject { api_token: created.project_api_key.clone(), ..NewProject::first() };
        let project = projects::insert(&mut tx, organization.id, new, now).await?;
        tx.run(
            "UPDATE users SET current_organization_id = $2, current_project_id = $3, \
             is_staff = TRUE WHERE id = $1",
            args![owner, organization.id, project.id],
        )
        .await?;
        let key = NewKey {
            label: "First start".into(),
            scopes: Scopes::all(),
            scoped_teams: None,
            scoped_organizations: None,
        };
        let key = keys::insert(&mut tx, owner, key, created.personal_api_key.clone(), now).await?;
        let actor = Actor { user: None, organization: organization.id, project: Some(project.id) };
        tx.log_created(&actor, &project, now).await?;
        tx.log_created(&actor, &key, now).await?;
        let setup_link = match has_password {
            true => None,
            false => {
                let purpose = SetupPurpose::FirstStart;
                Some(setup_links::insert(&mut tx, owner, purpose, now).await?)
            }
        };
        tx.commit().await?;
        Ok(Bootstrapped { project: project.id, setup_link, ..created })
    }
}
