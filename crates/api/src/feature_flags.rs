//! Management of feature flags.

mod blast_radius;
mod bulk;
mod definitions;
mod drafts;
mod dry_run;
mod evaluating;
mod fields;
mod list_query;
mod names;
mod organizations;
mod role_access;
mod switches;
mod test_evaluation;
mod usage;

use std::collections::HashSet;
use std::sync::Arc;

use catalog::{FlagChange, FlagFilter, ProjectRow, UpdatedFlag};
use model::edit::Edit;
use model::flag::filters::dependencies;
use model::flag::{FeatureFlag, enrollment_property};
use model::{Access, AccessLevel, FlagId, ObjectKind, UserId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::activity::{ActivityListing, ActivityLog, ActivityPage};
use crate::auth::access::require;
use crate::auth::caller::InProject;
use crate::auth::resources::Flags;
use crate::ingestion::edits;
use crate::{
    App, AppState, Body, Created, Error, Id, IsPut, Json, Listing, Page, Query, Reader, Result,
    Routes, SoftDeleteOnly, Writer,
};
pub(crate) use definitions::public_routes;
pub(crate) use fields::FlagFields;
use list_query::FlagListQuery;

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = routes
        .get("/api/projects/{project_id}/feature_flags", list)
        .post("/api/projects/{project_id}/feature_flags", create)
        .get("/api/projects/{project_id}/feature_flags/{id}", read)
        .patch("/api/projects/{project_id}/feature_flags/{id}", update)
        .delete("/api/projects/{project_id}/feature_flags/{id}", destroy)
        .get("/api/projects/{project_id}/feature_flags/activity", activity)
        .get("/api/projects/{project_id}/feature_flags/{id}/activity", activity_of_one);
    [
        definitions::routes,
        evaluating::routes,
        blast_radius::routes,
        dry_run::routes,
        role_access::routes,
        switches::routes,
        bulk::routes,
        test_evaluation::routes,
        organizations::routes,
        usage::routes,
    ]
    .into_iter()
    .fold(routes, |routes, add| add(routes))
}

/// A flag with the caller's access to it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FeatureFlagWithAccess")]
pub(crate) struct FlagResponse {
    #[serde(flatten)]
    flag: FeatureFlag,
    can_edit: bool,
    user_access_level: AccessLevel,
}

/// What a caller may do with flags, by access rules and by the organization's restriction.
pub(crate) struct Rights {
    user: UserId,
    is_admin: bool,
    rules: Arc<Access>,
    /// The flags that the restriction lets the caller edit; none without a restriction.
    left: Option<HashSet<FlagId>>,
}

impl Rights {
    pub(crate) async fn of<R, M>(app: &AppState, caller: &InProject<R, M>) -> Result<Self> {
        let (user, is_admin) = (caller.user.user.id, caller.is_admin());
        let mut left = None;
        if !is_admin && is_restricted(app, &caller.project).await? {
            let (all, flags) =
                app.catalog.flags().edit_rights(caller.project.organization, user).await?;
            left = (!all).then(|| flags.into_iter().collect());
        }
        Ok(Self { user, is_admin, rules: caller.rules.clone(), left })
    }

    /// The caller's access level on a flag: manager for administrators, else what the access rules
    /// grant; at least editor for its author, at most viewer if the organization restricts the flag.
    pub(crate) fn level(&self, flag: &FeatureFlag) -> AccessLevel {
        if self.is_admin {
            return AccessLevel::Manager;
        }
        let granted = self.rules.of_object(ObjectKind::FeatureFlag, flag.id.0);
        if flag.created_by.as_ref().is_some_and(|author| author.id == self.user) {
            return granted.max(AccessLevel::Editor);
        }
        match self.left.as_ref().is_none_or(|flags| flags.contains(&flag.id)) {
            true => granted,
            false => granted.min(AccessLevel::Viewer),
        }
    }

    pub(crate) fn may_edit(&self, flag: &FeatureFlag) -> bool {
        self.level(flag) >= AccessLevel::Editor
    }

    pub(crate) fn require(&self, flag: &FeatureFlag) -> Result<()> {
        match self.may_edit(flag) {
            true => Ok(()),
            false => Err(Error::forbidden("You can't edit this feature flag.")),
        }
    }
}

/// Loads a flag, deleted or not, that the caller may view.
pub(crate) async fn visible_flag<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    id: Id,
) -> Result<(FeatureFlag, Rights)> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    let rights = Rights::of(app, caller).await?;
    require(rights.level(&flag), AccessLevel::Viewer)?;
    Ok((flag, rights))
}

async fn is_restricted(app: &AppState, project: &ProjectRow) -> Result<bool> {
    let organization = app.catalog.organizations().get(project.organization).await?;
    Ok(organization.settings.restricts_flag_editing())
}

/// The response for one flag.
pub(crate) async fn flag_response<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    rights: &Rights,
    flag: FeatureFlag,
) -> Result<FlagResponse> {
    let shown = flag_responses(app, caller, rights, vec![flag]).await?;
    shown.into_iter().next().ok_or_else(Error::not_found)
}

async fn flag_responses<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    rights: &Rights,
    mut flags: Vec<FeatureFlag>,
) -> Result<Vec<FlagResponse>> {
    names::show(app, caller.project.id, &mut flags).await?;
    let (kind, seen) = (ObjectKind::Dashboard, caller.visibilities());
    let named = |flag: &FeatureFlag| {
        let analytics = flag.analytics_dashboards.iter().copied();
        analytics.chain(flag.usage_dashboard).collect::<Vec<i64>>()
    };
    let named: Vec<i64> = flags.iter().flat_map(named).collect();
    let hidden = app.catalog.access().hidden(caller.project.id, kind, &named, &seen).await?;
    for flag in &mut flags {
        flag.analytics_dashboards.retain(|id| !hidden.contains(id));
        flag.usage_dashboard = flag.usage_dashboard.filter(|id| !hidden.contains(id));
    }
    flags.into_iter().map(|flag| with_access(app, caller, rights, flag)).collect()
}

