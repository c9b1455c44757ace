//! How a flag is used: its dashboard, and a list of the people it is on for.

use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use catalog::{NewCohort, NewCohortKind};
use model::flag::FeatureFlag;
use model::{Cohort, FlagId, ObjectKind, Timestamp};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;

use super::{FlagFields, Flags, Rights, Shown, shown};
use crate::cohorts::NAME_CHARS_MAX;
use crate::http::error::ErrorBody;
use crate::http::openapi::{Answer, Operation};
use crate::{App, AppState, Body, Found, Id, Result, Routes, Writer};

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
    flag: Shown,
    cohort: Cohort,
}

/// Whoever the flag is on for, as a list; it is filled afterwards. No body is looked at.
async fn create_cohort(caller: Writer<Flags>, id: Id, app: App) -> Result<Found<WithCohort>> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    let new = NewCohort {
        name: Some(cohort_name(&flag.key, app.catalog.clock().now())),
        description: String::new(),
        deleted: false,
        kind: NewCohortKind::OfFlag(flag.id),
    };
    let cohort = app.catalog.cohorts().create(&caller.actor(), new, &caller.sights()).await?;
    Ok(Found(WithCohort { flag: shown(&app, &caller, &rights, flag).await?, cohort }))
}

fn cohort_name(key: &str, now: Timestamp) -> String {
    let now = now.to_string().replace('T', " ");
    let now = now.get(..19).unwrap_or(&now);
    let name = |key: &str| format!("Users with feature flag {key} enabled at {now}");
    let room = NAME_CHARS_MAX - name("").len();
    name(&key.chars().take(room).collect::<String>())
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagUsage")]
struct Usage {
    #[serde(flatten)]
    flag: Shown,
    success: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagUsageRefused")]
struct Refused {
    success: bool,
    error: String,
}

/// A body that cannot be read is refused in the house's shape all the same.
#[derive(JsonSchema)]
#[schemars(rename = "FeatureFlagUsageNotMade", untagged)]
#[expect(dead_code, reason = "it only describes")]
enum NotMade {
    Usage(Refused),
    Body(ErrorBody),
}

/// Upstream's own shape, also of what it refuses.
enum Done {
    Yes(Box<Usage>),
    No(Refused),
}

impl IntoResponse for Done {
    fn into_response(self) -> Response {
        match self {
            Self::Yes(done) => axum::Json(done).into_response(),
            Self::No(refused) => (StatusCode::BAD_REQUEST, axum::Json(refused)).into_response(),
        }
    }
}

impl Answer for Done {
    fn answer(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<Usage>(200, schemas);
        operation.response::<NotMade>(400, schemas);
    }
}

/// Upstream says so of an endpoint that goes on answering.
struct Deprecated<T>(T);

impl<T: IntoResponse> IntoResponse for Deprecated<T> {
    fn into_response(self) -> Response {
        let header = (HeaderName::from_static("deprecation"), HeaderValue::from_static("true"));
        ([header], self.0).into_response()
    }
}

impl<T: Answer> Answer for Deprecated<T> {
    fn answer(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        T::answer(operation, schemas);
    }
}

async fn create_dashboard(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<FlagFields>,
) -> Result<Deprecated<Done>> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    caller.may_create(ObjectKind::Dashboard)?;
    body.value()?;
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let done = app.catalog.flags().create_usage_dashboard(&actor, viewer, flag.id).await;
    answer(&app, &caller, &rights, done).await.map(Deprecated)
}

async fn enrich(caller: Writer<Flags>, id: Id, app: App, body: Body<FlagFields>) -> Result<Done> {
    let (flag, rights) = editable(&app, &caller, id).await?;
    body.value()?;
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let done = app.catalog.flags().enrich_usage_dashboard(&actor, viewer, flag.id).await;
    answer(&app, &caller, &rights, done).await
}

/// A flag that the caller may edit.
async fn editable(app: &AppState, caller: &Writer<Flags>, id: Id) -> Result<(FeatureFlag, Rights)> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    let rights = Rights::of(app, caller).await?;
    rights.require(&flag)?;
    Ok((flag, rights))
}

async fn answer(
    app: &AppState,
    caller: &Writer<Flags>,
    rights: &Rights,
    done: catalog::Result<FeatureFlag>,
) -> Result<Done> {
    match done {
        Ok(flag) => {
            let flag = shown(app, caller, rights, flag).await?;
            Ok(Done::Yes(Box::new(Usage { flag, success: true })))
        }
        Err(catalog::Error::Refused { detail, .. }) => {
            Ok(Done::No(Refused { success: false, error: detail }))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cohort_is_named_by_flag_and_time_and_stays_short() {
        let now = Timestamp::from_micros(1_709_287_200_123_456);
        let expected = "Users with feature flag beta enabled at 2024-03-01 10:00:00";
        assert_eq!(cohort_name("beta", now), expected);
        let long = cohort_name(&"k".repeat(400), now);
        assert_eq!(long.chars().count(), NAME_CHARS_MAX);
        assert!(long.ends_with("10:00:00"));
    }
}
