//! The demo project: a project of its own in an organization, filled with made-up events and with
//! objects that show them. It is found by its name and its `is_demo` setting, and deleted like any
//! project.

use std::time::{Duration, Instant};

use axum::response::{IntoResponse, Response};
use capture::{Endpoint, Rejection, Request};
use catalog::{Actor, NewProject, PersonIdKind, ProjectChange, ProjectRow, Secret};
use demo::{Demo, ObjectIds, Ranges};
use model::{
    Access, ActionId, CohortId, MembershipLevel, OrganizationId, ProjectSettings,
    ProjectSettingsChange, Timestamp, UserId, Viewer, Visibilities, Visibility,
};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::accounts::projects::Project;
use crate::auth::resources::Projects;
use crate::cohorts::{CohortFields, new_cohort};
use crate::dashboards::templates;
use crate::data_management::actions::{ActionFields, new_action};
use crate::data_management::annotations::{AnnotationFields, new_annotation};
use crate::feature_flags::FlagFields;
use crate::http::body::typed;
use crate::http::openapi::{DescribeResponse, Operation};
use crate::{App, AppState, Created, Error, Json, Reader, Result, Routes, Writer};

/// Events of one capture request.
const BATCH_EVENTS_MAX: usize = 500;
/// Retry interval and timeout while capture is busy or the journal is full.
const CAPTURE_RETRY: Duration = Duration::from_millis(100);
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long to wait until queries see the events, and how often to look.
const APPLIED_TIMEOUT: Duration = Duration::from_secs(120);
const APPLIED_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Projects with the demo's name that are looked at; others may have the name too.
const NAMESAKES_MAX: i64 = 100;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/demo", create)
        .get("/api/projects/{project_id}/is_generating_demo_data", is_generating_demo_data)
}

/// Who creates the demo, and for which days.
pub struct DemoOptions {
    pub actor: Actor,
    /// Time zone of the new project.
    pub timezone: String,
    /// The end of its thirty days; `None` is now. A given end makes insights name absolute dates.
    pub until: Option<Timestamp>,
}

/// The demo project of an organization.
pub enum DemoProject {
    /// With the number of events sent.
    Created(ProjectRow, usize),
    Existing(ProjectRow),
}

/// 201 with the new project, or 200 with the one that exists.
enum DemoResponse {
    Created(Box<Project>),
    Existing(Box<Project>),
}

impl IntoResponse for DemoResponse {
    fn into_response(self) -> Response {
        match self {
            Self::Created(project) => Created(project).into_response(),
            Self::Existing(project) => Json(project).into_response(),
        }
    }
}

impl DescribeResponse for DemoResponse {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        Created::<Project>::describe_response(operation, schemas);
        Json::<Project>::describe_response(operation, schemas);
    }
}

/// Creates the demo project of the organization that the path's project belongs to; takes what
/// creating a project takes.
async fn create(caller: Writer<Projects>, app: App) -> Result<DemoResponse> {
    let organization = caller.in_organization(&app).await?;
    organization.require(MembershipLevel::Admin)?;
    let level = organization.level;
    let options = DemoOptions {
        actor: organization.actor(),
        timezone: caller.project.timezone.clone(),
        until: None,
    };
    // Detached: a client that leaves must not leave half a demo.
    let state = app.0.clone();
    let filling = tokio::spawn(async move { create_demo(&state, &options).await });
    let made = filling.await.map_err(|error| Error::panicked(Some(&error.to_string())))??;
    let shown = async |row| {
        Ok::<_, Error>(Box::new(Project::seen(&app, row, level, &Visibilities::default()).await?))
    };
    match made {
        DemoProject::Created(row, _) => Ok(DemoResponse::Created(shown(row).await?)),
        DemoProject::Existing(row) => Ok(DemoResponse::Existing(shown(row).await?)),
    }
}

#[derive(Serialize, JsonSchema)]
struct DemoData {
    is_generating_demo_data: bool,
}

async fn is_generating_demo_data(caller: Reader<Projects>) -> Result<Json<DemoData>> {
    let is_generating_demo_data = is_demo(&caller.project) && !is_complete(&caller.project);
    Ok(Json(DemoData { is_generating_demo_data }))
}

