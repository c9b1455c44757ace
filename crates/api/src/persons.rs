//! Persons: reading, listing, editing and deleting.

mod edits;
mod listing;
mod merge;
mod person_details;

use catalog::{PersonKey, PersonWithIds};
use model::person::PersonNo;
use model::{ProjectId, Timestamp};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::{App, AppState, Error, Json, Reader, Resource, Result, Routes, StringId};
pub(crate) use listing::table;
pub(crate) use person_details::CountedValue;

/// Properties that hold a person's display name, unless the project configures others.
const DISPLAY_NAMES: [&str; 3] = ["email", "name", "username"];

enum Persons {}

impl Resource for Persons {
    const SCOPE: &'static str = "person";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = routes
        .get("/api/projects/{project_id}/persons", listing::list)
        .refuse_post(
            "/api/projects/{project_id}/persons",
            "Persons come with events: send $identify or $set to capture.",
        )
        .get("/api/projects/{project_id}/persons/{id}", read);
    person_details::routes(merge::routes(edits::routes(routes)))
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
struct PersonResponse {
    id: PersonNumber,
    #[serde(flatten)]
    fields: PersonFields,
}

#[derive(Serialize, JsonSchema)]
#[serde(transparent)]
struct PersonNumber(u32);

/// In lists `id` is the uuid, as upstream has it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PersonItem")]
pub(crate) struct PersonItem {
    id: Uuid,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    fields: PersonFields,
    /// Always empty: there are no recordings.
    #[schemars(with = "Vec<String>")]
    matched_recordings: Vec<Value>,
    #[schemars(with = "Option<f64>")]
    value_at_data_point: Option<Value>,
}

impl PersonFields {
    fn of(person: PersonWithIds, display: &[String]) -> Self {
        let PersonWithIds { person, mut distinct_ids } = person;
        // Chosen ids come before anonymous ones, which SDKs generate.
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

impl PersonItem {
    pub(crate) fn of(person: PersonWithIds, display: &[String]) -> Self {
        let fields = PersonFields::of(person, display);
        let (id, matched_recordings) = (fields.uuid, Vec::new());
        Self { id, kind: "person", fields, matched_recordings, value_at_data_point: None }
    }
}

/// The properties that hold display names in the caller's project.
pub(crate) fn display_names<R, M>(caller: &crate::auth::caller::InProject<R, M>) -> Vec<String> {
    let chosen = caller.project.settings.person_display_name_properties();
    match chosen.is_empty() {
        true => DISPLAY_NAMES.map(str::to_owned).into(),
        false => chosen,
    }
}

/// Parses a numeric id or a uuid; anything else is most likely a distinct id.
fn key(id: &str) -> Result<PersonKey> {
    if let Ok(uuid) = Uuid::parse_str(id) {
        return Ok(PersonKey::Uuid(uuid));
    }
    if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = id.parse().map_err(|_| Error::not_found())?;
        return Ok(PersonKey::No(PersonNo(number)));
    }
    Err(Error::bad_request(
        "The ID provided does not look like a personID. \
         If you are using a distinctId, please use /persons?distinct_id= instead.",
    ))
}

async fn load_person(app: &AppState, project: ProjectId, id: &StringId) -> Result<PersonWithIds> {
    Ok(app.catalog.persons().get(project, key(&id.0)?).await?)
}

async fn read(caller: Reader<Persons>, id: StringId, app: App) -> Result<Json<PersonResponse>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let number = PersonNumber(person.person.no.0);
    let fields = PersonFields::of(person, &display_names(&caller));
    Ok(Json(PersonResponse { id: number, fields }))
}
