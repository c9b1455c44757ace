//! Annotations: dated notes drawn over charts.

use catalog::{AnnotationChange, AnnotationFilter, Deleted, InsightName, NewAnnotation};
use model::{
    Annotation, AnnotationId, AnnotationScope, CreationType, DashboardId, InsightId, Timestamp,
};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::caller::InProject;
use crate::http::body::{lenient_bool, max_chars, present};
use crate::http::path::{given, instant, search};
use crate::{
    App, AppState, Body, Created, Error, Id, Json, Listing, Page, Patch, Query, Reader, Resource,
    Result, Routes, SoftDeleteOnly, Writer,
};

/// Upstream's length.
const CONTENT_CHARS_MAX: usize = 8_192;

enum Annotations {}

impl Resource for Annotations {
    const SCOPE: &'static str = "annotation";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/annotations", list)
        .post("/api/projects/{project_id}/annotations", create)
        .get("/api/projects/{project_id}/annotations/{id}", read)
        .patch("/api/projects/{project_id}/annotations/{id}", update)
        .delete("/api/projects/{project_id}/annotations/{id}", destroy)
        .get("/api/projects/{project_id}/annotations/activity", activity)
        .get("/api/projects/{project_id}/annotations/{id}/activity", activity_of_one)
}

#[derive(Deserialize, JsonSchema)]
struct ListQuery {
    /// Created before this timestamp.
    before: Option<String>,
    /// Created after this timestamp.
    after: Option<String>,
    scope: Option<String>,
    search: Option<String>,
    #[serde(rename = "dashboardItemId")]
    dashboard_item_id: Option<String>,
}

async fn list(
    caller: Reader<Annotations>,
    page: Page,
    query: Query<ListQuery>,
    app: App,
) -> Result<Listing<Annotation>> {
    let scope = given(query.scope.as_ref()).map(|text| {
        AnnotationScope::parse(text).ok_or_else(|| Error::invalid_choice("scope", text))
    });
    let item = given(query.dashboard_item_id.as_ref()).map(|text| {
        let detail = "A valid integer is required.";
        text.parse().map_err(|_| Error::invalid("dashboardItemId", "invalid_input", detail))
    });
    let item = item.transpose()?;
    let filter = AnnotationFilter {
        created_before: instant("before", query.before.as_ref())?,
        created_after: instant("after", query.after.as_ref())?,
        scope: scope.transpose()?,
        dashboard_item: item.map(InsightId),
        search: search(query.search.as_ref())?,
        visibility: caller.visibilities(),
    };
    let (annotations, total) =
        app.catalog.annotations().list(caller.project.id, &filter, page.window).await?;
    let shown = annotations
        .into_iter()
        .map(|annotation| annotation.within(caller.project.id, &filter.visibility));
    Ok(page.listing(shown.collect(), total))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct AnnotationFields {
    #[serde(default)]
    content: Patch<String>,
    #[serde(default)]
    date_marker: Patch<Timestamp>,
    #[serde(default, deserialize_with = "present")]
    creation_type: Option<CreationType>,
    /// `project` by default.
    #[serde(default, deserialize_with = "present")]
    scope: Option<AnnotationScope>,
    #[serde(default)]
    dashboard_item: Patch<i64>,
    #[serde(default)]
    dashboard_id: Patch<i64>,
    #[serde(default, deserialize_with = "lenient_bool")]
    deleted: Option<bool>,
}

async fn create(
    caller: Writer<Annotations>,
    app: App,
    body: Body<AnnotationFields>,
) -> Result<Created<Annotation>> {
    let fields = body.read()?.validate()?;
    check_target(&app, &caller, &fields).await?;
    let new = new_annotation(fields)?;
    Ok(Created(app.catalog.annotations().create(&caller.actor(), new).await?))
}

pub(crate) fn new_annotation(fields: AnnotationChange) -> Result<NewAnnotation> {
    let new = NewAnnotation {
        content: fields.content.flatten(),
        date_marker: fields.date_marker.flatten(),
        creation_type: fields.creation_type.unwrap_or_default(),
        scope: fields.scope.unwrap_or(AnnotationScope::Project),
        dashboard_item: fields.dashboard_item.flatten(),
        dashboard_id: fields.dashboard_id.flatten(),
        deleted: fields.deleted.unwrap_or(false),
    };
    match new.scope {
        AnnotationScope::DashboardItem if new.dashboard_item.is_none() => {
            Err(Error::required("dashboard_item"))
        }
        AnnotationScope::Dashboard if new.dashboard_id.is_none() => {
            Err(Error::required("dashboard_id"))
        }
        _ => Ok(new),
    }
}

/// Loads an annotation; one on a hidden insight or dashboard is a 404.
async fn load_visible<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    id: Id,
    among: Deleted,
) -> Result<Annotation> {
    let annotation =
        app.catalog.annotations().get(caller.project.id, AnnotationId(id.0), among).await?;
    if annotation.is_seen(&caller.visibilities()) {
        Ok(annotation)
    } else {
        Err(Error::not_found())
    }
}

