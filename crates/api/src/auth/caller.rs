//! Extractors that authenticate and authorize the caller, so that a handler's signature states
//! the permission it needs.
//!
//! Every extractor checks in the same order, which callers can observe: credentials (401), the
//! project or organization (404), the key's restrictions (403), its scope (403), membership (403).
//! The handler then loads the object and reads the body.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use catalog::{Actor, EffectiveAccess, OrganizationRow, PersonalKey, ProjectRow, Secret, UserRow};
use model::scope::{Access, Required};
use model::{Access as Rules, MembershipLevel, OrganizationId, ProjectId, Viewer};
use schemars::SchemaGenerator;
use uuid::Uuid;

use crate::auth::credentials::{self, Credentials};
use crate::auth::hogql_scope;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::http::path::query_parameter;
use crate::{AppState, Error, Result};

const PROJECT_NOT_FOUND: &str = "Project not found.";

/// A kind of object that API key scopes name.
pub trait Resource {
    const SCOPE: &'static str;
}

pub struct Read;
pub struct Write;

/// Whether an extractor requires read or write access.
pub trait Mode {
    const ACCESS: Access;
}

impl Mode for Read {
    const ACCESS: Access = Access::Read;
}

impl Mode for Write {
    const ACCESS: Access = Access::Write;
}

/// May read `R` in the project of the path.
pub type Reader<R> = InProject<R, Read>;
/// May change `R` in the project of the path.
pub type Writer<R> = InProject<R, Write>;
/// May read `R` in the organization of the path.
pub type OrganizationReader<R> = InOrganization<R, Read>;
/// May change `R` in the organization of the path.
pub type OrganizationWriter<R> = InOrganization<R, Write>;
/// May read `R`, which belongs to no project.
pub type AccountReader<R> = OnAccount<R, Read>;
/// May change `R`, which belongs to no project.
pub type AccountWriter<R> = OnAccount<R, Write>;

pub struct InProject<R, M> {
    pub user: UserRow,
    pub project: ProjectRow,
    /// The effective membership level in the project; access rules may raise it.
    pub level: MembershipLevel,
    /// The project's access rules as they apply to the caller.
    pub rules: Arc<Rules>,
    /// Authenticated by a personal API key rather than a browser session.
    pub by_key: bool,
    credentials: Credentials,
    of: PhantomData<fn() -> (R, M)>,
}

pub struct InOrganization<R, M> {
    pub user: UserRow,
    pub organization: OrganizationRow,
    pub level: MembershipLevel,
    credentials: Credentials,
    of: PhantomData<fn() -> (R, M)>,
}

pub struct OnAccount<R, M> {
    pub user: UserRow,
    /// The personal API key; none for a browser session.
    pub key: Option<PersonalKey>,
    /// The browser session; none for a personal API key.
    pub session: Option<Secret>,
    of: PhantomData<fn() -> (R, M)>,
}

impl<R, M> InProject<R, M> {
    pub fn actor(&self) -> Actor {
        Actor {
            user: Some(self.user.user.id),
            organization: self.project.organization,
            project: Some(self.project.id),
        }
    }

    /// The caller as access checks of the project's objects need them.
    pub fn viewer(&self) -> Viewer<'_> {
        let (user, is_admin) = (self.user.user.id, self.is_admin());
        Viewer { user, is_admin, access: &self.rules }
    }

    /// True for the organization's owners and administrators, and for members whom an access rule
    /// makes administrators of the project.
    pub fn is_admin(&self) -> bool {
        self.level >= MembershipLevel::Admin
    }

    /// Whether the caller may see the instance's status: staff, with a key that is not restricted.
    pub fn may_see_instance(&self) -> bool {
        self.user.is_staff
            && self.may_read("organization").is_ok()
            && self.credentials.reject_project_scoped_key().is_ok()
    }

    /// Rejects a key without the scope to read `object`, which is not the endpoint's own.
    pub fn may_read(&self, object: &str) -> Result<()> {
        self.credentials.may(object, Access::Read)
    }

    pub fn require_administrator(&self) -> Result<()> {
        if !self.is_admin() {
            return Err(Error::forbidden("You don't have sufficient permissions in the project."));
        }
        Ok(())
    }
}

impl<R, M> InOrganization<R, M> {
    pub fn actor(&self) -> Actor {
        Actor { user: Some(self.user.user.id), organization: self.organization.id, project: None }
    }

    pub fn require(&self, level: MembershipLevel) -> Result<()> {
        if self.level < level {
            return Err(Error::forbidden("Your organization access level is insufficient."));
        }
        Ok(())
    }
}

impl<R, M> OnAccount<R, M> {
    /// Changes to an account are logged in its current organization and project.
    pub fn actor(&self) -> Result<Actor> {
        let organization = self
            .user
            .current_organization
            .ok_or_else(|| Error::not_found_because("You belong to no organization."))?;
        Ok(Actor {
            user: Some(self.user.user.id),
            organization,
            project: self.user.current_project,
        })
    }
}

