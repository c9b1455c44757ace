//! Actions: which events match.

use model::elements::{self, Element, ElementMatcher, StringPattern};
use model::filter_expr::FilterExpr;
use model::{ActionStep, StringMatching, Timestamp, Zone};
use serde_json::Value as Json;
use warehouse::{ColumnKey, Predicate, Value};

use crate::Result;
use crate::filters::Filters;
use crate::read_view::{Needs, ReadView};

/// The compiled steps of an action. An event matches if it passes any step.
#[derive(Clone, Debug)]
pub struct ActionMatcher {
    steps: Vec<Step>,
}

/// An event passes a step if it passes all conditions on its columns and the property filters.
#[derive(Clone, Debug)]
struct Step {
    source: ActionStep,
    columns: Vec<Predicate>,
    properties: Filters,
}

impl ActionMatcher {
    pub fn new(steps: &[ActionStep], now: Timestamp, zone: &Zone) -> Result<Self> {
        let steps = steps.iter().map(|step| Step::new(step, now, zone));
        Ok(Self { steps: steps.collect::<Result<_>>()? })
    }

    /// The steps and their property filters.
    pub fn steps(&self) -> impl Iterator<Item = (&ActionStep, &FilterExpr)> {
        self.steps.iter().map(|step| (&step.source, step.properties.expr()))
    }

    /// An action without steps matches no event.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// As [`Filters::needs_joins`].
    pub fn needs_joins(&self) -> bool {
        self.steps.iter().any(|step| step.properties.needs_joins())
    }

    pub fn needs(&self, needs: &mut Needs) {
        self.steps.iter().for_each(|step| step.properties.needs(needs));
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
    fn new(step: &ActionStep, now: Timestamp, zone: &Zone) -> Result<Self> {
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
        let properties = match &step.properties {
            Some(filters) => {
                let filters = filters.iter().cloned().map(Json::Object).collect();
                Filters::read(&Json::Array(filters), now, zone)?
            }
            None => Filters::default(),
        };
        Ok(Self { source: step.clone(), columns, properties })
    }
}

fn chain_predicate(matches: impl Fn(&[Element]) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::test(ColumnKey::ElementsChain, move |value| match value {
        Some(Value::Text(chain)) => matches(&elements::parse(chain)),
        _ => false,
    })
}