/// Whether it is the demo: somebody who renames it keeps it.
fn is_demo(project: &ProjectRow) -> bool {
    project.settings.is_demo() && project.name == demo::PROJECT_NAME
}

/// Set last, so that an interrupted demo can be told from a complete one.
fn is_complete(project: &ProjectRow) -> bool {
    project.settings.completed_snippet_onboarding()
}

async fn find(app: &AppState, organization: OrganizationId) -> Result<Option<ProjectRow>> {
    let name = demo::PROJECT_NAME;
    let named = app.catalog.projects().named(organization, name, NAMESAKES_MAX).await?;
    Ok(named.into_iter().find(is_demo))
}

/// Creates the demo project of the actor's organization, unless it has one. An interrupted one is
/// replaced.
pub async fn create_demo(app: &AppState, options: &DemoOptions) -> Result<DemoProject> {
    let _one_at_a_time = app.demo.lock().await;
    let actor = &options.actor;
    match find(app, actor.organization).await? {
        Some(existing) if is_complete(&existing) => return Ok(DemoProject::Existing(existing)),
        Some(interrupted) => app.catalog.projects().delete(actor, interrupted.id).await?,
        None => {}
    }
    let (until, ranges) = match options.until {
        Some(until) => (until, Ranges::Absolute),
        None => (app.catalog.clock().now(), Ranges::Relative),
    };
    let demo = Demo::new(demo::SEED, until, &options.timezone, ranges, flags::bucket);
    let mut settings = ProjectSettings::default();
    settings.apply(settings_change(&demo.settings())?);
    let new = NewProject {
        name: demo::PROJECT_NAME.into(),
        timezone: options.timezone.clone(),
        api_token: Secret::random("phc_"),
        settings,
    };
    let project = app.catalog.projects().create(actor, new).await?;
    let filling = Filling {
        app,
        actor: Actor { project: Some(project.id), ..*actor },
        demo,
        project: &project,
    };
    match filling.run().await {
        Ok((project, events)) => Ok(DemoProject::Created(project, events)),
        Err(error) => {
            // The first error counts; what cannot be deleted now is replaced by the next request.
            let _ = app.catalog.projects().delete(actor, project.id).await;
            Err(error)
        }
    }
}

/// Deletes the demo project of the actor's organization; `None` if there is none.
pub async fn remove_demo(app: &AppState, actor: &Actor) -> Result<Option<ProjectRow>> {
    let _one_at_a_time = app.demo.lock().await;
    let Some(project) = find(app, actor.organization).await? else { return Ok(None) };
    app.catalog.projects().delete(actor, project.id).await?;
    Ok(Some(project))
}

fn settings_change(settings: &Value) -> Result<ProjectSettingsChange> {
    let Value::Object(settings) = settings else { return Ok(ProjectSettingsChange::default()) };
    Ok(ProjectSettingsChange::read(settings)?)
}

/// Fills a new project.
struct Filling<'a> {
    app: &'a AppState,
    actor: Actor,
    demo: Demo,
    project: &'a ProjectRow,
}

