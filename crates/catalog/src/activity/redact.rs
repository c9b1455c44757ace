//! Removes the ids of objects that are hidden from the reader from log entries.

use std::collections::{BTreeMap, BTreeSet};

use model::{ObjectKind, ProjectId, ProjectSettings, Visibilities, Visibility};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{Activity, Entry};
use crate::access::AccessControl;
use crate::{Error, Result};

/// Fields whose values are ids of other objects, and the kind of these.
const ID_FIELDS: &[(&str, ObjectKind)] = &[
    ("analytics_dashboards", ObjectKind::Dashboard),
    ("dashboard_id", ObjectKind::Dashboard),
    ("dashboard_item", ObjectKind::Insight),
    ("dashboards", ObjectKind::Dashboard),
    (ProjectSettings::PRIMARY_DASHBOARD, ObjectKind::Dashboard),
    ("tiles", ObjectKind::Insight),
    ("usage_dashboard", ObjectKind::Dashboard),
];

/// A JSON object whose members stay verbatim unless they are redacted.
type RawObject = BTreeMap<String, Box<RawValue>>;

/// A change, and the kind of object whose ids it contains.
type ParsedChange = (RawObject, Option<ObjectKind>);

fn corrupt(why: serde_json::Error) -> Error {
    Error::corrupt("detail", why)
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>> {
    to_raw_value(value).map_err(corrupt)
}

/// An entry's detail, and its changes.
fn changes(entry: &Entry) -> Result<(RawObject, Vec<ParsedChange>)> {
    let detail: RawObject = serde_json::from_str(entry.detail.get()).map_err(corrupt)?;
    let listed = detail.get("changes").map_or("[]", |listed| listed.get());
    let listed: Vec<RawObject> = serde_json::from_str(listed).map_err(corrupt)?;
    let kind = |change: &RawObject| {
        let field: Option<String> = serde_json::from_str(change.get("field")?.get()).ok()?;
        let field = field?;
        ID_FIELDS.iter().find(|(name, _)| *name == field).map(|(_, kind)| *kind)
    };
    let changes_of_entry = listed.into_iter().map(|change| {
        let kind = kind(&change);
        (change, kind)
    });
    Ok((detail, changes_of_entry.collect()))
}

fn side(change: &RawObject, name: &str) -> Value {
    change.get(name).and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
}

/// The id of the object that a value refers to: the value itself, or a tile's insight.
fn object_id(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.get("insight")?.as_i64())
}

fn object_ids(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(all) => all.iter().filter_map(object_id).collect(),
        one => object_id(one).into_iter().collect(),
    }
}

fn without(value: Value, hidden: &BTreeSet<i64>) -> Value {
    let is_hidden = |value: &Value| object_id(value).is_some_and(|id| hidden.contains(&id));
    match value {
        Value::Array(mut all) => {
            all.retain(|one| !is_hidden(one));
            Value::Array(all)
        }
        one if is_hidden(&one) => Value::Null,
        one => one,
    }
}

impl Activity<'_> {
    /// Removes ids of hidden objects from the entries, and changes that consist only of them.
    pub(crate) async fn redact(
        self,
        project: ProjectId,
        entries: &mut [Entry],
        visibility: &Visibilities,
    ) -> Result<()> {
        for kind in [ObjectKind::Dashboard, ObjectKind::Insight] {
            if *visibility.of(kind) == Visibility::Everything {
                continue;
            }
            let mut referenced = BTreeSet::new();
            for entry in entries.iter() {
                for (change, kind_of_ids) in changes(entry)?.1 {
                    if kind_of_ids == Some(kind) {
                        referenced.extend(object_ids(&side(&change, "before")));
                        referenced.extend(object_ids(&side(&change, "after")));
                    }
                }
            }
            let referenced: Vec<i64> = referenced.into_iter().collect();
            let hidden = AccessControl::new(self.core)
                .hidden(project, kind, &referenced, visibility)
                .await?;
            let hidden: BTreeSet<i64> = hidden.into_iter().collect();
            if hidden.is_empty() {
                continue;
            }
            for entry in entries.iter_mut() {
                let (mut detail, changes_of_entry) = changes(entry)?;
                let mut visible_changes = Vec::new();
                for (mut change, kind_of_ids) in changes_of_entry {
                    if kind_of_ids == Some(kind) {
                        let sides = ["before", "after"].map(|name| side(&change, name));
                        let [before, after] = sides.map(|side| without(side, &hidden));
                        if before == after {
                            continue;
                        }
                        change.insert("before".into(), raw(&before)?);
                        change.insert("after".into(), raw(&after)?);
                    }
                    visible_changes.push(change);
                }
                detail.insert("changes".into(), raw(&visible_changes)?);
                entry.detail = raw(&detail)?;
            }
        }
        Ok(())
    }
}
