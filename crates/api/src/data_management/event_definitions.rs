//! Event definitions: the event names a project has received, with their metadata.

use catalog::{
    EventDefinitionChange, EventDefinitionFilter, EventDefinitionOrder, Origin, SortOrder,
};
use model::UserId;
use model::definition::{EnforcementMode, EventDefinition};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::http::body::{lenient_bool, max_chars, not_blank, present, tags};
use crate::http::path::{given, names, search, switch};
use crate::{
    App, Body, Created, Error, IdAsUuid, Json, Listing, NoContent, Page, Patch, Query, Reader,
    RequestUrl, Resource, Result, Routes, Writer,
};

/// Upstream's length of a name.
const NAME_CHARS_MAX: usize = 400;
/// Ours: a list shows up to a thousand definitions, so each stays small.
const DESCRIPTION_CHARS_MAX: usize = 16_384;
const COLUMNS_MAX: usize = 100;
/// An event that was not received for this long is stale.
const STALE_SECONDS: i64 = 30 * 24 * 3_600;

enum EventDefinitions {}

impl Resource for EventDefinitions {
    const SCOPE: &'static str = "event_definition";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/event_definitions", list)
        .post("/api/projects/{project_id}/event_definitions", create)
        .get("/api/projects/{project_id}/event_definitions/by_name", by_name)
        .get("/api/projects/{project_id}/event_definitions/{id}", read)
        .patch("/api/projects/{project_id}/event_definitions/{id}", update)
        .delete("/api/projects/{project_id}/event_definitions/{id}", destroy)
        .get("/api/projects/{project_id}/event_definitions/activity", activity)
        .get("/api/projects/{project_id}/event_definitions/{id}/activity", activity_of_one)
}

/// The standard envelope with `count_is_capped`, which is always false: `count` is exact.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "{T}Definitions")]
pub(crate) struct Definitions<T> {
    #[serde(flatten)]
    listing: Listing<T>,
    count_is_capped: bool,
}

impl<T> Definitions<T> {
    pub(crate) fn of(listing: Listing<T>) -> Json<Self> {
        Json(Self { listing, count_is_capped: false })
    }
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// Words that must all be in the name.
    search: Option<String>,
    /// `event`, `event_custom` or `event_posthog`.
    event_type: Option<String>,
    /// `name`, `last_seen_at`, `created_at`; `-` before a name sorts descending; comma-separated.
    #[expect(dead_code, reason = "read with its repetitions; here it is documented")]
    ordering: Option<String>,
    /// Exact names, comma-separated.
    #[expect(dead_code, reason = "read with its repetitions; here it is documented")]
    names: Option<String>,
    /// A JSON array of names.
    excluded_properties: Option<String>,
    /// A JSON array; a definition with any of these tags matches.
    tags: Option<String>,
    verified: Option<String>,
    exclude_hidden: Option<String>,
    exclude_stale: Option<String>,
}

async fn list(
    caller: Reader<EventDefinitions>,
    page: Page,
    url: RequestUrl,
    query: Query<ListQuery>,
    app: App,
) -> Result<Json<Definitions<EventDefinition>>> {
    page.refuse_bad_window()?;
    let stale = app.catalog.clock().now().plus_seconds(-STALE_SECONDS);
    let is_on = |attr, text: Option<&String>| Ok::<_, Error>(switch(attr, text)? == Some(true));
    let filter = EventDefinitionFilter {
        terms: terms(search(query.search.as_ref())?),
        origin: origin(given(query.event_type.as_ref()))?,
        names: listed(&url, "names"),
        excluded: names("excluded_properties", query.excluded_properties.as_ref())?,
        tags: names("tags", query.tags.as_ref())?,
        verified: switch("verified", query.verified.as_ref())?,
        exclude_hidden: is_on("exclude_hidden", query.exclude_hidden.as_ref())?,
        seen_since: is_on("exclude_stale", query.exclude_stale.as_ref())?.then_some(stale),
        order: listed(&url, "ordering").iter().filter_map(|text| order(text)).collect(),
    };
    let project = caller.project.id;
    let (definitions, total) =
        app.catalog.event_definitions().list(project, &filter, page.window).await?;
    Ok(Definitions::of(page.listing(definitions, total)))
}

