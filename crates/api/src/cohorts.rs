//! Cohorts: sets of persons, dynamic (defined by conditions) or static (a list).

mod csv;
mod members;
mod upload;
mod usage;

use catalog::{Actor, CohortChange, CohortFilter, Deleted, NewCohort, NewCohortKind, PersonIdKind};
use model::{Cohort, CohortId, Timestamp, UserId, cohort_tree, filters_from_groups};
use query::{QueryRequest, QueryResponse, Refresh};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::hogql_scope;
use crate::auth::resources::Cohorts;
use crate::http::body::{lenient_bool, max_bytes, max_chars, present};
use crate::http::path::{given, search};
use crate::{
    App, AppState, Created, Error, Id, IsPut, Json, Listing, Page, Patch, Query, Reader, Result,
    Routes, SoftDeleteOnly, Writer,
};
use upload::Upload;

/// Upstream's lengths.
pub(crate) const NAME_CHARS_MAX: usize = 400;
const DESCRIPTION_CHARS_MAX: usize = 1_000;
/// Ours: a list shows up to a thousand cohorts, so each stays small.
const FILTERS_BYTES_MAX: usize = 64 << 10;
/// Persons in one JSON request; files may list more.
const PERSONS_SENT_MAX: usize = 10_000;
/// Persons that a query may add: the maximum number of rows of a query result.
const QUERY_PERSONS_MAX: u64 = 50_000;

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = routes
        .get("/api/projects/{project_id}/cohorts", list)
        .post("/api/projects/{project_id}/cohorts", create)
        .get("/api/projects/{project_id}/cohorts/{id}", read)
        .patch("/api/projects/{project_id}/cohorts/{id}", update)
        .delete("/api/projects/{project_id}/cohorts/{id}", destroy)
        .post("/api/projects/{project_id}/cohorts/{id}/calculate", calculate)
        .post("/api/projects/{project_id}/cohorts/{id}/duplicate_as_static_cohort", duplicate)
        .get("/api/projects/{project_id}/cohorts/activity", activity)
        .get("/api/projects/{project_id}/cohorts/{id}/activity", activity_of_one);
    usage::routes(members::routes(routes))
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    search: Option<String>,
    /// `static` or `dynamic`.
    #[serde(rename = "type")]
    kind: Option<String>,
    created_by_id: Option<String>,
}

