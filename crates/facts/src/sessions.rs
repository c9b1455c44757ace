//! Session fields for filters. The engine that runs the query computes them, since that scans events
//! and must observe the query's limits.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use warehouse::Value;

use crate::matcher::Matcher;

#[derive(Clone, Debug, PartialEq)]
pub enum SessionValue {
    Text(String),
    Number(f64),
    Bool(bool),
}

/// Looks up a field by session id.
pub type SessionField = dyn Fn(&str) -> Option<SessionValue> + Send + Sync;

/// The session fields that a query references.
#[derive(Clone, Default)]
pub struct SessionFacts(HashMap<String, Arc<SessionField>>);

impl SessionFacts {
    pub fn insert(&mut self, name: &str, field: Arc<SessionField>) {
        self.0.insert(name.to_owned(), field);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<SessionField>> {
        self.0.get(name).cloned()
    }
}

impl fmt::Debug for SessionFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Whether the session of an event matches. An event without a session has no value.
pub(crate) fn accepts(matcher: &Matcher, field: &SessionField, id: Option<Value<'_>>) -> bool {
    let id = match id {
        Some(Value::Text(id) | Value::Number(id)) if !id.is_empty() => id,
        _ => return matcher.accepts(None),
    };
    match field(id) {
        None => matcher.accepts(None),
        Some(SessionValue::Bool(truth)) => matcher.accepts(Some(Value::Bool(truth))),
        Some(SessionValue::Text(text)) => matcher.accepts(Some(Value::Text(&text))),
        Some(SessionValue::Number(number)) => {
            matcher.accepts(Some(Value::Number(&number.to_string())))
        }
    }
}
