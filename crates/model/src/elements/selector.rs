//! CSS selectors over an elements chain: tags, `.class`, `#id`, `[name]` and `[name="value"]` (also
//! `^=`, `$=` and `*=`), `:nth-child(n)`, `:nth-of-type(n)`, and the descendant and child combinators
//! `a b` and `a > b`.

use super::Element;
use crate::filter_expr::InvalidFilter;

/// Compound selectors of one selector.
const COMPOUNDS_MAX: usize = 50;

#[derive(Clone, Debug)]
pub struct Selector {
    /// In source order. The flag says whether a child combinator precedes the compound.
    compounds: Vec<(Compound, bool)>,
}

#[derive(Clone, Debug, Default)]
struct Compound {
    tag: Option<String>,
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Class(String),
    Id(String),
    Attribute(String, Option<(Operator, String)>),
    NthChild(i64),
    NthOfType(i64),
}

#[derive(Clone, Copy, Debug)]
enum Operator {
    Is,
    Begins,
    Ends,
    Contains,
}

impl Part {
    fn matches(&self, element: &Element) -> bool {
        match self {
            Self::Class(class) => {
                element.attr_class.as_ref().is_some_and(|classes| classes.contains(class))
            }
            Self::Id(id) => element.attr_id.as_ref() == Some(id),
            Self::Attribute(name, wanted) => {
                let Some(value) = attribute(element, name) else { return false };
                wanted.as_ref().is_none_or(|(operator, text)| match operator {
                    Operator::Is => value == *text,
                    Operator::Begins => value.starts_with(text),
                    Operator::Ends => value.ends_with(text),
                    Operator::Contains => value.contains(text),
                })
            }
            Self::NthChild(number) => element.nth_child == Some(*number),
            Self::NthOfType(number) => element.nth_of_type == Some(*number),
        }
    }
}

fn attribute(element: &Element, name: &str) -> Option<String> {
    let sent = || element.attributes.get(&format!("attr__{name}")).cloned();
    let known = match name {
        "id" => element.attr_id.clone(),
        "href" => element.href.clone(),
        "class" => element.attr_class.as_ref().map(|classes| classes.join(" ")),
        _ => element.attributes.get(name).cloned(),
    };
    sent().or(known)
}

impl Compound {
    fn matches(&self, element: &Element) -> bool {
        let tag = self.tag.as_ref();
        tag.is_none_or(|tag| element.tag_name.as_ref() == Some(tag))
            && self.parts.iter().all(|part| part.matches(element))
    }
}

impl Selector {
    pub fn parse(text: &str) -> Result<Self, InvalidFilter> {
        let mut rest = text.trim();
        let refused = || InvalidFilter(format!("'{text}' is no selector that can be matched."));
        let mut compounds = Vec::new();
        let mut is_child = false;
        loop {
            let (compound, behind) = compound(rest).ok_or_else(refused)?;
            compounds.push((compound, is_child));
            if behind.is_empty() {
                return Ok(Self { compounds });
            }
            let inner = behind.trim_start();
            let child = inner.strip_prefix('>').map(str::trim_start);
            if compounds.len() == COMPOUNDS_MAX || (child.is_none() && inner == behind) {
                return Err(refused());
            }
            (rest, is_child) = (child.unwrap_or(inner), child.is_some());
        }
    }

    /// Whether the selector matches within a chain of elements, innermost first.
    pub fn matches(&self, chain: &[Element]) -> bool {
        let mut compounds = self.compounds.iter().rev();
        let Some((innermost, is_child)) = compounds.next() else { return false };
        let mut is_child = *is_child;
        let mut matched: Vec<bool> =
            chain.iter().map(|element| innermost.matches(element)).collect();
        for (compound, is_next_child) in compounds {
            let mut inside = false;
            let before = matched.clone();
            for (at, element) in chain.iter().enumerate() {
                let below = at.checked_sub(1).is_some_and(|below| before[below]);
                inside |= below;
                matched[at] = (if is_child { below } else { inside }) && compound.matches(element);
            }
            is_child = *is_next_child;
        }
        matched.contains(&true)
    }
}

