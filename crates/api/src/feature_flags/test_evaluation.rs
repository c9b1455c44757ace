//! Evaluation of a flag for one person, condition by condition, in upstream's shape. `explain` has
//! every step.

use std::collections::BTreeMap;

use catalog::PersonKey;
use flags::{Context, EvaluationRequest, FlagSet, RecordedSteps, Selection, Step};
use model::flag::filters::{self, Fields};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::definitions::unavailable;
use super::{Flags, visible_flag};
use crate::sdk::evaluation::response::FlagValue;
use crate::{App, Body, Error, Id, Json, Reader, Result, Routes};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("/api/projects/{project_id}/feature_flags/{id}/test_evaluation", test_evaluation)
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "TestEvaluation")]
struct TestFields {
    /// Either this or `person_id`.
    distinct_id: Option<String>,
    /// The person's uuid.
    person_id: Option<String>,
    /// Only null: earlier states are not stored.
    timestamp: Option<String>,
    /// Group keys by type.
    #[serde(default)]
    groups: Option<BTreeMap<String, String>>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TestedEvaluation")]
struct Tested {
    flag_key: String,
    result: FlagValue<'static>,
    reason: String,
    condition_index: Option<usize>,
    payload: Option<Value>,
    /// The properties that the conditions read.
    person_properties: Map<String, Value>,
    /// As sent; null if `person_id` was.
    evaluation_distinct_id: Option<String>,
    conditions: Vec<TestedCondition>,
}

#[derive(Serialize, JsonSchema)]
struct TestedCondition {
    index: usize,
    /// This condition decided the value.
    matched: bool,
    properties_matched: bool,
    explanation: &'static str,
    rollout_percentage: f64,
    /// The properties match, and the rollout excludes the person.
    rollout_excluded: bool,
    variant: Option<String>,
    /// The comparisons that were made; the first that does not match ends the condition.
    properties: Vec<TestedProperty>,
}

#[derive(Serialize, JsonSchema)]
struct TestedProperty {
    key: String,
    operator: String,
    value: Value,
    #[serde(rename = "type")]
    kind: String,
    actual_value: Option<Value>,
    matched: bool,
    explanation: &'static str,
}

async fn test_evaluation(
    caller: Reader<Flags>,
    id: Id,
    app: App,
    body: Body<TestFields>,
) -> Result<Json<Tested>> {
    caller.may_read("person")?;
    let (flag, _) = visible_flag(&app, &caller, id).await?;
    let fields = body.read()?;
    if fields.timestamp.is_some() {
        let detail = "Earlier states of flags and persons are not stored: leave it out.";
        return Err(Error::invalid("timestamp", "invalid_input", detail));
    }
    let distinct_id = match (&fields.distinct_id, &fields.person_id) {
        (Some(id), None) => id.clone(),
        (None, Some(person)) => first_distinct_id(&app, &caller, person).await?,
        _ => return Err(Error::bad_request("Send either distinct_id or person_id.")),
    };
    let selection = Selection { keys: Some(vec![flag.key.clone()]), ..Selection::default() };
    let groups = fields.groups.unwrap_or_default().into_iter().collect();
    let request =
        EvaluationRequest { distinct_id, groups, selection, ..EvaluationRequest::default() };
    let evaluate = |set: &FlagSet, context: &Context<'_>, selection: &Selection| {
        let mut steps = RecordedSteps::default();
        let answers = set.evaluate_with(context, selection, &mut steps);
        let answer = answers.results.iter().find(|answer| answer.flag.key == flag.key);
        let answer = answer.map(|answer| {
            let payload = answer.payload.and_then(|payload| serde_json::from_str(payload).ok());
            let reason = match answer.failure {
                Some(failure) => failure.as_str(),
                None => answer.reason.code.as_str(),
            };
            (FlagValue::of(answer).into_owned(), reason, answer.reason.condition_index, payload)
        });
        (answer, steps.into_steps())
    };
    let (answer, steps) =
        app.flags.with_context(&caller.project, request, evaluate).await.map_err(unavailable)?;
    let (result, reason, condition_index, payload) =
        answer.unwrap_or((FlagValue::Boolean(false), "disabled", None, None));
    let payload = payload.filter(|_| !flag.has_encrypted_payloads);
    let on = !matches!(result, FlagValue::Boolean(false));
    let (conditions, person_properties) =
        analysis(&flag.filters, own_steps(&steps, &flag.key), condition_index.filter(|_| on));
    Ok(Json(Tested {
        flag_key: flag.key,
        result,
        reason: reason.to_owned(),
        condition_index,
        payload,
        person_properties,
        evaluation_distinct_id: fields.distinct_id,
        conditions,
    }))
}

