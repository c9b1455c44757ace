//! Validation of a flag against other flags, cohorts and dashboards.

use std::collections::{HashMap, HashSet};

use model::flag::filters::{self, Fields, InvalidFilters};
use model::flag::{BucketingIdentifier, FeatureFlag};
use model::{FlagId, ProjectId, Visibility};

use crate::cohorts::references;
use crate::db::{Tx, args};
use crate::{Error, Result};

/// PostHog's limit of live flags per project.
pub const FLAGS_MAX: i64 = 2_000;
/// Numbered keys tried for a restored flag whose key was taken.
const NAMES_TRIED_MAX: u32 = 1_000;

fn refused(detail: impl Into<String>) -> Error {
    Error::refused(None, detail)
}

pub(super) async fn check_flag_limit(tx: &mut Tx, project: ProjectId) -> Result<()> {
    let sql = "SELECT COUNT(*) AS total FROM feature_flags WHERE project_id = $1 AND NOT deleted";
    let total: i64 = tx.one(sql, args![project]).await?.get("total")?;
    if total >= FLAGS_MAX {
        return Err(refused(format!("A project has at most {FLAGS_MAX} feature flags.")));
    }
    Ok(())
}

/// Validates the flag as a whole and its key.
pub(super) async fn check(
    tx: &mut Tx,
    before: Option<&FeatureFlag>,
    after: &mut FeatureFlag,
    visibility: &Visibility,
) -> Result<()> {
    let was = |holds: fn(&FeatureFlag) -> bool| before.is_some_and(holds);
    let pair = |flag: &FeatureFlag| {
        flag.ensure_experience_continuity
            && flag.bucketing_identifier == Some(BucketingIdentifier::DeviceId)
    };
    if pair(after) && !was(pair) {
        return Err(refused("A flag by device cannot also keep the experience of persons."));
    }
    if after.archived && after.active {
        return Err(refused("An archived flag cannot be active: disable it first."));
    }
    if after.has_encrypted_payloads && !after.is_remote_configuration {
        return Err(refused("Only remote configuration has encrypted payloads."));
    }
    let serves = |flag: &FeatureFlag| flag.active && !flag.deleted;
    if was(serves) && !serves(after) {
        check_no_dependents(tx, after.id, visibility).await?;
    }
    if before.is_some() && serves(after) && !was(serves) {
        check_dependencies_active(tx, after).await?;
        check_cohorts(tx, after.team_id, &after.filters).await?;
    }
    if was(|flag| flag.deleted) && !after.deleted {
        restore_key(tx, after).await?;
    }
    let renamed = before.is_none_or(|before| before.key != after.key);
    if renamed && !after.deleted {
        free_key(tx, after).await?;
    }
    Ok(())
}

/// Checks that newly referenced dashboards are live ones of the project.
pub(super) async fn check_dashboards(
    tx: &mut Tx,
    before: Option<&FeatureFlag>,
    after: &FeatureFlag,
) -> Result<()> {
    let already_referenced =
        |id: &i64| before.is_some_and(|before| before.analytics_dashboards.contains(id));
    let added: Vec<i64> =
        after.analytics_dashboards.iter().copied().filter(|id| !already_referenced(id)).collect();
    let list: Vec<_> = added.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id FROM dashboards WHERE project_id = $1 AND NOT deleted AND id IN {list}";
    let rows = tx.all_in(sql, args![after.team_id], &list).await?;
    let existing: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    match added.iter().find(|id| !existing.contains(id)) {
        None => Ok(()),
        Some(id) => Err(Error::Invalid {
            field: "analytics_dashboards",
            code: "does_not_exist",
            detail: format!("Invalid pk \"{id}\" - object does not exist."),
        }),
    }
}

/// Frees a key that a deleted flag still holds, by adding a suffix to that flag's key.
async fn free_key(tx: &mut Tx, flag: &FeatureFlag) -> Result<()> {
    tx.run(
        "UPDATE feature_flags SET key = key || ':deleted:' || id \
         WHERE project_id = $1 AND key = $2 AND deleted AND id <> $3",
        args![flag.team_id, flag.key.as_str(), flag.id],
    )
    .await
    .map(drop)
}

/// Removes the suffix from a restored flag's key, or numbers it if it is taken.
async fn restore_key(tx: &mut Tx, flag: &mut FeatureFlag) -> Result<()> {
    let Some(original) = flag.key.strip_suffix(&format!(":deleted:{}", flag.id)) else {
        return Ok(());
    };
    let sql = "SELECT key FROM feature_flags WHERE project_id = $1 AND NOT deleted";
    let rows = tx.all(sql, args![flag.team_id]).await?;
    let taken: HashSet<String> = rows.iter().map(|row| row.get("key")).collect::<Result<_>>()?;
    let free = |key: &String| !taken.contains(key);
    let mut names = std::iter::once(original.to_owned())
        .chain((2..=NAMES_TRIED_MAX).map(|number| format!("{original}-{number}")));
    flag.key = names.find(free).ok_or_else(|| refused("The flag's key is taken."))?;
    Ok(())
}

