//! Members of an organization.

use catalog::{Member, NewUser, RequestPassword};
use model::MembershipLevel;
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use crate::auth::caller::InOrganization;
use crate::auth::login_limits::{check_email, check_password};
use crate::http::body::{max_chars, present};
use crate::{
    App, Body, Created, Error, IsPut, Json, Listing, NoContent, OrganizationReader,
    OrganizationWriter, Page, Resource, Result, Routes, StringId,
};

/// Upstream's documented length of a name.
const FIRST_NAME_CHARS_MAX: usize = 150;

impl Resource for Member {
    const SCOPE: &'static str = "organization_member";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/organizations/{organization_id}/members", list)
        .post("/api/organizations/{organization_id}/members", create)
        .get("/api/organizations/{organization_id}/members/{id}", read)
        .patch("/api/organizations/{organization_id}/members/{id}", update)
        .delete("/api/organizations/{organization_id}/members/{id}", destroy)
}

async fn list(caller: OrganizationReader<Member>, page: Page, app: App) -> Result<Listing<Member>> {
    let (members, total) = app.catalog.members().list(caller.organization.id, page.window).await?;
    Ok(page.listing(members, total))
}

#[derive(Deserialize, JsonSchema)]
struct CreateMember {
    email: String,
    #[serde(default)]
    first_name: String,
    /// Required for a new account and rejected for an existing one, which keeps its own.
    #[serde(default, deserialize_with = "present")]
    password: Option<String>,
    #[serde(default, deserialize_with = "present")]
    level: Option<MembershipLevel>,
}

async fn create(
    caller: OrganizationWriter<Member>,
    app: App,
    body: Body<CreateMember>,
) -> Result<Created<Member>> {
    caller.require(MembershipLevel::Admin)?;
    let body = body.read()?;
    let email = check_email(&body.email)?;
    let first_name = body.first_name.trim().to_owned();
    max_chars("first_name", &first_name, FIRST_NAME_CHARS_MAX)?;
    if let Some(password) = &body.password {
        check_password("password", password)?;
    }
    let level = body.level.unwrap_or(MembershipLevel::Member);
    // Look the account up before hashing a password, which costs 19 MiB and CPU time.
    if app.catalog.users().by_email(&email).await?.is_some() {
        let claim = match body.password {
            Some(_) => RequestPassword::Present,
            None => RequestPassword::Absent,
        };
        let member =
            app.catalog.members().add_account(&caller.actor(), &email, level, claim).await?;
        return Ok(Created(member));
    }
    let password = body.password.ok_or_else(|| Error::required("password"))?;
    let password_hash = Some(app.login_limiter.hash(password).await?);
    let new = NewUser { email, first_name, password_hash };
    Ok(Created(app.catalog.members().add(&caller.actor(), new, level).await?))
}

async fn read(caller: OrganizationReader<Member>, id: StringId, app: App) -> Result<Json<Member>> {
    let user = caller.member_id(&id)?;
    Ok(Json(app.catalog.members().get(caller.organization.id, user).await?))
}

#[derive(Deserialize, JsonSchema)]
struct UpdateMember {
    #[serde(default, deserialize_with = "present")]
    level: Option<MembershipLevel>,
}

async fn update(
    caller: OrganizationWriter<Member>,
    is_put: IsPut,
    id: StringId,
    app: App,
    body: Body<UpdateMember>,
) -> Result<Json<Member>> {
    let user = caller.member_id(&id)?;
    let member = app.catalog.members().get(caller.organization.id, user).await?;
    if user != caller.user.user.uuid {
        caller.require(MembershipLevel::Admin)?;
    }
    match body.read()?.level {
        Some(level) => {
            Ok(Json(app.catalog.members().set_level(&caller.actor(), user, level).await?))
        }
        None if is_put.0 => Err(Error::required("level")),
        None => Ok(Json(member)),
    }
}

async fn destroy(caller: OrganizationWriter<Member>, id: StringId, app: App) -> Result<NoContent> {
    let user = caller.member_id(&id)?;
    app.catalog.members().remove(&caller.actor(), user).await?;
    Ok(NoContent)
}

impl<M> InOrganization<Member, M> {
    /// The uuid of the member's user; `@me` is the caller.
    pub(super) fn member_id(&self, id: &StringId) -> Result<Uuid> {
        match id.0.as_str() {
            "@me" => Ok(self.user.user.uuid),
            text => Uuid::parse_str(text).map_err(|_| Error::not_found()),
        }
    }
}
