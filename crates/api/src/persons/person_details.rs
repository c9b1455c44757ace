//! Property values, cohorts and activity of persons.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::CohortId;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};

use super::{Persons, key, load_person};
use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::resources::Cohorts;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::http::path::given;
use crate::{App, Error, Json, Query, Reader, Result, Routes, StringId};

/// Values in a response, as for events.
const VALUES_MAX: usize = 10;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/persons/values", values)
        .get("/api/projects/{project_id}/persons/cohorts", cohorts)
        .get("/api/projects/{project_id}/persons/activity", activity)
        .get("/api/projects/{project_id}/persons/{id}/activity", activity_of_one)
}

#[derive(Deserialize, JsonSchema)]
struct ValuesQuery {
    /// A property; without it the list is empty.
    key: Option<String>,
    /// Only values that contain this string.
    value: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PersonValueListing")]
struct ValueListing {
    results: Vec<CountedValue>,
    /// Always false: values are computed on request.
    refreshing: bool,
}

/// A value or name, and how many persons or groups have it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CountedValue")]
pub(crate) struct CountedValue {
    name: String,
    count: i64,
}

impl From<(String, i64)> for CountedValue {
    fn from((name, count): (String, i64)) -> Self {
        Self { name, count }
    }
}

/// Cacheable for 10 s: values change slowly, and autocompletion requests them often.
struct BrieflyCached(ValueListing);

impl IntoResponse for BrieflyCached {
    fn into_response(self) -> Response {
        ([(header::CACHE_CONTROL, "max-age=10")], axum::Json(self.0)).into_response()
    }
}

impl DescribeResponse for BrieflyCached {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<ValueListing>(200, schemas);
    }
}

async fn values(
    caller: Reader<Persons>,
    query: Query<ValuesQuery>,
    app: App,
) -> Result<BrieflyCached> {
    let containing = given(query.value.as_ref());
    let values = match given(query.key.as_ref()) {
        Some(key) => {
            app.catalog.persons().values(caller.project.id, key, containing, VALUES_MAX).await?
        }
        None => Vec::new(),
    };
    let results = values.into_iter().map(Into::into).collect();
    Ok(BrieflyCached(ValueListing { results, refreshing: false }))
}

#[derive(Deserialize, JsonSchema)]
struct CohortsQuery {
    /// A numeric id or a uuid.
    person_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct CohortsOfPerson {
    results: Vec<CohortItem>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CohortMinimal")]
struct CohortItem {
    id: CohortId,
    name: Option<String>,
    count: Option<i64>,
}

async fn cohorts(
    caller: Reader<Persons>,
    _: Reader<Cohorts>,
    query: Query<CohortsQuery>,
    app: App,
) -> Result<Json<CohortsOfPerson>> {
    let id = given(query.person_id.as_ref()).ok_or_else(|| Error::required("person_id"))?;
    let project = caller.project.id;
    let person = app.catalog.persons().get(project, key(id)?).await?;
    let cohorts = app.catalog.persons().cohorts(project, person.person.no).await?;
    let item = |(id, name, count)| CohortItem { id, name, count };
    Ok(Json(CohortsOfPerson { results: cohorts.into_iter().map(item).collect() }))
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.of_scope(&app, &caller.project, "Person", None).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: StringId,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let item_id = Some(person.person.no.0.to_string());
    page.of_scope(&app, &caller.project, "Person", item_id).await
}
