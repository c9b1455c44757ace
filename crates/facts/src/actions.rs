//! Which events an action means.

use model::{ActionStep, StringMatching, Timestamp};
use regex::Regex;
use serde_json::Value as Json;
use warehouse::{ColumnKey, Predicate, Value};

use crate::Result;
use crate::dates::Zone;
use crate::elements::{self, Element};
use crate::filters::Filters;
use crate::matcher;
use crate::read_view::{Needs, ReadView};
use crate::selectors::Selector;

/// What the steps of an action ask of an event's own columns, and the property filters beside
/// them. An event of the action passes one of the steps.
#[derive(Clone, Debug)]
pub struct ActionMatcher {
    steps: Vec<Step>,
}

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

    /// Without steps no event is meant.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

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

/// A text that must fit in one of the ways people choose from.
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
            StringMatching::Regex => Self::Regex(matcher::compile(text)?),
        })
    }

    fn fits(&self, text: &str) -> bool {
        match self {
            Self::Exact(wanted) => text == wanted,
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

impl Step {
    fn new(step: &ActionStep, now: Timestamp, zone: &Zone) -> Result<Self> {
        let mut columns = Vec::new();
        if let Some(event) = given(&step.event) {
            let event = event.to_owned();
            let is_it = move |value: Option<Value<'_>>| value == Some(Value::Text(&event));
            columns.push(Predicate::test(ColumnKey::Event, is_it));
        }
        if let Some(url) = given(&step.url) {
            let matching = step.url_matching.unwrap_or(StringMatching::Contains);
            let url = Pattern::new(url, matching)?;
            let fits = move |value: Option<Value<'_>>| match value {
                Some(Value::Text(text)) => url.fits(text),
                _ => false,
            };
            columns.push(Predicate::test(ColumnKey::Property("$current_url".into()), fits));
        }
        columns.extend(element_test(step)?);
        if let Some(selector) = given(&step.selector) {
            let selector = Selector::parse(selector)?;
            columns.push(of_chain(move |chain| selector.fits(chain)));
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

/// One element of the chain must have all that is asked of elements.
fn element_test(step: &ActionStep) -> Result<Option<Predicate>> {
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
    let fits = |wanted: &Option<Pattern>, found: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| found.as_ref().is_some_and(|text| wanted.fits(text)))
    };
    let is_it = move |element: &Element| {
        fits(&tag, &element.tag_name) && fits(&text, &element.text) && fits(&href, &element.href)
    };
    Ok(Some(of_chain(move |chain| chain.iter().any(&is_it))))
}

fn of_chain(fits: impl Fn(&[Element]) -> bool + Send + Sync + 'static) -> Predicate {
    Predicate::test(ColumnKey::ElementsChain, move |value| match value {
        Some(Value::Text(chain)) => fits(&elements::parse(chain)),
        _ => false,
    })
}
