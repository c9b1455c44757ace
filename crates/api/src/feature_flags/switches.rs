//! A flag's switch, its status, and the flags that depend on it.

use catalog::FlagChange;
use model::flag::filters::{self, Fields};
use model::flag::{FeatureFlag, FlagStatus, is_fully_rolled_out};
use model::{FlagId, ObjectKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{FlagResponse, Flags, Rights, check_references, flag_response, visible_flag};
use crate::{App, Id, Json, Reader, Result, Routes, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/feature_flags/{id}/enable", enable)
        .post("/api/projects/{project_id}/feature_flags/{id}/disable", disable)
        .get("/api/projects/{project_id}/feature_flags/{id}/status", status)
        .get("/api/projects/{project_id}/feature_flags/{id}/dependent_flags", dependent_flags)
}

/// Like a PATCH with `active: true`.
async fn enable(caller: Writer<Flags>, id: Id, app: App) -> Result<Json<FlagResponse>> {
    switch(&app, &caller, id, true).await
}

/// Like a PATCH with `active: false`.
async fn disable(caller: Writer<Flags>, id: Id, app: App) -> Result<Json<FlagResponse>> {
    switch(&app, &caller, id, false).await
}

async fn switch(
    app: &App,
    caller: &Writer<Flags>,
    id: Id,
    active: bool,
) -> Result<Json<FlagResponse>> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    let rights = Rights::of(app, caller).await?;
    rights.require(&flag)?;
    let change = FlagChange { active: Some(active), ..FlagChange::default() };
    check_references(app, caller, Some(&flag), &change).await?;
    let (actor, visibility) = (caller.actor(), caller.visibility(ObjectKind::FeatureFlag));
    let updated = app.catalog.flags().update(&actor, flag.id, &change, None, &visibility).await?;
    Ok(Json(flag_response(app, caller, &rights, updated.flag).await?))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagStatus")]
struct StatusResponse {
    /// `active`, `stale`, `archived` or `deleted`.
    status: &'static str,
    reason: &'static str,
    rollout: Rollout,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagRollout")]
struct Rollout {
    /// Everybody gets the same value.
    effectively_full_rollout: bool,
    has_targeting_conditions: bool,
    /// Null without conditions.
    max_rollout_percentage: Option<f64>,
    is_multivariate: bool,
}

impl Rollout {
    fn of(fields: &Fields) -> Self {
        let groups = filters::groups(fields);
        let has_properties = |group: &Value| {
            group.get("properties").and_then(Value::as_array).is_some_and(|all| !all.is_empty())
        };
        let share = |group: &Value| {
            group.get("rollout_percentage").and_then(Value::as_f64).unwrap_or(100.0)
        };
        Self {
            effectively_full_rollout: is_fully_rolled_out(fields),
            has_targeting_conditions: groups.iter().any(has_properties),
            max_rollout_percentage: groups.iter().map(share).max_by(f64::total_cmp),
            is_multivariate: !filters::variant_shares(fields).is_empty(),
        }
    }
}

async fn status(caller: Reader<Flags>, id: Id, app: App) -> Result<Json<StatusResponse>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let (status, reason) = explained(&flag);
    Ok(Json(StatusResponse { status, reason, rollout: Rollout::of(&flag.filters) }))
}

fn explained(flag: &FeatureFlag) -> (&'static str, &'static str) {
    match flag.status {
        FlagStatus::Deleted => ("deleted", "The flag is deleted."),
        FlagStatus::Archived => ("archived", "The flag is archived."),
        FlagStatus::Stale if flag.last_called_at.is_some() => {
            ("stale", "The flag has not been called recently.")
        }
        FlagStatus::Stale => ("stale", "The flag is old and gives everybody the same value."),
        FlagStatus::Active if flag.active => ("active", "The flag is enabled and in use."),
        FlagStatus::Active => ("active", "The flag is disabled, and neither archived nor deleted."),
    }
}

#[derive(Serialize, JsonSchema)]
struct DependentFlag {
    id: FlagId,
    key: String,
    name: String,
}

/// The live flags with a condition on this flag, as far as the caller may see them.
async fn dependent_flags(
    caller: Reader<Flags>,
    id: Id,
    app: App,
) -> Result<Json<Vec<DependentFlag>>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let visibility = caller.visibility(ObjectKind::FeatureFlag);
    let dependents = app.catalog.flags().dependents(flag.id, &visibility).await?;
    let shown = dependents.into_iter().map(|(id, key, name)| DependentFlag { id, key, name });
    Ok(Json(shown.collect()))
}
