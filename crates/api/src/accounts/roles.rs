//! Roles of an organization and their members.

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use catalog::{RoleChange, RoleMembership, RoleRow};
use model::{FlagAccess, FlagId, MembershipLevel, Timestamp, User};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashMap;
use uuid::Uuid;

use crate::accounts::organizations::Organization;
use crate::http::body::{max_chars, not_blank, present};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{
    App, AppState, Body, Created, Error, IsPut, Json, Listing, NoContent, OrganizationReader,
    OrganizationWriter, Page, Result, Routes, UuidParam,
};

/// Upstream's documented length of a name.
const NAME_CHARS_MAX: usize = 200;

/// A role as the API shows it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Role {
    id: Uuid,
    name: String,
    feature_flags_access_level: FlagAccess,
    created_at: Timestamp,
    /// Null in responses about roles: Terraform's provider fails to parse an object here.
    created_by: Option<User>,
    members: Vec<RoleMembership>,
    is_default: bool,
    associated_flags: Vec<AssociatedFlag>,
}

/// A flag that the role may edit.
#[derive(Serialize, JsonSchema)]
struct AssociatedFlag {
    id: FlagId,
    key: String,
}

impl Role {
    pub(crate) fn id(&self) -> Uuid {
        self.id
    }
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/organizations/{organization_id}/roles", list)
        .post("/api/organizations/{organization_id}/roles", create)
        .get("/api/organizations/{organization_id}/roles/{role_id}", read)
        .patch("/api/organizations/{organization_id}/roles/{role_id}", update)
        .delete("/api/organizations/{organization_id}/roles/{role_id}", destroy)
        .get("/api/organizations/{organization_id}/roles/{role_id}/role_memberships", list_members)
        .post("/api/organizations/{organization_id}/roles/{role_id}/role_memberships", add_member)
        .get(
            "/api/organizations/{organization_id}/roles/{role_id}/role_memberships/{uuid}",
            read_member,
        )
        .delete(
            "/api/organizations/{organization_id}/roles/{role_id}/role_memberships/{uuid}",
            remove_member,
        )
}

async fn list(
    caller: OrganizationReader<Organization>,
    page: Page,
    app: App,
) -> Result<Listing<Role>> {
    let (rows, total) = app.catalog.roles().list(caller.organization.id, page.window).await?;
    Ok(page.listing(to_roles(&app, caller.level, rows).await?, total))
}

#[derive(Deserialize, JsonSchema)]
struct RoleFields {
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    feature_flags_access_level: Option<FlagAccess>,
}

impl RoleFields {
    fn validate(self) -> Result<RoleChange> {
        let name = self.name.map(|name| name.trim().to_owned());
        if let Some(name) = &name {
            not_blank("name", name)?;
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        Ok(RoleChange { name, feature_flags_access_level: self.feature_flags_access_level })
    }
}

async fn create(
    caller: OrganizationWriter<Organization>,
    app: App,
    body: Body<RoleFields>,
) -> Result<Created<Role>> {
    caller.require(MembershipLevel::Admin)?;
    let given = body.read()?.validate()?;
    let name = given.name.ok_or_else(|| Error::required("name"))?;
    let access = given.feature_flags_access_level.unwrap_or(FlagAccess::Edit);
    let role = app.catalog.roles().create(&caller.actor(), name, access).await?;
    Ok(Created(to_role(&app, caller.level, role).await?))
}

async fn read(
    caller: OrganizationReader<Organization>,
    id: RoleId,
    app: App,
) -> Result<Json<Role>> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    Ok(Json(to_role(&app, caller.level, role).await?))
}

async fn update(
    caller: OrganizationWriter<Organization>,
    is_put: IsPut,
    id: RoleId,
    app: App,
    body: Body<RoleFields>,
) -> Result<Json<Role>> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    caller.require(MembershipLevel::Admin)?;
    let change = body.read()?.validate()?;
    if is_put.0 && change.name.is_none() {
        return Err(Error::required("name"));
    }
    let changed = app.catalog.roles().update(&caller.actor(), role.id, change).await?;
    Ok(Json(to_role(&app, caller.level, changed).await?))
}

async fn destroy(
    caller: OrganizationWriter<Organization>,
    id: RoleId,
    app: App,
) -> Result<NoContent> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    caller.require(MembershipLevel::Admin)?;
    app.catalog.roles().delete(&caller.actor(), role.id).await?;
    Ok(NoContent)
}

