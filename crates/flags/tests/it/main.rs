//! Flag evaluation, from stored definitions to results.

#![allow(clippy::unwrap_used, reason = "tests")]

mod bucketing;
mod dependencies;
mod evaluation;
mod generator;
mod sdk_parity;
mod sdk_quirks;
mod vectors;

use flags::{
    Context, Environment, FlagResult, FlagResults, FlagSet, GroupSubject, Selection, Stored,
    Subject,
};
use model::flag::{BucketingIdentifier, CohortDefinition, FlagDefinition};
use model::{FlagId, ProjectId, Timestamp};
use serde_json::{Map, Value, json};

fn now() -> Timestamp {
    Timestamp::parse("2026-01-15T12:00:00Z").unwrap()
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// An active flag as it is stored.
fn flag(id: i64, key: &str, filters: Value) -> FlagDefinition {
    FlagDefinition {
        id: FlagId(id),
        team_id: ProjectId(1),
        name: String::new(),
        key: key.into(),
        filters: object(filters),
        deleted: false,
        active: true,
        ensure_experience_continuity: false,
        version: 1,
        evaluation_runtime: None,
        bucketing_identifier: Some(BucketingIdentifier::DistinctId),
        evaluation_contexts: Vec::new(),
        has_experiment: false,
        has_encrypted_payloads: false,
    }
}

fn compile(definitions: &[FlagDefinition]) -> FlagSet {
    FlagSet::compile(definitions, &Environment::default())
}

fn with_cohorts(definitions: &[FlagDefinition], cohorts: Vec<CohortDefinition>) -> FlagSet {
    FlagSet::compile(definitions, &Environment { cohorts, ..Environment::default() })
}

fn person(distinct_id: &str, properties: Value) -> Context<'_> {
    let person = Subject::new(object(properties), Stored::NotFound);
    Context { person, ..Context::unknown_person(distinct_id, now()) }
}

fn in_group<'a>(
    mut context: Context<'a>,
    index: usize,
    key: &str,
    properties: Value,
) -> Context<'a> {
    let group = GroupSubject::new(key.into(), object(properties), Stored::NotFound);
    context.groups[index] = Some(group);
    context
}

/// The value that an SDK returns, and the reason.
fn shown(result: &FlagResult<'_>) -> (Value, &'static str, Option<usize>) {
    let value = match (result.enabled, result.variant) {
        (true, Some(variant)) => json!(variant),
        (enabled, _) => json!(enabled),
    };
    (value, result.reason.code.as_str(), result.reason.condition_index)
}

fn result_of<'s>(results: &'s FlagResults<'s>, key: &str) -> &'s FlagResult<'s> {
    results.results.iter().find(|result| result.flag.key == key).unwrap()
}

fn everything() -> Selection {
    Selection::default()
}

/// The result of a single flag.
fn decided(filters: Value, context: &Context<'_>) -> (Value, &'static str, Option<usize>) {
    let set = compile(&[flag(1, "f", filters)]);
    let results = set.evaluate(context, &everything());
    shown(&results.results[0])
}
