//! Flag definitions for SDKs with local evaluation, and remote config payloads.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use catalog::ProjectRow;
use flags::ProjectFlags;
use model::flag::filters::REDACTED_PAYLOAD;
use model::{AccessLevel, FlagId, ObjectKind, Visibility};
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Flags;
use crate::auth::access::require;
use crate::http::cors::NoCookieCredentials;
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::path::query_parameter;
use crate::{App, AppState, Error, Json, Reader, Result, Routes, StringId};

const REVALIDATE: HeaderValue = HeaderValue::from_static("private, must-revalidate");
/// The header by which some SDKs name the project.
const PROJECT_HEADER: &str = "x-posthog-project-api-key";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/feature_flags/local_evaluation", local_evaluation)
        .get("/api/projects/{project_id}/feature_flags/{id}/remote_config", remote_config)
}

pub(crate) fn public_routes(routes: Routes) -> Routes {
    routes.get("/flags/definitions", definitions).read_only("/flags/definitions")
}

/// A caller with the project's secret key, or with a personal key that may read its flags.
struct KeyHolder {
    project: ProjectRow,
    /// Only a personal key decrypts payloads.
    by_personal_key: bool,
    visibility: Visibility,
}

/// The same on a public path, where every rejected key is a 401.
struct PublicKeyHolder(KeyHolder);

impl KeyHolder {
    fn of(caller: Reader<Flags>) -> Self {
        let visibility = caller.visibility(ObjectKind::FeatureFlag);
        Self { by_personal_key: caller.by_key, project: caller.project, visibility }
    }

    async fn of_secret(parts: &Parts, app: &AppState, secret: &str) -> Result<Self> {
        let wrong = || Error::unauthorized("authentication_failed", "The secret key is not valid.");
        let owner = app.catalog.projects().by_secret(secret).await?.ok_or_else(wrong)?;
        let project = app.catalog.projects().get(owner.project).await?;
        if project_token(parts).is_some_and(|token| token != project.api_token) {
            return Err(wrong());
        }
        Ok(Self { project, by_personal_key: false, visibility: Visibility::Everything })
    }
}

/// The project token in the query string or in a header.
fn project_token(parts: &Parts) -> Option<String> {
    let in_query = query_parameter(parts, "token").filter(|token| !token.is_empty());
    in_query.or_else(|| Some(parts.headers.get(PROJECT_HEADER)?.to_str().ok()?.to_owned()))
}

fn bearer_secret(parts: &Parts) -> Option<String> {
    let given = parts.headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, value) = given.split_once(' ')?;
    let value = value.trim();
    (scheme.eq_ignore_ascii_case("bearer") && value.starts_with("phs_")).then(|| value.to_owned())
}

/// Whether the path names a project other than the secret key's own.
async fn names_another_project(parts: &mut Parts, project: &ProjectRow) -> bool {
    use axum::extract::Path;
    use std::collections::HashMap;
    let Ok(Path(named)) = Path::<HashMap<String, String>>::from_request_parts(parts, &()).await
    else {
        return false;
    };
    named.get("project_id").is_some_and(|id| id != "@current" && *id != project.id.to_string())
}

impl FromRequestParts<AppState> for KeyHolder {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        if let Some(secret) = bearer_secret(parts) {
            let holder = Self::of_secret(parts, app, &secret).await?;
            if names_another_project(parts, &holder.project).await {
                let detail = "The secret key belongs to another project.";
                return Err(Error::unauthorized("authentication_failed", detail));
            }
            return Ok(holder);
        }
        Ok(Self::of(Reader::<Flags>::from_request_parts(parts, app).await?))
    }
}

impl FromRequestParts<AppState> for PublicKeyHolder {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &AppState) -> Result<Self> {
        let wrong = || {
            Error::unauthorized(
                "authentication_failed",
                "The key does not give access to this project.",
            )
        };
        if !parts.headers.contains_key(header::AUTHORIZATION) {
            return Err(Error::unauthenticated());
        }
        if let Some(secret) = bearer_secret(parts) {
            return KeyHolder::of_secret(parts, app, &secret).await.map(Self);
        }
        let token = project_token(parts);
        let caller = Reader::<Flags>::in_project_of(parts, app, token.as_deref()).await;
        let caller =
            caller.map_err(|error| if error.is_client_error() { wrong() } else { error })?;
        Ok(Self(KeyHolder::of(caller)))
    }
}

