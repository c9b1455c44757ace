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
        let field = Field::Property(name.into());
        let mut column = match self.column(&field, rows.clone())? {
            Some(column) => column.into_owned(),
            None => self.rare_property(name, rows.clone())?,
        };
        let Some(nulls) = self.column(&Field::Nulls, rows)? else { return Ok(column) };
        let is_null = |value: Value<'_>| {
            json::names_from_json(value.text()).is_ok_and(|names| names.iter().any(|n| n == name))
        };
        let null: Vec<bool> = nulls.dictionary.iter().map(is_null).collect();
        if !null.contains(&true) {
            return Ok(column);
        }
        let mut dictionary = Dictionary::clone(&column.dictionary);
        let code = dictionary.push(Value::Null);
        for (at, entry) in nulls.codes.iter().enumerate() {
            if *entry != ABSENT && null[*entry as usize] {
                column.codes[at] = code;
            }
        }
        column.dictionary = Arc::new(dictionary);
        Ok(column)
    }

    fn rare_property(&self, name: &str, rows: Range<usize>) -> Result<Column> {
        let count = rows.len();
        let Some(rest) = self.column(&Field::Rest, rows)? else { return Ok(Column::absent(count)) };
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
        Ok(Column { codes, dictionary: Arc::new(dictionary) })
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

    /// Reads complete rows.
    pub fn event_rows(&self, rows: &[usize]) -> Result<Vec<EventRow>> {
        match self {
            RowSet::Block(live) => Ok(rows.iter().map(|row| live.block.row(*row)).collect()),
            RowSet::RowGroup { live, group, .. } => stored_rows(&live.segment, *group, rows),
        }
    }
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