fn name(text: &str) -> Option<(&str, &str)> {
    let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_');
    let end = text.find(|letter| !is_plain(letter)).unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// Parses a compound selector; also returns the rest.
fn compound(text: &str) -> Option<(Compound, &str)> {
    let mut compound = Compound::default();
    let mut rest = text;
    if let Some(behind) = text.strip_prefix('*') {
        rest = behind;
    } else if let Some((tag, behind)) = name(text) {
        (compound.tag, rest) = (Some(tag.to_ascii_lowercase()), behind);
    }
    loop {
        let (part, behind) = if let Some(behind) = rest.strip_prefix('.') {
            let (class, behind) = name(behind)?;
            (Part::Class(class.to_owned()), behind)
        } else if let Some(behind) = rest.strip_prefix('#') {
            let (id, behind) = name(behind)?;
            (Part::Id(id.to_owned()), behind)
        } else if let Some(behind) = rest.strip_prefix('[') {
            in_brackets(behind)?
        } else if let Some(behind) = rest.strip_prefix(":nth-child(") {
            let (number, behind) = behind.split_once(')')?;
            (Part::NthChild(number.trim().parse().ok()?), behind)
        } else if let Some(behind) = rest.strip_prefix(":nth-of-type(") {
            let (number, behind) = behind.split_once(')')?;
            (Part::NthOfType(number.trim().parse().ok()?), behind)
        } else {
            let is_empty = rest.len() == text.len();
            return (!is_empty).then_some((compound, rest));
        };
        compound.parts.push(part);
        rest = behind;
    }
}

/// `name]`, `name=value]` or `name="value"]`.
fn in_brackets(text: &str) -> Option<(Part, &str)> {
    let (attribute, rest) = name(text.trim_start())?;
    let rest = rest.trim_start();
    if let Some(behind) = rest.strip_prefix(']') {
        return Some((Part::Attribute(attribute.to_owned(), None), behind));
    }
    let operators = [
        ("=", Operator::Is),
        ("^=", Operator::Begins),
        ("$=", Operator::Ends),
        ("*=", Operator::Contains),
    ];
    let (operator, rest) = operators
        .iter()
        .find_map(|(sign, operator)| Some((*operator, rest.strip_prefix(sign)?)))?;
    let rest = rest.trim_start();
    let quote = rest.chars().next().filter(|letter| matches!(letter, '"' | '\''));
    let (value, rest) = match quote {
        Some(quote) => rest[1..].split_once(quote)?,
        None => name(rest)?,
    };
    let behind = rest.trim_start().strip_prefix(']')?;
    Some((Part::Attribute(attribute.to_owned(), Some((operator, value.to_owned()))), behind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::parse;

    #[test]
    fn selectors_match_elements_by_attributes_and_ancestry() {
        let chain = parse(
            r#"span.label:nth-child="2"nth-of-type="1"text="Buy";a.btn.btn-sm:attr__href="/buy?x"attr__data-kind="big one"attr_id="go"href="/buy?x"nth-child="1"nth-of-type="1";div.shop:nth-child="3"nth-of-type="2";body"#,
        );
        for (selector, expected) in [
            ("a", true),
            ("A", true),
            ("b", false),
            (".btn.btn-sm", true),
            (".btn.big", false),
            ("a#go", true),
            ("#gone", false),
            ("*", true),
            ("[data-kind]", true),
            ("[data-none]", false),
            ("a[data-kind=\"big one\"]", true),
            ("[data-kind='big']", false),
            ("[data-kind^=big]", true),
            ("[href*='buy']", true),
            ("[href$=\"buy\"]", false),
            ("[ id = go ]", true),
            ("span:nth-child(2)", true),
            ("span:nth-child(1)", false),
            ("div:nth-of-type( 2 )", true),
            ("a > span", true),
            ("a>span.label", true),
            ("div > span", false),
            ("div span", true),
            ("body div > a span", true),
            ("body > a", false),
            ("span a", false),
            ("div body", false),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().matches(&chain), expected, "{selector}");
        }
        assert!(!Selector::parse("a").unwrap().matches(&[]));
    }

    #[test]
    fn invalid_selectors_are_rejected() {
        let long = "a ".repeat(51);
        for wrong in [
            "",
            ">",
            "a >",
            "> a",
            "a,b",
            "a + b",
            "a:hover",
            ".",
            "#",
            "[",
            "[x",
            "[x=",
            "[x=\"y]",
            "[x~=y]",
            "a:nth-child(n)",
            "a b:",
            "a[x]>",
            &long,
        ] {
            assert!(Selector::parse(wrong).is_err(), "{wrong}");
        }
    }
}
