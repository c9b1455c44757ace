//! What expressions take from events, as arrays.

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
use warehouse::{ABSENT, Column, Key, Value};

use super::{Seen, refused};
use crate::Result;

#[derive(Debug, Default)]
pub(super) struct Inputs {
    gets: Vec<Get>,
    keys: Vec<Key>,
    persons: Option<Arc<PersonIndex>>,
    unknown: Option<&'static str>,
}

/// Where an input comes from.
#[derive(Clone, Debug)]
enum Get {
    Timestamp,
    /// A column by its place among the keys.
    Text {
        key: usize,
        of: Of,
    },
    Person(Arc<Column>, Vec<Step>),
    PersonId,
    PersonCreatedAt,
}

/// What of an entry is the text.
#[derive(Clone, Debug)]
enum Of {
    /// Never null: what is missing is empty.
    Itself,
    Property(Vec<Step>),
    Group(Arc<Groups>, usize, Vec<Step>),
}

impl Inputs {
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The first column that was asked for and is not there.
    pub fn unknown(&self) -> Option<&'static str> {
        self.unknown
    }

    fn key(&mut self, key: Key) -> usize {
        self.keys.iter().position(|own| *own == key).unwrap_or_else(|| {
            self.keys.push(key);
            self.keys.len() - 1
        })
    }

    /// The number of the input that holds what an expression is.
    pub fn find(&mut self, expr: &Expr, view: &ReadView) -> Option<usize> {
        let get = self.get(expr, view)?;
        self.persons.get_or_insert_with(|| view.persons.clone());
        self.gets.push(get);
        Some(self.gets.len() - 1)
    }

    fn get(&mut self, expr: &Expr, view: &ReadView) -> Option<Get> {
        let (column, path) = match &expr.kind {
            ExprKind::Property { of, path } => (&of.kind, path.as_slice()),
            own => (own, &[][..]),
        };
        let ExprKind::Column { via, name, .. } = column else { return None };
        let name = *name;
        // An event has one distinct id, so what lies behind it is the event's own.
        let via: Vec<LazyJoin> =
            via.iter().copied().filter(|link| *link != LazyJoin::DistinctId).collect();
        let group = name.strip_prefix("$group_").and_then(|index| index.parse().ok());
        let plain = |key: usize| Some(Get::Text { key, of: Of::Itself });
        let found = match (via.as_slice(), name, path) {
            ([], "timestamp", []) => Some(Get::Timestamp),
            ([], "event", []) => plain(self.key(Key::Event)),
            ([], "distinct_id", []) => plain(self.key(Key::DistinctId)),
            ([], "elements_chain", []) => plain(self.key(Key::ElementsChain)),
            ([], "$session_id" | "$window_id", []) => {
                let key = self.key(Key::Property(name.to_owned()));
                Some(Get::Text { key, of: Of::Property(Vec::new()) })
            }
            ([], "properties", [Step::Key(first), rest @ ..]) => {
                let key = self.key(Key::Property(first.clone()));
                Some(Get::Text { key, of: Of::Property(rest.to_vec()) })
            }
            ([], _, []) if group.is_some() => {
                group.and_then(|index| plain(self.key(Key::Group(index))))
            }
            ([LazyJoin::Group(index)], "properties", path @ [Step::Key(_), ..]) => {
                let index = usize::from(*index);
                let key = self.key(Key::Group(index));
                let of = Of::Group(view.groups.clone(), index, path.to_vec());
                Some(Get::Text { key, of })
            }
            ([LazyJoin::Person], "properties", [Step::Key(first), rest @ ..]) => {
                Some(Get::Person(view.persons.column(first), rest.to_vec()))
            }
            ([], "person_id", []) | ([LazyJoin::Person], "id", []) => Some(Get::PersonId),
            ([LazyJoin::Person], "created_at", []) => Some(Get::PersonCreatedAt),
            _ => None,
        };
        // A property that is not known may still be read out of its column.
        if found.is_none() && path.is_empty() {
            self.unknown.get_or_insert(name);
        }
        found
    }

    pub fn arrays(&self, seen: Seen<'_>) -> Result<Vec<ArrayRef>> {
        self.gets.iter().map(|get| self.array(get, seen)).collect()
    }

    fn array(&self, get: &Get, seen: Seen<'_>) -> Result<ArrayRef> {
        let actors = || {
            let persons = self.persons.as_deref();
            let actor = move |no: &u32| persons.map_or(0, |persons| persons.actor(*no));
            seen.distinct_nos.iter().map(actor)
        };
        Ok(match get {
            Get::Timestamp => {
                let times = seen.times.iter().copied();
                Arc::new(TimestampMicrosecondArray::from_iter_values(times))
            }
            Get::Text { key, of } => texts(&seen.columns[*key], of)?,
            Get::Person(persons, path) => {
                let code =
                    |actor: u32| persons.codes.get(actor as usize).copied().unwrap_or(ABSENT);
                let codes = actors().map(code).collect();
                let column = Column { codes, dictionary: persons.dictionary.clone() };
                texts(&column, &Of::Property(path.clone()))?
            }
            Get::PersonId => {
                let persons = self.persons.as_deref();
                let uuid = |actor: u32| {
                    persons.map(|persons| persons.uuid(actor)).unwrap_or_default().into_bytes()
                };
                let uuids = actors().map(uuid);
                Arc::new(FixedSizeBinaryArray::try_from_iter(uuids).map_err(refused)?)
            }
            Get::PersonCreatedAt => {
                let persons = self.persons.as_deref();
                let time = |actor: u32| Some(persons?.person(actor)?.created_at.as_micros());
                Arc::new(actors().map(time).collect::<TimestampMicrosecondArray>())
            }
        })
    }
}

