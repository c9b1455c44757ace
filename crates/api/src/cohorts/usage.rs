//! Counting a cohort while it is edited, and where a cohort is used.

use catalog::{CohortUser, CohortUsers};
use schemars::JsonSchema;
use serde::Serialize;

use super::{CohortFields, live};
use crate::auth::resources::Cohorts;
use crate::{App, Body, Error, Id, Json, Reader, Result, Routes};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/cohorts/count", count)
        .get("/api/projects/{project_id}/cohorts/{id}/used_by", used_by)
}

#[derive(Serialize, JsonSchema)]
struct CohortCount {
    /// Persons that match.
    count: u64,
    /// All persons.
    total: u64,
}

/// Counts the persons that a dynamic cohort with these filters would have, without storing it.
async fn count(
    caller: Reader<Cohorts>,
    app: App,
    body: Body<CohortFields>,
) -> Result<Json<CohortCount>> {
    let fields = body.read()?;
    let change = fields.validate(false, &caller.project, app.catalog.clock().now())?;
    let filters = change.filters.ok_or_else(|| Error::required("filters"))?;
    let (project, seen) = (caller.project.id, caller.visibilities());
    let draft = app.catalog.cohorts().draft(project, &filters, &seen).await?;
    let (count, total) = app.queries.count_cohort(draft).await?;
    Ok(Json(CohortCount { count, total }))
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CohortUsers")]
struct UsersResponse {
    feature_flags: Vec<FlagUser>,
    insights: Vec<InsightUser>,
    cohorts: Vec<NamedUser>,
    actions: Vec<NamedUser>,
    /// How many more the caller may not see.
    hidden: u64,
}

#[derive(Serialize, JsonSchema)]
struct FlagUser {
    id: i64,
    key: String,
    name: String,
}

#[derive(Serialize, JsonSchema)]
struct InsightUser {
    id: i64,
    short_id: String,
    name: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct NamedUser {
    id: i64,
    name: Option<String>,
}

/// Live flags, insights, cohorts and actions that reference the cohort directly, at most 100 of each.
async fn used_by(caller: Reader<Cohorts>, id: Id, app: App) -> Result<Json<UsersResponse>> {
    let cohort = live(&app, &caller.project, id).await?;
    let (project, seen) = (caller.project.id, caller.visibilities());
    let name = cohort.name.as_deref();
    let users = app.catalog.cohorts().users(project, cohort.id, name, &seen).await?;
    let CohortUsers { flags, insights, cohorts, actions, hidden } = users;
    let flag = |CohortUser { id, key, name }: CohortUser| FlagUser {
        id,
        key: key.unwrap_or_default(),
        name: name.unwrap_or_default(),
    };
    let insight = |CohortUser { id, key, name }: CohortUser| InsightUser {
        id,
        short_id: key.unwrap_or_default(),
        name,
    };
    let named = |CohortUser { id, name, .. }: CohortUser| NamedUser { id, name };
    Ok(Json(UsersResponse {
        feature_flags: flags.into_iter().map(flag).collect(),
        insights: insights.into_iter().map(insight).collect(),
        cohorts: cohorts.into_iter().map(named).collect(),
        actions: actions.into_iter().map(named).collect(),
        hidden,
    }))
}