async fn list(
    caller: Reader<Cohorts>,
    page: Page,
    query: Query<ListQuery>,
    app: App,
) -> Result<Listing<Cohort>> {
    let is_static = match given(query.kind.as_ref()) {
        None => None,
        Some("static") => Some(true),
        Some("dynamic") => Some(false),
        Some(other) => return Err(Error::invalid_choice("type", other)),
    };
    let author = given(query.created_by_id.as_ref()).map(|text| {
        let detail = "A valid integer is required.";
        text.parse().map_err(|_| Error::invalid("created_by_id", "invalid_input", detail))
    });
    let filter = CohortFilter {
        search: search(query.search.as_ref())?,
        is_static,
        created_by: author.transpose()?.map(UserId),
    };
    let (cohorts, total) =
        app.catalog.cohorts().list(caller.project.id, &filter, page.window).await?;
    Ok(page.listing(cohorts, total))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct CohortFields {
    #[serde(default)]
    name: Patch<String>,
    #[serde(default, deserialize_with = "present")]
    description: Option<String>,
    #[serde(default, deserialize_with = "lenient_bool")]
    is_static: Option<bool>,
    #[serde(default)]
    #[schemars(with = "Option<model::json_shapes::CohortFilters>")]
    filters: Patch<Map<String, Value>>,
    /// The legacy form of `filters`.
    #[serde(default)]
    #[schemars(with = "Option<Vec<model::json_shapes::LegacyCohortGroup>>")]
    groups: Patch<Vec<Value>>,
    /// Persons to add to a static cohort.
    #[serde(default, rename = "_create_static_person_ids")]
    person_ids: Patch<Vec<Uuid>>,
    /// A query whose first column holds the ids of persons to add.
    #[serde(default)]
    #[schemars(with = "Option<query::schema::StoredQuery>")]
    query: Patch<Value>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
}

async fn create(
    caller: Writer<Cohorts>,
    app: App,
    sent: Upload<CohortFields>,
) -> Result<Created<Cohort>> {
    let (fields, file) = sent.read()?;
    let is_static = fields.is_static();
    let persons = requested_members(&app, &caller, &fields, is_static).await?;
    let change = fields.validate(is_static, &caller.project, app.catalog.clock().now())?;
    let new = new_cohort(is_static, change)?;
    if !is_static && (file.is_some() || !persons.is_empty()) {
        return Err(Error::invalid(
            "is_static",
            "invalid_input",
            "Only static cohorts accept lists of persons.",
        ));
    }
    let listed = file.map(|file| csv::person_ids(&file)).transpose()?;
    let actor = caller.actor();
    let cohort = app.catalog.cohorts().create(&actor, new, &caller.visibilities()).await?;
    Ok(Created(add_members(&app, &actor, cohort, listed, &persons).await?))
}

pub(crate) fn new_cohort(is_static: bool, change: CohortChange) -> Result<NewCohort> {
    let kind = match (is_static, change.filters) {
        (true, filters) => NewCohortKind::Static(filters),
        (false, Some(filters)) => NewCohortKind::Dynamic(filters),
        (false, None) => return Err(Error::required("filters")),
    };
    Ok(NewCohort {
        name: change.name.flatten(),
        description: change.description.unwrap_or_default(),
        deleted: change.deleted.unwrap_or(false),
        kind,
    })
}

/// Adds the persons of an uploaded file, and `persons`, to a static cohort.
async fn add_members(
    app: &AppState,
    actor: &Actor,
    mut cohort: Cohort,
    listed: Option<(PersonIdKind, Vec<String>)>,
    persons: &[Uuid],
) -> Result<Cohort> {
    if let Some((by, names)) = listed {
        cohort = app.catalog.cohorts().add_members(actor, cohort.id, by, &names).await?;
    }
    if !persons.is_empty() {
        let (by, names) = (PersonIdKind::PersonUuid, uuid_strings(persons));
        cohort = app.catalog.cohorts().add_members(actor, cohort.id, by, &names).await?;
    }
    Ok(cohort)
}

/// The persons that a request adds to a static cohort, by id or by a query.
async fn requested_members(
    app: &App,
    caller: &Writer<Cohorts>,
    fields: &CohortFields,
    is_static: bool,
) -> Result<Vec<Uuid>> {
    // The caller extractors do not look into multipart forms.
    let filters = fields.filters.clone().given().map(Value::Object);
    let groups = fields.groups.clone().given().map(Value::Array);
    if filters.iter().chain(&groups).any(hogql_scope::value_contains_hogql) {
        caller.may_read("query")?;
    }
    let mut persons = fields.person_ids.clone().given().unwrap_or_default();
    check_persons("_create_static_person_ids", &persons)?;
    if let Some(query) = fields.query.clone().given() {
        // The query reads what any query reads, and its result is stored as members.
        caller.may_read("query")?;
        if !is_static {
            let detail = "Only static cohorts can be created from a query.";
            return Err(Error::invalid("query", "invalid_input", detail));
        }
        persons.extend(query_persons(app, caller, query).await?);
    }
    Ok(persons)
}

/// Runs a query and reads person ids from its first column.
async fn query_persons(app: &App, caller: &Writer<Cohorts>, query: Value) -> Result<Vec<Uuid>> {
    let mut request = QueryRequest::new(query, Refresh::ForceBlocking, caller.visibilities());
    request.default_limit = Some(QUERY_PERSONS_MAX);
    let reply = app.queries.run(&caller.project, request).await.map_err(|why| match why {
        query::Error::Parse(why) => Error::malformed("query", why),
        query::Error::Invalid(why) => Error::invalid("query", "invalid_input", why),
        other => other.into(),
    })?;
    let QueryResponse::Ready { result, .. } = reply else { return Ok(Vec::new()) };
    // A person column holds objects with an `id`.
    let id = |row: &Value| {
        let first = row.get(0)?;
        first.get("id").unwrap_or(first).as_str()?.parse().ok()
    };
    let rows = result.results.as_array().filter(|_| result.columns.is_some());
    // Only the bound is an error: a query with a lower limit of its own is not cut short.
    if rows.is_some_and(|rows| rows.len() as u64 >= QUERY_PERSONS_MAX)
        && result.has_more == Some(true)
    {
        let detail = format!("The query returns more than {QUERY_PERSONS_MAX} rows.");
        return Err(Error::invalid("query", "max_length", detail));
    }
    rows.and_then(|rows| rows.iter().map(id).collect()).ok_or_else(|| {
        let detail = "The query must give rows, with persons' ids in the first column.";
        Error::invalid("query", "invalid_input", detail)
    })
}

async fn read(caller: Reader<Cohorts>, id: Id, app: App) -> Result<Json<Cohort>> {
    Ok(Json(app.catalog.cohorts().get(caller.project.id, CohortId(id.0), Deleted::Exclude).await?))
}

async fn update(
    caller: Writer<Cohorts>,
    is_put: IsPut,
    id: Id,
    app: App,
    sent: Upload<CohortFields>,
) -> Result<Json<Cohort>> {
    let id = CohortId(id.0);
    let current = app.catalog.cohorts().get(caller.project.id, id, sent.among()).await?;
    let (fields, file) = sent.read()?;
    if fields.is_static.is_some_and(|is_static| is_static != current.is_static) {
        let detail = "This field cannot be changed. Duplicate the cohort as a static one.";
        return Err(Error::invalid("is_static", "invalid_input", detail));
    }
    let persons = requested_members(&app, &caller, &fields, current.is_static).await?;
    for (attr, lists) in
        [("csv", file.is_some()), ("_create_static_person_ids", !persons.is_empty())]
    {
        if lists && !current.is_static {
            return Err(Error::invalid(
                attr,
                "invalid_input",
                "Only static cohorts accept lists of persons.",
            ));
        }
    }
    let now = app.catalog.clock().now();
    let change = fields.validate(current.is_static, &caller.project, now)?;
    if is_put.0 && !current.is_static && change.filters.is_none() {
        return Err(Error::required("filters"));
    }
    let listed = file.map(|file| csv::person_ids(&file)).transpose()?;
    if change.deleted == Some(true) && (listed.is_some() || !persons.is_empty()) {
        let detail = "A request cannot both add persons and delete the cohort.";
        return Err(Error::invalid("deleted", "invalid_input", detail));
    }
    let actor = caller.actor();
    let cohort = app.catalog.cohorts().update(&actor, id, change, &caller.visibilities()).await?;
    Ok(Json(add_members(&app, &actor, cohort, listed, &persons).await?))
}

async fn destroy(_: Writer<Cohorts>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

async fn calculate(caller: Writer<Cohorts>, id: Id, app: App) -> Result<Json<Cohort>> {
    let id = live(&app, &caller.project, id).await?.id;
    Ok(Json(app.catalog.cohorts().recalculate(&caller.actor(), id).await?))
}

/// Creates a static cohort with the source's current members.
async fn duplicate(caller: Writer<Cohorts>, id: Id, app: App) -> Result<Created<Cohort>> {
    let source = live(&app, &caller.project, id).await?;
    let named = |name: &String| {
        let suffix = " (static copy)";
        name.chars().take(NAME_CHARS_MAX - suffix.len()).chain(suffix.chars()).collect()
    };
    let new = NewCohort {
        name: source.name.as_ref().map(named),
        description: source.description.clone(),
        deleted: false,
        kind: NewCohortKind::Static(None),
    };
    let actor = caller.actor();
    let copy = app.catalog.cohorts().create(&actor, new, &caller.visibilities()).await?;
    Ok(Created(app.catalog.cohorts().copy_members(&actor, source.id, copy.id).await?))
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.of_all::<Cohort>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: Id,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let cohort = live(&app, &caller.project, id).await?;
    page.of(&app, &caller.project, &cohort).await
}

async fn live(app: &AppState, project: &catalog::ProjectRow, id: Id) -> Result<Cohort> {
    Ok(app.catalog.cohorts().get(project.id, CohortId(id.0), Deleted::Exclude).await?)
}

fn uuid_strings(persons: &[Uuid]) -> Vec<String> {
    persons.iter().map(ToString::to_string).collect()
}

fn check_persons(attr: &str, persons: &[Uuid]) -> Result<()> {
    if persons.len() > PERSONS_SENT_MAX {
        let detail = format!("Ensure this field has no more than {PERSONS_SENT_MAX} elements.");
        return Err(Error::invalid(attr, "max_length", detail));
    }
    Ok(())
}

/// Rejects invalid negations and event filters, which older versions accepted, naming the field.
/// `cohort_tree` bounds the depth.
fn check_behavioral_filters(path: &str, tree: Option<&Value>) -> Result<()> {
    let negation = tree.and_then(|tree| tree.get("negation"));
    if !matches!(negation, None | Some(Value::Null | Value::Bool(_))) {
        let detail = "The negation of a condition is true or false.";
        return Err(Error::invalid(format!("{path}__negation"), "invalid_input", detail));
    }
    let list = |name: &str| tree.and_then(|tree| tree.get(name)?.as_array()).into_iter().flatten();
    for (nth, below) in list("values").enumerate() {
        check_behavioral_filters(&format!("{path}__values__{nth}"), Some(below))?;
    }
    for (nth, filter) in list("event_filters").enumerate() {
        let refused = |why: String| {
            Error::invalid(format!("{path}__event_filters__{nth}"), "invalid_input", why)
        };
        let filter = filter.as_object().ok_or_else(|| refused("A filter is an object.".into()))?;
        query::check_property_filter(filter).map_err(|why| refused(why.to_string()))?;
    }
    Ok(())
}

/// Whether a tree has no conditions.
fn is_empty_tree(tree: &Value) -> bool {
    match (tree, tree.get("values")) {
        (Value::Null, _) => true,
        (_, Some(Value::Array(values))) => values.iter().all(is_empty_tree),
        (Value::Object(fields), None) => fields.is_empty(),
        _ => false,
    }
}

impl CohortFields {
    pub(crate) fn is_static(&self) -> bool {
        self.is_static.unwrap_or(false)
    }

    pub(crate) fn validate(
        self,
        is_static: bool,
        project: &catalog::ProjectRow,
        now: Timestamp,
    ) -> Result<CohortChange> {
        if let Patch::Value(name) = &self.name {
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        if let Some(description) = &self.description {
            max_chars("description", description, DESCRIPTION_CHARS_MAX)?;
        }
        let old = self.groups.given().filter(|groups| !groups.is_empty());
        let filters =
            self.filters.given().or_else(|| old.map(|groups| filters_from_groups(&groups)));
        // Static cohorts store conditions without using them; front-ends send empty ones.
        let asks = |filters: &&Map<String, Value>| {
            !is_static || !filters.get("properties").is_none_or(is_empty_tree)
        };
        if let Some(filters) = filters.as_ref().filter(asks) {
            max_bytes("filters", filters, FILTERS_BYTES_MAX)?;
            let refused = |why: model::property::FilterError| {
                Error::invalid("filters", "invalid_input", why.to_string())
            };
            let tree = cohort_tree(filters).map_err(refused)?;
            check_behavioral_filters("filters__properties", filters.get("properties"))?;
            let mut behaviours = Vec::new();
            tree.behavioral_filters(&mut behaviours);
            for behaviour in behaviours {
                query::check_behavioral_filter(behaviour, project, now)
                    .map_err(|why| Error::invalid("filters", "invalid_input", why.to_string()))?;
            }
        }
        Ok(CohortChange {
            name: self.name.nullable(),
            description: self.description,
            filters,
            deleted: self.deleted,
        })
    }
}
