//! Access controls: the access level of members and roles in a project, for all objects of a
//! kind, and for one object.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::{AccessRule, Deleted, RuleSubject, RuleTarget};
use model::{AccessLevel, ActionId, DashboardId, MembershipLevel, ObjectKind, ProjectAccess};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::auth::access::require;
use crate::auth::caller::InProject;
use crate::auth::resources::Actions;
use crate::auth::resources::Dashboards;
use crate::auth::resources::Flags;
use crate::auth::resources::Insights;
use crate::auth::resources::Projects;
use crate::feature_flags;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::insights::insight_name;
use crate::{
    App, AppState, Body, Error, Id, Json, Patch, Reader, Result, Routes, StringId, Writer,
};

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects/{project_id}/access_controls", of_project)
        .put("/api/projects/{project_id}/access_controls", set_of_project)
        .get("/api/projects/{project_id}/resource_access_controls", of_kinds)
        .put("/api/projects/{project_id}/resource_access_controls", set_of_kind)
        .get("/api/projects/{project_id}/actions/{id}/access_controls", of_action)
        .put("/api/projects/{project_id}/actions/{id}/access_controls", set_of_action)
        .get("/api/projects/{project_id}/dashboards/{id}/access_controls", of_dashboard)
        .put("/api/projects/{project_id}/dashboards/{id}/access_controls", set_of_dashboard)
        .get("/api/projects/{project_id}/feature_flags/{id}/access_controls", of_flag)
        .put("/api/projects/{project_id}/feature_flags/{id}/access_controls", set_of_flag)
        .get("/api/projects/{project_id}/insights/{id}/access_controls", of_insight)
        .put("/api/projects/{project_id}/insights/{id}/access_controls", set_of_insight)
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AccessControls")]
struct AccessControls {
    access_controls: Vec<AccessRule>,
    available_access_levels: Vec<&'static str>,
    /// The level where no rule applies.
    default_access_level: &'static str,
    /// Null where it differs between kinds of objects.
    user_access_level: Option<&'static str>,
    user_can_edit_access_levels: bool,
}

/// The stored rule, or 204 once it is removed.
enum RuleUpdate {
    Stored(AccessRule),
    Removed,
}

impl From<Option<AccessRule>> for RuleUpdate {
    fn from(rule: Option<AccessRule>) -> Self {
        rule.map_or(Self::Removed, Self::Stored)
    }
}

impl IntoResponse for RuleUpdate {
    fn into_response(self) -> Response {
        match self {
            Self::Stored(rule) => axum::Json(rule).into_response(),
            Self::Removed => StatusCode::NO_CONTENT.into_response(),
        }
    }
}

impl DescribeResponse for RuleUpdate {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<AccessRule>(200, schemas);
        operation.empty_response(204);
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ProjectAccessControlFields")]
struct ProjectRule {
    /// Null removes the rule.
    #[serde(default)]
    access_level: Patch<ProjectAccess>,
    /// A membership's id. With neither this nor `role`, the rule applies to every member.
    organization_member: Option<Uuid>,
    role: Option<Uuid>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "AccessControlFields")]
struct ObjectRule {
    /// Null removes the rule.
    #[serde(default)]
    access_level: Patch<AccessLevel>,
    /// A membership's id. With neither this nor `role`, the rule applies to every member.
    organization_member: Option<Uuid>,
    role: Option<Uuid>,
    /// Where the path names an object, `resource` and `resource_id` must name the same one.
    resource: Option<ObjectKind>,
    resource_id: Option<String>,
}

fn subject(member: Option<Uuid>, role: Option<Uuid>) -> Result<RuleSubject> {
    match (member, role) {
        (None, None) => Ok(RuleSubject::Everyone),
        (Some(member), None) => Ok(RuleSubject::Member(member)),
        (None, Some(role)) => Ok(RuleSubject::Role(role)),
        (Some(_), Some(_)) => {
            let detail = "An access control is for a member or for a role, not for both.";
            Err(Error::invalid("role", "invalid_input", detail))
        }
    }
}

/// The `access_level` of a body: a level, or null. It is required.
fn level<L>(sent: Patch<L>) -> Result<Option<L>> {
    sent.nullable().ok_or_else(|| Error::required("access_level"))
}

