//! Credentials: a personal API key in the header, body or query string, or a browser session.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use axum::http::header;
use axum::http::request::Parts;
use capture::Sender;
use catalog::{PersonalKey, ProjectRow, Secret, UserRow};
use model::OrganizationId;
use model::scope::Access;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::browser_session;
use crate::http::body::{RequestBody, received};
use crate::http::path::query_parameter;
use crate::{AppState, Error, Result};

/// An authenticated user and how they authenticated.
#[derive(Clone)]
pub(crate) struct Credentials(Arc<Identity>);

struct Identity {
    user: UserRow,
    /// None for a browser session.
    key: Option<PersonalKey>,
    /// None for a key.
    session: Option<Secret>,
}

/// Where a key was found, as error messages name it.
#[derive(Clone, Copy)]
enum KeyLocation {
    Header,
    Body,
    Query,
}

impl KeyLocation {
    const fn name(self) -> &'static str {
        match self {
            Self::Header => "Authorization header",
            Self::Body => "body",
            Self::Query => "query string",
        }
    }
}

/// Authenticates by the first credential found. An invalid one is an error; later locations are not
/// tried.
pub(crate) async fn authenticate(parts: &mut Parts, app: &AppState) -> Result<Credentials> {
    if let Some(cached) = parts.extensions.get::<Credentials>() {
        return Ok(cached.clone());
    }
    let credentials = match find_key(parts)? {
        Some((value, location)) => {
            let holder = app.catalog.keys().authenticate(&value).await?;
            let (key, user) = holder.ok_or_else(|| invalid_key(location))?;
            app.rate_limits.take(parts, &key, app.catalog.clock().now())?;
            Credentials(Arc::new(Identity { user, key: Some(key), session: None }))
        }
        // Only insights accept a sharing token, and they check for it before they get here.
        None if sharing_token(parts)?.is_some() => return Err(Error::unauthenticated()),
        None => {
            let session_user = browser_session::user(parts, app).await?;
            let (session, user) = session_user.ok_or_else(Error::unauthenticated)?;
            Credentials(Arc::new(Identity { user, key: None, session: Some(session) }))
        }
    };
    parts.extensions.insert(credentials.clone());
    Ok(credentials)
}

/// The sharing token in the query string, unless the request also carries a personal key.
pub(crate) fn sharing_token(parts: &Parts) -> Result<Option<String>> {
    match find_key(parts)? {
        Some(_) => Ok(None),
        None => Ok(query_parameter(parts, "sharing_access_token")),
    }
}

fn invalid_key(location: KeyLocation) -> Error {
    Error::unauthorized(
        "invalid_personal_api_key",
        format!("Personal API key found in request {} is invalid.", location.name()),
    )
}

fn find_key(parts: &Parts) -> Result<Option<(String, KeyLocation)>> {
    if let Some(value) = find_header_key(parts)? {
        return Ok(Some((value, KeyLocation::Header)));
    }
    if let Some(value) = body_key(parts) {
        return Ok(Some((value, KeyLocation::Body)));
    }
    Ok(query_parameter(parts, "personal_api_key").map(|value| (value, KeyLocation::Query)))
}

fn find_header_key(parts: &Parts) -> Result<Option<String>> {
    if let Some(given) = parts.headers.get(header::AUTHORIZATION) {
        let text = given.to_str().map_err(|_| invalid_key(KeyLocation::Header))?;
        if let Some((scheme, value)) = text.split_once(' ')
            && scheme.eq_ignore_ascii_case("bearer")
        {
            let value = value.trim();
            // OAuth tokens and project secret keys grant nothing here.
            if value.starts_with("pha_") || value.starts_with("phs_") {
                return Err(Error::unauthenticated());
            }
            return Ok(Some(value.to_owned()));
        }
    }
    Ok(None)
}