impl Filling<'_> {
    /// The project afterwards, and the number of its events.
    async fn run(&self) -> Result<(ProjectRow, usize)> {
        // Before the events, which say when each was last called.
        self.create_flags().await?;
        let mut events = 0;
        for day in self.demo.days() {
            for batch in day.chunks(BATCH_EVENTS_MAX) {
                self.capture(batch).await?;
            }
            events += day.len();
        }
        self.wait_until_applied().await?;
        let ids = ObjectIds {
            order_action: self.create_actions().await?.0,
            business_cohort: self.create_cohorts().await?.0,
        };
        self.create_annotations().await?;
        let dashboard = self.create_dashboard(ids).await?;
        let last = json!({
            ProjectSettings::PRIMARY_DASHBOARD: dashboard, "completed_snippet_onboarding": true,
        });
        let change = ProjectChange { settings: settings_change(&last)?, ..Default::default() };
        let projects = self.app.catalog.projects();
        Ok((projects.update(&self.actor, self.project.id, change).await?, events))
    }

    /// Sends events as a client would, and again while the server is busy.
    async fn capture(&self, events: &[String]) -> Result<()> {
        let (token, events) = (Value::from(self.project.api_token.as_str()), events.join(","));
        let body =
            format!(r#"{{"api_key":{token},"historical_migration":true,"batch":[{events}]}}"#);
        let started = Instant::now();
        loop {
            let request = Request {
                endpoint: Endpoint::Events,
                query: "",
                content_type: Some("application/json"),
                content_encoding: None,
                body: body.as_bytes(),
                // The person who creates the demo is not one of its visitors.
                client_ip: None,
                received_at: self.app.catalog.clock().now(),
            };
            match self.app.capture.events(request).await {
                Ok(_) => return Ok(()),
                Err(
                    Rejection::Busy
                    | Rejection::LookupUnavailable
                    | Rejection::JournalUnavailable(_),
                ) if started.elapsed() < CAPTURE_TIMEOUT => {
                    tokio::time::sleep(CAPTURE_RETRY).await;
                }
                Err(rejection) => {
                    tracing::warn!(error = %rejection, "could not capture the demo's events");
                    return Err(Error::unavailable(format!(
                        "The demo's events could not be stored. {rejection}"
                    )));
                }
            }
        }
    }

    /// Waits until queries see the events: an insight computed earlier would be cached incomplete.
    async fn wait_until_applied(&self) -> Result<()> {
        let (reach, started) = (self.app.capture.next_position(), Instant::now());
        while self.app.events.applied_position() < reach {
            if started.elapsed() > APPLIED_TIMEOUT {
                return Err(Error::unavailable("The demo's events were not applied in time."));
            }
            tokio::time::sleep(APPLIED_POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Creates the actions; returns the first.
    async fn create_actions(&self) -> Result<ActionId> {
        let mut ids = Vec::new();
        for body in self.demo.actions() {
            let new = new_action(typed::<ActionFields>(&body)?.validate()?)?;
            let actions = self.app.catalog.actions();
            ids.push(actions.create(&self.actor, new, &Visibility::Everything).await?.id);
        }
        ids.first().copied().ok_or_else(Error::not_found)
    }

    /// Creates the cohorts, and fills the static one; returns the first.
    async fn create_cohorts(&self) -> Result<CohortId> {
        let (cohorts, now) = (self.app.catalog.cohorts(), self.app.catalog.clock().now());
        let mut ids = Vec::new();
        for body in self.demo.cohorts() {
            let fields = typed::<CohortFields>(&body)?;
            let is_static = fields.is_static();
            let new = new_cohort(is_static, fields.validate(is_static, self.project, now)?)?;
            let id = cohorts.create(&self.actor, new, &Visibilities::default()).await?.id;
            if is_static {
                let (by, members) = (PersonIdKind::DistinctId, self.demo.beta_testers());
                cohorts.add_members(&self.actor, id, by, &members).await?;
            }
            ids.push(id);
        }
        ids.first().copied().ok_or_else(Error::not_found)
    }

    async fn create_flags(&self) -> Result<()> {
        for body in self.demo.flags() {
            let new = typed::<FlagFields>(&body)?.validate()?;
            self.app.catalog.flags().create(&self.actor, new).await?;
        }
        Ok(())
    }

    async fn create_annotations(&self) -> Result<()> {
        for body in self.demo.annotations() {
            let new = new_annotation(typed::<AnnotationFields>(&body)?.validate()?)?;
            self.app.catalog.annotations().create(&self.actor, new).await?;
        }
        Ok(())
    }

    async fn create_dashboard(&self, ids: ObjectIds) -> Result<i64> {
        let mut new = templates::from_template(self.demo.dashboard(ids))?;
        new.pinned = true;
        // Whoever may create a project is its administrator. The server acts as nobody.
        let (user, access) = (self.actor.user.unwrap_or(UserId(0)), Access::default());
        let viewer = Viewer { user, is_admin: true, access: &access };
        Ok(self.app.catalog.dashboards().create(&self.actor, viewer, new).await?.0)
    }
}
