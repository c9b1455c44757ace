//! Insights: stored queries with a name, on dashboards or on their own.

mod legacy;
mod list;
pub(crate) mod overrides;
pub(crate) mod response;
pub(crate) mod results;
mod trending;
mod variables;
mod viewer;
pub(crate) mod visibility;

use catalog::{Deleted, INSIGHT_NAME_CHARS_MAX, InsightChange, InsightName, NewInsight};
use model::{DashboardId, Insight, InsightId, InsightKind, ObjectKind, VerbatimJson};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::caller::InProject;
use crate::auth::resources::Insights;
use crate::http::body::{lenient_bool, max_bytes, max_chars, present, tags};
use crate::http::csv::{self, Format, JsonOrCsv};
use crate::http::path::given;
use crate::{
    App, AppState, Body, Created, Error, Json, Patch, Query, Reader, Result, Routes,
    SoftDeleteOnly, StringId, Writer,
};
use overrides::Overrides;
use query::Refresh;
use response::InsightResponse;
use results::{DashboardOverrides, InsightResult, RunOptions, refresh};
use viewer::InsightViewer;
use visibility::viewable;

/// Ours: a list shows up to a thousand insights, so each stays small.
const DESCRIPTION_CHARS_MAX: usize = 16_384;
const QUERY_BYTES_MAX: usize = 64 << 10;
const DASHBOARDS_MAX: usize = 100;
const VIEWED_AT_ONCE_MAX: usize = 1_000;
/// Upstream's length of the list of recently viewed insights.
const LAST_VIEWED: i64 = 5;

pub(crate) fn routes(routes: Routes) -> Routes {
    trending::routes(variables::routes(legacy::routes(routes)))
        .get("/api/projects/{project_id}/insights", list::list)
        .post("/api/projects/{project_id}/insights", create)
        .get("/api/projects/{project_id}/insights/{id}", read)
        .patch("/api/projects/{project_id}/insights/{id}", update)
        .delete("/api/projects/{project_id}/insights/{id}", destroy)
        .post("/api/projects/{project_id}/insights/cancel", cancel)
        .post("/api/projects/{project_id}/insights/viewed", viewed)
        .get("/api/projects/{project_id}/insights/my_last_viewed", my_last_viewed)
        .get("/api/projects/{project_id}/insights/activity", activity)
        .get("/api/projects/{project_id}/insights/{id}/activity", activity_of_one)
}

/// Parses a numeric id or a short id, as links use it; short ids are never numeric.
pub(crate) fn insight_name(text: &str) -> InsightName {
    match text.parse() {
        Ok(id) => InsightName::Id(InsightId(id)),
        Err(_) => InsightName::Short(text.to_owned()),
    }
}

#[derive(Deserialize, JsonSchema)]
struct InsightFields {
    #[serde(default)]
    name: Patch<String>,
    #[serde(default)]
    derived_name: Patch<String>,
    #[serde(default)]
    description: Patch<String>,
    /// Stored verbatim.
    #[serde(default)]
    #[schemars(with = "Option<query::schema::StoredQuery>")]
    query: Patch<Value>,
    /// The legacy form of `query`; an insight stores only one of them.
    #[serde(default)]
    #[schemars(with = "Option<query::schema::LegacyFilters>")]
    filters: Patch<Map<String, Value>>,
    #[serde(default)]
    order: Patch<i64>,
    /// All dashboards that the insight is on; replaces the current list.
    #[serde(default, deserialize_with = "present")]
    dashboards: Option<Vec<i64>>,
    #[serde(default, deserialize_with = "present")]
    tags: Option<Vec<String>>,
    #[serde(default, deserialize_with = "lenient_bool")]
    saved: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    favorited: Option<bool>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
    /// The version that the client edited; 409 unless it is the stored one. Ignored on creation.
    #[serde(default)]
    version: Option<i64>,
}

