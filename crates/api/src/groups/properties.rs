//! Property names and values of groups.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{Groups, index};
use crate::http::path::given;
use crate::persons::CountedValue;
use crate::{App, Error, Json, Query, Reader, Result, Routes};

/// Upstream's number of values.
const VALUES_MAX: usize = 20;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/groups/property_definitions", names)
        .get("/api/projects/{project_id}/groups/property_values", values)
}

/// Property names with their counts, by group type index.
async fn names(
    caller: Reader<Groups>,
    app: App,
) -> Result<Json<BTreeMap<String, Vec<CountedValue>>>> {
    let names = app.catalog.groups().property_names(caller.project.id).await?;
    let of_type = |(index, names): (u8, Vec<(String, i64)>)| {
        (index.to_string(), names.into_iter().map(Into::into).collect())
    };
    Ok(Json(names.into_iter().map(of_type).collect()))
}

#[derive(Deserialize, JsonSchema)]
struct ValuesQuery {
    group_type_index: Option<String>,
    key: Option<String>,
    /// Only values that contain this string.
    value: Option<String>,
}

async fn values(
    caller: Reader<Groups>,
    query: Query<ValuesQuery>,
    app: App,
) -> Result<Json<Vec<CountedValue>>> {
    let index = index(query.group_type_index.as_ref())?;
    let key = given(query.key.as_ref()).ok_or_else(|| Error::required("key"))?;
    let (project, containing) = (caller.project.id, given(query.value.as_ref()));
    let values = app.catalog.groups().values(project, index, key, containing, VALUES_MAX).await?;
    Ok(Json(values.into_iter().map(Into::into).collect()))
}
