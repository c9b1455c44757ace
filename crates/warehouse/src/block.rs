//! Rows in memory, already in columns: what was appended and not yet flushed.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::dictionary::{ABSENT, Column};
use crate::fields::{Field, Number, PROPERTY_COLUMNS_MAX};
use crate::json::{self, ObjectWriter};
use crate::open::Open;
use crate::row::{EventRow, GROUP_TYPES, NewRow, Property};
use crate::value::Value;

/// A full block is never changed again. Small enough that copying the open one for a reader costs
/// less than a millisecond, large enough that dictionaries pay.
pub(crate) const BLOCK_ROWS_MAX: usize = 8_192;

/// A block that holds this much takes no more rows, however few they are.
pub(crate) const BLOCK_BYTES_MAX: usize = 32 << 20;

/// What a row costs besides its dictionary entries and codes.
const ROW_BYTES: usize = 16 + 3 * 8 + 4 + 1;

/// Numbers and ids of the rows, in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain {
    pub uuids: Vec<[u8; 16]>,
    pub timestamps: Vec<i64>,
    pub created_at: Vec<i64>,
    pub positions: Vec<i64>,
    pub distinct_nos: Vec<u32>,
    pub historical: Vec<bool>,
}

#[derive(Debug)]
pub(crate) struct Block {
    pub project: ProjectId,
    pub plain: Plain,
    fields: HashMap<Field, Column>,
}

impl Block {
    pub fn rows(&self) -> usize {
        self.plain.uuids.len()
    }

    pub fn numbers(&self, number: Number) -> &[i64] {
        match number {
            Number::Timestamp => &self.plain.timestamps,
            Number::CreatedAt => &self.plain.created_at,
            Number::Position => &self.plain.positions,
        }
    }

    pub fn column(&self, field: &Field) -> Option<&Column> {
        self.fields.get(field)
    }

    /// Properties with a column of their own, and on how many rows they are.
    pub fn properties(&self) -> impl Iterator<Item = (&str, usize)> {
        self.fields.iter().filter_map(|(field, column)| match field {
            Field::Property(name) => {
                let present = column.codes.iter().filter(|code| **code != ABSENT).count();
                Some((&**name, present))
            }
            _ => None,
        })
    }
}

/// A block that still takes rows.
#[derive(Debug)]
pub(crate) struct Builder {
    project: ProjectId,
    plain: Plain,
    event: Open,
    distinct_id: Open,
    elements_chain: Open,
    groups: [Open; GROUP_TYPES],
    nulls: Open,
    rest: Open,
    properties: Vec<(Box<str>, Open)>,
    by_name: HashMap<Box<str>, u32>,
    /// The columns of the rows before by member: the next row mostly has the same in the same order.
    expected: Vec<u32>,
    bytes: usize,
}

impl Builder {
    pub fn new(project: ProjectId) -> Builder {
        Builder {
            project,
            plain: Plain::default(),
            event: Open::default(),
            distinct_id: Open::default(),
            elements_chain: Open::default(),
            groups: Default::default(),
            nulls: Open::default(),
            rest: Open::default(),
            properties: Vec::new(),
            by_name: HashMap::new(),
            expected: Vec::new(),
            bytes: 0,
        }
    }

    pub fn rows(&self) -> usize {
        self.plain.uuids.len()
    }

    pub fn is_full(&self) -> bool {
        self.rows() == BLOCK_ROWS_MAX || self.bytes >= BLOCK_BYTES_MAX
    }

    /// A fair estimate of the memory held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn push(&mut self, row: &NewRow<'_>) {
        let at = self.rows();
        let mut grown = self.push_properties(at, row);
        grown += self.event.set(at, Value::Text(row.event));
        grown += self.distinct_id.set(at, Value::Text(row.distinct_id));
        if !row.elements_chain.is_empty() {
            grown += self.elements_chain.set(at, Value::Text(row.elements_chain));
        }
        for (open, key) in self.groups.iter_mut().zip(&row.groups) {
            if let Some(key) = key {
                grown += open.set(at, Value::Text(key));
            }
        }
        self.bytes += grown + ROW_BYTES;
        self.plain.uuids.push(row.uuid.into_bytes());
        self.plain.timestamps.push(row.timestamp.as_micros());
        self.plain.created_at.push(row.created_at.as_micros());
        self.plain.positions.push(row.position as i64);
        self.plain.distinct_nos.push(row.distinct_no);
        self.plain.historical.push(row.historical);
    }

    /// Returns by how much memory grew.
    fn push_properties(&mut self, at: usize, row: &NewRow<'_>) -> usize {
        // By name: somebody may send very many.
        let mut nulls: HashSet<String> = HashSet::new();
        let mut rest: HashMap<String, String> = HashMap::new();
        let (mut grown, mut member) = (0, 0);
        row.properties.each(&mut |Property { name, json, plain }| {
            let here = member;
            member += 1;
            // Most stood here in the rows before, and are simple.
            if plain
                && nulls.is_empty()
                && let Some(value @ (Value::Text(_) | Value::Number(_))) = json::read_plain(json)
                && let Some(index) = self.expected(name, here)
            {
                grown += self.properties[index].1.set(at, value);
                return;
            }
            nulls.remove(name);
            json::with_value(json, |value| {
                let index = self.property(name, here, value == Value::Null);
                match index {
                    Some(index) => self.properties[index].1.clear(at),
                    None => drop(rest.remove(name)),
                }
                match (index, value) {
                    (_, Value::Null) => drop(nulls.insert(name.to_owned())),
                    (Some(index), value) => grown += self.properties[index].1.set(at, value),
                    (None, value) => drop(rest.insert(name.to_owned(), value.to_json())),
                }
            });
        });
        if !nulls.is_empty() {
            let mut nulls: Vec<String> = nulls.into_iter().collect();
            nulls.sort_unstable();
            grown += self.nulls.set(at, Value::Json(&json::names_to_json(&nulls)));
        }
        if !rest.is_empty() {
            grown += self
                .rest
                .set(at, Value::Json(&rest_json(&mut rest.into_iter().collect::<Vec<_>>())));
        }
        grown
    }

    /// The column that this member had in the rows before, if it is of this property.
    #[inline]
    fn expected(&self, name: &str, member: usize) -> Option<usize> {
        let index = *self.expected.get(member)? as usize;
        (*self.properties.get(index)?.0 == *name).then_some(index)
    }

    /// The column of a property. A null needs none; past the bound there are no new ones.
    fn property(&mut self, name: &str, member: usize, null: bool) -> Option<usize> {
        if let Some(index) = self.expected(name, member) {
            return Some(index);
        }
        let index = match self.by_name.get(name) {
            Some(&index) => index,
            None if null || self.properties.len() >= PROPERTY_COLUMNS_MAX => u32::MAX,
            None => {
                let index = self.properties.len() as u32;
                self.properties.push((name.into(), Open::default()));
                self.by_name.insert(name.into(), index);
                self.bytes += 256 + 2 * name.len();
                index
            }
        };
        match self.expected.get_mut(member) {
            Some(expected) => *expected = index,
            None => self.expected.push(index),
        }
        (index != u32::MAX).then_some(index as usize)
    }

    /// A copy for readers.
    pub fn block(&self) -> Block {
        let rows = self.rows();
        let mut fields = HashMap::with_capacity(self.properties.len() + 12);
        let mut add = |field: Field, open: &Open| {
            if !open.is_empty() {
                fields.insert(field, open.column(rows));
            }
        };
        add(Field::Event, &self.event);
        add(Field::DistinctId, &self.distinct_id);
        add(Field::ElementsChain, &self.elements_chain);
        for (index, open) in self.groups.iter().enumerate() {
            add(Field::Group(index), open);
        }
        add(Field::Nulls, &self.nulls);
        add(Field::Rest, &self.rest);
        for (name, open) in &self.properties {
            add(Field::Property(name.clone()), open);
        }
        Block { project: self.project, plain: self.plain.clone(), fields }
    }
}

