//! Sharing of dashboards and insights by public links: enabling, disabling and renewing a link.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{
    CheckedInsights, Deleted, LINK_EXPOSES_HIDDEN, ShareTarget, SharingChange, SharingConfig,
};
use model::{Dashboard, DashboardId, Insight, SharingSettings, Timestamp};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::auth::caller::InProject;
use crate::http::body::lenient_bool;
use crate::http::error::ErrorBody;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::insights::insight_name;
use crate::insights::visibility::can_view;
use crate::{
    App, AppState, Body, Error, Id, Json, Patch, Reader, Resource, Result, Routes, StringId, Writer,
};

pub(crate) mod shared_pages;

enum Sharings {}

impl Resource for Sharings {
    const SCOPE: &'static str = "sharing_configuration";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/dashboards/{id}/sharing", of_dashboard)
        .patch("/api/projects/{project_id}/dashboards/{id}/sharing", change_of_dashboard)
        .post("/api/projects/{project_id}/dashboards/{id}/sharing/refresh", renew_of_dashboard)
        .get("/api/projects/{project_id}/insights/{id}/sharing", of_insight)
        .patch("/api/projects/{project_id}/insights/{id}/sharing", change_of_insight)
        .post("/api/projects/{project_id}/insights/{id}/sharing/refresh", renew_of_insight)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SharingConfiguration")]
struct SharingResponse {
    created_at: Timestamp,
    enabled: bool,
    /// Null if the caller may not view everything that the link shows.
    access_token: Option<String>,
    #[schemars(with = "Option<SharingSettingsShape>")]
    settings: Option<Map<String, Value>>,
    /// Always false: links have no passwords.
    password_required: bool,
    #[schemars(with = "Vec<String>")]
    share_passwords: Vec<Value>,
}

/// How the page of a link is displayed.
#[derive(JsonSchema)]
#[schemars(rename = "SharingSettings", rename_all = "camelCase")]
#[allow(dead_code, reason = "documents what `model::SharingSettings` checks")]
struct SharingSettingsShape {
    whitelabel: Option<bool>,
    no_header: Option<bool>,
    show_inspector: Option<bool>,
    legend: Option<bool>,
    detailed: Option<bool>,
    hide_extra_details: Option<bool>,
    theme: Option<SharedTheme>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[allow(dead_code, reason = "documents what `model::SharingSettings` checks")]
enum SharedTheme {
    Light,
    Dark,
    System,
}

/// A dashboard or insight with a link, and whether the caller may view everything that the link
/// shows: access rules may hide insights, and actions in their queries.
struct SharedObject {
    target: ShareTarget,
    is_fully_visible: bool,
    looked: CheckedInsights,
}

impl SharedObject {
    async fn dashboard<M>(
        app: &AppState,
        caller: &InProject<Sharings, M>,
        dashboard: Dashboard,
    ) -> Result<Self> {
        let (target, user) = (ShareTarget::Dashboard(dashboard.head.id), caller.user.user.id);
        let view =
            app.catalog.dashboards().view(dashboard, Some(user), &caller.visibilities()).await?;
        Self::with_insights(app, caller, target, view.insights.values()).await
    }

    async fn insight<M>(
        app: &AppState,
        caller: &InProject<Sharings, M>,
        insight: Insight,
    ) -> Result<Self> {
        Self::with_insights(app, caller, ShareTarget::Insight(insight.id), [&insight]).await
    }

    async fn with_insights<'a, M>(
        app: &AppState,
        caller: &InProject<Sharings, M>,
        target: ShareTarget,
        insights: impl IntoIterator<Item = &'a Insight>,
    ) -> Result<Self> {
        let (mut is_fully_visible, mut looked) = (true, CheckedInsights::default());
        for insight in insights {
            match can_view(app, caller, insight).await? {
                true => looked.add(insight),
                false => is_fully_visible = false,
            }
        }
        Ok(Self { target, is_fully_visible, looked })
    }

    /// Loads the object for a change, which takes edit access.
    async fn editable<M>(
        app: &AppState,
        caller: &InProject<Sharings, M>,
        target: Target,
    ) -> Result<Self> {
        let (project, viewer) = (caller.project.id, caller.viewer());
        match target {
            Target::Dashboard(id) => {
                let dashboard =
                    app.catalog.dashboards().get_editable(project, id, viewer, Deleted::Exclude);
                Self::dashboard(app, caller, dashboard.await?).await
            }
            Target::Insight(text) => {
                let name = insight_name(&text);
                let insight =
                    app.catalog.insights().get_editable(project, &name, viewer, Deleted::Exclude);
                Self::insight(app, caller, insight.await?).await
            }
        }
    }

    fn check_visible(&self) -> Result<()> {
        if self.is_fully_visible { Ok(()) } else { Err(Error::forbidden(LINK_EXPOSES_HIDDEN)) }
    }

