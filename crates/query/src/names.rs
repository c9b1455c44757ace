//! Names that a question may use, so that only their definitions are read.

use std::collections::BTreeSet;

use serde_json::Value as Json;

/// Longer ones are never defined.
const NAME_BYTES_MAX: usize = 200;

/// More than are used, and never fewer: every text, and every word of what may be an expression.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    pub fn of(json: &Json) -> Self {
        let mut names = Self::default();
        names.add(json);
        names
    }

    pub fn add(&mut self, json: &Json) {
        match json {
            Json::String(text) => self.add_text(text),
            Json::Array(all) => all.iter().for_each(|one| self.add(one)),
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
            // How a filter of a flag names its property.
            self.insert(&format!("$feature/{text}"));
        }
        hogql::words(text).iter().for_each(|word| self.insert(word));
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
    fn every_way_to_write_a_property_is_among_the_names_of_a_question() {
        let query = json!({
            "kind": "HogQLQuery",
            "query": "select properties.$browser, properties['with \\'quotes\\''], person.properties.`a b`, \
                      properties.\"c d\" from events -- remark\n where {filters}",
            "filters": { "properties": [{ "key": "plan", "type": "feature", "value": ["x"] }] },
            "select": ["properties.amount -- Amount", "toFloat(properties.price) desc"],
        });
        let names = Names::of(&query);
        let found: Vec<&str> = names.iter().collect();
        for name in
            ["$browser", "with 'quotes'", "a b", "c d", "plan", "$feature/plan", "amount", "price"]
        {
            assert!(found.contains(&name), "{name} is not among {found:?}");
        }
    }
}