async fn create(
    caller: Writer<Insights>,
    app: App,
    body: Body<InsightFields>,
) -> Result<Created<InsightResponse>> {
    caller.may_create(ObjectKind::Insight)?;
    let fields = InsightFields::of(&body)?;
    check_references(&app, &caller, None, &fields).await?;
    let query = fields.query.flatten();
    let new = NewInsight {
        name: fields.name.flatten(),
        derived_name: fields.derived_name.flatten(),
        description: fields.description.flatten(),
        filters: fields.filters.filter(|_| query.is_none()).unwrap_or_default(),
        query,
        order: fields.order.flatten(),
        favorited: fields.favorited.unwrap_or(false),
        saved: fields.saved.unwrap_or(false),
        is_sample: false,
        deleted: fields.deleted.unwrap_or(false),
        tags: fields.tags.unwrap_or_default(),
    };
    let (actor, on) = (caller.actor(), fields.dashboards.unwrap_or_default());
    let id = app.catalog.insights().create(&actor, caller.viewer(), new, &on).await?;
    Ok(Created(load_response(&app, &caller, id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct ReadQuery {
    /// The refresh mode; a cached result only, if not given.
    refresh: Option<String>,
    /// A dashboard whose filters apply.
    from_dashboard: Option<String>,
    /// JSON filters to apply on top of the query, instead of a dashboard's.
    filters_override: Option<String>,
    /// JSON variables for the query, instead of a dashboard's.
    variables_override: Option<String>,
}

async fn read(
    viewer: InsightViewer,
    id: StringId,
    query: Query<ReadQuery>,
    format: Format,
    app: App,
) -> Result<JsonOrCsv<InsightResponse>> {
    let (text, format) = match id.0.strip_suffix(".csv") {
        Some(bare) => (bare, Format::Csv),
        None => (id.0.as_str(), format),
    };
    let mut refresh = viewer.refresh(refresh(given(query.refresh.as_ref()))?);
    // A CSV without a result would be empty, so compute one.
    if format == Format::Csv && refresh == Refresh::ForceCache {
        refresh = Refresh::Blocking;
    }
    let (project, user) = (viewer.project(), viewer.user());
    let insight =
        app.catalog.insights().get(project.id, &insight_name(text), user, Deleted::Exclude).await?;
    viewer.check(&insight)?;
    let mut shown = viewer.show(insight);
    let insight = shown.insight();
    let from = given(query.from_dashboard.as_ref()).map(|on| {
        let on = on.parse().ok().map(DashboardId).filter(|on| insight.dashboards.contains(on));
        on.ok_or_else(|| {
            let detail = "The insight is not on this dashboard.";
            Error::invalid("from_dashboard", "invalid_input", detail)
        })
    });
    let on = from.transpose()?.or(viewer.dashboard());
    let overrides =
        Overrides::read(query.filters_override.as_ref(), query.variables_override.as_ref())?;
    viewer.check_overrides(&overrides)?;
    let visibilities = viewer.visibilities();
    let options = match on {
        Some(on) => {
            let dashboard = DashboardOverrides::of(&app, project.id, on).await?;
            dashboard.overridden(overrides).run_options(refresh, insight.id, visibilities)
        }
        None => RunOptions::new(refresh, visibilities).overridden(overrides),
    };
    let options = options.belonging_to(ObjectKind::Insight, insight.id.0);
    let query = results::insight_query(insight);
    let result = match options.refresh {
        // Without a refresh the insight is shown even if its query fails.
        Refresh::ForceCache => InsightResult::or_failure(&app, project, query, &options).await,
        _ => InsightResult::of(&app, project, query, &options).await?,
    };
    if format == Format::Csv {
        return Ok(JsonOrCsv::Csv(csv::lines(&results::table(&result))));
    }
    shown.set_result(result);
    Ok(JsonOrCsv::Json(shown))
}

#[derive(Deserialize, JsonSchema)]
struct Cancelled {
    client_query_id: String,
}

async fn cancel(
    caller: Reader<Insights>,
    app: App,
    body: Body<Cancelled>,
) -> Result<Created<Noted>> {
    app.queries.cancel(caller.project.id, &body.read()?.client_query_id);
    Ok(Created(Noted { success: true }))
}

async fn update(
    caller: Writer<Insights>,
    id: StringId,
    app: App,
    body: Body<InsightFields>,
) -> Result<Json<InsightResponse>> {
    let (project, viewer) = (caller.project.id, caller.viewer());
    let before = app
        .catalog
        .insights()
        .get_editable(project, &insight_name(&id.0), viewer, body.among())
        .await?;
    let change = InsightFields::of(&body)?;
    check_references(&app, &caller, Some(&before), &change).await?;
    let id = before.id;
    let after = Insight {
        query: change.query.clone().unwrap_or(before.query),
        filters: change.filters.clone().unwrap_or(before.filters),
        ..before
    };
    let looked = viewable(&app, &caller, &[after]).await?;
    app.catalog.insights().update(&caller.actor(), viewer, id, change, &looked).await?;
    Ok(Json(load_response(&app, &caller, id).await?))
}

async fn destroy(_: Writer<Insights>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

#[derive(Deserialize, JsonSchema)]
struct Viewed {
    insight_ids: Vec<i64>,
}

#[derive(Serialize, JsonSchema)]
struct Noted {
    success: bool,
}

/// Records views; read access suffices.
async fn viewed(caller: Reader<Insights>, app: App, body: Body<Viewed>) -> Result<Created<Noted>> {
    let ids: Vec<InsightId> = body.read()?.insight_ids.into_iter().map(InsightId).collect();
    if ids.len() > VIEWED_AT_ONCE_MAX {
        let detail = format!("Ensure this field has no more than {VIEWED_AT_ONCE_MAX} elements.");
        return Err(Error::invalid("insight_ids", "max_length", detail));
    }
    app.catalog.insights().record_views(caller.project.id, caller.user.user.id, &ids).await?;
    Ok(Created(Noted { success: true }))
}

async fn my_last_viewed(caller: Reader<Insights>, app: App) -> Result<Json<Vec<InsightResponse>>> {
    let (project, user) = (caller.project.id, caller.user.user.id);
    let insights = app.catalog.insights().recently_viewed(project, user, LAST_VIEWED).await?;
    let viewer = caller.viewer();
    let seen = insights.into_iter().filter(|insight| insight.rights(viewer).can_view());
    Ok(Json(seen.map(|insight| InsightResponse::to(viewer, insight)).collect()))
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.visible_to(caller.visibilities()).of_all::<Insight>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: StringId,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let (project, viewer) = (caller.project.id, caller.viewer());
    let insight = app.catalog.insights().get_visible(project, &insight_name(&id.0), viewer).await?;
    page.visible_to(caller.visibilities()).of(&app, &caller.project, &insight).await
}

/// The response after a write, also of an insight that is deleted now.
async fn load_response<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    id: InsightId,
) -> Result<InsightResponse> {
    let (project, user) = (caller.project.id, Some(caller.user.user.id));
    let insight =
        app.catalog.insights().get(project, &InsightName::Id(id), user, Deleted::Include).await?;
    Ok(InsightResponse::to(caller.viewer(), insight))
}

impl InsightFields {
    fn of(body: &Body<Self>) -> Result<InsightChange> {
        let mut change = body.read()?.validate()?;
        if let Some(Some(query)) = &mut change.query {
            store_verbatim("query", query, body.raw(&["query"]))?;
        }
        Ok(change)
    }

    fn validate(self) -> Result<InsightChange> {
        for (attr, name) in [("name", &self.name), ("derived_name", &self.derived_name)] {
            if let Patch::Value(name) = name {
                max_chars(attr, name, INSIGHT_NAME_CHARS_MAX)?;
            }
        }
        if let Patch::Value(description) = &self.description {
            max_chars("description", description, DESCRIPTION_CHARS_MAX)?;
        }
        if self.dashboards.as_ref().is_some_and(|ids| ids.len() > DASHBOARDS_MAX) {
            let detail = format!("Ensure this field has no more than {DASHBOARDS_MAX} elements.");
            return Err(Error::invalid("dashboards", "max_length", detail));
        }
        let filters = self.filters.nullable().map(Option::unwrap_or_default);
        filters.as_ref().map(|filters| check_legacy_filters("filters", filters)).transpose()?;
        let query = self.query.nullable().map(|sent| sent.map(query).transpose()).transpose()?;
        // An insight has one query: sending legacy filters removes the stored `query`.
        let has_legacy_filters = filters.as_ref().is_some_and(|filters| !filters.is_empty());
        Ok(InsightChange {
            name: self.name.nullable(),
            derived_name: self.derived_name.nullable(),
            description: self.description.nullable(),
            query: query.or(has_legacy_filters.then_some(None)),
            filters,
            order: self.order.nullable(),
            favorited: self.favorited,
            saved: self.saved,
            deleted: self.deleted,
            tags: self.tags.as_deref().map(tags).transpose()?,
            dashboards: self.dashboards.map(|ids| ids.into_iter().map(DashboardId).collect()),
            version: self.version,
        })
    }
}

/// Validates a query; objects that it refers to are resolved when it runs.
fn query(sent: Value) -> Result<VerbatimJson> {
    let Value::Object(query) = sent else {
        return Err(Error::malformed("query", "Input should be a valid dictionary"));
    };
    check_query("query", &query)?;
    Ok(query.into())
}

/// Stores a query verbatim and bounds its size.
pub(crate) fn store_verbatim(
    attr: &str,
    query: &mut VerbatimJson,
    sent: Option<&RawValue>,
) -> Result<()> {
    if let Some(written) = sent.and_then(|sent| VerbatimJson::parse(sent.get()).ok()) {
        *query = written;
    }
    max_bytes(attr, query, QUERY_BYTES_MAX)
}

/// Validates legacy filters.
pub(crate) fn check_legacy_filters(attr: &str, filters: &Map<String, Value>) -> Result<()> {
    max_bytes(attr, filters, QUERY_BYTES_MAX)?;
    let refused = |why: String| Error::invalid(attr, "invalid_input", why);
    let converted = ::query::convert_legacy_filters(filters, None)
        .map_err(|why| refused(why.dotted_message()))?;
    converted.map_or(Ok(()), |converted| {
        ::query::check(&converted).map_err(|why| refused(why.to_string()))
    })
}

/// A changed query may refer only to objects that the caller sees. An unchanged one passes, so that
/// a client can send back what it read.
async fn check_references(
    app: &AppState,
    caller: &Writer<Insights>,
    before: Option<&Insight>,
    change: &InsightChange,
) -> Result<()> {
    let is_new =
        |query: &&VerbatimJson| before.is_none_or(|before| before.query.as_ref() != Some(*query));
    if let Some(query) = change.query.iter().flatten().next().filter(is_new) {
        let asked = Value::Object(query.clone().into_fields());
        let own = before.map_or("", |before| before.short_id.as_str());
        let (project, seen) = (caller.project.id, caller.visibilities());
        let checked = app.queries.check_access(project, &asked, &seen, Some(own)).await;
        checked.map_err(|why| reference_error("query", why))?;
    }
    let is_new =
        |filters: &&Map<String, Value>| before.is_none_or(|before| before.filters != **filters);
    let old = change.filters.as_ref().filter(is_new);
    match old.map(|filters| ::query::convert_legacy_filters(filters, None)).transpose()?.flatten() {
        Some(asked) => check_query_access(app, caller, "filters", asked).await,
        None => Ok(()),
    }
}

/// A stored query may refer only to objects that its author sees.
pub(crate) async fn check_query_access<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    attr: &str,
    query: Value,
) -> Result<()> {
    let checked =
        app.queries.check_access(caller.project.id, &query, &caller.visibilities(), None).await;
    checked.map_err(|why| reference_error(attr, why))
}

fn reference_error(attr: &str, why: ::query::Error) -> Error {
    match why {
        ::query::Error::Invalid(why) | ::query::Error::Parse(why) => Error::malformed(attr, why),
        other => other.into(),
    }
}

/// Accepts query kinds that are known but not implemented, so that importing an insight keeps it.
pub(crate) fn check_query(attr: &str, query: &Map<String, Value>) -> Result<()> {
    max_bytes(attr, query, QUERY_BYTES_MAX)?;
    let misshapen = |why: String| Error::malformed(attr, why);
    InsightKind::of_query(query).map_err(misshapen)?;
    ::query::check(&Value::Object(query.clone())).map_err(|why| misshapen(why.to_string()))
}
