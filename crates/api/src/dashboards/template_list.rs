//! The built-in dashboard templates, for clients that offer a choice.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::templates::BUILT_IN;
use crate::{Error, IdAsUuid, Json, Listing, Page, Reader, Resource, Result, Routes};

enum DashboardTemplates {}

impl Resource for DashboardTemplates {
    const SCOPE: &'static str = "dashboard_template";
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/dashboard_templates", list)
        .get("/api/projects/{project_id}/dashboard_templates/{id}", read)
}

#[derive(Serialize, JsonSchema)]
struct DashboardTemplate {
    id: Uuid,
    template_name: String,
    dashboard_description: String,
    #[schemars(with = "query::schema::FilterOverrides")]
    dashboard_filters: Map<String, Value>,
    tags: Vec<String>,
    /// As `create_from_template_json` takes them.
    tiles: Vec<Value>,
    variables: Vec<Value>,
    deleted: bool,
    image_url: Option<String>,
    /// Always null: every project has the templates.
    team_id: Option<i64>,
    scope: &'static str,
}

/// Their ids are the same on every instance.
fn templates() -> impl Iterator<Item = Result<DashboardTemplate>> {
    (1..).zip(BUILT_IN).map(|(number, (_, text))| {
        let mut stored: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| Error::internal(&error))?;
        let mut text = |name: &str| match stored.remove(name) {
            Some(Value::String(text)) => text,
            _ => String::new(),
        };
        let (template_name, dashboard_description) =
            (text("template_name"), text("dashboard_description"));
        let mut list = |name: &str| match stored.remove(name) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        let (tags, tiles, variables) = (list("tags"), list("tiles"), list("variables"));
        let dashboard_filters = match stored.remove("dashboard_filters") {
            Some(Value::Object(filters)) => filters,
            _ => Map::new(),
        };
        Ok(DashboardTemplate {
            id: Uuid::from_u128(number),
            template_name,
            dashboard_description,
            dashboard_filters,
            tags: tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            tiles,
            variables,
            deleted: false,
            image_url: None,
            team_id: None,
            scope: "global",
        })
    })
}

async fn list(_: Reader<DashboardTemplates>, page: Page) -> Result<Listing<DashboardTemplate>> {
    let all = templates().collect::<Result<Vec<_>>>()?;
    let (offset, limit) = (page.window.offset as usize, page.window.limit as usize);
    let count = all.len() as i64;
    Ok(page.listing(all.into_iter().skip(offset).take(limit).collect(), count))
}

async fn read(_: Reader<DashboardTemplates>, id: IdAsUuid) -> Result<Json<DashboardTemplate>> {
    let found =
        templates().find(|template| template.as_ref().map_or(true, |template| template.id == id.0));
    found.ok_or_else(Error::not_found)?.map(Json)
}
