//! Persons: found, changed and deleted by hand. Changes go through the journal like events, so
//! they are answered 202 and happen in the order they were asked for.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{PersonFilter, PersonKey, PersonWithIds};
use model::edit::{Doomed, Edit, Leaving};
use model::event::{AcceptedEvent, EventUuid};
use model::person::PersonNo;
use model::property::{Dialect, Node};
use model::{ProjectId, Timestamp};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::doc::{Answer, Operation};
use crate::edits::{change, keep};
use crate::path::{given, search};
use crate::{
    App, AppState, Base, Body, Created, Error, Found, Page, Query, Reader, Resource, Result,
    Routes, TextId, Writer,
};

/// Upstream's bound of one bulk delete.
const BULK_MAX: usize = 1_000;
/// What a person is called by, unless the project says otherwise.
const DISPLAY_NAMES: [&str; 3] = ["email", "name", "username"];

enum Persons {}

impl Resource for Persons {
    const SCOPE: &'static str = "person";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/persons", list)
        .post("/api/projects/{project_id}/persons/bulk_delete", bulk_delete)
        .get("/api/projects/{project_id}/persons/{id}", read)
        .patch("/api/projects/{project_id}/persons/{id}", update)
        .delete("/api/projects/{project_id}/persons/{id}", destroy)
        .post("/api/projects/{project_id}/persons/{id}/update_property", update_property)
        .post("/api/projects/{project_id}/persons/{id}/delete_property", delete_property)
        .post("/api/projects/{project_id}/persons/{id}/split", split)
}