async fn list_members(
    caller: OrganizationReader<Organization>,
    id: RoleId,
    page: Page,
    app: App,
) -> Result<Listing<RoleMembership>> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    let (rows, total) = app.catalog.roles().memberships(role.id, page.window).await?;
    Ok(page.listing(rows, total))
}

#[derive(Deserialize, JsonSchema)]
struct AddMember {
    user_uuid: Uuid,
}

/// An unknown role is a 400, not a 404, as upstream has it.
async fn add_member(
    caller: OrganizationWriter<Organization>,
    id: RoleId,
    app: App,
    body: Body<AddMember>,
) -> Result<Created<RoleMembership>> {
    caller.require(MembershipLevel::Admin)?;
    let missing = || Error::bad_request("Role does not exist.");
    let role = id.uuid().map_err(|_| missing())?;
    let role =
        app.catalog.roles().get(caller.organization.id, role).await.map_err(
            |error| match error {
                catalog::Error::NotFound => missing(),
                other => other.into(),
            },
        )?;
    let user = body.read()?.user_uuid;
    Ok(Created(app.catalog.roles().add_member(&caller.actor(), role.id, user).await?))
}

async fn read_member(
    caller: OrganizationReader<Organization>,
    id: RoleId,
    member: UuidParam,
    app: App,
) -> Result<Json<RoleMembership>> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    Ok(Json(app.catalog.roles().membership(role.id, member.0).await?))
}

async fn remove_member(
    caller: OrganizationWriter<Organization>,
    id: RoleId,
    member: UuidParam,
    app: App,
) -> Result<NoContent> {
    let role = app.catalog.roles().get(caller.organization.id, id.uuid()?).await?;
    app.catalog.roles().membership(role.id, member.0).await?;
    caller.require(MembershipLevel::Admin)?;
    app.catalog.roles().remove_member(&caller.actor(), role.id, member.0).await?;
    Ok(NoContent)
}

async fn to_role(app: &AppState, level: MembershipLevel, row: RoleRow) -> Result<Role> {
    let mut shown = to_roles(app, level, vec![row]).await?;
    shown.pop().ok_or_else(Error::not_found)
}

/// Adds members and flags, with two statements for any number of rows.
async fn to_roles(app: &AppState, level: MembershipLevel, rows: Vec<RoleRow>) -> Result<Vec<Role>> {
    // Access rules of a project may hide its flags from plain members.
    let mut roles = embedded(app, rows, |_| level >= MembershipLevel::Admin).await?;
    roles.iter_mut().for_each(|role| role.created_by = None);
    Ok(roles)
}

/// Roles nested in other objects: with their authors, and with the flags that `is_seen` admits.
pub(crate) async fn embedded(
    app: &AppState,
    rows: Vec<RoleRow>,
    is_seen: impl Fn(FlagId) -> bool,
) -> Result<Vec<Role>> {
    let ids: Vec<Uuid> = rows.iter().map(|role| role.id).collect();
    let mut members = app.catalog.roles().members_of(&ids).await?;
    let mut flags = app.catalog.flags().by_roles(&ids).await?;
    let shown = rows.into_iter().map(|row| {
        let flags = flags.remove(&row.id).unwrap_or_default().into_iter();
        let flags = flags.filter(|(id, _)| is_seen(*id));
        Role {
            members: members.remove(&row.id).unwrap_or_default(),
            id: row.id,
            name: row.name,
            feature_flags_access_level: row.feature_flags_access_level,
            created_at: row.created_at,
            created_by: row.created_by,
            is_default: row.is_default,
            associated_flags: flags.map(|(id, key)| AssociatedFlag { id, key }).collect(),
        }
    });
    Ok(shown.collect())
}

/// The path's `{role_id}`; none if it is not a uuid.
struct RoleId(Option<Uuid>);

impl RoleId {
    fn uuid(&self) -> Result<Uuid> {
        self.0.ok_or_else(Error::not_found)
    }
}

impl FromRequestParts<AppState> for RoleId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let Path(parameters) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
            .await
            .map_err(|_| Error::not_found())?;
        Ok(Self(parameters.get("role_id").and_then(|text| Uuid::parse_str(text).ok())))
    }
}

impl DescribeRequest for RoleId {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("role_id", json!({ "type": "string", "format": "uuid" }));
    }
}