async fn local_evaluation(
    holder: KeyHolder,
    if_none_match: IfNoneMatch,
    app: App,
) -> Result<Definitions> {
    definitions_of(&app, &holder, if_none_match).await
}

async fn definitions(
    holder: PublicKeyHolder,
    if_none_match: IfNoneMatch,
    app: App,
) -> Result<Definitions> {
    definitions_of(&app, &holder.0, if_none_match).await
}

async fn definitions_of(
    app: &AppState,
    holder: &KeyHolder,
    if_none_match: IfNoneMatch,
) -> Result<Definitions> {
    // With some flags missing, local evaluation would silently give wrong results.
    if holder.visibility != Visibility::Everything {
        return Err(Error::forbidden("This key's owner may not see every feature flag."));
    }
    let flags = app.flags.of(&holder.project).await.map_err(unavailable)?;
    let is_current = if_none_match.0.is_some_and(|tag| tag == flags.local_evaluation().tag);
    Ok(Definitions { flags, is_current })
}

pub(super) fn unavailable(_: flags::Unavailable) -> Error {
    Error::unavailable("The flags cannot be read at the moment.")
}

/// The flag's payload as stored; null if it has none.
async fn remote_config(holder: KeyHolder, id: StringId, app: App) -> Result<Json<Value>> {
    let project = holder.project.id;
    let is_number = !id.0.is_empty() && id.0.bytes().all(|byte| byte.is_ascii_digit());
    let flag = match id.0.parse() {
        Ok(number) if is_number => app.catalog.flags().get(project, FlagId(number)).await?,
        _ => app.catalog.flags().by_key(project, &id.0).await?,
    };
    if flag.deleted || !flag.is_remote_configuration {
        return Err(Error::not_found());
    }
    if !holder.visibility.holds(flag.id.0, flag.created_by.as_ref().map(|author| author.id)) {
        require(AccessLevel::None, AccessLevel::Viewer)?;
    }
    let hidden = !holder.by_personal_key && flag.has_encrypted_payloads;
    let flag = app.catalog.flags().reveal_payloads(flag)?;
    let payload = flag.filters.get("payloads").and_then(|payloads| payloads.get("true"));
    Ok(Json(match payload {
        Some(_) if hidden => REDACTED_PAYLOAD.into(),
        Some(payload) => payload.clone(),
        None => Value::Null,
    }))
}

/// The client's entity tag, weak or strong, quoted or not.
struct IfNoneMatch(Option<String>);

impl FromRequestParts<AppState> for IfNoneMatch {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let sent = parts.headers.get(header::IF_NONE_MATCH).and_then(|tag| tag.to_str().ok());
        Ok(Self(sent.map(|tag| {
            let tag = tag.trim();
            tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_owned()
        })))
    }
}

struct Definitions {
    flags: Arc<ProjectFlags>,
    /// The client's copy is current: 304.
    is_current: bool,
}

impl IntoResponse for Definitions {
    fn into_response(self) -> Response {
        let local = self.flags.local_evaluation();
        let tag = format!("W/\"{}\"", local.tag);
        let headers = [(header::CACHE_CONTROL, REVALIDATE)];
        let mut response = match self.is_current {
            true => (StatusCode::NOT_MODIFIED, headers).into_response(),
            false => {
                let json = [(header::CONTENT_TYPE, "application/json")];
                (headers, json, local.body.clone()).into_response()
            }
        };
        if let Ok(tag) = HeaderValue::try_from(tag) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response.extensions_mut().insert(NoCookieCredentials);
        response
    }
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct LocalEvaluation {
    flags: Vec<model::flag::FlagDefinition>,
    /// Names of group types by their index.
    group_type_mapping: BTreeMap<String, String>,
    /// Conditions of dynamic cohorts by the cohort's id.
    cohorts: BTreeMap<String, model::json_shapes::CohortConditionGroup>,
    minimal_flag_called_events: bool,
    property_matching_version: i64,
}

impl DescribeResponse for Definitions {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<LocalEvaluation>(200, schemas);
        operation.empty_response(304);
    }
}

impl DescribeRequest for KeyHolder {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        Reader::<Flags>::describe(operation, schemas);
    }
}

impl DescribeRequest for PublicKeyHolder {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.query_parameter("token", json!({ "type": "string" }));
    }
}

impl DescribeRequest for IfNoneMatch {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}
