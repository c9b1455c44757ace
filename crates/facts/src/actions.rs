//! Actions: which events match.

use model::filter_expr::compile_pattern;
use model::{ActionStep, StringMatching, Timestamp, Zone};
use regex::Regex;
use serde_json::Value as Json;
use warehouse::{ColumnKey, Predicate, Value};

use crate::Result;
use crate::elements::{self, Element};
use crate::filters::Filters;
use crate::read_view::{Needs, ReadView};
use crate::selectors::Selector;

/// The compiled steps of an action. An event matches if it passes any step.
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

impl ActionMatcher {
    pub fn new(steps: &[ActionStep], now: Timestamp, zone: &Zone) -> Result<Self> {
        let steps = steps.iter().map(|step| Step::new(step, now, zone));
        Ok(Self { steps: steps.collect::<Result<_>>()? })
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

/// A string pattern in one of the modes of an action step.
#[derive(Clone, Debug)]
enum Pattern {
    Exact(String),
    Contains(String),
    Regex(Regex),
}

impl Pattern {
    fn new(text: &str, matching: StringMatching) -> Result<Self> {
        Ok(match matching {
            StringMatching::Exact => Self::Exact(text.to_owned()),
            StringMatching::Contains => Self::Contains(text.to_owned()),
            StringMatching::Regex => Self::Regex(compile_pattern(text)?),
        })
    }

    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Regex(regex) => regex.is_match(text),
        }
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
            let url = Pattern::new(url, matching)?;
            let matches = move |value: Option<Value<'_>>| match value {
                Some(Value::Text(text)) => url.matches(text),
                _ => false,
            };
            columns.push(Predicate::test(ColumnKey::Property("$current_url".into()), matches));
        }
        columns.extend(element_predicate(step)?);
        if let Some(selector) = given(&step.selector) {
            let selector = Selector::parse(selector)?;
            columns.push(chain_predicate(move |chain| selector.matches(chain)));
        }
        let properties = match &step.properties {
            Some(filters) => {
                let filters = filters.iter().cloned().map(Json::Object).collect();
                Filters::read(&Json::Array(filters), now, zone)?
            }
            None => Filters::default(),
        };
        Ok(Self { columns, properties })
    }
}

/// One element of the chain must match tag name, text and href.
fn element_predicate(step: &ActionStep) -> Result<Option<Predicate>> {
    let pattern = |text: &Option<String>, matching: Option<StringMatching>| {
        let matching = matching.unwrap_or(StringMatching::Exact);
        given(text).map(|text| Pattern::new(text, matching)).transpose()
    };
    let tag = pattern(&step.tag_name, None)?;
    let text = pattern(&step.text, step.text_matching)?;
    let href = pattern(&step.href, step.href_matching)?;
    if tag.is_none() && text.is_none() && href.is_none() {
        return Ok(None);
    }
    let matches = |pattern: &Option<Pattern>, text: &Option<String>| {
        pattern
            .as_ref()
            .is_none_or(|pattern| text.as_ref().is_some_and(|text| pattern.matches(text)))
    };
    let element_matches = move |element: &Element| {
        matches(&tag, &element.tag_name)
            && matches(&text, &element.text)
            && matches(&href, &element.href)
    };
    Ok(Some(chain_predicate(move |chain| chain.iter().any(&element_matches))))
}

fn chain_predicate(matches: impl Fn(&[Element]) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::test(ColumnKey::ElementsChain, move |value| match value {
        Some(Value::Text(chain)) => matches(&elements::parse(chain)),
        _ => false,
    })
}
