//! Blast radius: how many persons or groups conditions match.

use std::time::Duration;

use flags::{Context, FlagSet, ScanTarget, Selection};
use model::flag::FlagDefinition;
use model::flag::filters::{self, Fields, Purpose};
use model::group::GROUP_TYPES_MAX;
use model::{FlagId, ProjectId};
use query::PersonScan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::definitions::unavailable;
use super::{Flags, check_dependencies};
use crate::{App, Body, Error, Json, Reader, Result, Routes};

/// Time limit of counting, a little below `request_seconds_max`.
const COUNT_WAIT: Duration = Duration::from_secs(50);
/// Start of the keys of the temporary flags that hold one condition each; keys of stored flags cannot
/// contain U+0001.
const PROBE: &str = "\u{1}probe";

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("/api/projects/{project_id}/feature_flags/user_blast_radius", user_blast_radius)
}

#[derive(Deserialize, JsonSchema)]
struct BlastRadiusFields {
    /// Property filters; the rollout percentage is ignored.
    #[schemars(with = "Option<model::json_shapes::FlagCondition>")]
    condition: Option<Fields>,
    group_type_index: Option<u8>,
    /// Instead of `condition`: matches persons or groups that match any of the condition groups.
    #[schemars(with = "Option<model::json_shapes::FlagFilters>")]
    filters: Option<Fields>,
}

#[derive(Serialize, JsonSchema)]
struct BlastRadius {
    affected: u64,
    total: u64,
    users_affected: u64,
    total_users: u64,
    /// Each condition group by itself, in the order of the request.
    conditions: Vec<ConditionReach>,
}

#[derive(Clone, Default, Serialize, JsonSchema)]
struct ConditionReach {
    affected: u64,
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
    let probes = probes(caller.project.id, groups, fields.group_type_index)?;
    let named: Vec<i64> = probes
        .iter()
        .flat_map(|probe| filters::dependencies(&probe.filters))
        .map(|id| id.0)
        .collect();
    check_dependencies(&app, &caller, &named).await?;
    let flags = app.flags.of(&caller.project).await.map_err(unavailable)?;
    let mut reach = Reach::of(&probes);
    let definitions: Vec<FlagDefinition> =
        flags.definitions().iter().cloned().chain(probes).collect();
    let set = FlagSet::compile(&definitions, &flags.environment());
    let persons = persons_unless(&app, caller.project.id, fields.group_type_index).await?;
    let target = target(persons.as_ref(), fields.group_type_index);
    let count = |_: &str, context: &Context<'_>| reach.count(&set, context);
    let complete = app.flags.scan(&caller.project, target, &[&set], COUNT_WAIT, count).await?;
    if reach.failed {
        let detail = "The condition cannot be evaluated.";
        return Err(Error::invalid("filters", "invalid_input", detail));
    }
    if !complete {
        return Err(Error::timed_out());
    }
    let Reach { affected, total, conditions, .. } = reach;
    let (users_affected, total_users) = (affected, total);
    Ok(Json(BlastRadius { affected, total, users_affected, total_users, conditions }))
}

/// Counts of a scan.
struct Reach {
    selection: Selection,
    affected: u64,
    total: u64,
    /// By probe.
    conditions: Vec<ConditionReach>,
    failed: bool,
}

impl Reach {
    fn of(probes: &[FlagDefinition]) -> Self {
        let keys = Some(probes.iter().map(|probe| probe.key.clone()).collect());
        let conditions = vec![ConditionReach::default(); probes.len()];
        let selection = Selection { keys, ..Selection::default() };
        Self { selection, affected: 0, total: 0, conditions, failed: false }
    }

    fn count(&mut self, set: &FlagSet, context: &Context<'_>) {
        let mut matched = false;
        for answer in &set.evaluate(context, &self.selection).results {
            let nth = answer.flag.key.strip_prefix(PROBE).and_then(|nth| nth.parse::<usize>().ok());
            let Some(condition) = nth.and_then(|nth| self.conditions.get_mut(nth)) else {
                continue;
            };
            condition.affected += u64::from(answer.enabled);
            matched |= answer.enabled;
            self.failed |= answer.failure.is_some();
        }
        self.total += 1;
        self.affected += u64::from(matched);
    }
}

/// The persons to scan, unless groups are.
pub(super) async fn persons_unless(
    app: &App,
    project: ProjectId,
    group_type_index: Option<u8>,
) -> Result<Option<PersonScan>> {
    match group_type_index {
        Some(_) => Ok(None),
        None => Ok(Some(app.events.scan_persons(project).await?)),
    }
}

pub(super) fn target(persons: Option<&PersonScan>, group_type_index: Option<u8>) -> ScanTarget<'_> {
    match persons {
        Some(persons) => ScanTarget::Persons(persons),
        None => ScanTarget::Groups(group_type_index.unwrap_or_default()),
    }
}

/// For each condition, a flag that is enabled wherever it matches.
fn probes(
    project: ProjectId,
    mut groups: Vec<Value>,
    group_type_index: Option<u8>,
) -> Result<Vec<FlagDefinition>> {
    for group in &mut groups {
        let Some(fields) = group.as_object_mut() else { continue };
        fields.insert("rollout_percentage".into(), json!(100));
        fields.insert("aggregation_group_type_index".into(), json!(group_type_index));
        fields.remove("variant");
    }
    let sent = Fields::from_iter([("groups".to_owned(), Value::Array(groups))]);
    let purpose = Purpose { stored: None, remote_configuration: false };
    let prepared = filters::prepare(sent, purpose)
        .map_err(|refused| Error::invalid("filters", refused.code, refused.detail))?;
    let conditions = filters::groups(&prepared).iter().enumerate();
    Ok(conditions.map(|(nth, condition)| probe(project, nth, condition)).collect())
}

fn probe(project: ProjectId, nth: usize, condition: &Value) -> FlagDefinition {
    FlagDefinition {
        // No stored flag has such an id.
        id: FlagId(-1 - nth as i64),
        team_id: project,
        name: String::new(),
        key: format!("{PROBE}{nth}"),
        filters: Fields::from_iter([("groups".to_owned(), json!([condition]))]),
        deleted: false,
        active: true,
        ensure_experience_continuity: false,
        version: 1,
        evaluation_runtime: None,
        bucketing_identifier: None,
        evaluation_contexts: Vec::new(),
        has_experiment: false,
        has_encrypted_payloads: false,
    }
}
