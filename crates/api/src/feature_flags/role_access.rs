//! Roles that are granted edit access to a flag.

use std::collections::HashMap;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use catalog::RoleGrant;
use model::flag::FeatureFlag;
use model::{FlagId, ObjectKind, Timestamp};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::{FlagResponse, Flags, Rights, flag_responses, visible_flag};
use crate::accounts::roles::{self, Role};
use crate::auth::caller::InProject;
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{
    App, AppState, Body, Created, Error, Id, Json, Listing, NoContent, Page, Reader, Result,
    Routes, Writer,
};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/feature_flags/{id}/role_access", list)
        .post("/api/projects/{project_id}/feature_flags/{id}/role_access", create)
        .get("/api/projects/{project_id}/feature_flags/{id}/role_access/{access_id}", read)
        .delete("/api/projects/{project_id}/feature_flags/{id}/role_access/{access_id}", destroy)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagRoleAccess")]
struct Access {
    id: i64,
    feature_flag: FlagResponse,
    role: Role,
    role_id: Uuid,
    added_at: Timestamp,
    updated_at: Timestamp,
}

async fn list(caller: Reader<Flags>, id: Id, page: Page, app: App) -> Result<Listing<Access>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let (grants, total) = app.catalog.flags().role_grants(flag.id, page.window).await?;
    Ok(page.listing(responses(&app, &caller, &flag, grants).await?, total))
}

#[derive(Deserialize, JsonSchema)]
struct GrantRole {
    role_id: Uuid,
}

async fn create(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<GrantRole>,
) -> Result<Created<Access>> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    Rights::of(&app, &caller).await?.require(&flag)?;
    let role = body.read()?.role_id;
    let grant = app.catalog.flags().grant_role(&caller.actor(), flag.id, role).await?;
    Ok(Created(response(&app, &caller, &flag, grant).await?))
}

async fn read(caller: Reader<Flags>, id: Id, access: AccessId, app: App) -> Result<Json<Access>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let grant = app.catalog.flags().role_grant(flag.id, access.0).await?;
    Ok(Json(response(&app, &caller, &flag, grant).await?))
}

async fn destroy(caller: Writer<Flags>, id: Id, access: AccessId, app: App) -> Result<NoContent> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    app.catalog.flags().role_grant(flag.id, access.0).await?;
    Rights::of(&app, &caller).await?.require(&flag)?;
    app.catalog.flags().revoke_role(flag.id, access.0).await?;
    Ok(NoContent)
}

async fn response<M>(
    app: &AppState,
    caller: &InProject<Flags, M>,
    flag: &FeatureFlag,
    grant: RoleGrant,
) -> Result<Access> {
    responses(app, caller, flag, vec![grant]).await?.pop().ok_or_else(Error::not_found)
}

/// Adds the flag and the roles, with the same number of statements for any number of grants.
async fn responses<M>(
    app: &AppState,
    caller: &InProject<Flags, M>,
    flag: &FeatureFlag,
    grants: Vec<RoleGrant>,
) -> Result<Vec<Access>> {
    let rights = Rights::of(app, caller).await?;
    let ids: Vec<Uuid> = grants.iter().map(|access| access.role).collect();
    let rows = app.catalog.roles().by_ids(caller.project.organization, &ids).await?;
    let visibility = caller.visibility(ObjectKind::FeatureFlag);
    let within = app.catalog.flags().visible_ids(caller.project.id, &visibility).await?;
    let is_seen = |id| within.as_ref().is_none_or(|seen| seen.contains(&id));
    let roles = roles::embedded(app, rows, is_seen).await?.into_iter();
    let mut roles: HashMap<Uuid, Role> = roles.map(|role| (role.id(), role)).collect();
    let flags = flag_responses(app, caller, &rights, vec![flag.clone(); grants.len()]).await?;
    let mut accesses = Vec::with_capacity(grants.len());
    for (access, feature_flag) in grants.into_iter().zip(flags) {
        accesses.push(Access {
            id: access.id,
            feature_flag,
            role: roles.remove(&access.role).ok_or_else(Error::not_found)?,
            role_id: access.role,
            added_at: access.added_at,
            updated_at: access.updated_at,
        });
    }
    Ok(accesses)
}

/// The path's `{access_id}`; 404 if it is not an integer.
struct AccessId(i64);

impl FromRequestParts<AppState> for AccessId {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let Path(parameters) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
            .await
            .map_err(|_| Error::not_found())?;
        let id = parameters.get("access_id").and_then(|text| text.parse().ok());
        id.map(Self).ok_or_else(Error::not_found)
    }
}

impl DescribeRequest for AccessId {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("access_id", json!({ "type": "integer" }));
    }
}
