//! Optimistic concurrency of flag edits: detects fields that two users changed differently.

use serde_json::{Map, Value};

/// The flag as the client loaded it, before its edit.
#[derive(Clone, Debug)]
pub struct Original(pub Map<String, Value>);

/// A field that both users changed, to different values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub field: String,
}

impl Original {
    /// Whether the edit leaves a field as the client loaded it.
    pub fn is_unchanged(&self, field: &str, sent: &Value) -> bool {
        self.0.get(field) == Some(sent)
    }

    /// The first field that the edit changes and that changed to another value in the meantime.
    pub fn conflict(
        &self,
        sent: &Map<String, Value>,
        stored: &Map<String, Value>,
    ) -> Option<Conflict> {
        let clashes = |(field, value): &(&String, &Value)| {
            let (Some(loaded), Some(current)) = (self.0.get(*field), stored.get(*field)) else {
                return false;
            };
            *value != loaded && current != loaded && current != *value
        };
        sent.iter().find(clashes).map(|(field, _)| Conflict { field: field.clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conflict_is_a_field_that_both_edits_changed_differently() {
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
