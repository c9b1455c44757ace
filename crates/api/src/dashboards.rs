//! Dashboards: tiles with insights, texts and buttons on one page.

pub(crate) mod collaborators;
mod fields;
pub(crate) mod response;
mod run_insights;
mod template_list;
pub(crate) mod templates;
mod tiles;

use catalog::{
    CheckedInsights, CopyDepth, DashboardContents, DashboardFilter, DashboardSource, Deleted,
    NewDashboard,
};
use model::{CreationMode, DashboardId, ObjectKind, Restriction, TileId, Visibility};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::json;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::caller::InProject;
use crate::auth::resources::Dashboards;
use crate::http::body::{Both, lenient_bool};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::http::path::{given, nul, search, switch};
use crate::insights::check_query_access;
use crate::insights::overrides::Overrides;
use crate::insights::results::{insight_query, refresh};
use crate::insights::visibility::viewable;
use crate::{
    App, AppState, Body, Created, Error, Id, Json, Listing, Page, Patch, Query, Reader, RequestUrl,
    Result, Routes, SoftDeleteOnly, Writer,
};
use fields::{DashboardFields, IntoNew as _};
use response::{DashboardItem, DashboardResponse};
use tiles::TileListFields;

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = routes
        .get("/api/projects/{project_id}/dashboards", list)
        .post("/api/projects/{project_id}/dashboards", create)
        .get("/api/projects/{project_id}/dashboards/{id}", read)
        .patch("/api/projects/{project_id}/dashboards/{id}", update)
        .delete("/api/projects/{project_id}/dashboards/{id}", destroy)
        .get("/api/projects/{project_id}/dashboards/activity", activity)
        .get("/api/projects/{project_id}/dashboards/{id}/activity", activity_of_one);
    let routes = templates::routes(tiles::routes(routes));
    template_list::routes(run_insights::routes(routes))
}

/// The filters of a request that lists dashboards.
struct DashboardListFilter(DashboardFilter);

impl FromRequestParts<AppState> for DashboardListFilter {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let url = RequestUrl::of(parts);
        let creation_mode = url.value("creation_mode").map(|text| {
            CreationMode::parse(text).ok_or_else(|| Error::invalid_choice("creation_mode", text))
        });
        let tags: Vec<String> = url.values("tags").map(str::to_owned).collect();
        let term = url.value("search").map(str::to_owned);
        let generated = url.value("exclude_generated").map(str::to_owned);
        let has_nul = |name: &&&str| url.values(name).any(|text| text.contains('\0'));
        if let Some(name) = ["search", "tags"].iter().find(has_nul) {
            return Err(nul(name));
        }
        Ok(Self(DashboardFilter {
            creation_mode: creation_mode.transpose()?,
            tags: crate::http::body::tags(&tags)?,
            exclude_generated: switch("exclude_generated", generated.as_ref())? == Some(true),
            search: search(term.as_ref())?,
            visibility: Visibility::Everything,
        }))
    }
}

impl DescribeRequest for DashboardListFilter {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        let text = || json!({ "type": "string" });
        operation.query_parameter("creation_mode", text());
        operation.query_parameter("tags", json!({ "type": "array", "items": text() }));
        operation.query_parameter("exclude_generated", json!({ "type": "boolean" }));
        operation.query_parameter("search", text());
    }
}

async fn list(
    caller: Reader<Dashboards>,
    page: Page,
    filter: DashboardListFilter,
    app: App,
) -> Result<Listing<DashboardItem>> {
    let (user, viewer) = (caller.user.user.id, caller.viewer());
    let filter =
        DashboardFilter { visibility: caller.visibility(ObjectKind::Dashboard), ..filter.0 };
    let (heads, total) =
        app.catalog.dashboards().list(caller.project.id, user, &filter, page.window).await?;
    let items = heads.into_iter().map(|head| DashboardItem::new(head, viewer)).collect();
    Ok(page.listing(items, total))
}

/// Fields that only creation accepts.
#[derive(Deserialize, JsonSchema)]
struct CreateFields {
    #[serde(default)]
    use_template: Patch<String>,
    #[serde(default)]
    use_dashboard: Patch<i64>,
    /// Whether the copy gets its own insights and texts rather than sharing the source's.
    #[serde(default, deserialize_with = "lenient_bool")]
    duplicate_tiles: Option<bool>,
}

async fn create(
    caller: Writer<Dashboards>,
    app: App,
    body: Body<Both<DashboardFields, CreateFields>>,
) -> Result<Created<DashboardResponse>> {
    caller.may_create(ObjectKind::Dashboard)?;
    let (fields, create) = body.read_both()?;
    let mut new = fields.validate()?.into_new();
    let template = create.use_template.given().filter(|name| !name.trim().is_empty());
    match (template, create.use_dashboard.given()) {
        (Some(_), Some(_)) => {
            let detail = "`use_dashboard` and `use_template` cannot be used together";
            return Err(Error::bad_request(detail));
        }
        (Some(name), None) => {
            new.creation_mode = CreationMode::Template;
            templates::built_in(&name)?.apply(&mut new);
        }
        (None, Some(source)) => {
            let copies = match create.duplicate_tiles {
                Some(true) => CopyDepth::Insights,
                _ => CopyDepth::Tiles,
            };
            let dashboard = DashboardId(source);
            let source =
                app.catalog.dashboards().get_visible(caller.project.id, dashboard, caller.viewer());
            // A source that the caller cannot view is rejected by `create_dashboard`.
            if copies == CopyDepth::Insights && source.await.is_ok() {
                check_copy_access(&app, &caller, dashboard, None, "use_dashboard").await?;
            }
            new.creation_mode = CreationMode::Duplicate;
            new.contents = DashboardContents::CopyOf(DashboardSource { dashboard, depth: copies });
        }
        (None, None) => {}
    }
    let id = app.catalog.dashboards().create(&caller.actor(), caller.viewer(), new).await?;
    Ok(Created(load_response(&app, &caller, id).await?))
}

