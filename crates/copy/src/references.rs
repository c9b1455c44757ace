//! Where objects refer to others by id: finding the ids, and replacing them.
//!
//! One traversal serves both, so that what is ordered and what is mapped cannot differ.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::kind::{Key, Kind};

/// JSON nested deeper than any filter; deeper values have no references.
const DEPTH_MAX: usize = 64;

/// Keys whose strings are prose or data, never HogQL.
const PROSE: [&str; 9] = [
    "name",
    "custom_name",
    "derived_name",
    "description",
    "label",
    "title",
    "value",
    "event",
    "content",
];

/// Keys that hold the index of a group type.
const GROUP_INDEXES: [&str; 4] = [
    "group_type_index",
    "aggregation_group_type_index",
    "math_group_type_index",
    "breakdown_group_type_index",
];

/// Cohorts in filters. PostHog rewrites `cohort` to the others in some queries.
const COHORT_FILTERS: [&str; 3] = ["cohort", "static-cohort", "precalculated-cohort"];

/// An id of the source that has no counterpart here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmapped(pub Key);

/// The objects that `value` refers to.
pub fn of(value: &Value) -> BTreeSet<Key> {
    let mut found = BTreeSet::new();
    let mut value = value.clone();
    let collected = visit(&mut value, 0, &mut |kind, id| {
        found.insert(Key::new(kind, id));
        Ok(id.to_owned())
    });
    debug_assert!(collected.is_ok());
    found
}

/// Replaces each id of the source with the id that `mapped` returns for it.
pub fn map(value: &mut Value, mapped: &dyn Fn(&Key) -> Option<String>) -> Result<(), Unmapped> {
    visit(value, 0, &mut |kind, id| {
        let key = Key::new(kind, id);
        mapped(&key).ok_or(Unmapped(key))
    })
}

type Visitor<'v> = dyn FnMut(Kind, &str) -> Result<String, Unmapped> + 'v;

fn visit(value: &mut Value, depth: usize, visitor: &mut Visitor<'_>) -> Result<(), Unmapped> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    match value {
        Value::Array(items) => {
            items.iter_mut().try_for_each(|item| visit(item, depth + 1, visitor))
        }
        Value::Object(fields) => {
            visit_fields(fields, visitor)?;
            fields
                .iter_mut()
                .filter(|(name, _)| !PROSE.contains(&name.as_str()))
                .try_for_each(|(_, field)| visit(field, depth + 1, visitor))
        }
        Value::String(text) => visit_hogql(text, visitor),
        _ => Ok(()),
    }
}

