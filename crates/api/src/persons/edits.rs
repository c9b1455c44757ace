//! Edits of persons. They go through the journal like events, so they are applied in order, and
//! most respond with 202.

use std::collections::HashSet;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{PersonActivity, PersonWithIds};
use model::ProjectId;
use model::edit::{DeleteScope, Edit, SplitIds};
use model::event::{AcceptedEvent, EventUuid};
use model::person::PersonNo;
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Persons, load_person};
use crate::http::openapi::{DescribeResponse, Operation};
use crate::ingestion::edits::{append, change};
use crate::{App, AppState, Body, Created, Error, Query, Result, Routes, StringId, Writer};

/// Upstream's limit of one bulk delete.
const BULK_MAX: usize = 1_000;
/// Distinct ids that one split moves to persons of their own, in one pipeline transaction.
const SPLIT_MAX: usize = 50_000;
/// Distinct ids in the activity log's entry of a split.
const LOGGED_MAX: usize = 1_000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/persons/bulk_delete", bulk_delete)
        .patch("/api/projects/{project_id}/persons/{id}", update)
        .delete("/api/projects/{project_id}/persons/{id}", destroy)
        .post("/api/projects/{project_id}/persons/{id}/update_property", update_property)
        .post("/api/projects/{project_id}/persons/{id}/delete_property", delete_property)
        .post("/api/projects/{project_id}/persons/{id}/split", split)
}

/// 202 without a body: the journal has the edit.
struct Accepted;

impl IntoResponse for Accepted {
    fn into_response(self) -> Response {
        StatusCode::ACCEPTED.into_response()
    }
}

impl DescribeResponse for Accepted {
    fn describe_response(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.empty_response(202);
    }
}

/// 202 with a JSON body.
struct AcceptedJson<T>(T);

impl<T: Serialize> IntoResponse for AcceptedJson<T> {
    fn into_response(self) -> Response {
        (StatusCode::ACCEPTED, axum::Json(self.0)).into_response()
    }
}

impl<T: JsonSchema> DescribeResponse for AcceptedJson<T> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<T>(202, schemas);
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Success {
    pub success: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Properties {
    properties: Map<String, Value>,
}

async fn update(
    caller: Writer<Persons>,
    id: StringId,
    app: App,
    body: Body<Properties>,
) -> Result<Accepted> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let set = body.read().map_err(Error::with_code_and_detail_swapped)?.properties;
    send(&app, caller.project.id, &person, "$set", json!({ "$set": set })).await?;
    log(&app, &caller, &person, PersonActivity::Updated).await?;
    Ok(Accepted)
}

#[derive(Deserialize, JsonSchema)]
struct NewValue {
    key: String,
    /// Required; may be null.
    #[serde(deserialize_with = "required")]
    value: Value,
}

/// Makes the member required: serde reads a missing `Value` as null.
fn required<'de, D: serde::Deserializer<'de>>(sent: D) -> std::result::Result<Value, D::Error> {
    Value::deserialize(sent)
}

async fn update_property(
    caller: Writer<Persons>,
    id: StringId,
    app: App,
    body: Body<NewValue>,
) -> Result<Accepted> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let NewValue { key, value } = body.read().map_err(Error::with_code_and_detail_swapped)?;
    let set = json!({ "$set": { key: value } });
    send(&app, caller.project.id, &person, "$set", set).await?;
    log(&app, &caller, &person, PersonActivity::Updated).await?;
    Ok(Accepted)
}

#[derive(Deserialize, JsonSchema)]
struct Unset {
    #[serde(rename = "$unset")]
    unset: String,
}

async fn delete_property(
    caller: Writer<Persons>,
    id: StringId,
    app: App,
    body: Body<Unset>,
) -> Result<Created<Success>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let unset =
        json!({ "$unset": [body.read().map_err(Error::with_code_and_detail_swapped)?.unset] });
    send(&app, caller.project.id, &person, "$delete_person_property", unset).await?;
    log(&app, &caller, &person, PersonActivity::PropertyDeleted).await?;
    Ok(Created(Success { success: true }))
}

#[derive(Deserialize, JsonSchema)]
struct Split {
    main_distinct_id: Option<String>,
    distinct_ids_to_split: Option<Vec<String>>,
}

async fn split(
    caller: Writer<Persons>,
    id: StringId,
    app: App,
    body: Body<Split>,
) -> Result<Created<Success>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let project = caller.project.id;
    let total = app.catalog.persons().count_distinct_ids(project, person.person.no).await?;
    let Split { main_distinct_id, distinct_ids_to_split } = body.read()?;
    let (leaving, count) = match (main_distinct_id, distinct_ids_to_split) {
        (_, Some(mut leaving)) => {
            const ATTR: &str = "distinct_ids_to_split";
            if leaving.len() > SPLIT_MAX {
                let detail = format!("Ensure this field has no more than {SPLIT_MAX} elements.");
                return Err(Error::invalid(ATTR, "max_length", detail));
            }
            let mut visited = HashSet::new();
            leaving.retain(|id| visited.insert(id.clone()));
            check_ids_belong(&app, project, &person, ATTR, &leaving).await?;
            if leaving.len() as i64 >= total {
                let detail = "One distinct id has to stay.";
                return Err(Error::invalid(ATTR, "invalid_input", detail));
            }
            let count = leaving.len() as i64;
            (SplitIds::Only(leaving), count)
        }
        (Some(main), None) => {
            check_ids_belong(
                &app,
                project,
                &person,
                "main_distinct_id",
                std::slice::from_ref(&main),
            )
            .await?;
            (SplitIds::AllExcept(main), total - 1)
        }
        // Upstream keeps the first distinct id on the person.
        (None, None) => {
            let first = person.distinct_ids.first().cloned().unwrap_or_default();
            (SplitIds::AllExcept(first), total - 1)
        }
    };
    if count > SPLIT_MAX as i64 {
        let detail = format!(
            "The person has {total} distinct ids. Name at most {SPLIT_MAX} of them in \
             `distinct_ids_to_split`, and repeat the call."
        );
        return Err(Error::bad_request(detail));
    }
    // The log lists some of the ids; the new persons have all.
    let left: Vec<String> = match &leaving {
        SplitIds::Only(leaving) => leaving.iter().take(LOGGED_MAX).cloned().collect(),
        SplitIds::AllExcept(main) => {
            let shown = person.distinct_ids.iter().filter(|id| *id != main);
            shown.take(LOGGED_MAX).cloned().collect()
        }
    };
    let edit = Edit::SplitPerson { person: person.person.no, ids: leaving };
    change(&app, project, edit).await?;
    log(&app, &caller, &person, PersonActivity::Split(left)).await?;
    Ok(Created(Success { success: true }))
}