impl<R, M> FromRequestParts<AppState> for InProject<R, M>
where
    R: Resource,
    M: Mode,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let token = query_parameter(parts, "token").filter(|token| !token.is_empty());
        Self::in_project_of(parts, app, token.as_deref()).await
    }
}

impl<R: Resource, M: Mode> InProject<R, M> {
    /// Like the extractor, in the project of `token`, or of the path without one.
    pub(crate) async fn in_project_of(
        parts: &mut Parts,
        app: &AppState,
        token: Option<&str>,
    ) -> Result<Self> {
        let credentials = credentials::authenticate(parts, app).await?;
        let project = project(parts, app, &credentials, token).await?;
        let caller = Self::authorize(app, credentials, project).await?;
        if caller.may_read("query").is_err() && hogql_scope::contains_hogql(parts) {
            caller.may_read("query")?;
        }
        Ok(caller)
    }

    /// Authorizes the same caller for the same access in another project.
    pub(crate) async fn elsewhere(&self, app: &AppState, id: ProjectId) -> Result<Self> {
        Self::authorize(app, self.credentials.clone(), load_project(app, id).await?).await
    }

    /// Authorizes the same caller for the same access in the project's organization.
    pub(crate) async fn in_organization(&self, app: &AppState) -> Result<InOrganization<R, M>> {
        let organization = app.catalog.organizations().get(self.project.organization).await?;
        let (scope, access) = (R::SCOPE, M::ACCESS);
        let level =
            authorize_in_organization(app, &self.credentials, &organization, scope, access).await?;
        let (user, credentials) = (self.user.clone(), self.credentials.clone());
        Ok(InOrganization { user, organization, level, credentials, of: PhantomData })
    }

    async fn authorize(
        app: &AppState,
        credentials: Credentials,
        project: ProjectRow,
    ) -> Result<Self> {
        let standing =
            authorize_in_project(app, &credentials, &project, R::SCOPE, M::ACCESS).await?;
        let (by_key, rules) = (credentials.is_key(), Arc::new(standing.access));
        let (user, level) = (credentials.user().clone(), standing.level);
        Ok(Self { user, project, level, rules, by_key, credentials, of: PhantomData })
    }
}

impl<R: Resource, M: Mode> InOrganization<R, M> {
    /// Authorizes the same caller for the same access in a project of the organization.
    pub(crate) async fn in_project(
        &self,
        app: &AppState,
        id: ProjectId,
    ) -> Result<InProject<R, M>> {
        let project = load_project(app, id).await?;
        if project.organization != self.organization.id {
            return Err(Error::not_found_because(PROJECT_NOT_FOUND));
        }
        InProject::authorize(app, self.credentials.clone(), project).await
    }
}

impl<R, M> FromRequestParts<AppState> for InOrganization<R, M>
where
    R: Resource,
    M: Mode,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let credentials = credentials::authenticate(parts, app).await?;
        let organization = organization(parts, app, &credentials).await?;
        let level =
            authorize_in_organization(app, &credentials, &organization, R::SCOPE, M::ACCESS)
                .await?;
        let user = credentials.user().clone();
        Ok(Self { user, organization, level, credentials, of: PhantomData })
    }
}

impl<R, M> FromRequestParts<AppState> for OnAccount<R, M>
where
    R: Resource,
    M: Mode,
{
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let credentials = credentials::authenticate(parts, app).await?;
        // A key restricted to projects may reach its own user and nothing else outside them.
        if R::SCOPE != "user" {
            credentials.reject_project_scoped_key()?;
        }
        credentials.may(R::SCOPE, M::ACCESS)?;
        let session = credentials.session().cloned();
        let (user, key) = credentials.into_parts();
        Ok(Self { user, key, session, of: PhantomData })
    }
}

/// The checks of OPTIONS, which finds out from the path's parameters whether it is about a project,
/// an organization or the account.
pub(crate) async fn may_read(parts: &mut Parts, app: &AppState, object: &str) -> Result<()> {
    let credentials = credentials::authenticate(parts, app).await?;
    let parameters = parameters(parts).await?;
    if parameters.contains_key("project_id") {
        let token = query_parameter(parts, "token").filter(|token| !token.is_empty());
        let project = project(parts, app, &credentials, token.as_deref()).await?;
        authorize_in_project(app, &credentials, &project, object, Access::Read).await?;
        return Ok(());
    }
    if parameters.contains_key("organization_id") {
        let organization = organization(parts, app, &credentials).await?;
        authorize_in_organization(app, &credentials, &organization, object, Access::Read).await?;
        return Ok(());
    }
    if object != "user" {
        credentials.reject_project_scoped_key()?;
    }
    credentials.may(object, Access::Read)
}