#[derive(Serialize, JsonSchema)]
struct PersonFields {
    uuid: Uuid,
    name: String,
    distinct_ids: Vec<String>,
    properties: Map<String, Value>,
    created_at: Timestamp,
    last_seen_at: Option<Timestamp>,
    is_identified: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Person")]
struct Detail {
    id: PersonNumber,
    #[serde(flatten)]
    fields: PersonFields,
}

#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct PersonNumber(u32);

/// In lists the id is the uuid, as clients of upstream know it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PersonItem")]
pub(crate) struct Item {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    fields: PersonFields,
    matched_recordings: Vec<Value>,
    value_at_data_point: Option<Value>,
}

#[derive(Serialize, JsonSchema)]
struct PersonListing {
    results: Vec<Item>,
    next: Option<String>,
    previous: Option<String>,
    /// Only with `include_total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<i64>,
}

impl PersonFields {
    fn of(found: PersonWithIds, display: &[String]) -> Self {
        let PersonWithIds { person, mut distinct_ids } = found;
        // Ids that somebody chose come before those a device made up.
        distinct_ids.sort_by_key(|id| is_anonymous(id));
        let named = |name: &String| {
            let text = model::property::text(person.properties.get(name)?).into_owned();
            Some(text).filter(|text| !text.trim().is_empty())
        };
        let name = display.iter().find_map(named);
        let name = name.or_else(|| distinct_ids.first().cloned());
        Self {
            uuid: person.uuid,
            name: name.unwrap_or_else(|| person.uuid.to_string()),
            distinct_ids,
            properties: person.properties,
            created_at: person.created_at,
            last_seen_at: None,
            is_identified: person.is_identified,
        }
    }
}

fn is_anonymous(id: &str) -> bool {
    Uuid::parse_str(id).is_ok()
}

impl Item {
    pub(crate) fn of(found: PersonWithIds, display: &[String]) -> Self {
        let fields = PersonFields::of(found, display);
        let (id, matched_recordings) = (fields.uuid, Vec::new());
        Self { id, kind: "person", fields, matched_recordings, value_at_data_point: None }
    }
}

/// What persons are called by in the caller's project.
pub(crate) fn display_names<R, M>(caller: &crate::caller::InProject<R, M>) -> Vec<String> {
    let chosen = caller.project.settings.get("person_display_name_properties");
    let chosen: Vec<String> = serde_json::from_value(chosen).unwrap_or_default();
    match chosen.is_empty() {
        true => DISPLAY_NAMES.map(str::to_owned).into(),
        false => chosen,
    }
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    distinct_id: Option<String>,
    email: Option<String>,
    /// Part of the e-mail address or name, or a whole distinct id.
    search: Option<String>,
    /// A JSON array of filters on person properties.
    properties: Option<String>,
    /// Whether to count all of them; its presence counts.
    include_total: Option<String>,
}

async fn list(
    caller: Reader<Persons>,
    page: Page,
    base: Base,
    query: Query<ListQuery>,
    app: App,
) -> Result<Found<PersonListing>> {
    let filter = PersonFilter {
        distinct_id: given(query.distinct_id.as_ref()).map(str::to_owned),
        email: given(query.email.as_ref()).map(str::to_owned),
        search: search(query.search.as_ref())?,
        properties: properties(given(query.properties.as_ref()))?,
    };
    let (project, window) = (caller.project.id, page.window);
    let mut found = app.catalog.persons(project, &filter, window).await?;
    let more = found.len() as i64 > window.limit;
    found.truncate(usize::try_from(window.limit).unwrap_or(0));
    let count = match query.include_total {
        Some(_) => Some(app.catalog.persons_count(project, &filter).await?),
        None => None,
    };
    let link = |offset: i64| {
        let (limit, offset) = (window.limit.to_string(), offset.to_string());
        base.link(&[("limit", Some(&limit)), ("offset", Some(&offset))])
    };
    let display = display_names(&caller);
    Ok(Found(PersonListing {
        next: more.then(|| link(window.offset + window.limit)),
        previous: (window.offset >= window.limit).then(|| link(window.offset - window.limit)),
        results: found.into_iter().map(|found| Item::of(found, &display)).collect(),
        count,
    }))
}

fn properties(text: Option<&str>) -> Result<Option<Node>> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |detail: String| Error::invalid("properties", "invalid_input", detail);
    let filters: Value =
        serde_json::from_str(text).map_err(|_| wrong("Properties are unparsable!".into()))?;
    let tree = match filters {
        Value::Array(values) => json!({ "type": "AND", "values": values }),
        other => other,
    };
    Node::parse(&tree, &Dialect::default()).map(Some).map_err(|why| wrong(why.to_string()))
}

/// A number or a uuid; other text is most likely a distinct id.
fn key(id: &str) -> Result<PersonKey> {
    if let Ok(uuid) = Uuid::parse_str(id) {
        return Ok(PersonKey::Uuid(uuid));
    }
    if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = id.parse().map_err(|_| Error::not_found())?;
        return Ok(PersonKey::No(PersonNo(number)));
    }
    Err(Error::refused(
        "The ID provided does not look like a personID. \
         If you are using a distinctId, please use /persons?distinct_id= instead.",
    ))
}

async fn person(app: &AppState, project: ProjectId, id: &TextId) -> Result<PersonWithIds> {
    Ok(app.catalog.person(project, key(&id.0)?).await?)
}

async fn read(caller: Reader<Persons>, id: TextId, app: App) -> Result<Found<Detail>> {
    let found = person(&app, caller.project.id, &id).await?;
    let number = PersonNumber(found.person.no.0);
    let fields = PersonFields::of(found, &display_names(&caller));
    Ok(Found(Detail { id: number, fields }))
}

/// 202 without a body: the change is on its way.
struct Accepted;

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        StatusCode::ACCEPTED.into_response()
    }
}

impl Answer for Accepted {
    fn answer(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.empty_response(202);
    }
}

/// 202 with what was begun.
struct Begun<T>(T);

impl<T: Serialize> IntoResponse for Begun<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, axum::Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> Answer for Begun<T> {
    fn answer(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(202, schemas);
    }
}

