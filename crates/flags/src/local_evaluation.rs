//! Flag definitions for local evaluation in SDKs.

use model::flag::FlagDefinition;
use model::flag::filters::{flag_id, is_of, properties_mut};
use serde_json::{Value, json};

use crate::FlagSet;

impl FlagSet {
    /// Replaces dependency ids by keys and adds `dependency_chain`, the evaluation order. An empty
    /// chain tells the SDK that it cannot evaluate the flag.
    pub fn for_local_evaluation(&self, definition: &FlagDefinition) -> FlagDefinition {
        let mut local = definition.clone();
        let conditions = properties_mut(&mut local.filters);
        for property in conditions.filter(|property| is_of(property, "flag")) {
            let Some(id) = property.get("key").and_then(flag_id) else { continue };
            if let Some(flag) = self.flags().iter().find(|flag| flag.id == id) {
                property.insert("key".into(), Value::String(flag.key.clone()));
            }
            property.insert("dependency_chain".into(), json!(self.chain(id)));
        }
        local
    }
}