async fn authorize_in_project(
    app: &AppState,
    credentials: &Credentials,
    project: &ProjectRow,
    object: &str,
    access: Access,
) -> Result<EffectiveAccess> {
    credentials.require_project(project)?;
    credentials.may(object, access)?;
    let user = credentials.user().user.id;
    let standing = app.catalog.access().effective(user, project.id).await?;
    let standing =
        standing.ok_or_else(|| Error::forbidden("You don't have access to the project."))?;
    check_keys(credentials, standing.may_use_keys)?;
    Ok(standing)
}

async fn authorize_in_organization(
    app: &AppState,
    credentials: &Credentials,
    organization: &OrganizationRow,
    object: &str,
    access: Access,
) -> Result<MembershipLevel> {
    credentials.require_organization(organization.id)?;
    credentials.may(object, access)?;
    level(app, credentials, organization.id)
        .await?
        .ok_or_else(|| Error::not_found_because("Organization not found."))
}

/// The caller's level in an organization, whose settings may forbid members to use API keys.
async fn level(
    app: &AppState,
    credentials: &Credentials,
    organization: OrganizationId,
) -> Result<Option<MembershipLevel>> {
    let user = credentials.user().user.id;
    let Some(standing) = app.catalog.members().access(user, organization).await? else {
        return Ok(None);
    };
    check_keys(credentials, standing.may_use_keys)?;
    Ok(Some(standing.level))
}

fn check_keys(credentials: &Credentials, may_use_keys: bool) -> Result<()> {
    if credentials.is_key() && !may_use_keys {
        return Err(Error::forbidden(
            "Your organization does not allow its members to use personal API keys.",
        ));
    }
    Ok(())
}

async fn parameters(parts: &mut Parts) -> Result<HashMap<String, String>> {
    Path::<HashMap<String, String>>::from_request_parts(parts, &())
        .await
        .map(|Path(parameters)| parameters)
        .map_err(|_| Error::not_found())
}

/// The project that the path names by id; none for `@current`.
pub(crate) async fn project_in_path(
    parts: &mut Parts,
    app: &AppState,
) -> Result<Option<ProjectRow>> {
    match parameters(parts).await?.get("project_id").map_or("@current", String::as_str) {
        "@current" => Ok(None),
        text => {
            let id = text.parse().map_err(|_| Error::not_found_because(PROJECT_NOT_FOUND))?;
            load_project(app, ProjectId(id)).await.map(Some)
        }
    }
}

async fn load_project(app: &AppState, id: ProjectId) -> Result<ProjectRow> {
    app.catalog.projects().get(id).await.map_err(|error| match error {
        catalog::Error::NotFound => Error::not_found_because(PROJECT_NOT_FOUND),
        other => other.into(),
    })
}

async fn project(
    parts: &mut Parts,
    app: &AppState,
    credentials: &Credentials,
    token: Option<&str>,
) -> Result<ProjectRow> {
    let missing = || Error::not_found_because(PROJECT_NOT_FOUND);
    let within = match parameters(parts).await?.contains_key("organization_id") {
        true => Some(organization(parts, app, credentials).await?.id),
        false => None,
    };
    let project = match token {
        Some(token) => {
            let owner = app.catalog.projects().by_token(token).await?.ok_or_else(|| {
                Error::unauthorized("invalid_api_key", "The project token is not valid.")
            })?;
            load_project(app, owner.project).await?
        }
        None => match project_in_path(parts, app).await? {
            Some(project) => project,
            None => {
                load_project(app, credentials.user().current_project.ok_or_else(missing)?).await?
            }
        },
    };
    if within.is_some_and(|organization| organization != project.organization) {
        return Err(missing());
    }
    Ok(project)
}

async fn organization(
    parts: &mut Parts,
    app: &AppState,
    credentials: &Credentials,
) -> Result<OrganizationRow> {
    let missing = || Error::not_found_because("Organization not found.");
    let parameters = parameters(parts).await?;
    let id = match parameters.get("organization_id").map_or("@current", String::as_str) {
        "@current" => credentials.user().current_organization.ok_or_else(missing)?,
        text => OrganizationId(Uuid::parse_str(text).map_err(|_| missing())?),
    };
    app.catalog.organizations().get(id).await.map_err(|error| match error {
        catalog::Error::NotFound => missing(),
        other => other.into(),
    })
}

macro_rules! describes_its_scope {
    ($($caller:ident),*) => {$(
        impl<R: Resource, M: Mode> DescribeRequest for $caller<R, M> {
            fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
                operation.requires(Required { object: R::SCOPE, access: M::ACCESS }.to_string());
            }
        }
    )*};
}
describes_its_scope!(InProject, InOrganization, OnAccount);
