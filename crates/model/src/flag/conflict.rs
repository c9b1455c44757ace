//! Two people changing one flag: whether the later change still means what its author saw.

use serde_json::{Map, Value};

/// A client's copy of a flag before it was edited.
#[derive(Clone, Debug)]
pub struct Original(pub Map<String, Value>);

/// A field that both changed, to different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub field: String,
}

impl Original {
    /// Whether the author left a field as they saw it.
    pub fn is_unchanged(&self, field: &str, sent: &Value) -> bool {
        self.0.get(field) == Some(sent)
    }

    /// The first field that the author changed and that has since become something else.
    pub fn conflict(
        &self,
        sent: &Map<String, Value>,
        stored: &Map<String, Value>,
    ) -> Option<Conflict> {
        let clashes = |(field, value): &(&String, &Value)| {
            let (Some(seen), Some(now)) = (self.0.get(*field), stored.get(*field)) else {
                return false;
            };
            *value != seen && now != seen && now != *value
        };
        sent.iter().find(clashes).map(|(field, _)| Conflict { field: field.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_field_that_both_changed_differently_conflicts() {
        let map = |value: Value| value.as_object().unwrap().clone();
        let original = Original(map(json!({"name": "old", "active": true})));
        for (sent, stored, conflict) in [
            (json!({"name": "mine"}), json!({"name": "theirs"}), Some("name")),
            (json!({"name": "mine"}), json!({"name": "mine"}), None),
            (json!({"name": "mine"}), json!({"name": "old", "active": false}), None),
            (json!({"name": "old"}), json!({"name": "theirs"}), None),
            (json!({"other": 1}), json!({"other": 2}), None),
        ] {
            let found = original.conflict(&map(sent.clone()), &map(stored.clone()));
            let found = found.map(|conflict| conflict.field);
            assert_eq!(found.as_deref(), conflict, "{sent} over {stored}");
        }
    }
}
