//! Dashboard templates: built-in ones, and those that clients send as JSON.

use std::collections::BTreeMap;

use catalog::{DashboardContents, NewContent, NewDashboard, NewInsight, NewTile};
use model::{CreationMode, FieldError, ObjectKind, TilePresentation, VerbatimJson};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::fields::{DESCRIPTION_CHARS_MAX, DashboardFields, IntoNew as _, NAME_CHARS_MAX};
use super::response::DashboardResponse;
use super::tiles::{ButtonFields, COLOR_CHARS_MAX, check_layouts, check_note};
use super::{Dashboards, default_dashboard, load_response};
use crate::http::body::{Both, max_chars, tags};
use crate::insights::overrides::check_filters;
use crate::insights::{check_legacy_filters, check_query, check_query_access, store_verbatim};
use crate::{App, Body, Error, Json, Patch, Result, Routes, Writer};

/// Built-in templates by the names that requests use.
pub(super) const BUILT_IN: &[(&[&str], &str)] = &[
    (&["DEFAULT_APP", "Product analytics"], include_str!("templates/product_analytics.json")),
    (&["WEBSITE_TRAFFIC", "Website traffic"], include_str!("templates/website_traffic.json")),
    (&["FLAG_USAGE", "Feature flag usage"], include_str!("templates/flag_usage.json")),
];
/// The request field that holds a template.
const TEMPLATE: &str = "template";
const TILES_MAX: usize = 100;
const VARIABLES_MAX: usize = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    let path = "/api/projects/{project_id}/dashboards/create_from_template_json";
    routes.post(path, create_from_template)
}

/// A validated template.
pub(super) struct Template {
    name: String,
    description: String,
    filters: Map<String, Value>,
    tags: Vec<String>,
    tiles: Vec<NewTile>,
}

impl Template {
    /// Fills in a new dashboard. A name that the request gives wins over the template's.
    pub(super) fn apply(self, to: &mut NewDashboard) {
        to.name = to.name.take().filter(|name| !name.is_empty()).or(Some(self.name));
        to.description = self.description;
        to.presentation.filters = self.filters;
        to.tags.extend(self.tags);
        to.tags.sort();
        to.tags.dedup();
        to.contents = DashboardContents::Tiles(self.tiles);
    }
}

pub(super) fn built_in(name: &str) -> Result<Template> {
    let template = BUILT_IN.iter().find(|(names, _)| names.contains(&name));
    let Some((_, text)) = template else {
        let detail = format!("Invalid template provided: {name}");
        return Err(Error::invalid("use_template", "invalid_input", detail));
    };
    let template = serde_json::from_str(text).map_err(|why| Error::parse(why.to_string()))?;
    TemplateFields::read(template)?.validate()
}

/// A dashboard as a template describes it.
pub(crate) fn from_template(template: Value) -> Result<NewDashboard> {
    let mut new = default_dashboard();
    new.creation_mode = CreationMode::Template;
    TemplateFields::read(template)?.validate()?.apply(&mut new);
    Ok(new)
}

#[derive(Deserialize, JsonSchema)]
struct FromTemplate {
    /// The template to instantiate.
    #[serde(default)]
    #[schemars(with = "Option<TemplateFields>")]
    template: Patch<Value>,
    /// The name of a built-in template, if there is no `template`.
    #[serde(default)]
    use_template: Patch<String>,
}

async fn create_from_template(
    caller: Writer<Dashboards>,
    app: App,
    body: Body<Both<DashboardFields, FromTemplate>>,
) -> Result<Json<DashboardResponse>> {
    caller.may_create(ObjectKind::Dashboard)?;
    let (fields, from) = body.read_both()?;
    let named = from.use_template.given().filter(|name| !name.trim().is_empty());
    let (template, mode) = match (from.template, named) {
        (Patch::Value(template), _) => {
            let mut fields = TemplateFields::read(template)?;
            fields.write(body.raw(&[TEMPLATE, "tiles"]))?;
            (fields.validate()?, CreationMode::Default)
        }
        (_, Some(name)) => (built_in(&name)?, CreationMode::Template),
        (_, None) => return Err(Error::required("template")),
    };
    // Fields of the request override the template's.
    let sent = fields.validate()?;
    let (description, filters) = (sent.description.clone(), sent.filters.clone());
    let mut new = sent.into_new();
    new.creation_mode = mode;
    template.apply(&mut new);
    new.description = description.unwrap_or(new.description);
    new.presentation.filters = filters.unwrap_or(new.presentation.filters);
    check_references(&app, &caller, &new).await?;
    let id = app.catalog.dashboards().create(&caller.actor(), caller.viewer(), new).await?;
    Ok(Json(load_response(&app, &caller, id).await?))
}

/// The caller must be allowed to see everything that the template's queries name.
async fn check_references(
    app: &App,
    caller: &Writer<Dashboards>,
    new: &NewDashboard,
) -> Result<()> {
    let DashboardContents::Tiles(tiles) = &new.contents else { return Ok(()) };
    for tile in tiles {
        let NewContent::NewInsight(insight) = &tile.content else { continue };
        let query = match &insight.query {
            Some(query) => Some(Value::Object(query.clone().into_fields())),
            None => query::convert_legacy_filters(&insight.filters, None)?,
        };
        if let Some(query) = query {
            check_query_access(app, caller, TEMPLATE, query).await?;
        }
    }
    Ok(())
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "DashboardTemplate")]
struct TemplateFields {
    template_name: String,
    dashboard_description: String,
    #[schemars(with = "query::schema::FilterOverrides")]
    dashboard_filters: Map<String, Value>,
    tiles: Vec<TemplateTile>,
    #[serde(default)]
    tags: Option<Vec<String>>,
    #[serde(default)]
    variables: Option<Vec<Variable>>,
}

