//! Tracing of an evaluation, step by step, for the `explain` endpoint.

use model::property::PropertyFilter;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::result::ReasonCode;

/// Receives every step. [`NoTrace`] compiles to nothing.
pub trait Trace {
    fn flag(&mut self, _key: &str) {}
    fn condition(&mut self, _index: usize, _result: ReasonCode) {}
    fn property(&mut self, _filter: &PropertyFilter, _found: Option<&Value>, _fits: bool) {}
    fn cohort(&mut self, _id: i64, _member: bool) {}
    fn dependency(&mut self, _id: i64, _fits: bool) {}
    fn hash(&mut self, _purpose: &'static str, _identifier: &str, _value: f64, _bound: f64) {}
}

pub struct NoTrace;

impl Trace for NoTrace {}

/// One step, as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "step", rename_all = "snake_case")]
#[schemars(rename = "EvaluationStep")]
pub enum Step {
    Flag { key: String },
    Condition { index: usize, result: &'static str },
    Property { key: String, operator: &'static str, found: Option<Value>, fits: bool },
    Cohort { id: i64, member: bool },
    Dependency { id: i64, fits: bool },
    Hash { purpose: &'static str, identifier: String, value: f64, bound: f64 },
}

/// Records the first 10,000 steps.
#[derive(Debug, Default)]
pub struct RecordedSteps {
    steps: Vec<Step>,
}

/// Further steps are dropped: nobody reads more.
const STEPS_MAX: usize = 10_000;

impl RecordedSteps {
    pub fn into_steps(self) -> Vec<Step> {
        self.steps
    }

    fn push(&mut self, step: Step) {
        if self.steps.len() < STEPS_MAX {
            self.steps.push(step);
        }
    }
}

impl Trace for RecordedSteps {
    fn flag(&mut self, key: &str) {
        self.push(Step::Flag { key: key.to_owned() });
    }

    fn condition(&mut self, index: usize, result: ReasonCode) {
        self.push(Step::Condition { index, result: result.as_str() });
    }

    fn property(&mut self, filter: &PropertyFilter, found: Option<&Value>, fits: bool) {
        self.push(Step::Property {
            key: filter.key.clone(),
            operator: filter.operator.as_str(),
            found: found.cloned(),
            fits,
        });
    }

    fn cohort(&mut self, id: i64, member: bool) {
        self.push(Step::Cohort { id, member });
    }

    fn dependency(&mut self, id: i64, fits: bool) {
        self.push(Step::Dependency { id, fits });
    }

    fn hash(&mut self, purpose: &'static str, identifier: &str, value: f64, bound: f64) {
        self.push(Step::Hash { purpose, identifier: identifier.to_owned(), value, bound });
    }
}
