//! Blast radius of conditions, and dry runs of changes.

use std::time::Duration;

use catalog::FlagChange;
use flags::{Cell, Comparison, Environment, FlagSet, ScanTarget, Selection};
use model::flag::filters::{self, Fields, Purpose};
use model::flag::{FeatureFlag, FlagDefinition};
use model::group::GROUP_TYPES_MAX;
use model::{FlagId, ObjectKind, ProjectId};
use query::PersonScan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definitions::unavailable;
use super::{FlagFields, Flags, Rights, check_dependencies, check_references};
use crate::{App, Body, Error, Id, Json, Reader, Result, Routes, Writer};

/// Time limit of counting, a little below `request_seconds_max`.
const COUNT_WAIT: Duration = Duration::from_secs(50);
/// Time limit of a dry run, which then reports a partial result.
const DRY_RUN_WAIT: Duration = Duration::from_secs(20);
/// Key of the temporary flag that holds the condition; keys of stored flags cannot contain U+0001.
const PROBE: &str = "\u{1}probe";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("/api/projects/{project_id}/feature_flags/user_blast_radius", user_blast_radius)
        .post("/api/projects/{project_id}/feature_flags/{id}/dry_run", dry_run)
}

#[derive(Deserialize, JsonSchema)]
struct BlastRadiusFields {
    /// Property filters; the rollout percentage is ignored.
    condition: Option<Fields>,
    group_type_index: Option<u8>,
    /// Instead of `condition`: matches persons or groups that match any of the condition groups.
    filters: Option<Fields>,
}

#[derive(Serialize, JsonSchema)]
struct BlastRadius {
    affected: u64,
    total: u64,
    users_affected: u64,
    total_users: u64,
}

async fn user_blast_radius(
    caller: Reader<Flags>,
    app: App,
    body: Body<BlastRadiusFields>,
) -> Result<Json<BlastRadius>> {
    let fields = body.read()?;
    if fields.group_type_index.is_some_and(|index| index >= GROUP_TYPES_MAX) {
        let detail = "There is no such type of group.";
        return Err(Error::invalid("group_type_index", "invalid_input", detail));
    }
    let groups = match (fields.condition, fields.filters) {
        (Some(condition), _) => vec![Value::Object(condition)],
        (None, Some(sent)) if sent.contains_key("groups") => filters::groups(&sent).to_vec(),
        _ => return Err(Error::bad_request("A condition is required.")),
    };
    let probe = probe(caller.project.id, groups, fields.group_type_index)?;
    let named: Vec<i64> = filters::dependencies(&probe.filters).iter().map(|id| id.0).collect();
    check_dependencies(&app, &caller, &named).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let mut definitions = flags.definitions().to_vec();
    definitions.push(probe);
    let set = FlagSet::compile(&definitions, &flags.environment());
    let selection = Selection { keys: Some(vec![PROBE.to_owned()]), ..Selection::default() };
    let (mut affected, mut total, mut failed) = (0, 0, false);
    let count = |_: &str, context: &flags::Context<'_>| {
        let answers = set.evaluate(context, &selection);
        let answer = answers.results.iter().find(|answer| answer.flag.key == PROBE);
        total += 1;
        affected += u64::from(answer.is_some_and(|answer| answer.enabled));
        failed |= answer.is_some_and(|answer| answer.failure.is_some());
    };
    let persons = persons_unless(&app, caller.project.id, fields.group_type_index).await?;
    let target = target(persons.as_ref(), fields.group_type_index);
    let complete = app.flags.scan(&caller.project, target, &[&set], COUNT_WAIT, count).await?;
    if failed {
        let detail = "The condition cannot be evaluated.";
        return Err(Error::invalid("filters", "invalid_input", detail));
    }
    if !complete {
        return Err(Error::timed_out());
    }
    Ok(Json(BlastRadius { affected, total, users_affected: affected, total_users: total }))
}

/// The persons to scan, unless groups are.
async fn persons_unless(
    app: &App,
    project: ProjectId,
    group_type_index: Option<u8>,
) -> Result<Option<PersonScan>> {
    match group_type_index {
        Some(_) => Ok(None),
        None => Ok(Some(app.events.scan_persons(project).await?)),
    }
}

fn target(persons: Option<&PersonScan>, group_type_index: Option<u8>) -> ScanTarget<'_> {
    match persons {
        Some(persons) => ScanTarget::Persons(persons),
        None => ScanTarget::Groups(group_type_index.unwrap_or_default()),
    }
}

