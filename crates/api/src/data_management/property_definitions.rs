//! Property definitions: the property names of events, persons and groups, with their metadata.

use catalog::{PropertyDefinitionChange, PropertyDefinitionFilter};
use model::definition::{PropertyDefinition, PropertyOwner, PropertyType};
use model::group::GROUP_TYPES_MAX;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::data_management::event_definitions::{Definitions, terms};
use crate::http::body::{lenient_bool, max_chars, present, tags};
use crate::http::path::{given, names, search, switch};
use crate::{
    App, Body, Error, IdAsUuid, Json, NoContent, Page, Patch, Query, Reader, Resource, Result,
    Routes, Writer,
};

/// Ours: a list shows up to a thousand definitions, so each stays small.
const DESCRIPTION_CHARS_MAX: usize = 16_384;
/// Instructions to ingestion, which do not describe an event.
const NEVER_LISTED: &[&str] = &[
    "distinct_id",
    "$set",
    "$set_once",
    "$groups",
    "$group_type",
    "$group_key",
    "$group_set",
    "$group_0",
    "$group_1",
    "$group_2",
    "$group_3",
    "$group_4",
];

enum PropertyDefinitions {}

impl Resource for PropertyDefinitions {
    const SCOPE: &'static str = "property_definition";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/property_definitions", list)
        .get("/api/projects/{project_id}/property_definitions/{id}", read)
        .patch("/api/projects/{project_id}/property_definitions/{id}", update)
        .delete("/api/projects/{project_id}/property_definitions/{id}", destroy)
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// `event`, `person`, `group` or `session`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Required for group properties.
    group_type_index: Option<String>,
    /// Words that must all be in the name.
    search: Option<String>,
    /// Exact names, comma-separated.
    properties: Option<String>,
    /// A JSON array of event names.
    event_names: Option<String>,
    /// Only properties seen on one of `event_names`.
    filter_by_event_names: Option<String>,
    is_numerical: Option<String>,
    is_feature_flag: Option<String>,
    /// A JSON array of names.
    excluded_properties: Option<String>,
    exclude_hidden: Option<String>,
    exclude_core_properties: Option<String>,
}

async fn list(
    caller: Reader<PropertyDefinitions>,
    page: Page,
    query: Query<ListQuery>,
    app: App,
) -> Result<Json<Definitions<PropertyDefinition>>> {
    let Some(owner) = owner(&query)? else {
        return Ok(Definitions::of(page.listing(Vec::new(), 0)));
    };
    let is_on = |attr, text: Option<&String>| Ok::<_, Error>(switch(attr, text)? == Some(true));
    let mut excluded = names("excluded_properties", query.excluded_properties.as_ref())?;
    if owner == PropertyOwner::Event {
        excluded.extend(NEVER_LISTED.iter().map(|name| (*name).to_owned()));
    }
    let exact = given(query.properties.as_ref()).unwrap_or_default().split(',');
    let filter = PropertyDefinitionFilter {
        owner,
        terms: terms(search(query.search.as_ref())?),
        names: exact.map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect(),
        excluded,
        events: names("event_names", query.event_names.as_ref())?,
        only_seen_on_events: is_on("filter_by_event_names", query.filter_by_event_names.as_ref())?,
        only_numerical: is_on("is_numerical", query.is_numerical.as_ref())?,
        feature_flag: switch("is_feature_flag", query.is_feature_flag.as_ref())?,
        exclude_hidden: is_on("exclude_hidden", query.exclude_hidden.as_ref())?,
        exclude_built_in: is_on("exclude_core_properties", query.exclude_core_properties.as_ref())?,
    };
    let project = caller.project.id;
    let (definitions, total) =
        app.catalog.property_definitions().list(project, &filter, page.window).await?;
    Ok(Definitions::of(page.listing(definitions, total)))
}

/// The owner of the properties; none for sessions, which have no definitions.
fn owner(query: &ListQuery) -> Result<Option<PropertyOwner>> {
    let index = given(query.group_type_index.as_ref());
    match given(query.kind.as_ref()).unwrap_or("event") {
        "event" => Ok(Some(PropertyOwner::Event)),
        "person" => Ok(Some(PropertyOwner::Person)),
        "session" => Ok(None),
        "group" => {
            let index = index.ok_or_else(|| Error::required("group_type_index"))?;
            let index = index.parse().ok().filter(|index| *index < GROUP_TYPES_MAX);
            let index = index.ok_or_else(|| {
                let detail = "A valid index of a group type is required.";
                Error::invalid("group_type_index", "invalid_input", detail)
            })?;
            Ok(Some(PropertyOwner::Group(index)))
        }
        other => Err(Error::invalid_choice("type", other)),
    }
}

#[derive(Deserialize, JsonSchema)]
struct DefinitionFields {
    #[serde(default)]
    description: Patch<String>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    #[serde(default)]
    property_type: Patch<PropertyType>,
    #[serde(default, deserialize_with = "lenient_bool")]
    verified: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    hidden: Option<bool>,
}

async fn read(
    caller: Reader<PropertyDefinitions>,
    id: IdAsUuid,
    app: App,
) -> Result<Json<PropertyDefinition>> {
    Ok(Json(app.catalog.property_definitions().get(caller.project.id, id.0).await?))
}

async fn update(
    caller: Writer<PropertyDefinitions>,
    id: IdAsUuid,
    app: App,
    body: Body<DefinitionFields>,
) -> Result<Json<PropertyDefinition>> {
    let project = caller.project.id;
    app.catalog.property_definitions().get(project, id.0).await?;
    let fields = body.read()?;
    if let Patch::Value(text) = &fields.description {
        max_chars("description", text, DESCRIPTION_CHARS_MAX)?;
    }
    let change = PropertyDefinitionChange {
        description: fields.description.nullable(),
        tags: fields.tags.as_deref().map(tags).transpose()?,
        property_type: fields.property_type.nullable(),
        verified: fields.verified,
        hidden: fields.hidden,
    };
    let actor = caller.actor();
    Ok(Json(app.catalog.property_definitions().update(&actor, project, id.0, change).await?))
}

async fn destroy(caller: Writer<PropertyDefinitions>, id: IdAsUuid, app: App) -> Result<NoContent> {
    let actor = caller.actor();
    app.catalog.property_definitions().delete(&actor, caller.project.id, id.0).await?;
    Ok(NoContent)
}
