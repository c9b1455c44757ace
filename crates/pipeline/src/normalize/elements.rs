//! Serializes autocaptured elements to `elements_chain`, the form that queries and the API use.

use std::fmt::Write as _;

use serde_json::Value;

const TEXT_CHARS_MAX: usize = 400;
const HREF_CHARS_MAX: usize = 2_048;

/// `tag.class:attr="value"…` of each element, joined by `;`.
pub(super) fn chain(elements: &[Value]) -> String {
    let mut chain = String::new();
    for element in elements {
        if !chain.is_empty() {
            chain.push(';');
        }
        append(&mut chain, element);
    }
    chain
}

fn append(chain: &mut String, element: &Value) {
    chain.push_str(&text(element, "tag_name").unwrap_or_default());
    for class in classes(element) {
        chain.push('.');
        chain.push_str(&class);
    }
    chain.push(':');
    for (name, value) in attributes(element) {
        // Writing to a String cannot fail.
        let _ = write!(chain, "{}=\"{}\"", escape(&name), escape(&value));
    }
}

fn classes(element: &Value) -> Vec<String> {
    let mut classes: Vec<String> = match element.get("attr__class") {
        Some(Value::String(text)) => text.split(' ').map(str::to_owned).collect(),
        Some(Value::Array(items)) => {
            items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    classes.retain(|class| !class.is_empty());
    classes.iter_mut().for_each(|class| class.retain(|letter| letter != '"'));
    classes.sort_unstable();
    classes
}

fn attributes(element: &Value) -> Vec<(String, String)> {
    let mut attributes = vec![
        ("nth-child".to_owned(), text(element, "nth_child").unwrap_or_else(|| "0".into())),
        ("nth-of-type".to_owned(), text(element, "nth_of_type").unwrap_or_else(|| "0".into())),
    ];
    let known = [
        ("text", "$el_text", TEXT_CHARS_MAX),
        ("href", "attr__href", HREF_CHARS_MAX),
        ("attr_id", "attr__id", usize::MAX),
    ];
    for (name, key, chars_max) in known {
        if let Some(value) = text(element, key) {
            attributes.push((name.to_owned(), value.chars().take(chars_max).collect()));
        }
    }
    for (key, value) in element.as_object().into_iter().flatten() {
        if key.starts_with("attr__") {
            attributes.push((key.clone(), shown(value).unwrap_or_default()));
        }
    }
    attributes.sort();
    attributes
}

fn text(element: &Value, key: &str) -> Option<String> {
    shown(element.get(key)?)
}

fn shown(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            Some(items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        other => Some(other.to_string()),
    }
}

fn escape(text: &str) -> String {
    text.replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // contract: ingestion 134
    #[test]
    fn elements_chain_matches_that_of_an_sdk() {
        let elements = [
            json!({"tag_name": "button", "$el_text": "Buy now", "attr__class": "btn primary",
                   "attr__id": "buy", "nth_child": 1, "nth_of_type": 1}),
            json!({"tag_name": "div", "attr__class": "wrap big", "nth_child": 1, "nth_of_type": 1}),
            json!({"tag_name": "body", "nth_child": 2, "nth_of_type": 1}),
        ];
        assert_eq!(
            chain(&elements),
            r#"button.btn.primary:attr__class="btn primary"attr__id="buy"attr_id="buy"nth-child="1"nth-of-type="1"text="Buy now";div.big.wrap:attr__class="wrap big"nth-child="1"nth-of-type="1";body:nth-child="2"nth-of-type="1""#
        );
    }
}