/// The ids that an object holds itself; its fields are visited afterwards.
fn visit_fields(
    fields: &mut Map<String, Value>,
    visitor: &mut Visitor<'_>,
) -> Result<(), Unmapped> {
    let word = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (kind, node) = (word("type").to_owned(), word("kind").to_owned());
    let is_cohort = COHORT_FILTERS.contains(&kind.as_str());
    let references = [
        ("value", Kind::Cohort, is_cohort),
        // A breakdown of a list of them.
        ("property", Kind::Cohort, is_cohort),
        ("breakdown", Kind::Cohort, word("breakdown_type") == "cohort"),
        ("key", Kind::Flag, kind == "flag"),
        ("key", Kind::Action, kind == "behavioral" && word("event_type") == "actions"),
        ("seq_event", Kind::Action, kind == "behavioral" && word("seq_event_type") == "actions"),
        ("id", Kind::Action, kind == "actions" || node == "ActionsNode"),
        ("actionId", Kind::Action, true),
        ("shortId", Kind::ShortId, node == "SavedInsightNode"),
    ];
    for (name, kind, applies) in references {
        if let Some(id) = fields.get_mut(name).filter(|_| applies) {
            visit_ids(id, kind, visitor)?;
        }
    }
    for name in GROUP_INDEXES {
        if let Some(index) = fields.get_mut(name) {
            visit_ids(index, Kind::GroupType, visitor)?;
        }
    }
    Ok(())
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An id, as a number or a string, or a list of them. Words such as `all` are no ids, nor is the 0
/// that older breakdowns have in their place.
fn visit_ids(value: &mut Value, kind: Kind, visitor: &mut Visitor<'_>) -> Result<(), Unmapped> {
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| visit_ids(item, kind, visitor)),
        Value::Number(number) => {
            let Some(id) = number.as_u64().filter(|id| *id > 0 || kind == Kind::GroupType) else {
                return Ok(());
            };
            let mapped = visitor(kind, &id.to_string())?;
            *value = mapped.parse::<u64>().map_or(Value::String(mapped), Value::from);
            Ok(())
        }
        Value::String(text) if kind == Kind::ShortId || is_number(text) => {
            *text = visitor(kind, text)?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// `IN COHORT 5`, `matchesAction(5)`, fields of `group_0`, and the property `$group_0` of events, outside
/// of string literals.
fn visit_hogql(text: &mut String, visitor: &mut Visitor<'_>) -> Result<(), Unmapped> {
    let lower = text.to_ascii_lowercase();
    if !["cohort", "matchesaction", "group_"].iter().any(|word| lower.contains(word)) {
        return Ok(());
    }
    let mut written = String::with_capacity(text.len());
    let tokens = Tokens { text, at: 0 };
    // The two tokens before, in lower case; brackets and spaces are left out.
    let mut before = [String::new(), String::new()];
    for token in tokens {
        let word = token.to_ascii_lowercase();
        let group = word.trim_start_matches('$').strip_prefix("group_");
        let kind = match () {
            () if !is_number(token) => None,
            () if before[1] == "cohort" && before[0] == "in" => Some(Kind::Cohort),
            () if before[1] == "matchesaction" => Some(Kind::Action),
            () => None,
        };
        match (kind, group.filter(|index| is_number(index))) {
            (Some(kind), _) => written.push_str(&visitor(kind, token)?),
            (None, Some(index)) => {
                written.push_str(&token[..token.len() - index.len()]);
                written.push_str(&visitor(Kind::GroupType, index)?);
            }
            (None, None) => written.push_str(token),
        }
        if !token.trim().is_empty() && token != "(" {
            before = [std::mem::take(&mut before[1]), word];
        }
    }
    *text = written;
    Ok(())
}

/// Splits a statement into words, string literals and single characters.
struct Tokens<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let rest = &self.text[self.at..];
        let first = rest.chars().next()?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let end = match first {
            '\'' => literal_end(rest),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        self.at += end;
        Some(&rest[..end])
    }
}

/// The end of the string literal that `text` starts with; of all of it if it is not closed.
fn literal_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '\'' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mapped(mut value: Value) -> Value {
        map(&mut value, &|key| {
            let number = |add: u64| key.id.parse::<u64>().ok().map(|id| (id + add).to_string());
            match key.kind {
                Kind::Cohort => number(100),
                Kind::Action => number(200),
                Kind::Flag => number(300),
                Kind::ShortId => Some(format!("new-{}", key.id)),
                Kind::GroupType => number(1),
                _ => None,
            }
        })
        .unwrap();
        value
    }

    #[test]
    fn ids_are_mapped_wherever_filters_and_queries_hold_them() {
        for (sent, expected) in [
            (
                json!({"type": "cohort", "key": "id", "value": 5}),
                json!({"type": "cohort", "key": "id", "value": 105}),
            ),
            (
                json!({"type": "cohort", "value": ["5", 6]}),
                json!({"type": "cohort", "value": ["105", 106]}),
            ),
            (
                json!({"type": "static-cohort", "value": 5}),
                json!({"type": "static-cohort", "value": 105}),
            ),
            (
                json!({"type": "flag", "key": "5", "value": true}),
                json!({"type": "flag", "key": "305", "value": true}),
            ),
            (
                json!({"breakdown_type": "cohort", "breakdown": [5, "all", 0]}),
                json!({"breakdown_type": "cohort", "breakdown": [105, "all", 0]}),
            ),
            (
                json!({"breakdowns": [{"type": "cohort", "property": 5}]}),
                json!({"breakdowns": [{"type": "cohort", "property": 105}]}),
            ),
            (
                json!({"type": "behavioral", "event_type": "actions", "key": 5, "seq_event_type": "actions", "seq_event": "6"}),
                json!({"type": "behavioral", "event_type": "actions", "key": 205, "seq_event_type": "actions", "seq_event": "206"}),
            ),
            (
                json!({"type": "behavioral", "event_type": "events", "key": "5"}),
                json!({"type": "behavioral", "event_type": "events", "key": "5"}),
            ),
            (json!({"kind": "ActionsNode", "id": 5}), json!({"kind": "ActionsNode", "id": 205})),
            (
                json!({"kind": "EventsNode", "event": "5"}),
                json!({"kind": "EventsNode", "event": "5"}),
            ),
            (
                json!({"actions": [{"type": "actions", "id": "5"}]}),
                json!({"actions": [{"type": "actions", "id": "205"}]}),
            ),
            (
                json!({"conversionGoal": {"actionId": 5}}),
                json!({"conversionGoal": {"actionId": 205}}),
            ),
            (
                json!({"kind": "SavedInsightNode", "shortId": "ab1"}),
                json!({"kind": "SavedInsightNode", "shortId": "new-ab1"}),
            ),
            (
                json!({"type": "group", "key": "seats", "group_type_index": 0}),
                json!({"type": "group", "key": "seats", "group_type_index": 1}),
            ),
            (
                json!({"aggregation_group_type_index": null}),
                json!({"aggregation_group_type_index": null}),
            ),
            (
                json!({"type": "event", "key": "$group_0"}),
                json!({"type": "event", "key": "$group_1"}),
            ),
        ] {
            assert_eq!(mapped(sent.clone()), expected, "{sent}");
        }
    }

    #[test]
    fn ids_are_mapped_in_hogql_but_not_in_its_strings() {
        for (sent, expected) in [
            ("select 1 where person_id IN COHORT 5", "select 1 where person_id IN COHORT 105"),
            ("person_id not in\n cohort(5)", "person_id not in\n cohort(105)"),
            ("matchesAction( 5 ) and x = 5", "matchesAction( 205 ) and x = 5"),
            ("'in cohort 5' = e and in cohort 6", "'in cohort 5' = e and in cohort 106"),
            ("'it\\'s in cohort 5'", "'it\\'s in cohort 5'"),
            ("cohort = 5", "cohort = 5"),
            ("in cohort 'named'", "in cohort 'named'"),
            (
                "group_0.properties.x, $group_0, group_by",
                "group_1.properties.x, $group_1, group_by",
            ),
        ] {
            let query = json!({"kind": "HogQLQuery", "query": sent, "name": "in cohort 5"});
            let mapped = mapped(query);
            assert_eq!(mapped["query"], expected);
            assert_eq!(mapped["name"], "in cohort 5");
        }
    }

    #[test]
    fn unmapped_reference_is_named() {
        let mut value = json!({"a": [{"type": "cohort", "value": 7}]});
        let refused = map(&mut value, &|_| None).unwrap_err();
        assert_eq!(refused.0.to_string(), "cohort 7");
    }

    #[test]
    fn deep_nesting_ends() {
        let mut value = json!(1);
        for _ in 0..100 {
            value = json!([value]);
        }
        assert!(of(&value).is_empty());
    }
}