/// Decrypts payloads for personal API keys only; browsers see them redacted.
fn with_access<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    rights: &Rights,
    flag: FeatureFlag,
) -> Result<FlagResponse> {
    let (can_edit, user_access_level) = (rights.may_edit(&flag), rights.level(&flag));
    let flag = if caller.by_key { app.catalog.flags().reveal_payloads(flag)? } else { flag };
    Ok(FlagResponse { flag, can_edit, user_access_level })
}

async fn list(
    caller: Reader<Flags>,
    page: Page,
    query: Query<FlagListQuery>,
    app: App,
) -> Result<Listing<FlagResponse>> {
    let visibility = caller.visibility(ObjectKind::FeatureFlag);
    let filter = FlagFilter { visibility, ..query.filter()? };
    let (flags, total) = app.catalog.flags().list(caller.project.id, &filter, page.window).await?;
    let rights = Rights::of(&app, &caller).await?;
    Ok(page.listing(flag_responses(&app, &caller, &rights, flags).await?, total))
}

async fn create(
    caller: Writer<Flags>,
    app: App,
    body: Body<FlagFields>,
) -> Result<Created<FlagResponse>> {
    caller.may_create(ObjectKind::FeatureFlag)?;
    let new = body.read()?.validate_new()?;
    check_references(&app, &caller, None, &new).await?;
    let flag = app.catalog.flags().create(&caller.actor(), new).await?;
    let rights = Rights::of(&app, &caller).await?;
    Ok(Created(flag_response(&app, &caller, &rights, flag).await?))
}

async fn read(caller: Reader<Flags>, id: Id, app: App) -> Result<Json<FlagResponse>> {
    let (flag, rights) = visible_flag(&app, &caller, id).await?;
    Ok(Json(flag_response(&app, &caller, &rights, flag).await?))
}

async fn update(
    caller: Writer<Flags>,
    is_put: IsPut,
    id: Id,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<FlagResponse>> {
    let flag = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    let rights = Rights::of(&app, &caller).await?;
    rights.require(&flag)?;
    let sent = body.value()?;
    let (change, seen) = fields::change(&body, &sent)?;
    if is_put.0 && change.key.is_none() {
        return Err(Error::required("key"));
    }
    check_references(&app, &caller, Some(&flag), &change).await?;
    let (actor, visibility) = (caller.actor(), caller.visibility(ObjectKind::FeatureFlag));
    let updated =
        app.catalog.flags().update(&actor, flag.id, &change, seen.as_ref(), &visibility).await?;
    let UpdatedFlag { flag, enrolled_under } = updated;
    if let Some(old) = enrolled_under {
        let (from, to) = (enrollment_property(&old), enrollment_property(&flag.key));
        edits::change(&app, caller.project.id, Edit::RenameProperty { from, to }).await?;
    }
    Ok(Json(flag_response(&app, &caller, &rights, flag).await?))
}

/// Dashboards and flags that a change newly refers to must be visible to the caller.
pub(crate) async fn check_references<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    before: Option<&FeatureFlag>,
    change: &FlagChange,
) -> Result<()> {
    let (project, seen) = (caller.project.id, caller.visibilities());
    let mut dashboards = change.analytics_dashboards.clone().unwrap_or_default();
    dashboards.retain(|id| before.is_none_or(|flag| !flag.analytics_dashboards.contains(id)));
    let hidden =
        app.catalog.access().hidden(project, ObjectKind::Dashboard, &dashboards, &seen).await?;
    if let Some(id) = hidden.first() {
        let detail = format!("Invalid pk \"{id}\" - object does not exist.");
        return Err(Error::invalid("analytics_dashboards", "does_not_exist", detail));
    }
    let stored = before.map(|flag| dependencies(&flag.filters)).unwrap_or_default();
    let sent = change.filters.as_ref().map(dependencies).unwrap_or_default();
    let new: Vec<i64> = sent.iter().filter(|id| !stored.contains(id)).map(|id| id.0).collect();
    check_dependencies(app, caller, &new).await
}

/// Flags that conditions depend on must be visible to the caller.
pub(crate) async fn check_dependencies<R, M>(
    app: &AppState,
    caller: &InProject<R, M>,
    ids: &[i64],
) -> Result<()> {
    let (kind, seen) = (ObjectKind::FeatureFlag, caller.visibilities());
    match app.catalog.access().hidden(caller.project.id, kind, ids, &seen).await?.first() {
        None => Ok(()),
        Some(id) => {
            let detail = format!("There is no feature flag {id} in this project.");
            Err(Error::invalid("filters", "invalid_input", detail))
        }
    }
}

async fn destroy(_: Writer<Flags>) -> Result<SoftDeleteOnly> {
    Ok(SoftDeleteOnly)
}

async fn activity(
    caller: Reader<ActivityLog>,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let page = page.strictly()?.visible_to(caller.visibilities());
    page.of_all::<FeatureFlag>(&app, &caller.project).await
}

async fn activity_of_one(
    caller: Reader<ActivityLog>,
    id: Id,
    page: ActivityPage,
    app: App,
) -> Result<Json<ActivityListing>> {
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    page.strictly()?.visible_to(caller.visibilities()).of(&app, &caller.project, &flag).await
}