    fn response(&self, sharing: SharingConfig) -> SharingResponse {
        let token = sharing.access_token.reveal();
        SharingResponse {
            created_at: sharing.created_at,
            enabled: sharing.enabled,
            access_token: self.is_fully_visible.then(|| token.to_owned()),
            settings: sharing.settings.map(SharingSettings::into_stored),
            password_required: false,
            share_passwords: Vec::new(),
        }
    }
}

/// The object of the path.
enum Target {
    Dashboard(DashboardId),
    Insight(String),
}

async fn of_dashboard(caller: Reader<Sharings>, id: Id, app: App) -> Result<Json<SharingResponse>> {
    let (project, id) = (caller.project.id, DashboardId(id.0));
    let dashboard = app.catalog.dashboards().get_visible(project, id, caller.viewer()).await?;
    let shared = SharedObject::dashboard(&app, &caller, dashboard).await?;
    Ok(Json(shared.response(app.catalog.sharing().get_or_create(project, shared.target).await?)))
}

async fn of_insight(
    caller: Reader<Sharings>,
    id: StringId,
    app: App,
) -> Result<Json<SharingResponse>> {
    let project = caller.project.id;
    let insight =
        app.catalog.insights().get_visible(project, &insight_name(&id.0), caller.viewer()).await?;
    let shared = SharedObject::insight(&app, &caller, insight).await?;
    Ok(Json(shared.response(app.catalog.sharing().get_or_create(project, shared.target).await?)))
}

#[derive(Deserialize, JsonSchema)]
struct SharingFields {
    #[serde(default, deserialize_with = "lenient_bool")]
    enabled: Option<bool>,
    #[serde(default)]
    #[schemars(with = "Option<SharingSettingsShape>")]
    settings: Patch<Value>,
    #[serde(default, deserialize_with = "lenient_bool")]
    password_required: Option<bool>,
}

enum SharingUpdate {
    Done(SharingResponse),
    /// A 403 with `error`, which clients of this endpoint read.
    NoPasswords,
}

async fn change_of_dashboard(
    caller: Writer<Sharings>,
    id: Id,
    app: App,
    body: Body<SharingFields>,
) -> Result<SharingUpdate> {
    change(caller, &app, Target::Dashboard(DashboardId(id.0)), body).await
}

async fn change_of_insight(
    caller: Writer<Sharings>,
    id: StringId,
    app: App,
    body: Body<SharingFields>,
) -> Result<SharingUpdate> {
    change(caller, &app, Target::Insight(id.0), body).await
}

async fn change(
    caller: Writer<Sharings>,
    app: &AppState,
    target: Target,
    body: Body<SharingFields>,
) -> Result<SharingUpdate> {
    let shared = SharedObject::editable(app, &caller, target).await?;
    let fields = body.read()?;
    if fields.password_required == Some(true) {
        return Ok(SharingUpdate::NoPasswords);
    }
    let settings = fields.settings.nullable().map(|sent| sent.map(read_settings).transpose());
    let change = SharingChange { enabled: fields.enabled, settings: settings.transpose()? };
    if change.enabled == Some(true) {
        shared.check_visible()?;
    }
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let (target, looked) = (shared.target, &shared.looked);
    let changed = app.catalog.sharing().update(&actor, viewer, target, change, looked).await?;
    Ok(SharingUpdate::Done(shared.response(changed)))
}

async fn renew_of_dashboard(
    caller: Writer<Sharings>,
    id: Id,
    app: App,
) -> Result<Json<SharingResponse>> {
    renew(caller, &app, Target::Dashboard(DashboardId(id.0))).await
}

async fn renew_of_insight(
    caller: Writer<Sharings>,
    id: StringId,
    app: App,
) -> Result<Json<SharingResponse>> {
    renew(caller, &app, Target::Insight(id.0)).await
}

async fn renew(
    caller: Writer<Sharings>,
    app: &AppState,
    target: Target,
) -> Result<Json<SharingResponse>> {
    let shared = SharedObject::editable(app, &caller, target).await?;
    shared.check_visible()?;
    let (actor, viewer) = (caller.actor(), caller.viewer());
    let (target, looked) = (shared.target, &shared.looked);
    let grace = app.settings.sharing_grace_seconds;
    let renewed = app.catalog.sharing().rotate_token(&actor, viewer, target, grace, looked).await?;
    Ok(Json(shared.response(renewed)))
}

fn read_settings(sent: Value) -> Result<SharingSettings> {
    let invalid = || Error::invalid("settings", "invalid_input", "Invalid settings format");
    SharingSettings::read(sent).ok_or_else(invalid)
}

impl IntoResponse for SharingUpdate {
    fn into_response(self) -> Response {
        match self {
            Self::Done(shown) => axum::Json(shown).into_response(),
            Self::NoPasswords => {
                let error = "Sharing with password requires the Advanced Permissions feature";
                (StatusCode::FORBIDDEN, axum::Json(json!({ "error": error }))).into_response()
            }
        }
    }
}

impl DescribeResponse for SharingUpdate {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<SharingResponse>(200, schemas);
        operation.response::<SharingForbidden>(403, schemas);
    }
}

#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "describes responses that are written elsewhere")]
enum SharingForbidden {
    Permission(ErrorBody),
    /// Upstream's response where a plan has no passwords.
    Password {
        error: String,
    },
}
