//! Row sets: a block of a memtable or a row group of a segment, with the same access to columns.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use model::Timestamp;
use uuid::Uuid;

use crate::Result;
use crate::columns::json;
use crate::columns::{
    ABSENT, Column, Dictionary, EventRow, Field, Identity, IntColumn, PropertyCollector, Value,
};
use crate::memtable::LiveBlock;
use crate::segment::footer::Run;
use crate::segment::{LiveSegment, Segment};

/// Rows that are stored together. Readers and merges do not depend on where.
#[derive(Clone, Debug)]
pub(crate) enum RowSet {
    Block(LiveBlock),
    RowGroup { live: LiveSegment, group: usize, rows: Range<usize> },
}

impl LiveSegment {
    pub fn row_sets(&self) -> Result<Vec<RowSet>> {
        let row_set = |group| {
            let rows = self.segment.group_rows(group)?;
            Ok(RowSet::RowGroup { live: self.clone(), group, rows })
        };
        (0..self.segment.groups()?).map(row_set).collect()
    }
}

impl RowSet {
    pub fn rows(&self) -> usize {
        match self {
            RowSet::Block(live) => live.block.rows(),
            RowSet::RowGroup { rows, .. } => rows.len(),
        }
    }

    /// None for a memtable block.
    pub fn segment_id(&self) -> Option<u64> {
        match self {
            RowSet::Block(_) => None,
            RowSet::RowGroup { live, .. } => Some(live.segment.entry.id),
        }
    }

    pub fn is_dead(&self, row: usize) -> bool {
        match self {
            RowSet::Block(live) => live.dead.contains(row as u32),
            RowSet::RowGroup { live, rows, .. } => live.dead.contains((rows.start + row) as u32),
        }
    }

    pub fn any_dead(&self) -> bool {
        match self {
            RowSet::Block(live) => !live.dead.is_empty(),
            RowSet::RowGroup { live, .. } => !live.dead.is_empty(),
        }
    }

