//! Blocks: the columns of up to [`BLOCK_ROWS_MAX`] rows of a memtable, in append order.

use std::borrow::Cow;

use hashbrown::{HashMap, HashSet};
use model::{ProjectId, Timestamp};
use uuid::Uuid;

use crate::columns::json;
use crate::columns::{
    ABSENT, Column, EventRow, Field, GROUP_TYPES, Identity, IntColumn, NewRow,
    PROPERTY_COLUMNS_MAX, Property, PropertyCollector, Value, WELL_KNOWN_PROPERTIES_MAX, rest_json,
};
use crate::memtable::column_builder::ColumnBuilder;

/// A full block is immutable. Small enough that copying the open block for a reader takes less than
/// a millisecond, large enough that dictionaries pay off.
pub(crate) const BLOCK_ROWS_MAX: usize = 8_192;

/// A block of this size is full, however few rows it has.
pub(crate) const BLOCK_BYTES_MAX: usize = 32 << 20;

/// Sentinel: the property has no column.
const NO_COLUMN: u32 = u32::MAX;

/// Memory of a row in [`FixedColumns`]: uuid, three integers, dense id, flag.
const ROW_BYTES: usize = 16 + 3 * 8 + 4 + 1;
/// Memory of an empty property column, besides its name.
const COLUMN_BYTES: usize = 256;

/// The fixed-width columns, in append order.
#[derive(Clone, Debug, Default)]
pub(crate) struct FixedColumns {
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
    pub fixed: FixedColumns,
    fields: HashMap<Field, Column>,
}

impl Block {
    pub fn rows(&self) -> usize {
        self.fixed.uuids.len()
    }

    pub fn ints(&self, column: IntColumn) -> &[i64] {
        match column {
            IntColumn::Timestamp => &self.fixed.timestamps,
            IntColumn::CreatedAt => &self.fixed.created_at,
            IntColumn::Position => &self.fixed.positions,
        }
    }

    pub fn column(&self, field: &Field) -> Option<&Column> {
        self.fields.get(field)
    }

    /// Properties that have a column, with the number of rows that have a value.
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

/// A block under construction.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    project: ProjectId,
    fixed: FixedColumns,
    event: ColumnBuilder,
    distinct_id: ColumnBuilder,
    elements_chain: ColumnBuilder,
    groups: [ColumnBuilder; GROUP_TYPES],
    nulls: ColumnBuilder,
    rest: ColumnBuilder,
    properties: Vec<(Box<str>, ColumnBuilder)>,
    by_name: HashMap<Box<str>, u32>,
    /// Index into `properties` by well-known property id; [`NO_COLUMN`] if the block has no such
    /// column yet.
    by_well_known_id: [u32; WELL_KNOWN_PROPERTIES_MAX],
    /// Column of the n-th property of recent rows: a guess that saves the lookup by name, since most
    /// rows have the same properties in the same order.
    recent_columns: Vec<u32>,
    bytes: usize,
}

impl BlockBuilder {
    pub fn new(project: ProjectId) -> BlockBuilder {
        BlockBuilder {
            project,
            fixed: FixedColumns::default(),
            event: ColumnBuilder::default(),
            distinct_id: ColumnBuilder::default(),
            elements_chain: ColumnBuilder::default(),
            groups: Default::default(),
            nulls: ColumnBuilder::default(),
            rest: ColumnBuilder::default(),
            properties: Vec::new(),
            by_name: HashMap::new(),
            by_well_known_id: [NO_COLUMN; WELL_KNOWN_PROPERTIES_MAX],
            recent_columns: Vec::new(),
            bytes: 0,
        }
    }

    pub fn rows(&self) -> usize {
        self.fixed.uuids.len()
    }

    pub fn is_full(&self) -> bool {
        self.rows() == BLOCK_ROWS_MAX || self.bytes >= BLOCK_BYTES_MAX
    }

