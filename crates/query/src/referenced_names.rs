//! Property names that a query may reference, so that only their definitions are loaded.

use std::collections::{BTreeMap, BTreeSet};

use hogql::ActionName;
use serde_json::Value as Json;

/// No property with a longer name is ever defined.
const NAME_BYTES_MAX: usize = 200;

/// A superset of the names that the query uses: every string, and every identifier and string
/// literal of what may be an expression; and the actions that its expressions name.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferencedNames {
    names: BTreeSet<String>,
    actions: BTreeSet<ActionName>,
    object_tables: BTreeMap<&'static str, &'static str>,
}

impl ReferencedNames {
    pub fn of(json: &Json) -> Self {
        let mut names = Self::default();
        names.add(json);
        names
    }

    pub fn add(&mut self, json: &Json) {
        match json {
            Json::String(text) => self.add_text(text),
            Json::Array(all) => all.iter().for_each(|item| self.add(item)),
            Json::Object(all) => {
                for (name, value) in all {
                    self.insert(name);
                    self.add(value);
                }
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => {}
        }
    }

    pub fn add_text(&mut self, text: &str) {
        if text.len() <= NAME_BYTES_MAX {
            self.insert(text);
            // A feature filter reads the property `$feature/<key>`.
            self.insert(&format!("$feature/{text}"));
        }
        hogql::identifiers_and_strings(text).iter().for_each(|word| self.insert(word));
        let folded = text.to_ascii_lowercase();
        if folded.contains("matchesaction") {
            self.actions.extend(hogql::called_actions(text));
        }
        if folded.contains("system") {
            let tables = hogql::system::object_tables(text);
            let tables = tables.filter_map(|table| Some((table.name, table.object()?)));
            self.object_tables.extend(tables);
        }
    }

    fn insert(&mut self, name: &str) {
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !self.names.contains(name) {
            self.names.insert(name.to_owned());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The tables of objects, each with the kind of its objects.
    pub fn object_tables(&self) -> &BTreeMap<&'static str, &'static str> {
        &self.object_tables
    }

    /// The actions named in `matchesAction()`.
    pub fn actions(&self) -> &BTreeSet<ActionName> {
        &self.actions
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_of_a_property_is_among_the_referenced_names() {
        let query = json!({
            "kind": "HogQLQuery",
            "query": "select properties.$browser, properties['with \\'quotes\\''], person.properties.`a b`, \
                      properties.\"c d\" from events -- remark\n where {filters}",
            "filters": { "properties": [{ "key": "plan", "type": "feature", "value": ["x"] }] },
            "select": ["properties.amount -- Amount", "toFloat(properties.price) desc"],
        });
        let names = ReferencedNames::of(&query);
        let names: Vec<&str> = names.iter().collect();
        for name in
            ["$browser", "with 'quotes'", "a b", "c d", "plan", "$feature/plan", "amount", "price"]
        {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
    }
}