    pub fn ints(&self, number: IntColumn, rows: Range<usize>) -> Result<Cow<'_, [i64]>> {
        Ok(match self {
            RowSet::Block(live) => Cow::Borrowed(&live.block.ints(number)[rows]),
            RowSet::RowGroup { live, group, .. } => {
                Cow::Owned(live.segment.ints(*group, number, rows)?)
            }
        })
    }

    pub fn uuids(&self, rows: Range<usize>) -> Result<Cow<'_, [[u8; 16]]>> {
        Ok(match self {
            RowSet::Block(live) => Cow::Borrowed(&live.block.fixed.uuids[rows]),
            RowSet::RowGroup { live, group, .. } => Cow::Owned(live.segment.uuids(*group, rows)?),
        })
    }

    pub fn distinct_nos(&self, rows: Range<usize>) -> Result<Cow<'_, [u32]>> {
        Ok(match self {
            RowSet::Block(live) => Cow::Borrowed(&live.block.fixed.distinct_nos[rows]),
            RowSet::RowGroup { live, group, .. } => {
                Cow::Owned(live.segment.distinct_nos(*group, rows)?)
            }
        })
    }

    pub fn historical(&self, rows: Range<usize>) -> Result<Cow<'_, [bool]>> {
        Ok(match self {
            RowSet::Block(live) => Cow::Borrowed(&live.block.fixed.historical[rows]),
            RowSet::RowGroup { live, group, .. } => {
                Cow::Owned(live.segment.historical(*group, rows)?)
            }
        })
    }

    /// The column as stored, without JSON nulls and rare properties, which have columns of their own.
    pub fn column(&self, field: &Field, rows: Range<usize>) -> Result<Option<Cow<'_, Column>>> {
        match self {
            RowSet::Block(live) => Ok(live.block.column(field).map(|column| {
                if rows.len() == column.codes.len() {
                    return Cow::Borrowed(column);
                }
                let codes = column.codes[rows].to_vec();
                Cow::Owned(Column { codes, dictionary: column.dictionary.clone() })
            })),
            RowSet::RowGroup { live, group, .. } => {
                Ok(live.segment.column(*group, field, rows)?.map(Cow::Owned))
            }
        }
    }

    /// Properties that have a column, with the number of rows that have a value.
    pub fn properties(&self) -> Result<Vec<(&str, usize)>> {
        match self {
            RowSet::Block(live) => Ok(live.block.properties().collect()),
            RowSet::RowGroup { live, group, .. } => live.segment.properties(*group),
        }
    }

    pub fn column_or_absent(&self, field: &Field, rows: Range<usize>) -> Result<Column> {
        let count = rows.len();
        let column = self.column(field, rows)?;
        Ok(column.map_or_else(|| Column::absent(count), Cow::into_owned))
    }

    /// A property, wherever it is stored, with JSON nulls.
    pub fn property(&self, name: &str, rows: Range<usize>) -> Result<Column> {
        let count = rows.len();
        assemble_property(name, count, |field| self.column(field, rows.clone()))
    }

    /// As [`RowSet::property`], of single rows.
    pub fn property_at(&self, name: &str, rows: &[usize]) -> Result<Column> {
        assemble_property(name, rows.len(), |field| {
            Ok(self.column_at(field, rows)?.map(Cow::Owned))
        })
    }

    /// As [`RowSet::column`], of single rows.
    pub fn column_at(&self, field: &Field, rows: &[usize]) -> Result<Option<Column>> {
        match self {
            RowSet::Block(live) => Ok(live.block.column(field).map(|column| Column {
                codes: rows.iter().map(|row| column.codes[*row]).collect(),
                dictionary: column.dictionary.clone(),
            })),
            RowSet::RowGroup { live, group, .. } => live.segment.column_at(*group, field, rows),
        }
    }

    pub fn ints_at(&self, number: IntColumn, rows: &[usize]) -> Result<Vec<i64>> {
        match self {
            RowSet::Block(live) => {
                let numbers = live.block.ints(number);
                Ok(rows.iter().map(|row| numbers[*row]).collect())
            }
            RowSet::RowGroup { live, group, .. } => live.segment.ints_at(*group, number, rows),
        }
    }

    pub fn uuids_at(&self, rows: &[usize]) -> Result<Vec<[u8; 16]>> {
        match self {
            RowSet::Block(live) => {
                Ok(rows.iter().map(|row| live.block.fixed.uuids[*row]).collect())
            }
            RowSet::RowGroup { live, group, .. } => live.segment.uuids_at(*group, rows),
        }
    }

    pub fn distinct_nos_at(&self, rows: &[usize]) -> Result<Vec<u32>> {
        match self {
            RowSet::Block(live) => {
                Ok(rows.iter().map(|row| live.block.fixed.distinct_nos[*row]).collect())
            }
            RowSet::RowGroup { live, group, .. } => live.segment.distinct_nos_at(*group, rows),
        }
    }

    /// The runs of a row group; `None` for a block, which is not sorted.
    pub fn runs(&self) -> Result<Option<Vec<Run>>> {
        let RowSet::RowGroup { live, group, .. } = self else { return Ok(None) };
        let listed = live.segment.runs(*group)?;
        if !listed.is_empty() || self.rows() == 0 {
            return Ok(Some(listed.to_vec()));
        }
        let events = self.column_or_absent(&Field::Event, 0..self.rows())?;
        let times = self.ints(IntColumn::Timestamp, 0..self.rows())?;
        let mut runs: Vec<Run> = Vec::new();
        let mut last = ABSENT;
        for (code, time) in events.codes.iter().zip(times.iter()) {
            match runs.last_mut() {
                Some(run) if *code == last => {
                    run.rows += 1;
                    run.to = *time;
                }
                _ => {
                    let event = events.dictionary.get(*code).text().into();
                    runs.push(Run { event, rows: 1, from: *time, to: *time });
                    last = *code;
                }
            }
        }
        Ok(Some(runs))
    }

    pub fn identities(&self, rows: &[usize]) -> Result<Vec<Identity>> {
        let all = 0..self.rows();
        let uuids = self.uuids(all.clone())?;
        let events = self.column_or_absent(&Field::Event, all.clone())?;
        let numbers = self.distinct_nos(all)?;
        let identity = |row: &usize| Identity {
            uuid: Uuid::from_bytes(uuids[*row]),
            event: events.dictionary.get(events.codes[*row]).text().into(),
            distinct_no: numbers[*row],
        };
        Ok(rows.iter().map(identity).collect())
    }

    /// The JSON of the properties of some rows.
    pub fn properties_of(&self, rows: &[usize]) -> Result<Vec<String>> {
        match self {
            RowSet::Block(live) => {
                Ok(rows.iter().map(|row| live.block.row(*row).properties).collect())
            }
            RowSet::RowGroup { live, group, .. } => stored_properties(&live.segment, *group, rows),
        }
    }

    /// Reads complete rows.
    pub fn event_rows(&self, rows: &[usize]) -> Result<Vec<EventRow>> {
        match self {
            RowSet::Block(live) => Ok(rows.iter().map(|row| live.block.row(*row)).collect()),
            RowSet::RowGroup { live, group, .. } => stored_rows(&live.segment, *group, rows),
        }
    }
}

