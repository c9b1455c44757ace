//! Members of a cohort: listing them, and adding and removing them in static cohorts.

use catalog::{Deleted, PersonIdKind};
use model::{Cohort, CohortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Cohorts, check_persons, live, uuid_strings};
use crate::http::csv::{Format, JsonOrCsv, Link};
use crate::http::path::search;
use crate::persons::{PersonItem, display_names, table};
use crate::{App, Body, Id, Json, Page, Query, Reader, Result, Routes, Writer};

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/cohorts/{id}/persons", persons)
        .patch("/api/projects/{project_id}/cohorts/{id}/add_persons_to_static_cohort", add)
        .patch("/api/projects/{project_id}/cohorts/{id}/remove_person_from_static_cohort", remove)
}

#[derive(Deserialize, JsonSchema)]
struct MembersQuery {
    /// A substring of a person's property values.
    search: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct Members {
    results: Vec<PersonItem>,
    next: Option<String>,
    previous: Option<String>,
}

async fn persons(
    caller: Reader<Cohorts>,
    id: Id,
    page: Page,
    query: Query<MembersQuery>,
    format: Format,
    app: App,
) -> Result<JsonOrCsv<Members>> {
    let cohort = live(&app, &caller.project, id).await?;
    let term = search(query.search.as_ref())?;
    let (persons, total) =
        app.catalog.cohorts().members(&cohort, term.as_deref(), page.window).await?;
    let display = display_names(&caller);
    let items: Vec<PersonItem> =
        persons.into_iter().map(|person| PersonItem::of(person, &display)).collect();
    let listing = page.listing(items, total);
    if format == Format::Csv {
        return Ok(JsonOrCsv::CsvPage(table(&listing.results)?, Link(listing.next)));
    }
    let (next, previous) = (listing.next, listing.previous);
    Ok(JsonOrCsv::Json(Members { results: listing.results, next, previous }))
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
) -> Result<Json<Cohort>> {
    let id = CohortId(id.0);
    app.catalog.cohorts().get(caller.project.id, id, Deleted::Exclude).await?;
    let AddPersons { person_ids } = body.read()?;
    check_persons("person_ids", &person_ids)?;
    let (actor, names) = (caller.actor(), uuid_strings(&person_ids));
    let added = app.catalog.cohorts().add_members(&actor, id, PersonIdKind::PersonUuid, &names);
    Ok(Json(added.await?))
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
) -> Result<Json<Removed>> {
    let id = CohortId(id.0);
    app.catalog.cohorts().get(caller.project.id, id, Deleted::Exclude).await?;
    let RemovePerson { person_id } = body.read()?;
    app.catalog.cohorts().remove_member(&caller.actor(), id, person_id).await?;
    Ok(Json(Removed { success: true }))
}