async fn of_project(caller: Reader<Projects>, app: App) -> Result<Json<AccessControls>> {
    let rules = app.catalog.access_rules().list(caller.project.id, RuleTarget::Project).await?;
    let level = match caller.level {
        MembershipLevel::Member => ProjectAccess::Member,
        MembershipLevel::Admin | MembershipLevel::Owner => ProjectAccess::Admin,
    };
    Ok(Json(AccessControls {
        access_controls: rules,
        available_access_levels: ProjectAccess::ALL.map(ProjectAccess::as_str).to_vec(),
        default_access_level: ProjectAccess::DEFAULT.as_str(),
        user_access_level: Some(level.as_str()),
        user_can_edit_access_levels: caller.is_admin(),
    }))
}

async fn set_of_project(
    caller: Writer<Projects>,
    app: App,
    body: Body<ProjectRule>,
) -> Result<RuleUpdate> {
    caller.require_administrator()?;
    let sent = body.read()?;
    let level = level(sent.access_level)?.map(ProjectAccess::as_str);
    let subject = subject(sent.organization_member, sent.role)?;
    let (actor, target) = (caller.actor(), RuleTarget::Project);
    Ok(app.catalog.access_rules().set(&actor, target, subject, level).await?.into())
}

fn object_access_controls(
    rules: Vec<AccessRule>,
    level: Option<AccessLevel>,
    can_edit: bool,
) -> Json<AccessControls> {
    Json(AccessControls {
        access_controls: rules,
        available_access_levels: AccessLevel::ALL.map(AccessLevel::as_str).to_vec(),
        default_access_level: AccessLevel::DEFAULT.as_str(),
        user_access_level: level.map(AccessLevel::as_str),
        user_can_edit_access_levels: can_edit,
    })
}

async fn of_kinds(caller: Reader<Projects>, app: App) -> Result<Json<AccessControls>> {
    let rules = app.catalog.access_rules().list_for_kinds(caller.project.id).await?;
    Ok(object_access_controls(rules, None, caller.is_admin()))
}

async fn set_of_kind(
    caller: Writer<Projects>,
    app: App,
    body: Body<ObjectRule>,
) -> Result<RuleUpdate> {
    caller.require_administrator()?;
    let sent = body.read()?;
    let kind = sent.resource.ok_or_else(|| Error::required("resource"))?;
    // A rule meant for one object must not apply to all objects of its kind.
    if sent.resource_id.is_some_and(|id| !id.is_empty()) {
        let detail = "Set the rule of one object at the object's own `access_controls`.";
        return Err(Error::invalid("resource_id", "invalid_input", detail));
    }
    let level = level(sent.access_level)?.map(AccessLevel::as_str);
    let subject = subject(sent.organization_member, sent.role)?;
    let (actor, target) = (caller.actor(), RuleTarget::Kind(kind));
    Ok(app.catalog.access_rules().set(&actor, target, subject, level).await?.into())
}

/// The object of the path, which the caller may view.
struct Object {
    kind: ObjectKind,
    id: i64,
    /// An insight's short id, which paths accept too.
    short_id: Option<String>,
    level: AccessLevel,
}

impl Object {
    fn by_id(kind: ObjectKind, id: i64, level: AccessLevel) -> Result<Self> {
        require(level, AccessLevel::Viewer)?;
        Ok(Self { kind, id, short_id: None, level })
    }

    async fn action<M>(app: &AppState, caller: &InProject<Actions, M>, id: Id) -> Result<Self> {
        let action =
            app.catalog.actions().get(caller.project.id, ActionId(id.0), Deleted::Exclude).await?;
        Self::by_id(ObjectKind::Action, action.id.0, caller.level_of(&action))
    }

    async fn dashboard<M>(
        app: &AppState,
        caller: &InProject<Dashboards, M>,
        id: Id,
    ) -> Result<Self> {
        let (id, viewer) = (DashboardId(id.0), caller.viewer());
        let dashboard = app.catalog.dashboards().get_visible(caller.project.id, id, viewer).await?;
        let level = dashboard.head.policy().rights(viewer).level;
        Self::by_id(ObjectKind::Dashboard, id.0, level)
    }

