//! Organizations that the caller belongs to.

use catalog::{OrganizationChange, OrganizationRow, ProjectRow};
use model::{
    MembershipLevel, OrganizationId, OrganizationSchema, OrganizationSettings, ProjectId,
    Timestamp, UserId,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::accounts::projects::ProjectItem;
use crate::http::body::{WithSettings, max_chars, not_blank, present};
use crate::{
    AccountReader, AccountWriter, App, AppState, Body, Created, Error, IsPut, Json, Listing,
    NoContent, OrganizationReader, OrganizationWriter, Page, Patch, Resource, Result, Routes,
};

/// PostHog's documented maximum length of an organization's name.
pub(super) const NAME_CHARS_MAX: usize = 64;
/// Hedgerow runs no plugins.
const PLUGINS_ACCESS_NONE: i64 = 0;
/// All features are available. Clients hide a feature whose key is missing here.
const FEATURES: &[(&str, &str)] = &[
    ("access_control", "Access control"),
    ("advanced_permissions", "Advanced permissions"),
    ("audit_logs", "Activity logs"),
    ("dashboard_collaboration", "Dashboard collaboration"),
    ("group_analytics", "Group analytics"),
    ("ingestion_taxonomy", "Ingestion taxonomy"),
    ("multivariate_flags", "Multivariate feature flags"),
    ("organizations_projects", "Multiple projects"),
    ("role_based_access", "Role-based access"),
    ("tagging", "Tags"),
];

/// An organization as the API shows it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Organization {
    id: OrganizationId,
    name: String,
    slug: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    membership_level: MembershipLevel,
    plugins_access_level: i64,
    /// Project, environment and team are one object; clients read it under both names.
    teams: Vec<ProjectItem>,
    projects: Vec<OrganizationProject>,
    available_product_features: Vec<ProductFeature>,
    #[serde(flatten)]
    settings: OrganizationSettings,
    default_role_id: Option<Uuid>,
    #[schemars(with = "model::json_shapes::EmptyObject")]
    metadata: Map<String, Value>,
    customer_id: Option<String>,
    member_count: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct OrganizationProject {
    id: ProjectId,
    name: String,
    organization_id: OrganizationId,
    created_at: Timestamp,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ProductFeature {
    key: &'static str,
    name: &'static str,
}

impl Resource for Organization {
    const SCOPE: &'static str = "organization";
}

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .get("/api/organizations", list)
        .post("/api/organizations", create)
        .get("/api/organizations/{organization_id}", read)
        .patch("/api/organizations/{organization_id}", update)
        .delete("/api/organizations/{organization_id}", destroy)
}

#[derive(Deserialize, JsonSchema)]
struct OrganizationFields {
    #[serde(default, deserialize_with = "present")]
    name: Option<String>,
    #[serde(default)]
    default_role_id: Patch<Uuid>,
}

type ChangeBody = Body<WithSettings<OrganizationFields, OrganizationSchema>>;

async fn list(
    caller: AccountReader<Organization>,
    page: Page,
    app: App,
) -> Result<Listing<Organization>> {
    let (rows, total) = app
        .catalog
        .organizations()
        .of_user(caller.user.user.id, caller.key.as_ref(), page.window)
        .await?;
    Ok(page.listing(with_projects(&app, caller.user.user.id, rows).await?, total))
}

async fn create(
    caller: AccountWriter<Organization>,
    app: App,
    body: ChangeBody,
) -> Result<Created<Organization>> {
    if caller.key.as_ref().is_some_and(|key| key.scoped_organizations.is_some()) {
        return Err(Error::forbidden(
            "API keys with scoped organizations cannot create organizations.",
        ));
    }
    // The creator becomes an administrator, and administrators create accounts for any e-mail
    // address: a plain member could claim the address of a person without an account.
    if !caller.user.is_staff {
        return Err(Error::forbidden("Only staff of this instance can create organizations."));
    }
    let change = change(&body)?;
    if change.name.is_none() {
        return Err(Error::required("name"));
    }
    let row = app.catalog.organizations().create(caller.user.user.id, change).await?;
    Ok(Created(response(&app, caller.user.user.id, row, MembershipLevel::Owner).await?))
}

async fn read(caller: OrganizationReader<Organization>, app: App) -> Result<Json<Organization>> {
    Ok(Json(response(&app, caller.user.user.id, caller.organization, caller.level).await?))
}

async fn update(
    caller: OrganizationWriter<Organization>,
    is_put: IsPut,
    app: App,
    body: ChangeBody,
) -> Result<Json<Organization>> {
    caller.require(MembershipLevel::Admin)?;
    let change = change(&body)?;
    if is_put.0 && change.name.is_none() {
        return Err(Error::required("name"));
    }
    let changed = app.catalog.organizations().update(&caller.actor(), change).await?;
    Ok(Json(response(&app, caller.user.user.id, changed, caller.level).await?))
}

async fn destroy(caller: OrganizationWriter<Organization>, app: App) -> Result<NoContent> {
    caller.require(MembershipLevel::Owner)?;
    app.catalog.organizations().delete(&caller.actor()).await?;
    Ok(NoContent)
}

fn change(body: &ChangeBody) -> Result<OrganizationChange> {
    let WithSettings { fields, settings } = body.read_with_settings()?;
    let name = fields.name.map(|name| name.trim().to_owned());
    if let Some(name) = &name {
        not_blank("name", name)?;
        max_chars("name", name, NAME_CHARS_MAX)?;
    }
    Ok(OrganizationChange { name, default_role_id: fields.default_role_id.nullable(), settings })
}

async fn response(
    app: &AppState,
    user: UserId,
    row: OrganizationRow,
    level: MembershipLevel,
) -> Result<Organization> {
    let mut shown = with_projects(app, user, vec![(row, level)]).await?;
    shown.pop().ok_or_else(Error::not_found)
}

/// Adds the projects that the user may enter and the member counts, with two statements for any
/// number of rows.
pub(crate) async fn with_projects(
    app: &AppState,
    user: UserId,
    rows: Vec<(OrganizationRow, MembershipLevel)>,
) -> Result<Vec<Organization>> {
    let ids: Vec<OrganizationId> = rows.iter().map(|(row, _)| row.id).collect();
    let projects = app.catalog.users().projects_in(&ids, user).await?;
    let counts = app.catalog.organizations().member_counts(&ids).await?;
    let shown = rows.into_iter().map(|(row, level)| {
        let projects_of = || projects.iter().filter(|project| project.organization == row.id);
        Organization {
            id: row.id,
            membership_level: level,
            plugins_access_level: PLUGINS_ACCESS_NONE,
            teams: projects_of().cloned().map(ProjectItem::from).collect(),
            projects: projects_of().map(OrganizationProject::of).collect(),
            available_product_features: FEATURES
                .iter()
                .map(|(key, name)| ProductFeature { key, name })
                .collect(),
            metadata: Map::new(),
            customer_id: None,
            member_count: counts.get(&row.id).copied().unwrap_or(0),
            name: row.name,
            slug: row.slug,
            created_at: row.created_at,
            updated_at: row.updated_at,
            settings: row.settings,
            default_role_id: row.default_role_id,
        }
    });
    Ok(shown.collect())
}

impl OrganizationProject {
    fn of(project: &ProjectRow) -> Self {
        Self {
            id: project.id,
            name: project.name.clone(),
            organization_id: project.organization,
            created_at: project.created_at,
        }
    }
}
