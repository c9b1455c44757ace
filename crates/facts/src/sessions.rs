//! Sessions, as far as filters ask for them. Whoever counts reads them, and may be stopped.

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

/// What a session has in a field, by the session's id.
pub type SessionField = dyn Fn(&str) -> Option<SessionValue> + Send + Sync;

/// The fields that a question asks for.
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

/// Whether a session fits; events of none have no value.
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
