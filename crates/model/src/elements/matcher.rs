//! The conditions of an action's step on autocaptured elements.

use regex::Regex;

use super::{Element, Selector};
use crate::filter_expr::{InvalidFilter, compile_pattern};
use crate::{ActionStep, StringMatching};

/// A string pattern in one of the modes of an action step.
#[derive(Clone, Debug)]
pub enum StringPattern {
    Exact(String),
    Contains(String),
    Regex(Regex),
}

impl StringPattern {
    pub fn new(text: &str, matching: StringMatching) -> Result<Self, InvalidFilter> {
        Ok(match matching {
            StringMatching::Exact => Self::Exact(text.to_owned()),
            StringMatching::Contains => Self::Contains(text.to_owned()),
            StringMatching::Regex => Self::Regex(compile_pattern(text)?),
        })
    }

    pub fn matches(&self, text: &str) -> bool {
        match self {
            Self::Exact(exact) => text == exact,
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Regex(regex) => regex.is_match(text),
        }
    }
}

/// One element of the chain must match tag name, text and href; the chain must match the selector.
#[derive(Clone, Debug)]
pub struct ElementMatcher {
    tag: Option<StringPattern>,
    text: Option<StringPattern>,
    href: Option<StringPattern>,
    selector: Option<Selector>,
}

impl ElementMatcher {
    /// None if the step has no condition on elements.
    pub fn new(step: &ActionStep) -> Result<Option<Self>, InvalidFilter> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let pattern = |text: &Option<String>, matching: Option<StringMatching>| {
            let matching = matching.unwrap_or(StringMatching::Exact);
            given(text).map(|text| StringPattern::new(&text, matching)).transpose()
        };
        let matcher = Self {
            tag: pattern(&step.tag_name, None)?,
            text: pattern(&step.text, step.text_matching)?,
            href: pattern(&step.href, step.href_matching)?,
            selector: given(&step.selector).map(|text| Selector::parse(&text)).transpose()?,
        };
        Ok((matcher.matches_one() || matcher.selector.is_some()).then_some(matcher))
    }

    fn matches_one(&self) -> bool {
        self.tag.is_some() || self.text.is_some() || self.href.is_some()
    }

    pub fn matches(&self, chain: &[Element]) -> bool {
        let part = |pattern: &Option<StringPattern>, text: &Option<String>| {
            let matches =
                |pattern: &StringPattern| text.as_ref().is_some_and(|text| pattern.matches(text));
            pattern.as_ref().is_none_or(matches)
        };
        let one = |element: &Element| {
            part(&self.tag, &element.tag_name)
                && part(&self.text, &element.text)
                && part(&self.href, &element.href)
        };
        (!self.matches_one() || chain.iter().any(one))
            && self.selector.as_ref().is_none_or(|selector| selector.matches(chain))
    }
}