/// Rejects ids that do not belong to the person. Looks them up, since `found` may not list all.
async fn check_ids_belong(
    app: &AppState,
    project: ProjectId,
    person: &PersonWithIds,
    attr: &str,
    ids: &[String],
) -> Result<()> {
    let texts: Vec<&str> = ids.iter().map(String::as_str).collect();
    let stored = app.catalog.persons().distinct_ids(project, &texts).await?;
    let ids_of_person: HashSet<&str> = stored
        .iter()
        .filter(|id| id.person == Some(person.person.no))
        .map(|id| id.text.as_str())
        .collect();
    match ids.iter().find(|id| !ids_of_person.contains(id.as_str())) {
        None => Ok(()),
        Some(id) => {
            let detail = format!("The person has no distinct id \"{id}\".");
            Err(Error::invalid(attr, "invalid_input", detail))
        }
    }
}

#[derive(Deserialize, JsonSchema)]
struct DeleteQuery {
    /// If present, with any value: also delete the events.
    delete_events: Option<String>,
    /// If present, with any value: keep the person.
    keep_person: Option<String>,
}

/// None if there is nothing to delete.
const fn delete_scope(events: bool, keep_person: bool) -> Option<DeleteScope> {
    match (events, keep_person) {
        (true, true) => Some(DeleteScope::Events),
        (true, false) => Some(DeleteScope::Both),
        (false, false) => Some(DeleteScope::Person),
        (false, true) => None,
    }
}

async fn destroy(
    caller: Writer<Persons>,
    id: StringId,
    query: Query<DeleteQuery>,
    app: App,
) -> Result<Accepted> {
    let person = load_person(&app, caller.project.id, &id).await?;
    if let Some(what) = delete_scope(query.delete_events.is_some(), query.keep_person.is_some()) {
        let edit = Edit::DeletePersons { persons: vec![person.person.no], scope: what };
        change(&app, caller.project.id, edit).await?;
        if what.has_person() {
            log(&app, &caller, &person, PersonActivity::Deleted).await?;
        }
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
    #[schemars(with = "Vec<String>")]
    deletion_errors: Vec<Value>,
}

async fn bulk_delete(
    caller: Writer<Persons>,
    app: App,
    body: Body<BulkDelete>,
) -> Result<AcceptedJson<BulkDeleted>> {
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
            app.catalog.persons().nos_by_uuid(project, &uuids).await?
        }
        (None, Some(ids)) => {
            bounded("distinct_ids", &ids)?;
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let stored = app.catalog.persons().distinct_ids(project, &ids).await?;
            stored.into_iter().filter_map(|id| id.person).collect()
        }
        _ => return Err(Error::bad_request("You need to specify either distinct_ids or ids")),
    };
    persons.sort();
    persons.dedup();
    let count = persons.len();
    let what = delete_scope(delete_events, keep_person).filter(|_| count > 0);
    if let Some(what) = what {
        let deleted = match what.has_person() {
            true => app.catalog.persons().by_no(project, &persons).await?,
            false => Vec::new(),
        };
        change(&app, project, Edit::DeletePersons { persons, scope: what }).await?;
        app.catalog.persons().log(&caller.actor(), &deleted, PersonActivity::Deleted).await?;
    }
    Ok(AcceptedJson(BulkDeleted {
        persons_found: count,
        persons_deleted: if what.is_some_and(DeleteScope::has_person) { count } else { 0 },
        events_queued_for_deletion: what.is_some_and(DeleteScope::has_events),
        recordings_queued_for_deletion: false,
        deletion_errors: Vec::new(),
    }))
}

/// Adds an entry to the activity log, without the change's values.
pub(super) async fn log(
    app: &AppState,
    caller: &Writer<Persons>,
    person: &PersonWithIds,
    activity: PersonActivity,
) -> Result<()> {
    let persons = std::slice::from_ref(&person.person);
    Ok(app.catalog.persons().log(&caller.actor(), persons, activity).await?)
}

/// Appends an event of the person to the journal.
async fn send(
    app: &AppState,
    project: ProjectId,
    person: &PersonWithIds,
    name: &str,
    properties: Value,
) -> Result<()> {
    let distinct_id = person.distinct_ids.first().ok_or_else(Error::not_found)?;
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
    append(app, &record).await
}
