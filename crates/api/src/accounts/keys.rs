//! Personal API keys of the caller.

use std::collections::HashSet;
use std::hash::Hash;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use catalog::{KeyChange, KeyEditor, NewKey, PersonalKey};
use model::scope::{Access, Scopes};
use model::{OrganizationId, ProjectId, UserId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;

use crate::auth::caller::OnAccount;
use crate::auth::credentials;
use crate::http::body::{max_chars, not_blank, present};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{
    AccountReader, AccountWriter, App, AppState, Body, Created, Error, IsPut, Json, NoContent,
    Patch, Resource, Result, Routes, StringId,
};

/// Upstream's documented length of a label.
const LABEL_CHARS_MAX: usize = 40;

enum Keys {}

impl Resource for Keys {
    const SCOPE: &'static str = "user";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/personal_api_keys", list)
        .post("/api/personal_api_keys", create)
        .get("/api/personal_api_keys/{id}", read)
        .patch("/api/personal_api_keys/{id}", update)
        .delete("/api/personal_api_keys/{id}", destroy)
        .post("/api/personal_api_keys/{id}/roll", roll)
}

async fn list(caller: AccountReader<Keys>, app: App) -> Result<Json<Vec<PersonalKey>>> {
    Ok(Json(app.catalog.keys().list(caller.user.user.id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct CreateKey {
    label: String,
    scopes: Vec<String>,
    #[serde(default)]
    scoped_teams: Option<Vec<ProjectId>>,
    #[serde(default)]
    scoped_organizations: Option<Vec<OrganizationId>>,
}

async fn create(
    caller: AccountWriter<Keys>,
    app: App,
    body: Body<CreateKey>,
) -> Result<Created<PersonalKey>> {
    let body = body.read()?;
    let new = NewKey {
        label: label(&body.label)?,
        scopes: scopes(body.scopes)?,
        scoped_teams: restriction(body.scoped_teams),
        scoped_organizations: restriction(body.scoped_organizations),
    };
    check_membership(
        &app,
        &caller,
        new.scoped_teams.as_deref(),
        new.scoped_organizations.as_deref(),
    )
    .await?;
    Ok(Created(app.catalog.keys().create(&caller.keeper(), new).await?))
}

/// A key may read itself whatever its scopes; reading another key takes `user:read`.
async fn read(caller: KeyReader, app: App) -> Result<Json<PersonalKey>> {
    Ok(Json(app.catalog.keys().get(caller.owner, &caller.id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct UpdateKey {
    #[serde(default, deserialize_with = "present")]
    label: Option<String>,
    #[serde(default, deserialize_with = "present")]
    scopes: Option<Vec<String>>,
    #[serde(default)]
    scoped_teams: Patch<Vec<ProjectId>>,
    #[serde(default)]
    scoped_organizations: Patch<Vec<OrganizationId>>,
}

async fn update(
    caller: AccountWriter<Keys>,
    is_put: IsPut,
    id: StringId,
    app: App,
    body: Body<UpdateKey>,
) -> Result<Json<PersonalKey>> {
    let current = app.catalog.keys().get(caller.user.user.id, &caller.key_id(&id)?).await?;
    current.check_within(caller.key.as_ref())?;
    let body = body.read()?;
    if is_put.0 && body.label.is_none() {
        return Err(Error::required("label"));
    }
    if is_put.0 && body.scopes.is_none() {
        return Err(Error::required("scopes"));
    }
    let change = KeyChange {
        label: body.label.as_deref().map(label).transpose()?,
        scopes: body.scopes.map(scopes).transpose()?,
        scoped_teams: body.scoped_teams.nullable().map(restriction),
        scoped_organizations: body.scoped_organizations.nullable().map(restriction),
    };
    let teams = change.scoped_teams.as_ref().and_then(Option::as_deref);
    let organizations = change.scoped_organizations.as_ref().and_then(Option::as_deref);
    check_membership(&app, &caller, teams, organizations).await?;
    Ok(Json(app.catalog.keys().update(&caller.keeper(), &current.id, change).await?))
}

async fn roll(caller: AccountWriter<Keys>, id: StringId, app: App) -> Result<Json<PersonalKey>> {
    let id = caller.key_id(&id)?;
    Ok(Json(app.catalog.keys().roll(&caller.keeper(), &id).await?))
}

async fn destroy(caller: AccountWriter<Keys>, id: StringId, app: App) -> Result<NoContent> {
    let id = caller.key_id(&id)?;
    app.catalog.keys().delete(&caller.keeper(), &id).await?;
    Ok(NoContent)
}

impl<M> OnAccount<Keys, M> {
    fn key_id(&self, id: &StringId) -> Result<String> {
        key_id(&id.0, self.key.as_ref())
    }

    fn keeper(&self) -> KeyEditor<'_> {
        KeyEditor { owner: self.user.user.id, key: self.key.as_ref(), actor: self.actor().ok() }
    }
}

/// Resolves `@current` to the key that authenticated the request.
fn key_id(id: &str, used: Option<&PersonalKey>) -> Result<String> {
    match (id, used) {
        ("@current", Some(key)) => Ok(key.id.clone()),
        ("@current", None) => Err(Error::not_found()),
        (id, _) => Ok(id.to_owned()),
    }
}

/// A caller who may read the key of the path.
struct KeyReader {
    owner: UserId,
    id: String,
}

impl FromRequestParts<AppState> for KeyReader {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let credentials = credentials::authenticate(parts, app).await?;
        let StringId(id) = StringId::from_request_parts(parts, app).await?;
        if id != "@current" {
            credentials.may(Keys::SCOPE, Access::Read)?;
        }
        let (user, key) = credentials.into_parts();
        Ok(Self { owner: user.user.id, id: key_id(&id, key.as_ref())? })
    }
}

impl DescribeRequest for KeyReader {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        AccountReader::<Keys>::describe(operation, schemas);
        StringId::describe(operation, schemas);
    }
}

/// Rejects projects and organizations that the key's owner does not belong to.
async fn check_membership(
    app: &AppState,
    caller: &AccountWriter<Keys>,
    teams: Option<&[ProjectId]>,
    organizations: Option<&[OrganizationId]>,
) -> Result<()> {
    if teams.is_none() && organizations.is_none() {
        return Ok(());
    }
    let (own_teams, own_organizations) = app.catalog.users().reach(caller.user.user.id).await?;
    if !teams.unwrap_or_default().iter().all(|team| own_teams.contains(team)) {
        let detail = "You must be a member of all projects that you are scoping the key to.";
        return Err(Error::invalid("scoped_teams", "invalid_input", detail));
    }
    if !organizations.unwrap_or_default().iter().all(|id| own_organizations.contains(id)) {
        let detail = "You must be a member of all organizations that you are scoping the key to.";
        return Err(Error::invalid("scoped_organizations", "invalid_input", detail));
    }
    Ok(())
}

fn label(text: &str) -> Result<String> {
    let label = text.trim();
    not_blank("label", label)?;
    max_chars("label", label, LABEL_CHARS_MAX)?;
    Ok(label.to_owned())
}

fn scopes(words: Vec<String>) -> Result<Scopes> {
    Scopes::parse(words).map_err(|why| Error::invalid("scopes", "invalid_input", why.to_string()))
}

/// Deduplicates ids; clients send an empty list for a key without restriction.
fn restriction<T: Copy + Eq + Hash>(ids: Option<Vec<T>>) -> Option<Vec<T>> {
    let mut visited = HashSet::new();
    let ids: Vec<T> = ids?.into_iter().filter(|id| visited.insert(*id)).collect();
    (!ids.is_empty()).then_some(ids)
}
