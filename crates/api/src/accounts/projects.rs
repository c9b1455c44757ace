//! Projects: settings, tokens and activity.

use catalog::{NewProject, ProjectChange, ProjectRow, Secret};
use model::{
    DashboardId, MembershipLevel, ObjectKind, OrganizationId, ProjectAccess, ProjectId,
    ProjectSchema, ProjectSettings, ProjectSettingsChange, Visibilities, is_time_zone,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::caller::InProject;
use crate::auth::resources::Projects;
use crate::groups::TypeItem;
use crate::http::body::{WithSettings, max_chars, not_blank, present};
use crate::{
    AccountReader, App, Body, Created, Error, IsPut, Json, Listing, NoContent, OrganizationReader,
    OrganizationWriter, Page, Reader, Result, Routes, Writer,
};

/// Upstream's documented length of a name.
pub(super) const NAME_CHARS_MAX: usize = 200;
const NAME_DEFAULT: &str = "Default project";
const TIMEZONE_DEFAULT: &str = "UTC";

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/projects", list)
        .post("/api/projects", create)
        .get("/api/projects/{project_id}", read)
        .patch("/api/projects/{project_id}", update)
        .delete("/api/projects/{project_id}", destroy)
        .patch("/api/projects/{project_id}/reset_token", reset_token)
        .patch("/api/projects/{project_id}/rotate_secret_token", rotate_secret_token)
        .patch("/api/projects/{project_id}/delete_secret_token_backup", delete_secret_token_backup)
        .get("/api/projects/{project_id}/activity", activity)
        .get("/api/organizations/{organization_id}/projects", list_of_organization)
        .post("/api/organizations/{organization_id}/projects", create)
        .get("/api/organizations/{organization_id}/projects/{project_id}", read)
        .patch("/api/organizations/{organization_id}/projects/{project_id}", update)
        .delete("/api/organizations/{organization_id}/projects/{project_id}", destroy)
}

/// A project in a list or nested in another object.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProjectItem {
    id: ProjectId,
    uuid: Uuid,
    organization: OrganizationId,
    project_id: ProjectId,
    api_token: String,
    name: String,
    completed_snippet_onboarding: bool,
    has_completed_onboarding_for: Option<Value>,
    ingested_event: bool,
    is_demo: bool,
    timezone: String,
    access_control: bool,
}