/// The entries that rows use, each read once.
fn texts(column: &Column, of: &Of) -> Result<ArrayRef> {
    let mut places: HashMap<u32, Option<u32>> = HashMap::new();
    let mut texts: Vec<String> = Vec::new();
    let or_empty = matches!(of, Of::Itself);
    let place = |code: &u32| {
        *places.entry(*code).or_insert_with(|| {
            let value = (*code != ABSENT).then(|| column.dictionary.get(*code));
            let text = value.and_then(|value| read(value, of));
            let text = if or_empty { Some(text.unwrap_or_default()) } else { text };
            text.map(|text| {
                texts.push(text.into_owned());
                texts.len() as u32 - 1
            })
        })
    };
    let keys: UInt32Array = column.codes.iter().map(place).collect();
    let values = Arc::new(StringArray::from(texts));
    Ok(Arc::new(DictionaryArray::<UInt32Type>::try_new(keys, values).map_err(refused)?))
}

fn read<'a>(value: Value<'a>, of: &Of) -> Option<Cow<'a, str>> {
    match of {
        Of::Itself => crate::scan::text(value).map(Cow::Borrowed),
        Of::Property(path) if path.is_empty() => crate::scan::text(value).map(Cow::Borrowed),
        Of::Property(path) => {
            let Value::Json(json) = value else { return None };
            let json: Json = serde_json::from_str(json).ok()?;
            shown(walk(&json, path)?).map(Cow::Owned)
        }
        Of::Group(groups, index, path) => {
            let key = crate::scan::text(value)?;
            let (Step::Key(first), rest) = path.split_first()? else { return None };
            let property = groups.get(*index, key)?.properties.get(first)?;
            shown(walk(property, rest)?).map(Cow::Owned)
        }
    }
}

fn walk<'a>(json: &'a Json, path: &[Step]) -> Option<&'a Json> {
    path.iter().try_fold(json, |json, step| match step {
        Step::Key(key) => json.get(key),
        Step::Index(index) => json.get(usize::try_from(index.checked_sub(1)?).ok()?),
    })
}

fn shown(json: &Json) -> Option<String> {
    match json {
        Json::Null => None,
        Json::String(text) => (!text.is_empty()).then(|| text.clone()),
        other => Some(other.to_string()),
    }
}
