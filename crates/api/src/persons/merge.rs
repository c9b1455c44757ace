//! Merging two persons, with a preview.

use std::collections::BTreeMap;

use catalog::{PersonActivity, PersonKey, PersonWithIds};
use model::edit::Edit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::edits::{Success, log};
use super::{PersonFields, PersonNumber, PersonResponse, Persons, display_names, load_person};
use crate::http::path::given;
use crate::ingestion::edits::change;
use crate::{App, Body, Created, Error, Json, Query, Reader, Result, Routes, StringId, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/persons/{id}/merge_preview", preview)
        .post("/api/projects/{project_id}/persons/{id}/merge", merge)
}

#[derive(Deserialize, JsonSchema)]
struct PreviewQuery {
    /// A distinct id of the person that would be merged into this one.
    distinct_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct MergePreview {
    person: PersonResponse,
    other: PersonResponse,
    /// The properties after the merge.
    properties: Map<String, Value>,
    /// Properties that both have, with different values.
    conflicts: Vec<PropertyConflict>,
    /// How many distinct ids the person has after the merge.
    distinct_ids: i64,
}

#[derive(Serialize, JsonSchema)]
struct PropertyConflict {
    key: String,
    kept: Value,
    dropped: Value,
}

async fn preview(
    caller: Reader<Persons>,
    id: StringId,
    query: Query<PreviewQuery>,
    app: App,
) -> Result<Json<MergePreview>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let distinct_id = given(query.distinct_id.as_ref());
    let distinct_id = distinct_id.ok_or_else(|| Error::required("distinct_id"))?;
    let other = load_other(&app, &caller.project, &person, distinct_id).await?;
    let (kept, mut properties) = (&person.person.properties, other.person.properties.clone());
    let conflicting: BTreeMap<&String, &Value> = kept
        .iter()
        .filter(|(key, value)| properties.get(*key).is_some_and(|other| other != *value))
        .collect();
    let conflict = |(key, kept): (&String, &Value)| PropertyConflict {
        key: key.clone(),
        kept: kept.clone(),
        dropped: properties.get(key).cloned().unwrap_or_default(),
    };
    let conflicts = conflicting.into_iter().map(conflict).collect();
    properties.extend(kept.clone());
    let mut distinct_ids = 0;
    for person in [&person, &other] {
        let (project, no) = (caller.project.id, person.person.no);
        distinct_ids += app.catalog.persons().count_distinct_ids(project, no).await?;
    }
    let names = display_names(&caller);
    let shown = |person: PersonWithIds| PersonResponse {
        id: PersonNumber(person.person.no.0),
        fields: PersonFields::of(person, &names),
    };
    let (person, other) = (shown(person), shown(other));
    Ok(Json(MergePreview { person, other, properties, conflicts, distinct_ids }))
}

#[derive(Deserialize, JsonSchema)]
struct MergeFields {
    /// A distinct id of the person to merge into this one.
    distinct_id: String,
}

/// Merges another person into this one, whose properties win. A split takes its distinct ids out
/// again, but not its properties.
async fn merge(
    caller: Writer<Persons>,
    id: StringId,
    app: App,
    body: Body<MergeFields>,
) -> Result<Created<Success>> {
    let person = load_person(&app, caller.project.id, &id).await?;
    let MergeFields { distinct_id } = body.read()?;
    let other = load_other(&app, &caller.project, &person, &distinct_id).await?;
    let edit = Edit::MergePersons { person: person.person.no, other: other.person.no };
    change(&app, caller.project.id, edit).await?;
    log(&app, &caller, &person, PersonActivity::Merged(other.person.uuid)).await?;
    log(&app, &caller, &other, PersonActivity::MergedInto(person.person.uuid)).await?;
    Ok(Created(Success { success: true }))
}

/// The other person of a merge, by one of its distinct ids.
async fn load_other(
    app: &App,
    project: &catalog::ProjectRow,
    person: &PersonWithIds,
    distinct_id: &str,
) -> Result<PersonWithIds> {
    let refused = |detail: String| Error::invalid("distinct_id", "invalid_input", detail);
    let found = app.catalog.persons().distinct_ids(project.id, &[distinct_id]).await?;
    let other = found.into_iter().find_map(|id| id.person);
    let other = other
        .ok_or_else(|| refused(format!("No person has the distinct id \"{distinct_id}\".")))?;
    if other == person.person.no {
        return Err(refused("The distinct id already belongs to this person.".into()));
    }
    Ok(app.catalog.persons().get(project.id, PersonKey::No(other)).await?)
}