    /// An estimate of the memory used.
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
        self.fixed.uuids.push(row.uuid.into_bytes());
        self.fixed.timestamps.push(row.timestamp.as_micros());
        self.fixed.created_at.push(row.created_at.as_micros());
        self.fixed.positions.push(row.position as i64);
        self.fixed.distinct_nos.push(row.distinct_no);
        self.fixed.historical.push(row.historical);
    }

    /// Returns by how many bytes memory grew.
    fn push_properties(&mut self, at: usize, row: &NewRow<'_>) -> usize {
        // Maps, because an event may have very many properties.
        let mut nulls: HashSet<String> = HashSet::new();
        let mut rest: HashMap<String, String> = HashMap::new();
        let (mut grown, mut member) = (0, 0);
        row.properties.each(&mut |property| {
            let index_in_row = member;
            member += 1;
            // The fast path: the previous rows had this property here, and the value is a scalar.
            if property.unescaped
                && nulls.is_empty()
                && let Some(value @ (Value::Text(_) | Value::Number(_))) =
                    json::read_plain(property.json)
                && let Some(index) = self.expected_column(&property, index_in_row)
            {
                grown += self.properties[index].1.set(at, value);
                return;
            }
            let name = property.name;
            nulls.remove(name);
            json::with_json_value(property.json, |value| {
                let index = self.property_column(&property, index_in_row, value == Value::Null);
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

    /// The column of a property by its well-known id, or else the column that this member had in the
    /// previous rows, if the name is the same.
    #[inline]
    fn expected_column(&self, property: &Property<'_>, member: usize) -> Option<usize> {
        if let Some(id) = property.well_known_id {
            let index = self.by_well_known_id[usize::from(id)] as usize;
            let column = self.properties.get(index);
            debug_assert!(
                column.is_none_or(|(name, _)| **name == *property.name),
                "a well-known id stands for one name"
            );
            return column.map(|_| index);
        }
        let index = *self.recent_columns.get(member)? as usize;
        (*self.properties.get(index)?.0 == *property.name).then_some(index)
    }

    /// Finds or creates the column of a property. A null needs no column, and past
    /// [`PROPERTY_COLUMNS_MAX`] none is created.
    fn property_column(
        &mut self,
        property: &Property<'_>,
        member: usize,
        null: bool,
    ) -> Option<usize> {
        if let Some(index) = self.expected_column(property, member) {
            return Some(index);
        }
        let name = property.name;
        let index = match self.by_name.get(name) {
            Some(&index) => index,
            None if null || self.properties.len() >= PROPERTY_COLUMNS_MAX => NO_COLUMN,
            None => {
                let index = self.properties.len() as u32;
                self.properties.push((name.into(), ColumnBuilder::default()));
                self.by_name.insert(name.into(), index);
                self.bytes += COLUMN_BYTES + 2 * name.len();
                index
            }
        };
        let slot = match property.well_known_id {
            Some(id) => Some(&mut self.by_well_known_id[usize::from(id)]),
            None => self.recent_columns.get_mut(member),
        };
        match slot {
            Some(slot) => *slot = index,
            None => {
                self.recent_columns.resize(member, NO_COLUMN);
                self.recent_columns.push(index);
            }
        }
        (index != NO_COLUMN).then_some(index as usize)
    }

    /// An immutable copy for readers.
    pub fn block(&self) -> Block {
        let rows = self.rows();
        let mut fields = HashMap::with_capacity(self.properties.len() + 12);
        let mut add = |field: Field, open: &ColumnBuilder| {
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
        Block { project: self.project, fixed: self.fixed.clone(), fields }
    }
}

impl FixedColumns {
    /// Whether a row has the uuid and the dense id of an event.
    fn is(&self, at: usize, identity: &Identity) -> bool {
        self.uuids[at] == *identity.uuid.as_bytes() && self.distinct_nos[at] == identity.distinct_no
    }
}

impl Block {
    fn event(&self, at: usize) -> &str {
        self.column(&Field::Event).and_then(|column| column.value(at)).map_or("", Value::text)
    }

    pub fn is(&self, at: usize, identity: &Identity) -> bool {
        self.fixed.is(at, identity) && *self.event(at) == *identity.event
    }

    pub fn identity(&self, at: usize) -> Identity {
        Identity {
            uuid: Uuid::from_bytes(self.fixed.uuids[at]),
            event: self.event(at).into(),
            distinct_no: self.fixed.distinct_nos[at],
        }
    }

    /// Rebuilds the row as it was appended.
    pub fn row(&self, at: usize) -> EventRow {
        let values = self
            .fields
            .iter()
            .filter_map(|(field, column)| Some((Cow::Borrowed(field), column.value(at)?)));
        self.fixed.row(self.project, at, values)
    }
}

impl BlockBuilder {
    pub fn is(&self, at: usize, identity: &Identity) -> bool {
        let event = self.event.value(at).map_or("", Value::text);
        self.fixed.is(at, identity) && *event == *identity.event
    }

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
        self.fixed.row(self.project, at, values)
    }
}

impl FixedColumns {
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
        let mut members = PropertyCollector::default();
        values.for_each(|(field, value)| members.set(&mut row, &field, value));
        row.properties = members.finish();
        row
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::columns::row::PropertySource;

    /// Properties by index into [`NAMES`]; the flag gives two of the names a well-known id.
    #[derive(Debug)]
    struct TestProperties(Vec<(usize, &'static str)>, bool);

    const NAMES: [&str; 4] = ["$browser", "$os", "plan", "seats"];

    impl PropertySource for TestProperties {
        fn each(&self, show: &mut dyn FnMut(Property<'_>)) {
            for (name, json) in &self.0 {
                let number = (self.1 && *name < 2).then(|| *name as u8 * 127);
                show(Property {
                    name: NAMES[*name],
                    json,
                    unescaped: *json != r#""\n""#,
                    well_known_id: number,
                });
            }
        }

        fn bytes_max(&self) -> usize {
            0
        }
    }

    fn built(rows: &[Vec<(usize, &'static str)>], well_known: bool) -> Vec<EventRow> {
        let mut builder = BlockBuilder::new(ProjectId(1));
        for (at, properties) in rows.iter().enumerate() {
            let properties = TestProperties(properties.clone(), well_known);
            builder.push(&NewRow {
                project: ProjectId(1),
                uuid: Uuid::from_u128(at as u128),
                event: "e",
                distinct_id: "d",
                distinct_no: 1,
                timestamp: Timestamp::from_micros(0),
                created_at: Timestamp::from_micros(0),
                elements_chain: "",
                groups: Default::default(),
                properties: &properties,
                position: at as u64,
                historical: false,
            });
        }
        let block = builder.block();
        let all: Vec<EventRow> = (0..rows.len()).map(|at| block.row(at)).collect();
        assert_eq!(all, (0..rows.len()).map(|at| builder.row(at)).collect::<Vec<_>>());
        all
    }

    proptest! {
        #[test]
        fn well_known_ids_do_not_change_stored_properties(
            rows in prop::collection::vec(
                prop::collection::vec(
                    (
                        0..NAMES.len(),
                        prop::sample::select(vec!["1", "2.5", r#""a""#, r#""\n""#, "null", "[]"]),
                    ),
                    0..6,
                ),
                0..80,
            )
        ) {
            let plain = built(&rows, false);
            prop_assert_eq!(&plain, &built(&rows, true));
            for (row, sent) in plain.iter().zip(&rows) {
                type Map = serde_json::Map<String, serde_json::Value>;
                let kept: Map = serde_json::from_str(&row.properties).unwrap();
                let value = |json| serde_json::from_str::<serde_json::Value>(json).unwrap();
                let sent: Map =
                    sent.iter().map(|(name, json)| (NAMES[*name].into(), value(json))).collect();
                prop_assert_eq!(kept, sent);
            }
        }
    }
}
