//! Definitions of events and properties: what people wrote about them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::bodies;
use crate::copier::Copier;
use crate::kind::{Key, Kind};
use crate::ledger::fingerprint;
use crate::report::Outcome;
use crate::site::{Content, Method};
use crate::source::{Lists, PropertyList, id, list_path, trimmed};
use crate::twins::is_default;
use crate::{Error, Result};

/// Definitions between two lines of progress.
const PROGRESS_EVERY: usize = 100;

/// Definitions here, by name.
type Existing = HashMap<String, Value>;

impl Copier<'_> {
    pub fn definitions(&mut self, lists: &Lists) -> Result<()> {
        self.event_definitions(&lists.event_definitions)?;
        let mut wanted: BTreeMap<&PropertyList, Vec<&Value>> = BTreeMap::new();
        for property in &lists.property_definitions {
            wanted.entry(&property.list).or_default().push(&property.definition);
        }
        for (list, definitions) in wanted {
            self.property_definitions(list, &definitions)?;
        }
        Ok(())
    }

    fn event_definitions(&mut self, definitions: &[Value]) -> Result<()> {
        let existing = match self.existing_definitions(Kind::EventDefinition, "") {
            Ok(existing) => existing,
            Err(why) => {
                self.report.leave_all(Kind::EventDefinition, why.refusal()?);
                return Ok(());
            }
        };
        for (done, definition) in definitions.iter().enumerate() {
            if done % PROGRESS_EVERY == 0 {
                let all = definitions.len();
                (self.progress)(&format!("writing event definitions: {done} of {all}"));
            }
            let Some(name) = definition.get("name").and_then(Value::as_str) else { continue };
            let key = Key::new(Kind::EventDefinition, name);
            let written = match existing.get(name) {
                Some(here) => self.describe(&key, definition, here),
                None => self.define(&key, definition),
            };
            self.conclude(&key, name, written)?;
        }
        Ok(())
    }

    /// Properties are defined by the events that have them.
    fn property_definitions(&mut self, list: &PropertyList, definitions: &[&Value]) -> Result<()> {
        let here = match list {
            PropertyList::Group(index) => match self.group_indexes.get(index) {
                Some(here) => PropertyList::Group(here.clone()),
                // Its group type was left out, and is reported.
                None => return Ok(()),
            },
            other => other.clone(),
        };
        let existing = match self.existing_definitions(Kind::PropertyDefinition, &here.query()) {
            Ok(existing) => existing,
            Err(why) => {
                self.report.leave_all(Kind::PropertyDefinition, why.refusal()?);
                return Ok(());
            }
        };
        for definition in definitions {
            let Some(name) = definition.get("name").and_then(Value::as_str) else { continue };
            let key = Key::new(Kind::PropertyDefinition, format!("{}/{name}", list.query()));
            match existing.get(name) {
                Some(here) => {
                    let written = self.describe(&key, definition, here);
                    self.conclude(&key, name, written)?;
                }
                None => {
                    let mut told = said(Kind::PropertyDefinition, definition);
                    // Types are found out again.
                    told.remove("property_type");
                    if !told.is_empty() {
                        let why = "nothing that was ingested here has it yet; import the events, \
                                   then copy again";
                        self.report.leave(&key, name, why);
                    }
                }
            }
        }
        Ok(())
    }

    fn existing_definitions(&self, kind: Kind, query: &str) -> Result<Existing> {
        let path = list_path(self.to, kind.collection(), query);
        let found = self.target.list(&path, |found| Some(trimmed(kind, found)), |_| {})?;
        let named =
            |definition: Value| Some((definition.get("name")?.as_str()?.to_owned(), definition));
        Ok(found.into_iter().filter_map(named).collect())
    }

    fn define(&mut self, key: &Key, definition: &Value) -> Result<Outcome> {
        let mut body = said(key.kind, definition);
        let print = fingerprint(&Value::Object(body.clone()));
        body.insert("name".into(), key.id.as_str().into());
        let body = Value::Object(body);
        let path = self.path(key.kind.collection(), "");
        let created = match self.target.send(Method::Post, &path, Content::Json(&body)) {
            Err(Error::Lost { .. }) => {
                let existing = self.existing_definitions(key.kind, "")?;
                match existing.get(&key.id) {
                    Some(here) => here.clone(),
                    None => self.target.send(Method::Post, &path, Content::Json(&body))?,
                }
            }
            other => other?,
        };
        self.ledger.created(key, &id(&created), &print)?;
        Ok(Outcome::Created)
    }

    fn describe(&mut self, key: &Key, definition: &Value, here: &Value) -> Result<Outcome> {
        let body = said(key.kind, definition);
        let print = fingerprint(&Value::Object(body.clone()));
        let is_known = self.ledger.entry(key).is_some_and(|entry| entry.fingerprint == print);
        let names: BTreeSet<&String> = body.keys().collect();
        let is_equal = names.iter().all(|name| here.get(name.as_str()) == body.get(name.as_str()));
        if is_known || is_equal {
            self.ledger.created(key, &id(here), &print)?;
            return Ok(Outcome::Unchanged);
        }
        let path = self.path(key.kind.collection(), &id(here));
        self.target.send(Method::Patch, &path, Content::Json(&body.into()))?;
        self.ledger.created(key, &id(here), &print)?;
        Ok(Outcome::Updated)
    }

    fn conclude(&mut self, key: &Key, name: &str, written: Result<Outcome>) -> Result<()> {
        match written {
            Ok(outcome) => self.report.count(key.kind, outcome),
            Err(why) => self.report.leave(key, name, why.refusal()?),
        }
        Ok(())
    }
}

/// What the definition says beyond its name.
fn said(kind: Kind, definition: &Value) -> Map<String, Value> {
    let mut said = bodies::body(kind, definition).unwrap_or_default();
    said.retain(|name, value| name != "name" && !is_default(value));
    if said.get("enforcement_mode").is_some_and(|mode| mode == "allow") {
        said.remove("enforcement_mode");
    }
    said
}