/// Refuses to disable a flag that active flags depend on; a hidden flag is not named.
async fn check_no_dependents(tx: &mut Tx, id: FlagId, visibility: &Visibility) -> Result<()> {
    let sql = "SELECT f.id, f.key, f.created_by FROM feature_flag_dependencies d \
               JOIN feature_flags f ON f.id = d.flag_id \
               WHERE d.depends_on = $1 AND f.id <> $1 AND f.active AND NOT f.deleted LIMIT 1";
    match tx.optional(sql, args![id]).await? {
        None => Ok(()),
        Some(row) if !visibility.holds(row.get("id")?, row.get("created_by")?) => {
            Err(refused("An active feature flag that you cannot see depends on this one."))
        }
        Some(row) => {
            let key: String = row.get("key")?;
            Err(refused(format!("The active feature flag '{key}' depends on this one.")))
        }
    }
}

async fn check_dependencies_active(tx: &mut Tx, flag: &FeatureFlag) -> Result<()> {
    let dependencies = flag_states(tx, flag.team_id, &filters::dependencies(&flag.filters)).await?;
    match dependencies.values().find(|dependency| !dependency.active && !dependency.deleted) {
        None => Ok(()),
        Some(dependency) => {
            Err(refused(format!("It depends on the disabled feature flag '{}'.", dependency.key)))
        }
    }
}

struct FlagState {
    key: String,
    active: bool,
    deleted: bool,
}

async fn flag_states(
    tx: &mut Tx,
    project: ProjectId,
    ids: &[FlagId],
) -> Result<HashMap<FlagId, FlagState>> {
    let mut states = HashMap::new();
    if ids.is_empty() {
        return Ok(states);
    }
    let ids: Vec<_> = ids.iter().map(|id| (*id).into()).collect();
    let sql = "SELECT id, key, active, deleted FROM feature_flags \
               WHERE project_id = $1 AND id IN {list}";
    for row in tx.all_in(sql, args![project], &ids).await? {
        let state = FlagState {
            key: row.get("key")?,
            active: row.get("active")?,
            deleted: row.get("deleted")?,
        };
        states.insert(row.get("id")?, state);
    }
    Ok(states)
}

/// Checks that referenced flags and cohorts exist, and that dependencies form no cycle.
pub(super) async fn check_references(
    tx: &mut Tx,
    project: ProjectId,
    flag: Option<FlagId>,
    filters: &Fields,
) -> Result<()> {
    check_cohorts(tx, project, filters).await?;
    let dependencies = filters::dependencies(filters);
    if dependencies.is_empty() {
        return Ok(());
    }
    if flag.is_some_and(|flag| dependencies.contains(&flag)) {
        return Err(Error::invalid_filters(InvalidFilters::new(
            "A feature flag cannot depend on itself.",
        )));
    }
    let states = flag_states(tx, project, &dependencies).await?;
    for id in &dependencies {
        match states.get(id) {
            Some(state) if state.active && !state.deleted => {}
            Some(state) if !state.deleted => {
                let detail = format!("The feature flag '{}' is disabled.", state.key);
                return Err(Error::invalid_filters(InvalidFilters::new(detail)));
            }
            _ => {
                let detail = format!("There is no feature flag {id} in this project.");
                return Err(Error::invalid_filters(InvalidFilters::new(detail)));
            }
        }
    }
    match flag {
        Some(flag) => check_no_cycle(tx, project, flag, dependencies).await,
        None => Ok(()),
    }
}

/// Checks that referenced cohorts exist and have no behavioral filters, which flags cannot
/// evaluate.
async fn check_cohorts(tx: &mut Tx, project: ProjectId, filters: &Fields) -> Result<()> {
    let named = filters::cohorts(filters);
    if !references::all_exist(tx, project, &named).await? {
        return Err(Error::invalid_filters(InvalidFilters::unknown_cohort()));
    }
    match references::have_behavioral_filters(tx, project, named).await? {
        true => Err(Error::invalid_filters(InvalidFilters::behavioral_cohort())),
        false => Ok(()),
    }
}

async fn check_no_cycle(
    tx: &mut Tx,
    project: ProjectId,
    flag: FlagId,
    dependencies: Vec<FlagId>,
) -> Result<()> {
    let sql = "SELECT d.flag_id, d.depends_on FROM feature_flag_dependencies d \
               JOIN feature_flags f ON f.id = d.flag_id \
               WHERE f.project_id = $1 AND NOT f.deleted";
    let mut depends: HashMap<FlagId, Vec<FlagId>> = HashMap::new();
    for row in tx.all(sql, args![project]).await? {
        depends.entry(row.get("flag_id")?).or_default().push(row.get("depends_on")?);
    }
    let (mut pending, mut visited) = (dependencies, HashSet::new());
    while let Some(current) = pending.pop() {
        if current == flag {
            let detail = "The feature flags would depend on each other in a circle.";
            return Err(Error::invalid_filters(InvalidFilters::new(detail)));
        }
        if visited.insert(current) {
            pending.extend(depends.get(&current).into_iter().flatten());
        }
    }
    Ok(())
}
