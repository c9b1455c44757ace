//! Variables of HogQL statements, which name them as `{variables.code_name}`.

use catalog::InsightVariableChange;
use model::{InsightVariable, VariableType};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::http::body::{max_bytes, max_chars, not_blank, present};
use crate::{
    App, Body, Created, Error, IdAsUuid, IsPut, Json, Listing, NoContent, Page, Patch, Reader,
    Resource, Result, Routes, Writer,
};

/// Upstream's length.
const NAME_CHARS_MAX: usize = 400;
/// Ours: statements load the defaults of all variables.
const DEFAULT_BYTES_MAX: usize = 16 << 10;
const VALUES_MAX: usize = 1_000;
const VALUES_BYTES_MAX: usize = 64 << 10;

enum Variables {}

impl Resource for Variables {
    const SCOPE: &'static str = "insight_variable";
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/insight_variables", list)
        .post("/api/projects/{project_id}/insight_variables", create)
        .get("/api/projects/{project_id}/insight_variables/{id}", read)
        .patch("/api/projects/{project_id}/insight_variables/{id}", update)
        .delete("/api/projects/{project_id}/insight_variables/{id}", destroy)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "InsightVariableFields")]
struct VariableFields {
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, rename = "type", deserialize_with = "present")]
    kind: Option<VariableType>,
    #[serde(default)]
    default_value: Patch<Value>,
    /// The options of a list.
    #[serde(default)]
    values: Patch<Vec<String>>,
}

impl VariableFields {
    fn validate(self) -> Result<InsightVariableChange> {
        if let Some(name) = &self.name {
            not_blank("name", name)?;
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        let default_value = self.default_value.nullable().map(Option::unwrap_or_default);
        if let Some(value) = &default_value {
            max_bytes("default_value", value, DEFAULT_BYTES_MAX)?;
        }
        let values = self.values.nullable();
        if let Some(Some(values)) = &values {
            if values.len() > VALUES_MAX {
                let detail = format!("Ensure this field has no more than {VALUES_MAX} elements.");
                return Err(Error::invalid("values", "max_length", detail));
            }
            max_bytes("values", values, VALUES_BYTES_MAX)?;
        }
        Ok(InsightVariableChange { name: self.name, kind: self.kind, default_value, values })
    }
}

async fn list(caller: Reader<Variables>, page: Page, app: App) -> Result<Listing<InsightVariable>> {
    let (variables, total) =
        app.catalog.insight_variables().list(caller.project.id, page.window).await?;
    Ok(page.listing(variables, total))
}

async fn create(
    caller: Writer<Variables>,
    app: App,
    body: Body<VariableFields>,
) -> Result<Created<InsightVariable>> {
    let new = body.read()?.validate()?;
    for (attr, is_missing) in [("name", new.name.is_none()), ("type", new.kind.is_none())] {
        if is_missing {
            return Err(Error::required(attr));
        }
    }
    Ok(Created(app.catalog.insight_variables().create(&caller.actor(), new).await?))
}

async fn read(caller: Reader<Variables>, id: IdAsUuid, app: App) -> Result<Json<InsightVariable>> {
    Ok(Json(app.catalog.insight_variables().get(caller.project.id, id.0).await?))
}

async fn update(
    caller: Writer<Variables>,
    is_put: IsPut,
    id: IdAsUuid,
    app: App,
    body: Body<VariableFields>,
) -> Result<Json<InsightVariable>> {
    app.catalog.insight_variables().get(caller.project.id, id.0).await?;
    let change = body.read()?.validate()?;
    if is_put.0 && change.name.is_none() {
        return Err(Error::required("name"));
    }
    Ok(Json(app.catalog.insight_variables().update(&caller.actor(), id.0, change).await?))
}

async fn destroy(caller: Writer<Variables>, id: IdAsUuid, app: App) -> Result<NoContent> {
    app.catalog.insight_variables().delete(&caller.actor(), id.0).await?;
    Ok(NoContent)
}
