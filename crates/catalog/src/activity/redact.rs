//! What the log tells of objects that are hidden from its reader: not even their numbers.

use std::collections::{BTreeMap, BTreeSet};

use model::{ObjectKind, ProjectId, Sight, Sights};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::{Activity, Entry};
use crate::access::AccessControl;
use crate::{Error, Result};

/// Fields of changes that hold numbers of other objects.
const NUMBERS: &[(&str, ObjectKind)] = &[
    ("analytics_dashboards", ObjectKind::Dashboard),
    ("dashboard_id", ObjectKind::Dashboard),
    ("dashboard_item", ObjectKind::Insight),
    ("dashboards", ObjectKind::Dashboard),
    ("primary_dashboard", ObjectKind::Dashboard),
    ("tiles", ObjectKind::Insight),
    ("usage_dashboard", ObjectKind::Dashboard),
];

/// Everything else stays as it was written, however deep it is.
type Raw = BTreeMap<String, Box<RawValue>>;

/// A change, and the kind of object whose numbers it holds.
type Told = (Raw, Option<ObjectKind>);

fn corrupt(why: serde_json::Error) -> Error {
    Error::corrupt("detail", why)
}

fn raw(value: &impl Serialize) -> Result<Box<RawValue>> {
    to_raw_value(value).map_err(corrupt)
}

/// The detail of an entry, and its changes.
fn changes(entry: &Entry) -> Result<(Raw, Vec<Told>)> {
    let detail: Raw = serde_json::from_str(entry.detail.get()).map_err(corrupt)?;
    let listed = detail.get("changes").map_or("[]", |listed| listed.get());
    let listed: Vec<Raw> = serde_json::from_str(listed).map_err(corrupt)?;
    let kind = |change: &Raw| {
        let field: Option<String> = serde_json::from_str(change.get("field")?.get()).ok()?;
        let field = field?;
        NUMBERS.iter().find(|(name, _)| *name == field).map(|(_, kind)| *kind)
    };
    let told = listed.into_iter().map(|change| {
        let kind = kind(&change);
        (change, kind)
    });
    Ok((detail, told.collect()))
}

fn side(change: &Raw, name: &str) -> Value {
    change.get(name).and_then(|text| serde_json::from_str(text.get()).ok()).unwrap_or_default()
}

/// The object that a number, or a tile, stands for.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.get("insight")?.as_i64())
}

fn numbers(value: &Value) -> Vec<i64> {
    match value {
        Value::Array(all) => all.iter().filter_map(number).collect(),
        one => number(one).into_iter().collect(),
    }
}

fn without(value: Value, hidden: &BTreeSet<i64>) -> Value {
    let is_hidden = |value: &Value| number(value).is_some_and(|id| hidden.contains(&id));
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
    /// Takes the numbers of hidden objects out of entries.
    pub(crate) async fn redact(
        self,
        project: ProjectId,
        entries: &mut [Entry],
        seen: &Sights,
    ) -> Result<()> {
        for kind in [ObjectKind::Dashboard, ObjectKind::Insight] {
            if *seen.of(kind) == Sight::Everything {
                continue;
            }
            let mut named = BTreeSet::new();
            for entry in entries.iter() {
                for (change, of) in changes(entry)?.1 {
                    if of == Some(kind) {
                        named.extend(numbers(&side(&change, "before")));
                        named.extend(numbers(&side(&change, "after")));
                    }
                }
            }
            let named: Vec<i64> = named.into_iter().collect();
            let hidden = AccessControl::new(self.core).hidden(project, kind, &named, seen).await?;
            let hidden: BTreeSet<i64> = hidden.into_iter().collect();
            if hidden.is_empty() {
                continue;
            }
            for entry in entries.iter_mut() {
                let (mut detail, told) = changes(entry)?;
                let mut left = Vec::new();
                for (mut change, of) in told {
                    if of == Some(kind) {
                        let sides = ["before", "after"].map(|name| side(&change, name));
                        let [before, after] = sides.map(|side| without(side, &hidden));
                        if before == after {
                            continue;
                        }
                        change.insert("before".into(), raw(&before)?);
                        change.insert("after".into(), raw(&after)?);
                    }
                    left.push(change);
                }
                detail.insert("changes".into(), raw(&left)?);
                entry.detail = raw(&detail)?;
            }
        }
        Ok(())
    }
}