#[derive(Serialize, JsonSchema)]
struct Success {
    success: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Properties {
    properties: Map<String, Value>,
}

async fn update(
    caller: Writer<Persons>,
    id: TextId,
    app: App,
    body: Body<Properties>,
) -> Result<Accepted> {
    let found = person(&app, caller.project.id, &id).await?;
    let set = body.read()?.properties;
    send(&app, caller.project.id, &found, "$set", json!({ "$set": set })).await?;
    Ok(Accepted)
}

#[derive(Deserialize, JsonSchema)]
struct NewValue {
    key: String,
    /// Must be there, and may be null.
    #[serde(deserialize_with = "whatever")]
    value: Value,
}

/// Without it, a member that is left out would be read as null.
fn whatever<'de, D: serde::Deserializer<'de>>(sent: D) -> std::result::Result<Value, D::Error> {
    Value::deserialize(sent)
}

async fn update_property(
    caller: Writer<Persons>,
    id: TextId,
    app: App,
    body: Body<NewValue>,
) -> Result<Accepted> {
    let found = person(&app, caller.project.id, &id).await?;
    let NewValue { key, value } = body.read()?;
    let set = json!({ "$set": { key: value } });
    send(&app, caller.project.id, &found, "$set", set).await?;
    Ok(Accepted)
}

#[derive(Deserialize, JsonSchema)]
struct Unset {
    #[serde(rename = "$unset")]
    unset: String,
}

async fn delete_property(
    caller: Writer<Persons>,
    id: TextId,
    app: App,
    body: Body<Unset>,
) -> Result<Created<Success>> {
    let found = person(&app, caller.project.id, &id).await?;
    let unset = json!({ "$unset": [body.read()?.unset] });
    send(&app, caller.project.id, &found, "$delete_person_property", unset).await?;
    Ok(Created(Success { success: true }))
}

#[derive(Deserialize, JsonSchema)]
struct Split {
    main_distinct_id: Option<String>,
    distinct_ids_to_split: Option<Vec<String>>,
}

async fn split(
    caller: Writer<Persons>,
    id: TextId,
    app: App,
    body: Body<Split>,
) -> Result<Created<Success>> {
    let found = person(&app, caller.project.id, &id).await?;
    let known = |attr: &str, id: &String| match found.distinct_ids.contains(id) {
        true => Ok(()),
        false => {
            let detail = format!("The person has no distinct id \"{id}\".");
            Err(Error::invalid(attr, "invalid_input", detail))
        }
    };
    let Split { main_distinct_id, distinct_ids_to_split } = body.read()?;
    let leaving = match (main_distinct_id, distinct_ids_to_split) {
        (_, Some(leaving)) => {
            leaving.iter().try_for_each(|id| known("distinct_ids_to_split", id))?;
            if found.distinct_ids.iter().all(|id| leaving.contains(id)) {
                let detail = "One distinct id has to stay.";
                return Err(Error::invalid("distinct_ids_to_split", "invalid_input", detail));
            }
            Leaving::These(leaving)
        }
        (Some(main), None) => {
            known("main_distinct_id", &main)?;
            Leaving::AllBut(main)
        }
        // Upstream keeps the first id then.
        (None, None) => Leaving::AllBut(found.distinct_ids.first().cloned().unwrap_or_default()),
    };
    let edit = Edit::SplitPerson { person: found.person.no, leaving };
    change(&app, caller.project.id, edit).await?;
    Ok(Created(Success { success: true }))
}

#[derive(Deserialize, JsonSchema)]
struct DeleteQuery {
    /// Whether the events go too; its presence counts.
    delete_events: Option<String>,
    /// Whether the person itself stays; its presence counts.
    keep_person: Option<String>,
}

/// None when nothing is left to delete.
const fn doomed(events: bool, keep_person: bool) -> Option<Doomed> {
    match (events, keep_person) {
        (true, true) => Some(Doomed::Events),
        (true, false) => Some(Doomed::Both),
        (false, false) => Some(Doomed::Person),
        (false, true) => None,
    }
}

async fn destroy(
    caller: Writer<Persons>,
    id: TextId,
    query: Query<DeleteQuery>,
    app: App,
) -> Result<Accepted> {
    let found = person(&app, caller.project.id, &id).await?;
    if let Some(what) = doomed(query.delete_events.is_some(), query.keep_person.is_some()) {
        let edit = Edit::DeletePersons { persons: vec![found.person.no], what };
        change(&app, caller.project.id, edit).await?;
    }
    Ok(Accepted)
}

#[derive(Deserialize, JsonSchema)]
struct BulkDelete {
    ids: Option<Vec<String>>,
    distinct_ids: Option<Vec<String>>,
    #[serde(default)]
    delete_events: bool,
    #[serde(default)]
    keep_person: bool,
}

#[derive(Serialize, JsonSchema)]
struct BulkDeleted {
    persons_found: usize,
    persons_deleted: usize,
    events_queued_for_deletion: bool,
    recordings_queued_for_deletion: bool,
    deletion_errors: Vec<Value>,
}

async fn bulk_delete(
    caller: Writer<Persons>,
    app: App,
    body: Body<BulkDelete>,
) -> Result<Begun<BulkDeleted>> {
    let BulkDelete { ids, distinct_ids, delete_events, keep_person } = body.read()?;
    let project = caller.project.id;
    let bounded = |attr: &str, all: &[String]| {
        let detail = format!("You can only pass {BULK_MAX} {attr} in one call");
        if all.len() > BULK_MAX { Err(Error::invalid(attr, "max_length", detail)) } else { Ok(()) }
    };
    let mut persons: Vec<PersonNo> = match (ids, distinct_ids) {
        (Some(ids), None) => {
            bounded("ids", &ids)?;
            let uuid = |id: &String| {
                let wrong = || Error::invalid("ids", "invalid_input", "Must be a valid UUID.");
                Uuid::parse_str(id).map_err(|_| wrong())
            };
            let uuids = ids.iter().map(uuid).collect::<Result<Vec<_>>>()?;
            app.catalog.person_numbers_by_uuid(project, &uuids).await?
        }
        (None, Some(ids)) => {
            bounded("distinct_ids", &ids)?;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let found = app.catalog.distinct_ids(project, &ids).await?;
            found.into_iter().filter_map(|id| id.person).collect()
        }
        _ => return Err(Error::refused("You need to specify either distinct_ids or ids")),
    };
    persons.sort();
    persons.dedup();
    let found = persons.len();
    let what = doomed(delete_events, keep_person).filter(|_| found > 0);
    if let Some(what) = what {
        change(&app, project, Edit::DeletePersons { persons, what }).await?;
    }
    Ok(Begun(BulkDeleted {
        persons_found: found,
        persons_deleted: if what.is_some_and(Doomed::has_person) { found } else { 0 },
        events_queued_for_deletion: what.is_some_and(Doomed::has_events),
        recordings_queued_for_deletion: false,
        deletion_errors: Vec::new(),
    }))
}

/// Puts an event into the journal in the name of the person.
async fn send(
    app: &AppState,
    project: ProjectId,
    found: &PersonWithIds,
    name: &str,
    properties: Value,
) -> Result<()> {
    let distinct_id = found.distinct_ids.first().ok_or_else(Error::not_found)?;
    let mut record = Vec::new();
    AcceptedEvent {
        project,
        received_at: app.catalog.clock().now(),
        client_ip: None,
        sent_at: None,
        historical_migration: false,
        uuid: EventUuid::Given(Uuid::now_v7()),
        name,
        distinct_id,
        timestamp: None,
        offset_ms: None,
        properties: &properties.to_string(),
        set: None,
        set_once: None,
        unset: None,
        v1: None,
    }
    .encode(&mut record);
    keep(app, &record).await
}
