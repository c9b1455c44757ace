//! A flag's usage dashboard, and static cohorts of the persons it is enabled for.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use catalog::{NewCohort, NewCohortKind};
use model::flag::FeatureFlag;
use model::{Cohort, FlagId, ObjectKind, Timestamp};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::{FlagFields, FlagResponse, Flags, Rights, flag_response};
use crate::cohorts::NAME_CHARS_MAX;
use crate::http::error::ErrorBody;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::{App, AppState, Body, Id, Json, Result, Routes, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post(
            "/api/projects/{project_id}/feature_flags/{id}/create_static_cohort_for_flag",
            create_cohort,
        )
        .post("/api/projects/{project_id}/feature_flags/{id}/dashboard", create_dashboard)
        .post("/api/projects/{project_id}/feature_flags/{id}/enrich_usage_dashboard", enrich)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagWithCohort")]
struct WithCohort {
    #[serde(flatten)]
    flag: FlagResponse,
    cohort: Cohort,
}

/// Creates a static cohort of the persons whom the flag is enabled for; a background task fills it.
/// Ignores the request body.
async fn create_cohort(caller: Writer<Flags>, id: Id, app: App) -> Result<Json<WithCohort>> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    let new = NewCohort {
        name: Some(cohort_name(&flag.key, app.catalog.clock().now())),
        description: String::new(),
        deleted: false,
        kind: NewCohortKind::OfFlag(flag.id),
    };
    let cohort = app.catalog.cohorts().create(&caller.actor(), new, &caller.visibilities()).await?;
    Ok(Json(WithCohort { flag: flag_response(&app, &caller, &rights, flag).await?, cohort }))
}

fn cohort_name(key: &str, now: Timestamp) -> String {
    let now = now.to_string().replace('T', " ");
    let now = now.get(..19).unwrap_or(&now);
    let name = |key: &str| format!("Users with feature flag {key} enabled at {now}");
    let key_chars_max = NAME_CHARS_MAX - name("").len();
    name(&key.chars().take(key_chars_max).collect::<String>())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagUsage")]
struct Usage {
    #[serde(flatten)]
    flag: FlagResponse,
    success: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagUsageRefused")]
struct Refused {
    success: bool,
    error: String,
}

/// An invalid body gets the standard error shape.
#[derive(JsonSchema)]
#[schemars(rename = "FeatureFlagUsageNotMade", untagged)]
#[expect(dead_code, reason = "describes the response")]
enum NotMade {
    Usage(Refused),
    Body(ErrorBody),
}

/// Upstream's own shape for success and for failure.
enum UsageResult {
    Created(Box<Usage>),
    Rejected(Refused),
}

impl IntoResponse for UsageResult {
    fn into_response(self) -> Response {
        match self {
            Self::Created(done) => axum::Json(done).into_response(),
            Self::Rejected(refused) => {
                (StatusCode::BAD_REQUEST, axum::Json(refused)).into_response()
            }
        }
    }
}

impl DescribeResponse for UsageResult {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<Usage>(200, schemas);
        operation.response::<NotMade>(400, schemas);
    }
}

/// Adds upstream's `Deprecation` header.
struct Deprecated<T>(T);

impl<T: IntoResponse> IntoResponse for Deprecated<T> {
    fn into_response(self) -> Response {
        let header = (HeaderName::from_static("deprecation"), HeaderValue::from_static("true"));
        ([header], self.0).into_response()
    }
}

impl<T: DescribeResponse> DescribeResponse for Deprecated<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        T::describe_response(operation, schemas);
    }
}

async fn create_dashboard(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<FlagFields>,
) -> Result<Deprecated<UsageResult>> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    caller.may_create(ObjectKind::Dashboard)?;
    body.value()?;
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let done = app.catalog.flags().create_usage_dashboard(&actor, viewer, flag.id).await;
    usage_result(&app, &caller, &rights, done).await.map(Deprecated)
}

async fn enrich(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<FlagFields>,
) -> Result<UsageResult> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    body.value()?;
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let done = app.catalog.flags().enrich_usage_dashboard(&actor, viewer, flag.id).await;
    usage_result(&app, &caller, &rights, done).await
}

/// Loads a flag that the caller may edit.
async fn editable(app: &AppState, caller: &Writer<Flags>, id: Id) -> Result<(FeatureFlag, Rights)> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    let rights = Rights::of(app, caller).await?;
    rights.require(&flag)?;
    Ok((flag, rights))
}

async fn usage_result(
    app: &AppState,
    caller: &Writer<Flags>,
    rights: &Rights,
    done: catalog::Result<FeatureFlag>,
) -> Result<UsageResult> {
    match done {
        Ok(flag) => {
            let flag = flag_response(app, caller, rights, flag).await?;
            Ok(UsageResult::Created(Box::new(Usage { flag, success: true })))
        }
        Err(catalog::Error::Refused { detail, .. }) => {
            Ok(UsageResult::Rejected(Refused { success: false, error: detail }))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_cohort_name_has_key_and_time_within_its_maximum_length() {
        let now = Timestamp::from_micros(1_709_287_200_123_456);
        let expected = "Users with feature flag beta enabled at 2024-03-01 10:00:00";
        assert_eq!(cohort_name("beta", now), expected);
        let long = cohort_name(&"k".repeat(400), now);
        assert_eq!(long.chars().count(), NAME_CHARS_MAX);
        assert!(long.ends_with("10:00:00"));
    }
}
