//! A flag in all projects of an organization, and copies of it in other projects.

use std::collections::{BTreeSet, HashMap};

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use catalog::FlagChange;
use model::flag::FeatureFlag;
use model::flag::filters::{self, Fields};
use model::{FlagId, ObjectKind, ProjectId};
use schemars::{JsonSchema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Flags, Rights, check_references};
use crate::http::openapi::{DescribeRequest, Operation};
use crate::{
    App, AppState, Body, Error, Json, OrganizationReader, OrganizationWriter, Result, Routes,
    Writer,
};

/// Upstream's limit of one request.
const TARGETS_MAX: usize = 50;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/organizations/{organization_id}/feature_flags/copy_flags", copy_flags)
        .get("/api/organizations/{organization_id}/feature_flags/{key}", of_key)
}

/// The path's `{key}`.
struct FlagKey(String);

impl FromRequestParts<AppState> for FlagKey {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        let Path(mut parameters) = Path::<HashMap<String, String>>::from_request_parts(parts, &())
            .await
            .map_err(|_| Error::not_found())?;
        let key = parameters.remove("key").filter(|key| !key.contains('\0'));
        key.map(Self).ok_or_else(Error::not_found)
    }
}

impl DescribeRequest for FlagKey {
    fn describe(operation: &mut Operation, _: &mut SchemaGenerator) {
        operation.path_parameter("key", json!({ "type": "string" }));
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OrganizationFeatureFlag")]
struct FlagInProject {
    flag_id: FlagId,
    team_id: ProjectId,
    key: String,
    name: String,
    active: bool,
    #[schemars(with = "model::json_shapes::FlagFilters")]
    filters: Fields,
    created_at: model::Timestamp,
    created_by: Option<model::User>,
}

/// The live flags with this key in the organization's projects, as far as the caller may see them.
async fn of_key(
    caller: OrganizationReader<Flags>,
    key: FlagKey,
    app: App,
) -> Result<Json<Vec<FlagInProject>>> {
    let user = caller.user.user.id;
    let mut found = Vec::new();
    for project in app.catalog.users().projects_in(&[caller.organization.id], user).await? {
        // A key may be restricted to some of the projects.
        let within = match caller.in_project(&app, project.id).await {
            Ok(within) => within,
            Err(error) if error.is_client_error() => continue,
            Err(error) => return Err(error),
        };
        let flag = match app.catalog.flags().by_key(project.id, &key.0).await {
            Ok(flag) => flag,
            Err(catalog::Error::NotFound) => continue,
            Err(other) => return Err(other.into()),
        };
        if !is_visible(&within.visibility(ObjectKind::FeatureFlag), &flag) {
            continue;
        }
        let FeatureFlag { id, key, name, active, filters, created_at, created_by, .. } = flag;
        let team_id = project.id;
        found.push(FlagInProject {
            flag_id: id,
            team_id,
            key,
            name,
            active,
            filters,
            created_at,
            created_by,
        });
    }
    Ok(Json(found))
}

fn is_visible(visibility: &model::Visibility, flag: &FeatureFlag) -> bool {
    visibility.holds(flag.id.0, flag.created_by.as_ref().map(|author| author.id))
}

#[derive(Deserialize, JsonSchema)]
struct CopyFlags {
    feature_flag_key: String,
    from_project: i64,
    target_project_ids: Vec<i64>,
    /// Copies are disabled whatever the flag's state.
    #[serde(default)]
    disable_copied_flag: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
struct CopiedFlags {
    success: Vec<CopiedFlag>,
    failed: Vec<FailedCopy>,
}

#[derive(Serialize, JsonSchema)]
struct CopiedFlag {
    id: FlagId,
    key: String,
    name: String,
    active: bool,
    team_id: ProjectId,
}

#[derive(Serialize, JsonSchema)]
struct FailedCopy {
    project_id: i64,
    error_message: String,
}

/// Creates the flag in other projects, or replaces the filters of the flag with the same key there.
/// Cohorts and flags that the conditions name are found by name and key in the target.
async fn copy_flags(
    caller: OrganizationWriter<Flags>,
    app: App,
    body: Body<CopyFlags>,
) -> Result<Json<CopiedFlags>> {
    let sent = body.read()?;
    if sent.target_project_ids.len() > TARGETS_MAX {
        let detail = format!("Ensure this field has no more than {TARGETS_MAX} elements.");
        return Err(Error::invalid("target_project_ids", "max_length", detail));
    }
    let source = caller.in_project(&app, ProjectId(sent.from_project)).await?;
    let flag = app.catalog.flags().by_key(source.project.id, &sent.feature_flag_key).await?;
    if !is_visible(&source.visibility(ObjectKind::FeatureFlag), &flag) {
        return Err(Error::not_found());
    }
    let active = flag.active && sent.disable_copied_flag != Some(true);
    let mut outcome = CopiedFlags { success: Vec::new(), failed: Vec::new() };
    for project_id in sent.target_project_ids.into_iter().collect::<BTreeSet<i64>>() {
        match copy(&app, &caller, &source, &flag, ProjectId(project_id), active).await {
            Ok(copied) => outcome.success.push(copied),
            Err(error) if error.is_client_error() => {
                let error_message = error.detail().to_owned();
                outcome.failed.push(FailedCopy { project_id, error_message });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Json(outcome))
}

async fn copy(
    app: &App,
    caller: &OrganizationWriter<Flags>,
    source: &Writer<Flags>,
    flag: &FeatureFlag,
    target: ProjectId,
    active: bool,
) -> Result<CopiedFlag> {
    let within = caller.in_project(app, target).await?;
    if target == source.project.id {
        return Err(Error::bad_request("The flag is in this project already."));
    }
    if flag.has_encrypted_payloads {
        return Err(Error::bad_request("A flag with encrypted payloads is not copied."));
    }
    let mut filters = flag.filters.clone();
    filters::strip_names(&mut filters);
    check_group_types(app, source.project.id, target, &filters).await?;
    translate(app, source.project.id, &within, &mut filters).await?;
    let (actor, flags) = (within.actor(), app.catalog.flags());
    let existing = match flags.by_key(target, &flag.key).await {
        Ok(existing) => Some(existing),
        Err(catalog::Error::NotFound) => None,
        Err(other) => return Err(other.into()),
    };
    if existing.is_some() {
        // A change keeps what it does not name.
        for name in ["multivariate", "holdout", "feature_enrollment", "early_exit"] {
            filters.entry(name).or_insert(Value::Null);
        }
        filters.entry("payloads").or_insert_with(|| json!({}));
    }
    let change = FlagChange {
        name: Some(flag.name.clone()),
        filters: Some(filters),
        active: Some(active),
        ensure_experience_continuity: Some(flag.ensure_experience_continuity),
        is_remote_configuration: Some(flag.is_remote_configuration),
        evaluation_runtime: Some(flag.evaluation_runtime),
        bucketing_identifier: Some(flag.bucketing_identifier),
        tags: Some(flag.tags.clone()),
        evaluation_contexts: Some(flag.evaluation_contexts.clone()),
        ..FlagChange::default()
    };
    check_references(app, &within, existing.as_ref(), &change).await?;
    let copied = match existing {
        Some(existing) => {
            Rights::of(app, &within).await?.require(&existing)?;
            let visibility = within.visibility(ObjectKind::FeatureFlag);
            flags.update(&actor, existing.id, &change, None, &visibility).await?.flag
        }
        None => {
            within.may_create(ObjectKind::FeatureFlag)?;
            let new = FlagChange { key: Some(flag.key.clone()), ..change };
            flags.create(&actor, new).await?
        }
    };
    let FeatureFlag { id, key, name, active, .. } = copied;
    Ok(CopiedFlag { id, key, name, active, team_id: target })
}

/// Conditions name group types by index, so an index must mean the same in both projects.
async fn check_group_types(
    app: &App,
    source: ProjectId,
    target: ProjectId,
    filters: &Fields,
) -> Result<()> {
    let mut used = BTreeSet::new();
    collect_group_types(&Value::Object(filters.clone()), &mut used);
    if used.is_empty() {
        return Ok(());
    }
    let (here, there) =
        (app.catalog.groups().types(source).await?, app.catalog.groups().types(target).await?);
    for index in used {
        let name = |types: &[catalog::GroupType]| {
            types.iter().find(|ty| i64::from(ty.index) == index).map(|ty| ty.name.clone())
        };
        if name(&here) != name(&there) {
            let detail = format!("Group type {index} is another one in the project.");
            return Err(Error::bad_request(detail));
        }
    }
    Ok(())
}

/// The indexes of group types that a flag's filters name.
fn collect_group_types(value: &Value, used: &mut BTreeSet<i64>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match name.as_str() {
            "aggregation_group_type_index" | "group_type_index" => used.extend(value.as_i64()),
            _ => collect_group_types(value, used),
        }),
        Value::Array(items) => items.iter().for_each(|item| collect_group_types(item, used)),
        _ => {}
    }
}

/// Replaces the ids of cohorts and flags in conditions by those of the target project. A condition
/// that would be lost widens the audience, so a missing object is an error.
async fn translate(
    app: &App,
    source: ProjectId,
    target: &Writer<Flags>,
    fields: &mut Fields,
) -> Result<()> {
    let (cohorts, depends) = (filters::cohorts(fields), filters::dependencies(fields));
    if cohorts.is_empty() && depends.is_empty() {
        return Ok(());
    }
    let names = app.catalog.cohorts().names(source, &cohorts).await?;
    let everything = model::Visibility::Everything;
    let keys = app.catalog.flags().keys(source, &depends, &everything).await?;
    let keys: HashMap<FlagId, String> = keys.into_iter().collect();
    let there = target.project.id;
    let cohorts_there = names.values().map(String::as_str).collect();
    let cohorts_there = app.catalog.cohorts().ids_by_name(there, &cohorts_there).await?;
    let flags_there = keys.values().map(String::as_str).collect();
    let flags_there = app.catalog.flags().ids_by_key(there, &flags_there).await?;
    for property in filters::properties_mut(fields) {
        if filters::is_of(property, "cohort") {
            let id = property.get("value").and_then(model::CohortId::from_json);
            let unnamed = || Error::bad_request("A cohort without a name is not found elsewhere.");
            let name = id.and_then(|id| names.get(&id)).ok_or_else(unnamed)?;
            let missing = || {
                Error::bad_request(format!("The project has no cohort with the name \"{name}\"."))
            };
            let id = cohorts_there.get(name).ok_or_else(missing)?;
            property.insert("value".into(), json!(id));
        } else if filters::is_of(property, "flag") {
            let id = property.get("key").and_then(filters::flag_id);
            let key = id.and_then(|id| keys.get(&id));
            let missing = || Error::bad_request("The project lacks a flag that it depends on.");
            let id = key.and_then(|key| flags_there.get(key)).ok_or_else(missing)?;
            property.insert("key".into(), Value::String(id.to_string()));
        }
    }
    Ok(())
}
