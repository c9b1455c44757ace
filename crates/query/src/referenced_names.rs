//! Property names that a query may reference, so that only their definitions are loaded.

use std::collections::BTreeSet;

use serde_json::Value as Json;

/// No property with a longer name is ever defined.
const NAME_BYTES_MAX: usize = 200;

/// A superset of the names that the query uses: every string, and every identifier and string
/// literal of what may be an expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferencedNames(BTreeSet<String>);

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
    }

    fn insert(&mut self, name: &str) {
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX && !self.0.contains(name) {
            self.0.insert(name.to_owned());
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
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
