//! Autocaptured elements, parsed from `elements_chain`: the clicked element first, then its parents.

mod matcher;
mod selector;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub use matcher::{ElementMatcher, StringPattern};
pub use selector::Selector;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Element {
    /// Always null; clients expect the key.
    pub event: Option<String>,
    pub text: Option<String>,
    pub tag_name: Option<String>,
    pub attr_class: Option<Vec<String>>,
    pub href: Option<String>,
    pub attr_id: Option<String>,
    pub nth_child: Option<i64>,
    pub nth_of_type: Option<i64>,
    pub attributes: BTreeMap<String, String>,
    pub order: usize,
}

/// Parses `tag.class:name="value"…;…`. SDKs may send the chain themselves, so malformed input yields
/// what can be parsed.
pub fn parse(chain: &str) -> Vec<Element> {
    let links = split_unquoted(chain, ';').into_iter().filter(|link| !link.is_empty());
    links.enumerate().map(|(order, link)| element(link, order)).collect()
}

fn element(link: &str, order: usize) -> Element {
    let mut parts = split_unquoted(link, ':').into_iter();
    let head = parts.next().unwrap_or_default();
    let attributes = link.get(head.len() + 1..).unwrap_or_default();
    let mut names = head.split('.');
    let tag_name = names.next().filter(|tag| !tag.is_empty()).map(str::to_owned);
    let classes: Vec<String> = names.filter(|class| !class.is_empty()).map(str::to_owned).collect();
    let mut element = Element {
        tag_name,
        attr_class: (!classes.is_empty()).then_some(classes),
        order,
        ..Element::default()
    };
    read_attributes(attributes, |name, value| match name {
        "text" => element.text = Some(value),
        "href" => element.href = Some(value),
        "attr_id" => element.attr_id = Some(value),
        "nth-child" => element.nth_child = value.parse().ok(),
        "nth-of-type" => element.nth_of_type = value.parse().ok(),
        _ => drop(element.attributes.insert(name.to_owned(), value)),
    });
    element
}

/// Splits at `mark`, except between quotes.
fn split_unquoted(text: &str, mark: char) -> Vec<&str> {
    let (mut quoted, mut escaped) = (false, false);
    let outside = |letter: char| {
        let was_escaped = escaped;
        escaped = letter == '\\' && !was_escaped;
        if letter == '"' && !was_escaped {
            quoted = !quoted;
        }
        letter == mark && !quoted
    };
    text.split(outside).collect()
}

fn read_attributes(text: &str, mut each: impl FnMut(&str, String)) {
    let mut rest = text;
    while let Some((name, tail)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = tail.char_indices();
        let mut end = tail.len();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    end = at + 1;
                    break;
                }
                '\\' => value.extend(letters.next().map(|(_, escaped)| escaped)),
                _ => value.push(letter),
            }
        }
        each(&name.replace("\\\"", "\""), value);
        rest = &tail[end..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_chain_parses_to_elements() {
        let chain = r#"a.btn.btn-sm:attr__href="/x;y:z"attr_id="go"href="/x;y:z"nth-child="2"nth-of-type="1"text="Say \"hi\"; now";div:nth-child="0"nth-of-type="0""#;
        let found = parse(chain);
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0],
            Element {
                text: Some(r#"Say "hi"; now"#.into()),
                tag_name: Some("a".into()),
                attr_class: Some(vec!["btn".into(), "btn-sm".into()]),
                href: Some("/x;y:z".into()),
                attr_id: Some("go".into()),
                nth_child: Some(2),
                nth_of_type: Some(1),
                attributes: [("attr__href".into(), "/x;y:z".into())].into(),
                ..Element::default()
            }
        );
        assert_eq!((found[1].tag_name.as_deref(), found[1].order), (Some("div"), 1));
    }

    #[test]
    fn malformed_elements_chain_parses_as_far_as_possible() {
        for (chain, tags) in [
            ("", &[][..]),
            (";;", &[]),
            ("a", &[Some("a")]),
            (":text=\"x\"", &[None]),
            ("a:text=\"never closed;b", &[Some("a")]),
            ("a:text=\"\\", &[Some("a")]),
            ("ä.ö:ü=\"ß\";b", &[Some("ä"), Some("b")]),
        ] {
            let found = parse(chain);
            let found: Vec<_> = found.iter().map(|element| element.tag_name.as_deref()).collect();
            assert_eq!(found, tags, "{chain}");
        }
    }
}
