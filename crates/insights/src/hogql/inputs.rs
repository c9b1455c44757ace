//! Inputs of expressions: columns of events and persons as Arrow arrays.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::types::UInt32Type;
use arrow_array::{
    ArrayRef, DictionaryArray, FixedSizeBinaryArray, StringArray, TimestampMicrosecondArray,
    UInt32Array,
};
use facts::{Groups, PersonIndex, ReadView};
use hashbrown::HashMap;
use hogql::plan::{Expr, ExprKind, Step};
use hogql::tables::LazyJoin;
use serde_json::Value as Json;
use warehouse::{ABSENT, Column, ColumnKey, Value};

use super::invalid;
use crate::Result;
use crate::columns::EventColumns;

/// The inputs of one expression, and the columns that a scan must read for them.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    sources: Vec<InputSource>,
    keys: Vec<ColumnKey>,
    persons: Option<Arc<PersonIndex>>,
    unknown: Option<&'static str>,
}

/// Where an input comes from.
#[derive(Clone, Debug)]
enum InputSource {
    Timestamp,
    /// A column, by its index among the keys.
    Text {
        key: usize,
        of: StringSource,
    },
    Person(Arc<Column>, Vec<Step>),
    PersonId,
    PersonCreatedAt,
}

/// How a column's value becomes a string.
#[derive(Clone, Debug)]
enum StringSource {
    /// The value itself, never null: an absent one is the empty string.
    Itself,
    Property(Vec<Step>),
    Group(Arc<Groups>, usize, Vec<Step>),
}

impl Inputs {
    pub fn keys(&self) -> &[ColumnKey] {
        &self.keys
    }

    /// The first column in the expression that events do not have.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }

    fn key(&mut self, key: ColumnKey) -> usize {
        self.keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    /// Index of the input for a column expression; none if events have no such column.
    pub fn find(&mut self, expr: &Expr, view: &ReadView) -> Option<usize> {
        let source = self.source(expr, view)?;
        self.persons.get_or_insert_with(|| view.persons.clone());
        self.sources.push(source);
        Some(self.sources.len() - 1)
    }

    fn source(&mut self, expr: &Expr, view: &ReadView) -> Option<InputSource> {
        let (column, path) = match &expr.kind {
            ExprKind::Property { of, path } => (&of.kind, path.as_slice()),
            column => (column, &[][..]),
        };
        let ExprKind::Column { via, name, .. } = column else { return None };
        let name = *name;
        // An event has exactly one distinct id, so a join through it changes nothing.
        let via: Vec<LazyJoin> =
            via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect();
        let group = name.strip_prefix("$group_").and_then(|index| index.parse().ok());
        let plain = |key: usize| Some(InputSource::Text { key, of: StringSource::Itself });
        let input_source = match (via.as_slice(), name, path) {
            ([], "timestamp", []) => Some(InputSource::Timestamp),
            ([], "event", []) => plain(self.key(ColumnKey::Event)),
            ([], "distinct_id", []) => plain(self.key(ColumnKey::DistinctId)),
            ([], "elements_chain", []) => plain(self.key(ColumnKey::ElementsChain)),
            ([], "$session_id" | "$window_id", []) => {
                let key = self.key(ColumnKey::Property(name.to_owned()));
                Some(InputSource::Text { key, of: StringSource::Property(Vec::new()) })
            }
            ([], "properties", [Step::Key(first), rest @ ..]) => {
                let key = self.key(ColumnKey::Property(first.clone()));
                Some(InputSource::Text { key, of: StringSource::Property(rest.to_vec()) })
            }
            ([], _, []) if group.is_some() => {
                group.and_then(|index| plain(self.key(ColumnKey::Group(index))))
            }
            ([LazyJoin::Group(index)], "properties", path @ [Step::Key(_), ..]) => {
                let index = usize::from(*index);
                let key = self.key(ColumnKey::Group(index));
                let of = StringSource::Group(view.groups.clone(), index, path.to_vec());
                Some(InputSource::Text { key, of })
            }
            ([LazyJoin::Person], "properties", [Step::Key(first), rest @ ..]) => {
                Some(InputSource::Person(view.persons.column(first), rest.to_vec()))
            }
            ([], "person_id", []) | ([LazyJoin::Person], "id", []) => Some(InputSource::PersonId),
            ([LazyJoin::Person], "created_at", []) => Some(InputSource::PersonCreatedAt),
            _ => None,
        };
        // If a property path is unsupported, the caller may still read the whole column.
        if input_source.is_none() && path.is_empty() {
            self.unknown.get_or_insert(name);
        }
        input_source
    }

    pub fn arrays(&self, events: EventColumns<'_>) -> Result<Vec<ArrayRef>> {
        self.sources.iter().map(|source| self.array(source, events)).collect()
    }

    fn array(&self, source: &InputSource, events: EventColumns<'_>) -> Result<ArrayRef> {
        let actors = || {
            let persons = self.persons.as_deref();
            let actor = move |no: &u32| persons.map_or(0, |persons| persons.actor(*no));
            events.distinct_nos.iter().map(actor)
        };
        Ok(match source {
            InputSource::Timestamp => {
                let times = events.times.iter().copied();
                Arc::new(TimestampMicrosecondArray::from_iter_values(times))
            }
            InputSource::Text { key, of } => texts(&events.columns[*key], of)?,
            InputSource::Person(persons, path) => {
                let code =
                    |actor: u32| persons.codes.get(actor as usize).copied().unwrap_or(ABSENT);
                let codes = actors().map(code).collect();
                let column = Column { codes, dictionary: persons.dictionary.clone() };
                texts(&column, &StringSource::Property(path.clone()))?
            }
            InputSource::PersonId => {
                let persons = self.persons.as_deref();
                let uuid = |actor: u32| {
                    persons.map(|persons| persons.uuid(actor)).unwrap_or_default().into_bytes()
                };
                let uuids = actors().map(uuid);
                Arc::new(FixedSizeBinaryArray::try_from_iter(uuids).map_err(invalid)?)
            }
            InputSource::PersonCreatedAt => {
                let persons = self.persons.as_deref();
                let time = |actor: u32| Some(persons?.person(actor)?.created_at.as_micros());
                Arc::new(actors().map(time).collect::<TimestampMicrosecondArray>())
            }
        })
    }
}

/// A dictionary array of the entries that rows use; each entry is converted once.
fn texts(column: &Column, of: &StringSource) -> Result<ArrayRef> {
    let mut indexes: HashMap<u32, Option<u32>> = HashMap::new();
    let mut texts: Vec<String> = Vec::new();
    let or_empty = matches!(of, StringSource::Itself);
    let index = |code: &u32| {
        *indexes.entry(*code).or_insert_with(|| {
            let value = (*code != ABSENT).then(|| column.dictionary.get(*code));
            let text = value.and_then(|value| read(value, of));
            let text = if or_empty { Some(text.unwrap_or_default()) } else { text };
            text.map(|text| {
                texts.push(text.into_owned());
                texts.len() as u32 - 1
            })
        })
    };
    let keys: UInt32Array = column.codes.iter().map(index).collect();
    let values = Arc::new(StringArray::from(texts));
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, values).map_err(invalid)?))
}

