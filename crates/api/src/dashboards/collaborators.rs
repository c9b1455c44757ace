//! Collaborators: users who may edit a restricted dashboard besides its author.

use catalog::{Collaborator, Deleted};
use model::{DashboardId, Privilege};
use schemars::JsonSchema;
use serde::Deserialize;
use uuid::Uuid;

use crate::auth::resources::Dashboards;
use crate::http::body::present;
use crate::{
    App, Body, Created, Error, Id, Json, NoContent, Reader, Result, Routes, UuidParam, Writer,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/dashboards/{id}/collaborators", list)
        .post("/api/projects/{project_id}/dashboards/{id}/collaborators", create)
        .delete("/api/projects/{project_id}/dashboards/{id}/collaborators/{uuid}", destroy)
}

async fn list(caller: Reader<Dashboards>, id: Id, app: App) -> Result<Json<Vec<Collaborator>>> {
    let (project, id) = (caller.project.id, DashboardId(id.0));
    app.catalog.dashboards().get_visible(project, id, caller.viewer()).await.map_err(missing)?;
    Ok(Json(app.catalog.collaborators().list(project, id).await?))
}

#[derive(Deserialize, JsonSchema)]
struct NewCollaborator {
    user_uuid: Uuid,
    #[serde(default, deserialize_with = "present")]
    level: Option<Privilege>,
}

async fn create(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<NewCollaborator>,
) -> Result<Created<Collaborator>> {
    let (id, viewer) = (DashboardId(id.0), caller.viewer());
    let editable =
        app.catalog.dashboards().get_editable(caller.project.id, id, viewer, Deleted::Exclude);
    editable.await.map_err(missing)?;
    let NewCollaborator { user_uuid, level } = body.read()?;
    let collaborator = (user_uuid, level.unwrap_or(Privilege::Edit));
    Ok(Created(app.catalog.collaborators().add(&caller.actor(), viewer, id, collaborator).await?))
}

async fn destroy(
    caller: Writer<Dashboards>,
    id: Id,
    user: UuidParam,
    app: App,
) -> Result<NoContent> {
    let (id, viewer) = (DashboardId(id.0), caller.viewer());
    let editable =
        app.catalog.dashboards().get_editable(caller.project.id, id, viewer, Deleted::Exclude);
    editable.await.map_err(missing)?;
    app.catalog.collaborators().remove(&caller.actor(), viewer, id, user.0).await?;
    Ok(NoContent)
}

fn missing(error: catalog::Error) -> Error {
    match error {
        catalog::Error::NotFound => Error::not_found_because("Dashboard not found."),
        other => other.into(),
    }
}
