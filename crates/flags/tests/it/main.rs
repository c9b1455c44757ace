//! Evaluation, from definitions as they are stored to answers.

#![allow(clippy::unwrap_used, reason = "tests")]

mod agreeing;
mod deciding;
mod depending;
mod generating;
mod reading;
mod sticking;
mod vectors;

use flags::{
    Answer, Answers, Context, Environment, FlagSet, GroupSubject, Selection, Stored, Subject,
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
    let person = Subject::new(object(properties), Stored::Nobody);
    Context { person, ..Context::stranger(distinct_id, now()) }
}

fn in_group<'a>(
    mut context: Context<'a>,
    index: usize,
    key: &str,
    properties: Value,
) -> Context<'a> {
    let group = GroupSubject::new(key.into(), object(properties), Stored::Nobody);
    context.groups[index] = Some(group);
    context
}

/// The value an SDK would see, and the reason.
fn shown(answer: &Answer<'_>) -> (Value, &'static str, Option<usize>) {
    let value = match (answer.enabled, answer.variant) {
        (true, Some(variant)) => json!(variant),
        (enabled, _) => json!(enabled),
    };
    (value, answer.reason.code.as_str(), answer.reason.condition_index)
}

fn answer_of<'s>(answers: &'s Answers<'s>, key: &str) -> &'s Answer<'s> {
    answers.answers.iter().find(|answer| answer.flag.key == key).unwrap()
}

fn everything() -> Selection {
    Selection::default()
}

/// What one flag answers.
fn decided(filters: Value, context: &Context<'_>) -> (Value, &'static str, Option<usize>) {
    let set = compile(&[flag(1, "f", filters)]);
    let answers = set.evaluate(context, &everything());
    shown(&answers.answers[0])
}