fn read<'a>(value: Value<'a>, of: &StringSource) -> Option<Cow<'a, str>> {
    match of {
        StringSource::Itself => crate::columns::text(value).map(Cow::Borrowed),
        StringSource::Property(path) if path.is_empty() => {
            crate::columns::text(value).map(Cow::Borrowed)
        }
        StringSource::Property(path) if path == &[Step::JsonType] => value_type(value),
        StringSource::Property(path) => {
            let Value::Json(json) = value else { return None };
            let json: Json = serde_json::from_str(json).ok()?;
            json_text(walk(&json, path)?).map(Cow::Owned)
        }
        StringSource::Group(groups, index, path) => {
            let key = crate::columns::text(value)?;
            let (Step::Key(first), rest) = path.split_first()? else { return None };
            match (groups.get(*index, key)?.property(first)?, rest) {
                (Json::Null, _) => None,
                (value, [Step::JsonType]) => Some(eval::json_type(&value.to_string()).into()),
                (value, rest) => json_text(walk(&value, rest)?).map(Cow::Owned),
            }
        }
    }
}

fn value_type(value: Value<'_>) -> Option<Cow<'static, str>> {
    match value {
        Value::Null => None,
        Value::Bool(_) => Some("Bool".into()),
        Value::Text(_) => Some("String".into()),
        Value::Number(json) | Value::Json(json) => Some(eval::json_type(json).into()),
    }
}

/// Follows a path into JSON. Array indexes count from 1.
fn walk<'a>(json: &'a Json, path: &[Step]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, step| match step {
        Step::Key(key) => json.get(key),
        Step::Index(index) => json.get(usize::try_from(index.checked_sub(1)?).ok()?),
        Step::JsonType => None,
    })
}

fn json_text(json: &Json) -> Option<String> {
    match json {
        Json::Null => None,
        Json::String(text) => (!text.is_empty()).then(|| text.clone()),
        other => Some(other.to_string()),
    }
}