/// The terms of a search.
pub(crate) fn terms(search: Option<String>) -> Vec<String> {
    search.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

/// All values of a parameter that may be repeated and comma-separated.
fn listed(url: &RequestUrl, name: &str) -> Vec<String> {
    let values = url.values(name).flat_map(|value| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect()
}

fn origin(kind: Option<&str>) -> Result<Option<Origin>> {
    match kind {
        None | Some("event" | "all" | "action_event") => Ok(None),
        Some("event_custom") => Ok(Some(Origin::Custom)),
        Some("event_posthog") => Ok(Some(Origin::BuiltIn)),
        Some(other) => Err(Error::invalid_choice("event_type", other)),
    }
}

/// None for an unknown column, which is ignored.
fn order(text: &str) -> Option<(EventDefinitionOrder, SortOrder)> {
    let (name, sense) = match text.strip_prefix('-') {
        Some(name) => (name, SortOrder::Descending),
        None => (text, SortOrder::Ascending),
    };
    let by = match name {
        "name" => EventDefinitionOrder::Name,
        "last_seen_at" => EventDefinitionOrder::LastSeen,
        "last_seen_at::date" => EventDefinitionOrder::LastSeenDay,
        "created_at" => EventDefinitionOrder::Created,
        "created_at::date" => EventDefinitionOrder::CreatedDay,
        _ => return None,
    };
    Some((by, sense))
}

#[derive(Deserialize, JsonSchema)]
struct DefinitionFields {
    #[serde(default)]
    description: Patch<String>,
    /// The user id of a member.
    #[serde(default)]
    owner: Patch<UserId>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient_bool")]
    verified: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    hidden: Option<bool>,
    #[serde(default, deserialize_with = "present")]
    default_columns: Option<Vec<String>>,
    #[serde(default)]
    primary_property: Patch<String>,
    #[serde(default, deserialize_with = "present")]
    enforcement_mode: Option<EnforcementMode>,
}

#[derive(Deserialize, JsonSchema)]
struct NewDefinition {
    name: String,
    #[serde(flatten)]
    fields: DefinitionFields,
}

async fn create(
    caller: Writer<EventDefinitions>,
    app: App,
    body: Body<NewDefinition>,
) -> Result<Created<EventDefinition>> {
    let new = body.read()?;
    not_blank("name", &new.name)?;
    max_chars("name", &new.name, NAME_CHARS_MAX)?;
    let (actor, project, change) = (caller.actor(), caller.project.id, new.fields.validate()?);
    Ok(Created(app.catalog.event_definitions().create(&actor, project, &new.name, change).await?))
}

#[derive(Deserialize, JsonSchema)]
struct NameQuery {
    name: Option<String>,
}

async fn by_name(
    caller: Reader<EventDefinitions>,
    query: Query<NameQuery>,
    app: App,
) -> Result<Json<EventDefinition>> {
    let name = given(query.name.as_ref()).ok_or_else(|| Error::required("name"))?;
    Ok(Json(app.catalog.event_definitions().by_name(caller.project.id, name).await?))
}

async fn read(
    caller: Reader<EventDefinitions>,
    id: IdAsUuid,
    app: App,
) -> Result<Json<EventDefinition>> {
    Ok(Json(app.catalog.event_definitions().get(caller.project.id, id.0).await?))
}

async fn update(
    caller: Writer<EventDefinitions>,
    id: IdAsUuid,
    app: App,
    body: Body<DefinitionFields>,
) -> Result<Json<EventDefinition>> {
    let project = caller.project.id;
    app.catalog.event_definitions().get(project, id.0).await?;
    let change = body.read()?.validate()?;
    let actor = caller.actor();
    Ok(Json(app.catalog.event_definitions().update(&actor, project, id.0, change).await?))
}

async fn destroy(caller: Writer<EventDefinitions>, id: IdAsUuid, app: App) -> Result<NoContent> {
    let actor = caller.actor();
    app.catalog.event_definitions().delete(&actor, caller.project.id, id.0).await?;
    Ok(NoContent)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.of_all::<EventDefinition>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: IdAsUuid,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let definition = app.catalog.event_definitions().get(caller.project.id, id.0).await?;
    page.of(&app, &caller.project, &definition).await
}

impl DefinitionFields {
    fn validate(self) -> Result<EventDefinitionChange> {
        if let Patch::Value(text) = &self.description {
            max_chars("description", text, DESCRIPTION_CHARS_MAX)?;
        }
        if let Patch::Value(name) = &self.primary_property {
            max_chars("primary_property", name, NAME_CHARS_MAX)?;
        }
        let columns = self.default_columns.as_deref().unwrap_or_default();
        if columns.len() > COLUMNS_MAX {
            let detail = format!("Ensure this field has no more than {COLUMNS_MAX} elements.");
            return Err(Error::invalid("default_columns", "max_length", detail));
        }
        for (index, name) in columns.iter().enumerate() {
            max_chars(&format!("default_columns__{index}"), name, NAME_CHARS_MAX)?;
        }
        Ok(EventDefinitionChange {
            description: self.description.nullable(),
            owner: self.owner.nullable(),
            tags: self.tags.as_deref().map(tags).transpose()?,
            verified: self.verified,
            hidden: self.hidden,
            default_columns: self.default_columns,
            primary_property: self.primary_property.nullable(),
            enforcement_mode: self.enforcement_mode,
        })
    }
}