async fn read(caller: Reader<Annotations>, id: Id, app: App) -> Result<Json<Annotation>> {
    let annotation = load_visible(&app, &caller, id, Deleted::Exclude).await?;
    Ok(Json(annotation.within(caller.project.id, &caller.visibilities())))
}

async fn update(
    caller: Writer<Annotations>,
    id: Id,
    app: App,
    body: Body<AnnotationFields>,
) -> Result<Json<Annotation>> {
    let annotation = load_visible(&app, &caller, id, body.among()).await?;
    // All projects of an organization show it, but writes are authorized in its own project.
    let elsewhere = match annotation.project == caller.project.id {
        true => None,
        false => Some(caller.elsewhere(&app, annotation.project).await?),
    };
    let owner = elsewhere.as_ref().unwrap_or(&caller);
    let mut change = body.read()?.validate()?;
    check_target(&app, owner, &change).await?;
    // The caller was shown null for a hidden object; sending it back changes nothing.
    let shown = annotation.clone().within(caller.project.id, &caller.visibilities());
    if shown.dashboard_id != annotation.dashboard_id && change.dashboard_id == Some(None) {
        change.dashboard_id = None;
    }
    if shown.dashboard_item != annotation.dashboard_item && change.dashboard_item == Some(None) {
        change.dashboard_item = None;
    }
    let changed = app.catalog.annotations().update(&owner.actor(), annotation.id, change).await?;
    Ok(Json(changed.within(caller.project.id, &caller.visibilities())))
}

async fn destroy(_: Writer<Annotations>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.visible_to(caller.visibilities()).of_all::<Annotation>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: Id,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let annotation = load_visible(&app, &caller, id, Deleted::Exclude).await?;
    page.visible_to(caller.visibilities()).of(&app, &caller.project, &annotation).await
}

impl AnnotationFields {
    pub(crate) fn validate(self) -> Result<AnnotationChange> {
        if let Patch::Value(content) = &self.content {
            max_chars("content", content, CONTENT_CHARS_MAX)?;
        }
        Ok(AnnotationChange {
            content: self.content.nullable(),
            date_marker: self.date_marker.nullable(),
            creation_type: self.creation_type,
            scope: self.scope,
            dashboard_item: self.dashboard_item.nullable().map(|id| id.map(InsightId)),
            dashboard_id: self.dashboard_id.nullable().map(|id| id.map(DashboardId)),
            deleted: self.deleted,
        })
    }
}

/// The insight or dashboard of a change must exist and be visible to the caller.
async fn check_target(
    app: &AppState,
    caller: &Writer<Annotations>,
    change: &AnnotationChange,
) -> Result<()> {
    let (project, viewer) = (caller.project.id, caller.viewer());
    let not_found = |attr: &'static str, detail: String| {
        move |error| match error {
            catalog::Error::NotFound | catalog::Error::Forbidden(_) => {
                Error::invalid(attr, "does_not_exist", detail)
            }
            other => other.into(),
        }
    };
    if let Some(Some(id)) = change.dashboard_item {
        let insight =
            app.catalog.insights().get_visible(project, &InsightName::Id(id), viewer).await;
        let detail = format!("Invalid pk \"{id}\" - object does not exist.");
        insight.map_err(not_found("dashboard_item", detail))?;
    }
    if let Some(Some(id)) = change.dashboard_id {
        let dashboard = app.catalog.dashboards().get_visible(project, id, viewer).await;
        dashboard.map_err(not_found("dashboard_id", "Dashboard not found.".into()))?;
    }
    Ok(())
}