/// Sorted, so that equal rests are equal texts.
pub(crate) fn rest_json<N: AsRef<str> + Ord>(members: &mut [(N, String)]) -> String {
    members.sort_unstable();
    let mut writer = ObjectWriter::new();
    for (name, json) in members {
        writer.member(name.as_ref(), Value::Json(json));
    }
    writer.finish()
}

impl Block {
    /// The row as it was appended.
    pub fn row(&self, at: usize) -> EventRow {
        let values = self
            .fields
            .iter()
            .filter_map(|(field, column)| Some((Cow::Borrowed(field), column.value(at)?)));
        self.plain.row(self.project, at, values)
    }
}

impl Builder {
    pub fn row(&self, at: usize) -> EventRow {
        let fixed = [
            (Field::Event, &self.event),
            (Field::DistinctId, &self.distinct_id),
            (Field::ElementsChain, &self.elements_chain),
            (Field::Nulls, &self.nulls),
            (Field::Rest, &self.rest),
        ];
        let groups = self.groups.iter().enumerate().map(|(at, open)| (Field::Group(at), open));
        let properties =
            self.properties.iter().map(|(name, open)| (Field::Property(name.clone()), open));
        let all = fixed.into_iter().chain(groups).chain(properties);
        let values = all.filter_map(|(field, open)| Some((Cow::Owned(field), open.value(at)?)));
        self.plain.row(self.project, at, values)
    }
}

impl Plain {
    fn row<'a>(
        &self,
        project: ProjectId,
        at: usize,
        values: impl Iterator<Item = (Cow<'a, Field>, Value<'a>)>,
    ) -> EventRow {
        let mut row = EventRow {
            project,
            uuid: Uuid::from_bytes(self.uuids[at]),
            event: "".into(),
            distinct_id: "".into(),
            distinct_no: self.distinct_nos[at],
            timestamp: Timestamp::from_micros(self.timestamps[at]),
            created_at: Timestamp::from_micros(self.created_at[at]),
            elements_chain: String::new(),
            groups: Default::default(),
            properties: String::new(),
            position: self.positions[at] as u64,
            historical: self.historical[at],
        };
        let mut members = Members::default();
        values.for_each(|(field, value)| members.set(&mut row, &field, value));
        row.properties = members.finish();
        row
    }
}

/// Collects a row's properties from its columns, in the order of their names.
#[derive(Default)]
pub(crate) struct Members(Vec<(String, String)>);

impl Members {
    /// Puts a value where it belongs: into the row, or among its properties.
    pub fn set(&mut self, row: &mut EventRow, field: &Field, value: Value<'_>) {
        match field {
            Field::Event => row.event = value.text().into(),
            Field::DistinctId => row.distinct_id = value.text().into(),
            Field::ElementsChain => row.elements_chain = value.text().into(),
            Field::Group(index) => row.groups[*index] = Some(value.text().into()),
            Field::Property(name) => self.0.push((name.to_string(), value.to_json())),
            Field::Nulls => {
                let names = json::names_from_json(value.text()).unwrap_or_default();
                self.0.extend(names.into_iter().map(|name| (name, "null".to_owned())));
            }
            Field::Rest => {
                let each = |name: &str, value: Value<'_>| {
                    self.0.push((name.to_owned(), value.to_json()));
                };
                // We wrote it ourselves; a file that is damaged fails its page checks before this.
                let _ = json::members(value.text(), each);
            }
        }
    }

    pub fn finish(mut self) -> String {
        rest_json(&mut self.0)
    }
}