async fn first_distinct_id(app: &App, caller: &Reader<Flags>, person: &str) -> Result<String> {
    let unknown = || Error::invalid("person_id", "does_not_exist", "There is no such person.");
    let uuid = Uuid::parse_str(person).map_err(|_| unknown())?;
    let found = app.catalog.persons().get(caller.project.id, PersonKey::Uuid(uuid)).await;
    match found {
        Ok(person) => person.distinct_ids.into_iter().next().ok_or_else(unknown),
        Err(catalog::Error::NotFound) => Err(unknown()),
        Err(other) => Err(other.into()),
    }
}

/// The steps of the flag itself: those of its dependencies come before.
fn own_steps<'s>(steps: &'s [Step], key: &str) -> &'s [Step] {
    let start = steps.iter().position(|step| matches!(step, Step::Flag { key: of } if of == key));
    let own = start.and_then(|start| steps.get(start + 1..)).unwrap_or_default();
    let end = own.iter().position(|step| matches!(step, Step::Flag { .. }));
    &own[..end.unwrap_or(own.len())]
}

/// Each condition that was evaluated, and the person properties that they read.
fn analysis(
    fields: &Fields,
    steps: &[Step],
    winner: Option<usize>,
) -> (Vec<TestedCondition>, Map<String, Value>) {
    let (mut conditions, mut read) = (Vec::new(), Map::new());
    let mut rest = steps;
    while let Some(end) = rest.iter().position(|step| matches!(step, Step::Condition { .. })) {
        let (own, after) = rest.split_at(end);
        rest = after.get(1..).unwrap_or_default();
        let Some(Step::Condition { index, result }) = after.first() else { break };
        let group = filters::groups(fields).get(*index);
        let properties = group.map(|group| tested_properties(group, own)).unwrap_or_default();
        for property in properties.iter().filter(|property| property.kind == "person") {
            if let Some(value) = &property.actual_value {
                read.insert(property.key.clone(), value.clone());
            }
        }
        let field = |name: &str| group.and_then(|group| group.get(name));
        let (properties_matched, rollout_excluded, explanation) = match *result {
            "condition_match" => {
                (true, false, "Every property matches, and the rollout includes it.")
            }
            "out_of_rollout_bound" => {
                (true, true, "Every property matches, but the rollout excludes it.")
            }
            "no_group_type" => {
                (false, false, "The group that the condition is about was not sent.")
            }
            _ => (false, false, "A property does not match."),
        };
        conditions.push(TestedCondition {
            index: *index,
            matched: winner == Some(*index),
            properties_matched,
            explanation,
            rollout_percentage: field("rollout_percentage")
                .and_then(Value::as_f64)
                .unwrap_or(100.0),
            rollout_excluded,
            variant: field("variant").and_then(Value::as_str).map(str::to_owned),
            properties,
        });
    }
    (conditions, read)
}

/// The condition's property filters with the steps that evaluated them, in the same order.
fn tested_properties(group: &Value, steps: &[Step]) -> Vec<TestedProperty> {
    let mut steps = steps.iter();
    let sent = group.get("properties").and_then(Value::as_array).into_iter().flatten();
    let tested = |filter: &Value| {
        let text = |name: &str| filter.get(name).and_then(Value::as_str).unwrap_or_default();
        let evaluated = |step: &Step| match (text("type"), step) {
            ("cohort", Step::Cohort { member, .. }) => Some((None, *member)),
            ("flag", Step::Dependency { fits, .. }) => Some((None, *fits)),
            (_, Step::Property { key, found, fits, .. }) if key == text("key") => {
                Some((found.clone(), *fits))
            }
            _ => None,
        };
        let (actual_value, matched) = steps.find_map(evaluated)?;
        Some(TestedProperty {
            key: text("key").to_owned(),
            operator: match text("operator") {
                "" => "exact".to_owned(),
                operator => operator.to_owned(),
            },
            value: filter.get("value").cloned().unwrap_or_default(),
            kind: text("type").to_owned(),
            actual_value,
            matched,
            explanation: if matched { "It matches." } else { "It does not match." },
        })
    };
    sent.map_while(tested).collect()
}