impl From<ProjectRow> for ProjectItem {
    fn from(row: ProjectRow) -> Self {
        Self {
            id: row.id,
            uuid: row.uuid,
            organization: row.organization,
            project_id: row.id,
            api_token: row.api_token,
            name: row.name,
            completed_snippet_onboarding: row.settings.completed_snippet_onboarding(),
            has_completed_onboarding_for: row.settings.has_completed_onboarding_for(),
            ingested_event: row.ingested_event,
            is_demo: row.settings.is_demo(),
            timezone: row.timezone,
            access_control: row.settings.is_private(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Project {
    #[serde(flatten)]
    row: ProjectRow,
    project_id: ProjectId,
    /// `member` or `admin`: a project has no owners.
    effective_membership_level: MembershipLevel,
    user_access_level: ProjectAccess,
    has_group_types: bool,
    group_types: Vec<TypeItem>,
    person_on_events_querying_enabled: bool,
    #[schemars(with = "model::json_shapes::EmptyObject")]
    default_modifiers: Map<String, Value>,
    #[schemars(with = "Vec<String>")]
    product_intents: Vec<Value>,
    secret_api_token: Option<String>,
    secret_api_token_backup: Option<String>,
    live_events_token: Option<String>,
    is_pending_deletion: bool,
}

impl Project {
    async fn seen_by<M>(
        app: &App,
        caller: &InProject<Projects, M>,
        row: ProjectRow,
    ) -> Result<Self> {
        Self::seen(app, row, caller.level, &caller.visibilities()).await
    }

    /// The project as a member of `level` sees it: secrets only for administrators, and no primary
    /// dashboard that access rules hide.
    pub(crate) async fn seen(
        app: &App,
        mut row: ProjectRow,
        level: MembershipLevel,
        seen: &Visibilities,
    ) -> Result<Self> {
        if is_primary_hidden(app, &row, seen).await? {
            row.settings.reset_primary_dashboard();
        }
        let is_admin = level >= MembershipLevel::Admin;
        let (secret, backup) = match is_admin {
            true => app.catalog.projects().secrets(&row)?,
            false => (None, None),
        };
        let reveal = |secret: Option<Secret>| secret.map(|secret| secret.reveal().to_owned());
        let group_types = TypeItem::all(app, row.id).await?;
        Ok(Self {
            project_id: row.id,
            row,
            effective_membership_level: level.min(MembershipLevel::Admin),
            user_access_level: match is_admin {
                true => ProjectAccess::Admin,
                false => ProjectAccess::Member,
            },
            has_group_types: !group_types.is_empty(),
            group_types,
            person_on_events_querying_enabled: true,
            default_modifiers: Map::new(),
            product_intents: Vec::new(),
            secret_api_token: reveal(secret),
            secret_api_token_backup: reveal(backup),
            live_events_token: None,
            is_pending_deletion: false,
        })
    }
}

async fn is_primary_hidden(app: &App, row: &ProjectRow, seen: &Visibilities) -> Result<bool> {
    match row.settings.primary_dashboard() {
        Some(id) => is_hidden(app, row, id, seen).await,
        None => Ok(false),
    }
}

async fn is_hidden(
    app: &App,
    row: &ProjectRow,
    dashboard: DashboardId,
    seen: &Visibilities,
) -> Result<bool> {
    let hidden =
        app.catalog.access().hidden(row.id, ObjectKind::Dashboard, &[dashboard.0], seen).await?;
    Ok(!hidden.is_empty())
}

async fn list(
    caller: AccountReader<Projects>,
    page: Page,
    app: App,
) -> Result<Listing<ProjectItem>> {
    let user = caller.user.user.id;
    let (rows, total) =
        app.catalog.users().projects(user, caller.key.as_ref(), page.window).await?;
    Ok(page.listing(rows.into_iter().map(ProjectItem::from).collect(), total))
}

async fn list_of_organization(
    caller: OrganizationReader<Projects>,
    page: Page,
    app: App,
) -> Result<Listing<ProjectItem>> {
    let (organization, user) = (caller.organization.id, caller.user.user.id);
    let (rows, total) =
        app.catalog.users().projects_within(organization, user, page.window).await?;
    Ok(page.listing(rows.into_iter().map(ProjectItem::from).collect(), total))
}

/// The fields of a project outside the settings table.
#[derive(Deserialize, JsonSchema)]
struct ProjectFields {
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default, deserialize_with = "present")]
    timezone: Option<String>,
}

type ProjectBody = WithSettings<ProjectFields, ProjectSchema>;

impl ProjectFields {
    fn check(&self) -> Result<()> {
        if let Some(name) = &self.name {
            not_blank("name", name)?;
            max_chars("name", name, NAME_CHARS_MAX)?;
        }
        match self.timezone.as_deref().filter(|zone| !is_time_zone(zone)) {
            Some(zone) => Err(Error::invalid_choice("timezone", zone)),
            None => Ok(()),
        }
    }
}

/// Rejects test account filters that a query cannot run. Unchanged filters pass: they may predate
/// the check.
fn check_test_accounts(before: &ProjectSettings, change: &ProjectSettingsChange) -> Result<()> {
    let unchanged = before.test_account_filters();
    match change.test_account_filters().filter(|sent| **sent != *unchanged) {
        None => Ok(()),
        Some(sent) => query::check_test_account_filters(sent).map_err(|why| {
            let name = ProjectSettings::TEST_ACCOUNT_FILTERS;
            Error::invalid(name, "invalid_input", why.to_string())
        }),
    }
}

/// Creates the project in the organization of the path, or in the caller's current one.
async fn create(
    caller: OrganizationWriter<Projects>,
    app: App,
    body: Body<ProjectBody>,
) -> Result<Created<Project>> {
    caller.require(MembershipLevel::Admin)?;
    let WithSettings { fields, settings: change } = body.read_with_settings()?;
    fields.check()?;
    let mut settings = ProjectSettings::default();
    check_test_accounts(&settings, &change)?;
    settings.apply(change);
    let new = NewProject {
        name: fields.name.unwrap_or_else(|| NAME_DEFAULT.into()),
        timezone: fields.timezone.unwrap_or_else(|| TIMEZONE_DEFAULT.into()),
        api_token: Secret::random("phc_"),
        settings,
    };
    let row = app.catalog.projects().create(&caller.actor(), new).await?;
    Project::seen(&app, row, caller.level, &Visibilities::default()).await.map(Created)
}

async fn read(caller: Reader<Projects>, app: App) -> Result<Json<Project>> {
    Project::seen_by(&app, &caller, caller.project.clone()).await.map(Json)
}

async fn update(
    caller: Writer<Projects>,
    is_put: IsPut,
    app: App,
    body: Body<ProjectBody>,
) -> Result<Json<Project>> {
    let WithSettings { fields, mut settings } = body.read_with_settings()?;
    if is_put.0 && fields.name.is_none() {
        return Err(Error::required("name"));
    }
    fields.check()?;
    let is_private = caller.project.settings.is_private();
    if settings.private().is_some_and(|requested| requested != is_private) {
        caller.require_administrator()?;
    }
    let (project, seen) = (&caller.project, caller.visibilities());
    check_test_accounts(&project.settings, &settings)?;
    match settings.primary_dashboard() {
        // Also where it is the current value: otherwise a caller could find a hidden dashboard by
        // trying ids.
        Some(Some(id)) if is_hidden(&app, project, id, &seen).await? => {
            let detail = format!("Invalid pk \"{id}\" - object does not exist.");
            let name = ProjectSettings::PRIMARY_DASHBOARD;
            return Err(Error::invalid(name, "does_not_exist", detail));
        }
        // The caller was shown null for the hidden dashboard; sending it back changes nothing.
        Some(None) if is_primary_hidden(&app, project, &seen).await? => {
            settings.keep_primary_dashboard();
        }
        _ => {}
    }
    let change = ProjectChange { name: fields.name, timezone: fields.timezone, settings };
    let row = app.catalog.projects().update(&caller.actor(), caller.project.id, change).await?;
    Project::seen_by(&app, &caller, row).await.map(Json)
}

async fn destroy(caller: Writer<Projects>, app: App) -> Result<NoContent> {
    caller.require_administrator()?;
    app.catalog.projects().delete(&caller.actor(), caller.project.id).await?;
    Ok(NoContent)
}

async fn reset_token(caller: Writer<Projects>, app: App) -> Result<Json<Project>> {
    caller.require_administrator()?;
    let row = app.catalog.projects().reset_token(&caller.actor(), caller.project.id).await?;
    Project::seen_by(&app, &caller, row).await.map(Json)
}

async fn rotate_secret_token(caller: Writer<Projects>, app: App) -> Result<Json<Project>> {
    caller.require_administrator()?;
    let row = app.catalog.projects().rotate_secret(&caller.actor(), caller.project.id).await?;
    Project::seen_by(&app, &caller, row).await.map(Json)
}

async fn delete_secret_token_backup(caller: Writer<Projects>, app: App) -> Result<Json<Project>> {
    caller.require_administrator()?;
    let row =
        app.catalog.projects().delete_secret_backup(&caller.actor(), caller.project.id).await?;
    Project::seen_by(&app, &caller, row).await.map(Json)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    page.visible_to(caller.visibilities()).of(&app, &caller.project, &caller.project).await
}