/// A flag that is enabled wherever one of the conditions matches.
fn probe(
    project: ProjectId,
    mut groups: Vec<Value>,
    group_type_index: Option<u8>,
) -> Result<FlagDefinition> {
    for group in &mut groups {
        let Some(fields) = group.as_object_mut() else { continue };
        fields.insert("rollout_percentage".into(), json!(100));
        fields.insert("aggregation_group_type_index".into(), json!(group_type_index));
        fields.remove("variant");
    }
    let sent = Fields::from_iter([("groups".to_owned(), Value::Array(groups))]);
    let purpose = Purpose { stored: None, remote_configuration: false };
    let filters = filters::prepare(sent, purpose)
        .map_err(|refused| Error::invalid("filters", refused.code, refused.detail))?;
    Ok(FlagDefinition {
        id: FlagId(0),
        team_id: project,
        name: String::new(),
        key: PROBE.to_owned(),
        filters,
        deleted: false,
        active: true,
        ensure_experience_continuity: false,
        version: 1,
        evaluation_runtime: None,
        bucketing_identifier: None,
        evaluation_contexts: Vec::new(),
        has_experiment: false,
        has_encrypted_payloads: false,
    })
}

#[derive(Serialize, JsonSchema)]
struct DryRun {
    /// How many persons or groups were evaluated.
    subjects: u64,
    /// False if time ran out before all of them were evaluated.
    complete: bool,
    /// How many would get a different value.
    changed: u64,
    matrix: Vec<Change>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DryRunChange")]
struct Change {
    from: String,
    to: String,
    count: u64,
    /// Up to a few distinct ids or group keys.
    examples: Vec<String>,
}

/// Compares the flag's values before and after a PATCH with the same body, without storing it.
async fn dry_run(
    caller: Writer<Flags>,
    id: Id,
    app: App,
    body: Body<FlagFields>,
) -> Result<Json<DryRun>> {
    let before = app.catalog.flags().get(caller.project.id, FlagId(id.0)).await?;
    Rights::of(&app, &caller).await?.require(&before)?;
    let change: FlagChange = body.read()?.validate()?;
    check_references(&app, &caller, Some(&before), &change).await?;
    let (actor, visibility) = (caller.actor(), caller.visibility(ObjectKind::FeatureFlag));
    let after = app.catalog.flags().preview(&actor, before.id, &change, &visibility).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let environment = flags.environment();
    let old = compile_with(flags.definitions(), &before, &environment);
    let new = compile_with(flags.definitions(), &after, &environment);
    let index = after.filters.get("aggregation_group_type_index").and_then(Value::as_u64);
    let index = index.map(|index| index as u8);
    let persons = persons_unless(&app, caller.project.id, index).await?;
    let subjects = target(persons.as_ref(), index);
    let selection = |flag: &FeatureFlag| Selection {
        keys: Some(vec![flag.key.clone()]),
        ..Selection::default()
    };
    let (was, becomes) = (selection(&before), selection(&after));
    let value = |set: &FlagSet, context: &flags::Context<'_>| {
        let (flag, selection) =
            if std::ptr::eq(set, &old) { (&before, &was) } else { (&after, &becomes) };
        let answers = set.evaluate(context, selection);
        let answer = answers.results.iter().find(|answer| answer.flag.id == flag.id);
        match answer {
            Some(answer) if answer.enabled => answer.variant.unwrap_or("true").to_owned(),
            _ => "false".to_owned(),
        }
    };
    let compared =
        app.flags.compare(&caller.project, subjects, (&old, &new), DRY_RUN_WAIT, value).await?;
    Ok(Json(dry_run_result(compared)))
}

/// Compiles all flags, with `flag` in place of its stored version.
fn compile_with(all: &[FlagDefinition], flag: &FeatureFlag, environment: &Environment) -> FlagSet {
    let mut definitions: Vec<FlagDefinition> =
        all.iter().filter(|known| known.id != flag.id).cloned().collect();
    if !flag.deleted {
        definitions.push(flag.definition());
    }
    FlagSet::compile(&definitions, environment)
}

fn dry_run_result(compared: Comparison) -> DryRun {
    let matrix: Vec<Change> = compared
        .cells
        .into_iter()
        .map(|((from, to), Cell { count, examples })| Change { from, to, count, examples })
        .collect();
    let changed = matrix.iter().filter(|cell| cell.from != cell.to).map(|cell| cell.count).sum();
    DryRun { subjects: compared.subjects, complete: compared.complete, changed, matrix }
}