    async fn flag<M>(app: &AppState, caller: &InProject<Flags, M>, id: Id) -> Result<Self> {
        let (flag, rights) = feature_flags::visible_flag(app, caller, id).await?;
        if flag.deleted {
            return Err(Error::not_found());
        }
        Self::by_id(ObjectKind::FeatureFlag, flag.id.0, rights.level(&flag))
    }

    async fn insight<M>(
        app: &AppState,
        caller: &InProject<Insights, M>,
        id: &StringId,
    ) -> Result<Self> {
        let viewer = caller.viewer();
        let insight = app
            .catalog
            .insights()
            .get_visible(caller.project.id, &insight_name(&id.0), viewer)
            .await?;
        let level = insight.rights(viewer).level;
        let short_id = Some(insight.short_id);
        Ok(Self { kind: ObjectKind::Insight, id: insight.id.0, short_id, level })
    }

    fn target(&self) -> RuleTarget {
        RuleTarget::Object(self.kind, self.id)
    }

    async fn rules<R, M>(
        self,
        app: &AppState,
        caller: &InProject<R, M>,
    ) -> Result<Json<AccessControls>> {
        let rules = app.catalog.access_rules().list(caller.project.id, self.target()).await?;
        Ok(object_access_controls(rules, Some(self.level), self.level == AccessLevel::Manager))
    }

    async fn set<R>(
        self,
        app: &AppState,
        caller: &Writer<R>,
        body: Body<ObjectRule>,
    ) -> Result<RuleUpdate> {
        require(self.level, AccessLevel::Manager)?;
        let sent = body.read()?;
        if let Some(other) = sent.resource.filter(|kind| *kind != self.kind) {
            return Err(Error::invalid_choice("resource", other.as_str()));
        }
        let is_same =
            |id: &String| *id == self.id.to_string() || Some(id) == self.short_id.as_ref();
        if sent.resource_id.is_some_and(|id| !id.is_empty() && !is_same(&id)) {
            let detail = "It differs from the object in the path.";
            return Err(Error::invalid("resource_id", "invalid_input", detail));
        }
        let level = level(sent.access_level)?.map(AccessLevel::as_str);
        let subject = subject(sent.organization_member, sent.role)?;
        let (actor, target) = (caller.actor(), self.target());
        Ok(app.catalog.access_rules().set(&actor, target, subject, level).await?.into())
    }
}

async fn of_action(caller: Reader<Actions>, id: Id, app: App) -> Result<Json<AccessControls>> {
    Object::action(&app, &caller, id).await?.rules(&app, &caller).await
}

async fn set_of_action(
    caller: Writer<Actions>,
    id: Id,
    app: App,
    body: Body<ObjectRule>,
) -> Result<RuleUpdate> {
    Object::action(&app, &caller, id).await?.set(&app, &caller, body).await
}

async fn of_dashboard(
    caller: Reader<Dashboards>,
    id: Id,
    app: App,
) -> Result<Json<AccessControls>> {
    Object::dashboard(&app, &caller, id).await?.rules(&app, &caller).await
}

async fn set_of_dashboard(
    caller: Writer<Dashboards>,
    id: Id,
    app: App,
    body: Body<ObjectRule>,
) -> Result<RuleUpdate> {
    Object::dashboard(&app, &caller, id).await?.set(&app, &caller, body).await
}

async fn of_flag(caller: Reader<Flags>, id: Id, app: App) -> Result<Json<AccessControls>> {
    Object::flag(&app, &caller, id).await?.rules(&app, &caller).await
}

async fn set_of_flag(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<ObjectRule>,
) -> Result<RuleUpdate> {
    Object::flag(&app, &caller, id).await?.set(&app, &caller, body).await
}

async fn of_insight(
    caller: Reader<Insights>,
    id: StringId,
    app: App,
) -> Result<Json<AccessControls>> {
    Object::insight(&app, &caller, &id).await?.rules(&app, &caller).await
}

async fn set_of_insight(
    caller: Writer<Insights>,
    id: StringId,
    app: App,
    body: Body<ObjectRule>,
) -> Result<RuleUpdate> {
    Object::insight(&app, &caller, &id).await?.set(&app, &caller, body).await
}