/// Most rows have no member in the columns of nulls and of rare properties: theirs are written in the
/// order of the columns' names, without collecting and sorting them.
fn stored_properties(segment: &Segment, group: usize, rows: &[usize]) -> Result<Vec<String>> {
    let mut names: Vec<&str> = segment.properties(group)?.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let mut columns: Vec<(Field, Column)> = Vec::with_capacity(names.len());
    for name in names {
        let field = Field::Property(name.into());
        if let Some(column) = segment.column_at(group, &field, rows)? {
            columns.push((field, column));
        }
    }
    let others = [Field::Nulls, Field::Rest].into_iter().map(|field| {
        let column = segment.column_at(group, &field, rows)?;
        Ok((field, column.unwrap_or_else(|| Column::absent(rows.len()))))
    });
    let others = others.collect::<Result<Vec<_>>>()?;
    let text = |at: usize| {
        let present = || {
            let values = columns.iter().map(|(field, column)| (field, column.value(at)));
            values.filter_map(|(field, value)| Some((field, value?)))
        };
        if others.iter().all(|(_, column)| column.codes[at] == ABSENT) {
            let mut writer = json::ObjectWriter::new();
            for (field, value) in present() {
                if let Field::Property(name) = field {
                    writer.member(name, value);
                }
            }
            return writer.finish();
        }
        let mut members = PropertyCollector::default();
        present().for_each(|(field, value)| members.add(field, value));
        for (field, column) in &others {
            column.value(at).into_iter().for_each(|value| members.add(field, value));
        }
        members.finish()
    };
    Ok((0..rows.len()).map(text).collect())
}

fn stored_rows(segment: &Segment, group: usize, rows: &[usize]) -> Result<Vec<EventRow>> {
    let uuids = segment.uuids_at(group, rows)?;
    let timestamps = segment.ints_at(group, IntColumn::Timestamp, rows)?;
    let created_at = segment.ints_at(group, IntColumn::CreatedAt, rows)?;
    let positions = segment.ints_at(group, IntColumn::Position, rows)?;
    let distinct_nos = segment.distinct_nos_at(group, rows)?;
    let historical = segment.historical_at(group, rows)?;
    let without_properties = |at: usize| EventRow {
        project: segment.entry.project,
        uuid: Uuid::from_bytes(uuids[at]),
        event: "".into(),
        distinct_id: "".into(),
        distinct_no: distinct_nos[at],
        timestamp: Timestamp::from_micros(timestamps[at]),
        created_at: Timestamp::from_micros(created_at[at]),
        elements_chain: String::new(),
        groups: Default::default(),
        properties: String::new(),
        position: positions[at] as u64,
        historical: historical[at],
    };
    let mut events: Vec<(EventRow, PropertyCollector)> =
        (0..rows.len()).map(|at| (without_properties(at), PropertyCollector::default())).collect();
    let properties = segment.properties(group)?;
    let properties = properties.iter().map(|(name, _)| Field::Property((*name).into()));
    for field in Field::of_every_event().chain([Field::Nulls, Field::Rest]).chain(properties) {
        let Some(column) = segment.column_at(group, &field, rows)? else { continue };
        for (at, (event, members)) in events.iter_mut().enumerate() {
            if let Some(value) = column.value(at) {
                members.set(event, &field, value);
            }
        }
    }
    let finish = |(mut event, members): (EventRow, PropertyCollector)| {
        event.properties = members.finish();
        event
    };
    Ok(events.into_iter().map(finish).collect())
}

/// A property from the columns that may have it: its own or that of the rare ones, and that of the nulls.
fn assemble_property<'c>(
    name: &str,
    count: usize,
    column: impl Fn(&Field) -> Result<Option<Cow<'c, Column>>>,
) -> Result<Column> {
    let mut property = match column(&Field::Property(name.into()))? {
        Some(column) => column.into_owned(),
        None => match column(&Field::Rest)? {
            Some(rest) => rare_property(name, &rest),
            None => Column::absent(count),
        },
    };
    let Some(nulls) = column(&Field::Nulls)? else { return Ok(property) };
    let is_null = |value: Value<'_>| {
        json::names_from_json(value.text()).is_ok_and(|names| names.iter().any(|n| n == name))
    };
    let null: Vec<bool> = nulls.dictionary.iter().map(is_null).collect();
    if !null.contains(&true) {
        return Ok(property);
    }
    let mut dictionary = Dictionary::clone(&property.dictionary);
    let code = dictionary.push(Value::Null);
    for (at, entry) in nulls.codes.iter().enumerate() {
        if *entry != ABSENT && null[*entry as usize] {
            property.codes[at] = code;
        }
    }
    property.dictionary = Arc::new(dictionary);
    Ok(property)
}

fn rare_property(name: &str, rest: &Column) -> Column {
    let mut dictionary = Dictionary::default();
    let code_in = |value: Value<'_>| {
        let mut code = ABSENT;
        let _ = json::for_each_json_member(value.text(), |member, value| {
            if member == name {
                code = dictionary.push(value);
            }
        });
        code
    };
    let by_entry: Vec<u32> = rest.dictionary.iter().map(code_in).collect();
    let code = |entry: &u32| if *entry == ABSENT { ABSENT } else { by_entry[*entry as usize] };
    let codes = rest.codes.iter().map(code).collect();
    Column { codes, dictionary: Arc::new(dictionary) }
}