/// Classifies the sender by the request's head, to select the memory pool of the body before it is
/// read.
pub(crate) async fn sender(parts: &mut Parts, app: &AppState) -> Sender {
    let is_authenticated = match parts.headers.contains_key(header::AUTHORIZATION) {
        // `authenticate` caches its result in the extensions for the route's extractor.
        true => {
            matches!(find_header_key(parts), Ok(Some(_))) && authenticate(parts, app).await.is_ok()
        }
        false => browser_session::has_valid_session(parts, app).await,
    };
    if is_authenticated { Sender::Member } else { Sender::Unauthenticated }
}

const BODY_FIELD: &[u8] = b"\"personal_api_key\"";

/// A substring search that avoids parsing bodies without a key.
pub(crate) fn may_contain_key(bytes: &[u8]) -> bool {
    memchr::memmem::find(bytes, BODY_FIELD).is_some()
}

/// The key in a JSON body, extracted without building the other values: the sender is not
/// authenticated yet.
fn body_key(parts: &Parts) -> Option<String> {
    let received = received(parts);
    let RequestBody::Complete(bytes) = &*received else { return None };
    if !may_contain_key(bytes) {
        return None;
    }
    let BodyKey(key) = serde_json::from_slice(bytes).ok()?;
    key
}

/// `personal_api_key` of a JSON object; the last occurrence wins.
struct BodyKey(Option<String>);

impl<'de> Deserialize<'de> for BodyKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_map(BodyKeyVisitor)
    }
}

struct BodyKeyVisitor;

impl<'de> Visitor<'de> for BodyKeyVisitor {
    type Value = BodyKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<BodyKey, A::Error> {
        let mut key = None;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            match &*name {
                "personal_api_key" => {
                    let raw: &RawValue = map.next_value()?;
                    key = serde_json::from_str(raw.get()).ok();
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(BodyKey(key))
    }
}

impl Credentials {
    pub(crate) fn user(&self) -> &UserRow {
        &self.0.user
    }

    fn key(&self) -> Option<&PersonalKey> {
        self.0.key.as_ref()
    }

    pub(crate) fn session(&self) -> Option<&Secret> {
        self.0.session.as_ref()
    }

    pub(crate) fn is_key(&self) -> bool {
        self.key().is_some()
    }

    pub(crate) fn into_parts(self) -> (UserRow, Option<PersonalKey>) {
        (self.user().clone(), self.key().cloned())
    }

    /// Rejects a key without the scope. Sessions have every scope.
    pub(crate) fn may(&self, object: &str, access: Access) -> Result<()> {
        let Some(key) = self.key() else { return Ok(()) };
        if !key.scopes.allow(object, access) {
            return Err(Error::forbidden(format!(
                "API key missing required scope '{object}:{}'",
                access.as_str()
            )));
        }
        Ok(())
    }

    pub(crate) fn require_project(&self, project: &ProjectRow) -> Result<()> {
        let Some(key) = self.key() else { return Ok(()) };
        if key.scoped_teams.as_ref().is_some_and(|teams| !teams.contains(&project.id)) {
            return Err(Error::forbidden(format!(
                "API key does not have access to the requested project: ID {}.",
                project.id
            )));
        }
        self.check_scoped_organizations(project.organization)
    }

    pub(crate) fn require_organization(&self, id: OrganizationId) -> Result<()> {
        self.reject_project_scoped_key()?;
        self.check_scoped_organizations(id)
    }

    fn check_scoped_organizations(&self, id: OrganizationId) -> Result<()> {
        let Some(key) = self.key() else { return Ok(()) };
        if key.scoped_organizations.as_ref().is_some_and(|ids| !ids.contains(&id)) {
            return Err(Error::forbidden(format!(
                "API key does not have access to the requested organization: ID {id}."
            )));
        }
        Ok(())
    }

    /// Rejects keys that are restricted to projects, on endpoints outside of projects.
    pub(crate) fn reject_project_scoped_key(&self) -> Result<()> {
        if self.key().is_some_and(|key| key.scoped_teams.is_some()) {
            return Err(Error::forbidden(
                "API keys with scoped projects are only supported on project-based endpoints.",
            ));
        }
        Ok(())
    }
}
