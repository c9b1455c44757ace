//! Actions: which events match.

use model::elements::{self, Element, ElementMatcher, StringPattern};
use model::filter_expr::FilterExpr;
use model::{ActionStep, StringMatching, Timestamp, Zone};
use serde_json::Value as Json;
use warehouse::{ColumnKey, Predicate, Value};

use crate::Result;
use crate::filters::{Filters, needs_joins, read_filters};
use crate::read_view::ReadView;

/// The events of an action as plain data: steps, each with its property filters. An event matches if
/// it passes any step.
#[derive(Clone, Debug, Default)]
pub struct ActionExpr {
    pub steps: Vec<(ActionStep, FilterExpr)>,
}

/// A compiled [`ActionExpr`].
#[derive(Clone, Debug)]
pub struct ActionMatcher {
    steps: Vec<Step>,
}

/// An event passes a step if it passes all conditions on its columns and the property filters.
#[derive(Clone, Debug)]
struct Step {
    columns: Vec<Predicate>,
    properties: Filters,
}

impl ActionExpr {
    pub fn parse(steps: &[ActionStep], now: Timestamp, zone: &Zone) -> Result<Self> {
        let parse = |step: &ActionStep| {
            let filters = match &step.properties {
                Some(filters) => {
                    let filters = filters.iter().cloned().map(Json::Object).collect();
                    read_filters(&Json::Array(filters), now, zone)?
                }
                None => FilterExpr::default(),
            };
            Ok((step.clone(), filters))
        };
        Ok(Self { steps: steps.iter().map(parse).collect::<Result<_>>()? })
    }

    /// An action without steps matches no event.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// As [`crate::needs_joins`].
    pub fn needs_joins(&self) -> bool {
        self.steps.iter().any(|(_, filters)| needs_joins(filters))
    }
}

impl ActionMatcher {
    pub fn compile(action: &ActionExpr, zone: &Zone) -> Result<Self> {
        let steps = action.steps.iter().map(|(step, filters)| Step::compile(step, filters, zone));
        Ok(Self { steps: steps.collect::<Result<_>>()? })
    }

    pub fn predicate(&self, view: &ReadView) -> Result<Predicate> {
        let step = |step: &Step| {
            let mut all = step.columns.clone();
            all.extend(step.properties.predicate(view)?);
            Ok(Predicate::All(all))
        };
        Ok(Predicate::Any(self.steps.iter().map(step).collect::<Result<_>>()?))
    }
}

/// None for an empty string.
fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Step {
    fn compile(step: &ActionStep, filters: &FilterExpr, zone: &Zone) -> Result<Self> {
        let mut columns = Vec::new();
        if let Some(event) = given(&step.event) {
            let event = event.to_owned();
            let matches = move |value: Option<Value<'_>>| value == Some(Value::Text(&event));
            columns.push(Predicate::test(ColumnKey::Event, matches));
        }
        if let Some(url) = given(&step.url) {
            let matching = step.url_matching.unwrap_or(StringMatching::Contains);
            let url = StringPattern::new(url, matching)?;
            let matches = move |value: Option<Value<'_>>| match value {
                Some(Value::Text(text)) => url.matches(text),
                _ => false,
            };
            columns.push(Predicate::test(ColumnKey::Property("$current_url".into()), matches));
        }
        if let Some(elements) = ElementMatcher::new(step)? {
            columns.push(chain_predicate(move |chain| elements.matches(chain)));
        }
        Ok(Self { columns, properties: Filters::compile(filters, zone)? })
    }
}

fn chain_predicate(matches: impl Fn(&[Element]) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::test(ColumnKey::ElementsChain, move |value| match value {
        Some(Value::Text(chain)) => matches(&elements::parse(chain)),
        _ => false,
    })
}
