//! Group types. PostHog and Hedgerow create them from events, so the copy sends one for a group that
//! exists at the source.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Result;
use crate::bodies;
use crate::copier::Copier;
use crate::kind::{Key, Kind};
use crate::ledger::fingerprint;
use crate::report::Outcome;
use crate::site::{Content, Method, Site};

/// How long an event may take until its group type is listed.
const INGESTION_TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(200);

impl Copier<'_> {
    pub fn groups(&mut self, types: &[Value]) -> Result<()> {
        let mut types: Vec<(u64, &str, &Value)> = types
            .iter()
            .filter_map(|kind| {
                let index = kind.get("group_type_index")?.as_u64()?;
                Some((index, kind.get("group_type")?.as_str()?, kind))
            })
            .collect();
        // In the source's order, so that a new project has the same indexes.
        types.sort_by_key(|(index, ..)| *index);
        for (index, name, kind) in types {
            let key = Key::new(Kind::GroupType, index.to_string());
            match self.group_type(&key, name, kind) {
                Ok(Ok(outcome)) => self.report.count(Kind::GroupType, outcome),
                Ok(Err(why)) => self.report.leave(&key, name, why),
                Err(why) => self.report.leave(&key, name, why.refusal()?),
            }
        }
        Ok(())
    }

    fn group_type(
        &mut self,
        key: &Key,
        name: &str,
        kind: &Value,
    ) -> Result<std::result::Result<Outcome, String>> {
        let mut outcome = Outcome::Unchanged;
        let here = match self.group_index(name)? {
            Some(here) => here,
            None => {
                let Some(group) = self.first_group(&key.id)? else {
                    return Ok(Err("it has no groups; it appears here with its first one".into()));
                };
                self.identify(name, &group)?;
                let Some(here) = self.await_group_type(name)? else {
                    return Ok(Err("it did not appear here in time".into()));
                };
                outcome = Outcome::Created;
                here
            }
        };
        self.group_indexes.insert(key.id.clone(), here.to_string());
        let mut names = match bodies::body(Kind::GroupType, kind) {
            Ok(names) if !names.is_empty() => names,
            _ => return Ok(Ok(outcome)),
        };
        let print = fingerprint(&Value::Object(names.clone()));
        if self.ledger.entry(key).is_some_and(|entry| entry.fingerprint == print) {
            return Ok(Ok(outcome));
        }
        names.insert("group_type_index".into(), here.into());
        let path = self.path("groups_types", "update_metadata");
        self.target.send(Method::Patch, &path, Content::Json(&json!([names])))?;
        self.ledger.created(key, &here.to_string(), &print)?;
        Ok(Ok(if outcome == Outcome::Created { outcome } else { Outcome::Updated }))
    }

    /// The index here.
    fn group_index(&self, name: &str) -> Result<Option<u64>> {
        let types = self.target.list(&self.path("groups_types", ""), Some, |_| {})?;
        let found = types.iter().find(|kind| kind.get("group_type").is_some_and(|it| it == name));
        Ok(found.and_then(|kind| kind.get("group_type_index")?.as_u64()))
    }

    fn first_group(&self, index: &str) -> Result<Option<Value>> {
        let path = format!("/api/projects/{}/groups/?group_type_index={index}", self.from);
        let page = self.source.get(&path)?;
        Ok(page.get("results").and_then(|groups| groups.get(0)).cloned())
    }

    fn identify(&self, name: &str, group: &Value) -> Result<()> {
        let group_key = group.get("group_key").cloned().unwrap_or_default();
        // The same event again is a duplicate, which ingestion drops.
        let uuid = uuid(&json!(["group", name, group_key]));
        // The distinct id is the one that the SDKs give to such events.
        let event = json!({
            "api_key": self.token, "event": "$groupidentify", "uuid": uuid,
            "distinct_id": format!("${name}_{}", group_key.as_str().unwrap_or_default()),
            "properties": {
                "$group_type": name, "$group_key": group_key,
                "$group_set": group.get("group_properties"),
            },
        });
        let capture = Site::new(self.target.base(), None, self.progress)?;
        // A repetition changes nothing.
        for _ in 0..2 {
            match capture.send(Method::Post, "/capture/", Content::Json(&event)) {
                Err(crate::Error::Lost { .. }) => {}
                other => return other.map(drop),
            }
        }
        capture.send(Method::Post, "/capture/", Content::Json(&event)).map(drop)
    }

    fn await_group_type(&self, name: &str) -> Result<Option<u64>> {
        let started = Instant::now();
        while started.elapsed() < INGESTION_TIMEOUT {
            if let Some(here) = self.group_index(name)? {
                return Ok(Some(here));
            }
            thread::sleep(POLL);
        }
        Ok(None)
    }
}

/// A uuid that depends on `name` only, of version 8 (RFC 9562).
fn uuid(name: &Value) -> String {
    let hash = fingerprint(name);
    format!("{}-{}-8{}-8{}-{}", &hash[..8], &hash[8..12], &hash[13..16], &hash[17..20], &hash[20..])
}