/// Parameters of reading a dashboard.
#[derive(Default, Deserialize, JsonSchema)]
struct ReadQuery {
    /// JSON that replaces the dashboard's own filters.
    filters_override: Option<String>,
    /// JSON that replaces the dashboard's own variables.
    variables_override: Option<String>,
    /// The refresh mode of the tiles' results; cached results only, if not given.
    refresh: Option<String>,
    /// The screen size whose layout orders the tiles: `sm` or `xs`.
    #[serde(rename = "layoutSize")]
    layout_size: Option<String>,
}

async fn read(
    caller: Reader<Dashboards>,
    id: Id,
    query: Query<ReadQuery>,
    app: App,
) -> Result<Json<DashboardResponse>> {
    let user = Some(caller.user.user.id);
    let id = DashboardId(id.0);
    let mut dashboard =
        app.catalog.dashboards().get_visible(caller.project.id, id, caller.viewer()).await?;
    let overrides =
        Overrides::read(query.filters_override.as_ref(), query.variables_override.as_ref())?;
    let refresh = refresh(given(query.refresh.as_ref()))?;
    app.catalog.dashboards().record_access(&mut dashboard).await?;
    let visibilities = caller.visibilities();
    let view = app.catalog.dashboards().view(dashboard, user, &visibilities).await?;
    let size = query.layout_size.as_deref().filter(|size| *size == "xs").unwrap_or("sm");
    let mut response = DashboardResponse::new(view, caller.viewer(), size).overridden(overrides);
    response.load_results(&app, &caller.project, refresh, visibilities).await;
    Ok(Json(response))
}

async fn update(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<Both<DashboardFields, TileListFields>>,
) -> Result<Json<DashboardResponse>> {
    let id = DashboardId(id.0);
    let viewer = caller.viewer();
    app.catalog.dashboards().get_editable(caller.project.id, id, viewer, body.among()).await?;
    let (fields, rest) = body.read_both()?;
    let mut change = fields.validate()?;
    rest.apply(&mut change)?;
    let copied: Vec<TileId> = change.copied_tiles.iter().map(|copy| copy.id).collect();
    if !copied.is_empty() {
        check_copy_access(&app, &caller, id, Some(&copied), "duplicate_tiles").await?;
    }
    let back = change.tiles.iter().filter(|tile| tile.deleted == Some(false));
    let back: Vec<TileId> = back.filter_map(|tile| tile.id).collect();
    let looked = match back.is_empty() {
        true => CheckedInsights::default(),
        false => {
            let project = caller.project.id;
            let back =
                app.catalog.dashboards().insights_to_copy(project, id, viewer, Some(&back)).await?;
            viewable(&app, &caller, &back).await?
        }
    };
    app.catalog.dashboards().update(&caller.actor(), viewer, id, change, &looked).await?;
    Ok(Json(load_response(&app, &caller, id).await?))
}

/// A copied insight stores its source's query as the caller's own, so the caller must be allowed
/// to see everything that the query names.
async fn check_copy_access(
    app: &AppState,
    caller: &Writer<Dashboards>,
    on: DashboardId,
    tiles: Option<&[TileId]>,
    attr: &str,
) -> Result<()> {
    let (project, viewer) = (caller.project.id, caller.viewer());
    for insight in app.catalog.dashboards().insights_to_copy(project, on, viewer, tiles).await? {
        // A query that cannot be parsed names nothing.
        if let Ok(Some(query)) = insight_query(&insight) {
            check_query_access(app, caller, attr, query).await?;
        }
    }
    Ok(())
}

async fn destroy(_: Writer<Dashboards>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.visible_to(caller.visibilities()).of_scope(&app, &caller.project, "Dashboard", None).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: Id,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let id = DashboardId(id.0);
    app.catalog.dashboards().get_visible(caller.project.id, id, caller.viewer()).await?;
    let page = page.visible_to(caller.visibilities());
    page.of_scope(&app, &caller.project, "Dashboard", Some(id.to_string())).await
}

/// The response after a write, also of a dashboard that is deleted now.
pub(super) async fn load_response<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    id: DashboardId,
) -> Result<DashboardResponse> {
    let user = Some(caller.user.user.id);
    let dashboard =
        app.catalog.dashboards().get(caller.project.id, id, user, Deleted::Include).await?;
    let visibilities = caller.visibilities();
    let view = app.catalog.dashboards().view(dashboard, user, &visibilities).await?;
    let mut response = DashboardResponse::new(view, caller.viewer(), "sm");
    response.load_results(app, &caller.project, query::Refresh::ForceCache, visibilities).await;
    Ok(response)
}

/// The defaults of a new dashboard.
fn default_dashboard() -> NewDashboard {
    NewDashboard {
        name: None,
        description: String::new(),
        pinned: false,
        tags: Vec::new(),
        restriction_level: Restriction::Everyone,
        presentation: Default::default(),
        deleted: false,
        creation_mode: CreationMode::Default,
        contents: DashboardContents::Tiles(Vec::new()),
    }
}
