//! Who belongs to a cohort, and who is put on a list or taken off it.

use catalog::{Among, CohortMember, NamedBy};
use model::person::Person;
use model::{Cohort, CohortId, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Cohorts, check_persons, live, texts};
use crate::path::search;
use crate::{App, Body, Found, Id, Page, Query, Reader, Result, Routes, Writer};

/// Properties that people are called by, the better ones first.
const NAMES: [&str; 3] = ["email", "name", "username"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/cohorts/{id}/persons", persons)
        .patch("/api/projects/{project_id}/cohorts/{id}/add_persons_to_static_cohort", add)
        .patch("/api/projects/{project_id}/cohorts/{id}/remove_person_from_static_cohort", remove)
}

#[derive(Deserialize, JsonSchema)]
struct MembersQuery {
    /// In a property.
    search: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Members {
    results: Vec<ShownMember>,
    next: Option<String>,
    previous: Option<String>,
}

/// A person as lists show one.
#[derive(Serialize, JsonSchema)]
struct ShownMember {
    id: Uuid,
    uuid: Uuid,
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    distinct_ids: Vec<String>,
    properties: Map<String, Value>,
    created_at: Timestamp,
    last_seen_at: Option<Timestamp>,
    is_identified: bool,
    matched_recordings: Vec<Value>,
    value_at_data_point: Option<Value>,
}

impl From<CohortMember> for ShownMember {
    fn from(CohortMember { person, distinct_ids }: CohortMember) -> Self {
        let Person { uuid, properties, is_identified, created_at, .. } = person;
        let called = NAMES.iter().filter_map(|name| properties.get(*name)?.as_str());
        let name = called.filter(|name| !name.is_empty()).map(str::to_owned).next();
        let name = name.or_else(|| distinct_ids.first().cloned());
        Self {
            id: uuid,
            uuid,
            kind: "person",
            name: name.unwrap_or_else(|| uuid.to_string()),
            distinct_ids,
            properties,
            created_at,
            last_seen_at: None,
            is_identified,
            matched_recordings: Vec::new(),
            value_at_data_point: None,
        }
    }
}

async fn persons(
    caller: Reader<Cohorts>,
    id: Id,
    page: Page,
    query: Query<MembersQuery>,
    app: App,
) -> Result<Found<Members>> {
    let cohort = live(&app, &caller.project, id).await?;
    let wanted = search(query.search.as_ref())?;
    let found = app.catalog.cohort_members(&cohort, wanted.as_deref(), page.window).await?;
    let shown = found.0.into_iter().map(ShownMember::from).collect();
    let listing = page.listing(shown, found.1);
    let (next, previous) = (listing.next, listing.previous);
    Ok(Found(Members { results: listing.results, next, previous }))
}

#[derive(Deserialize, JsonSchema)]
struct AddPersons {
    person_ids: Vec<Uuid>,
}

async fn add(
    caller: Writer<Cohorts>,
    id: Id,
    app: App,
    body: Body<AddPersons>,
) -> Result<Found<Cohort>> {
    let id = CohortId(id.0);
    app.catalog.cohort(caller.project.id, id, Among::Live).await?;
    let AddPersons { person_ids } = body.read()?;
    check_persons("person_ids", &person_ids)?;
    let (actor, names) = (caller.actor(), texts(&person_ids));
    let added = app.catalog.add_to_cohort(&actor, id, NamedBy::PersonUuid, &names);
    Ok(Found(added.await?))
}

#[derive(Deserialize, JsonSchema)]
struct RemovePerson {
    person_id: Uuid,
}

#[derive(Serialize, JsonSchema)]
struct Removed {
    success: bool,
}

async fn remove(
    caller: Writer<Cohorts>,
    id: Id,
    app: App,
    body: Body<RemovePerson>,
) -> Result<Found<Removed>> {
    let id = CohortId(id.0);
    app.catalog.cohort(caller.project.id, id, Among::Live).await?;
    let RemovePerson { person_id } = body.read()?;
    app.catalog.remove_from_cohort(&caller.actor(), id, person_id).await?;
    Ok(Found(Removed { success: true }))
}