/// A placeholder that the client has substituted already; only its shape is validated.
#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TemplateVariable")]
struct Variable {
    #[serde(rename = "id")]
    _id: String,
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "type")]
    _kind: VariableKind,
    #[serde(rename = "default")]
    _default: Map<String, Value>,
    #[serde(rename = "description")]
    _description: String,
    #[serde(rename = "required")]
    _required: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "TemplateVariableKind")]
enum VariableKind {
    Event,
}

#[derive(Deserialize, JsonSchema)]
struct TemplateTile {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    color: Option<String>,
    #[serde(default)]
    #[schemars(with = "Option<model::json_shapes::TileLayouts>")]
    layouts: Option<Map<String, Value>>,
    #[serde(default)]
    show_description: Option<bool>,
    #[serde(default)]
    #[schemars(with = "Option<query::schema::StoredQuery>")]
    query: Option<VerbatimJson>,
    #[serde(default)]
    #[schemars(with = "Option<query::schema::LegacyFilters>")]
    filters: Option<Map<String, Value>>,
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    button_tile: Option<ButtonFields>,
}

impl TemplateFields {
    fn read(template: Value) -> Result<Self> {
        model::deserialize_strict(&template).map_err(|why| {
            let FieldError { attr, detail, .. } = why.nested_in(TEMPLATE);
            Error::malformed(attr, detail)
        })
    }

    fn write(&mut self, tiles: Option<&RawValue>) -> Result<()> {
        let sent = tiles.and_then(|tiles| serde_json::from_str(tiles.get()).ok());
        let sent: Vec<BTreeMap<String, &RawValue>> = sent.unwrap_or_default();
        for (index, (tile, sent)) in self.tiles.iter_mut().zip(sent).enumerate() {
            if let Some(query) = &mut tile.query {
                let attr = format!("template__tiles__{index}__query");
                store_verbatim(&attr, query, sent.get("query").copied())?;
            }
        }
        Ok(())
    }

    fn validate(self) -> Result<Template> {
        if self.tiles.is_empty() || self.tiles.len() > TILES_MAX {
            let detail = format!("Expected 1 to {TILES_MAX} tiles.");
            return Err(Error::malformed("template__tiles", detail));
        }
        if self.variables.is_some_and(|variables| variables.len() > VARIABLES_MAX) {
            let detail = format!("Expected at most {VARIABLES_MAX} variables.");
            return Err(Error::malformed("template__variables", detail));
        }
        max_chars("template__template_name", &self.template_name, NAME_CHARS_MAX)?;
        check_filters("template__dashboard_filters", &self.dashboard_filters)?;
        let description = &self.dashboard_description;
        max_chars("template__dashboard_description", description, DESCRIPTION_CHARS_MAX)?;
        let mut tiles = Vec::with_capacity(self.tiles.len());
        for (index, tile) in self.tiles.into_iter().enumerate() {
            tiles.extend(tile.validate(&format!("template__tiles__{index}"))?);
        }
        Ok(Template {
            name: self.template_name,
            description: self.dashboard_description,
            filters: self.dashboard_filters,
            tags: tags(&self.tags.unwrap_or_default())?,
            tiles,
        })
    }
}

impl TemplateTile {
    /// None for an unknown kind of tile.
    fn validate(self, attr: &str) -> Result<Option<NewTile>> {
        let layouts = self.layouts.unwrap_or_default();
        check_layouts(&format!("{attr}__layouts"), &layouts)?;
        if let Some(color) = &self.color {
            max_chars(&format!("{attr}__color"), color, COLOR_CHARS_MAX)?;
        }
        let presentation = TilePresentation {
            layouts,
            color: self.color,
            show_description: self.show_description,
            ..Default::default()
        };
        let content = match self.kind.as_str() {
            "INSIGHT" => {
                if let Some(query) = &self.query {
                    check_query(&format!("{attr}__query"), query)?;
                }
                let filters = self.filters.filter(|_| self.query.is_none()).unwrap_or_default();
                if self.query.is_none() && filters.is_empty() {
                    return Err(Error::required(format!("{attr}__query")));
                }
                check_legacy_filters(&format!("{attr}__filters"), &filters)?;
                if let Some(name) = &self.name {
                    max_chars(&format!("{attr}__name"), name, NAME_CHARS_MAX)?;
                }
                if let Some(description) = &self.description {
                    let attr = format!("{attr}__description");
                    max_chars(&attr, description, DESCRIPTION_CHARS_MAX)?;
                }
                NewContent::NewInsight(Box::new(NewInsight {
                    name: self.name,
                    description: self.description,
                    query: self.query,
                    filters,
                    saved: true,
                    is_sample: true,
                    ..Default::default()
                }))
            }
            "TEXT" => {
                let attr = format!("{attr}__body");
                let body = self.body.ok_or_else(|| Error::required(&attr))?;
                check_note(&attr, &body)?;
                NewContent::Note(body)
            }
            "BUTTON" => {
                let button = self.button_tile;
                let button = button.ok_or_else(|| Error::required(format!("{attr}__button_tile")));
                NewContent::Button(button?.button(&format!("{attr}__button_tile"))?)
            }
            _ => return Ok(None),
        };
        Ok(Some(NewTile { presentation, content }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_templates_are_valid_and_have_at_least_four_insights() {
        for (names, _) in BUILT_IN {
            for name in *names {
                let template = built_in(name).unwrap_or_else(|why| panic!("{name}: {why:?}"));
                let is_insight =
                    |tile: &&NewTile| matches!(tile.content, NewContent::NewInsight(_));
                assert!(template.tiles.iter().filter(is_insight).count() >= 4, "{name}");
            }
        }
        assert!(built_in("nope").is_err());
    }
}
