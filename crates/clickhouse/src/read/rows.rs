//! Rows of the table of events, decoded.

use std::collections::BTreeSet;

use arrow::array::{
    Array, BooleanArray, FixedSizeBinaryArray, MapArray, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt32Array, UInt64Array,
};
use model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{EventRow, GROUP_TYPES, Value};

use super::{Reader, malformed, statement};
use crate::client::{Parameter, Parameters};
use crate::error::Result;
use crate::print::EventColumns;
use crate::schema::{column, column_of};
use crate::values::{decode, write_object};

/// Columns of an event before those of its properties, apart from `elements_chain` and `rest`.
const EVENT_COLUMNS: &str = "uuid, event, distinct_no, distinct_id, timestamp, created_at, position, \
     historical, group_0, group_1, group_2, group_3, group_4";
const HISTORICAL: usize = 7;
const ELEMENTS: usize = HISTORICAL + 1 + GROUP_TYPES;
const REST: usize = ELEMENTS + 1;

/// Which columns a statement selects.
pub(super) struct Selected {
    /// After `SELECT`.
    pub text: String,
    /// The properties that are selected as columns, in order.
    promoted: Vec<String>,
    /// What `rest` may hold besides: earlier copies of them.
    in_columns: BTreeSet<String>,
}

impl Reader {
    /// What selects these columns.
    pub(super) fn selected(&self, columns: &EventColumns, parameters: &mut Parameters) -> Selected {
        let in_columns = BTreeSet::clone(&self.schema.promoted());
        let wanted =
            |name: &&String| columns.properties.as_ref().is_none_or(|of| of.contains(*name));
        let promoted: Vec<String> = in_columns.iter().filter(wanted).cloned().collect();
        let elements = if columns.elements_chain { "elements_chain" } else { "''" };
        let rest = match &columns.properties {
            None => "rest".to_owned(),
            Some(names) => {
                let names = names.iter().filter(|name| !in_columns.contains(*name));
                let names: Vec<&str> = names.map(String::as_str).collect();
                match names.is_empty() {
                    true => "CAST(map() AS Map(String, String))".to_owned(),
                    false => {
                        let names = parameters.add(Parameter::Strings(&names));
                        format!("mapFilter((k, v) -> has({names}, toString(k)), rest)")
                    }
                }
            }
        };
        let mut text = format!("{EVENT_COLUMNS}, {elements}, {rest}");
        for name in &promoted {
            text.push_str(", ");
            text.push_str(&column_of(name));
        }
        Selected { text, promoted, in_columns }
    }

    pub(super) fn rows(
        &self,
        project: ProjectId,
        tail: &str,
        mut parameters: Parameters,
    ) -> Result<Vec<EventRow>> {
        let selected = self.selected(&EventColumns::all(), &mut parameters);
        let text = format!("SELECT {} FROM events FINAL {tail}", selected.text);
        let mut rows = Vec::new();
        for batch in self.select(statement(text, parameters))? {
            self.decode_rows(project, &selected, &batch?, &mut |row| {
                rows.push(row);
                Ok::<_, crate::Error>(())
            })?;
        }
        Ok(rows)
    }

    /// Calls `each` with the events of a batch.
    pub(super) fn decode_rows<E: From<crate::Error>>(
        &self,
        project: ProjectId,
        selected: &Selected,
        batch: &RecordBatch,
        each: &mut impl FnMut(EventRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let client = self.client();
        let uuids = column::<FixedSizeBinaryArray>(client, batch, 0)?;
        let events = column::<StringArray>(client, batch, 1)?;
        let distinct_nos = column::<UInt32Array>(client, batch, 2)?;
        let distinct_ids = column::<StringArray>(client, batch, 3)?;
        let timestamps = column::<TimestampMicrosecondArray>(client, batch, 4)?;
        let created_at = column::<TimestampMicrosecondArray>(client, batch, 5)?;
        let positions = column::<UInt64Array>(client, batch, 6)?;
        let historical = column::<BooleanArray>(client, batch, HISTORICAL)?;
        let groups = (0..GROUP_TYPES)
            .map(|index| column::<StringArray>(client, batch, HISTORICAL + 1 + index))
            .collect::<Result<Vec<_>>>()?;
        let elements = column::<StringArray>(client, batch, ELEMENTS)?;
        let rest = column::<MapArray>(client, batch, REST)?;
        let properties = (0..selected.promoted.len())
            .map(|index| column::<StringArray>(client, batch, REST + 1 + index))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let in_columns = selected.promoted.iter().zip(&properties);
            let in_columns = in_columns.map(|(name, column)| (name.as_str(), column.value(row)));
            let entries = rest.value(row);
            let (Some(names), Some(values)) = (
                entries.column(0).as_any().downcast_ref::<StringArray>(),
                entries.column(1).as_any().downcast_ref::<StringArray>(),
            ) else {
                return Err(malformed(client).into());
            };
            let in_rest = (0..names.len()).map(|at| (names.value(at), values.value(at)));
            // What was stored before a property got its column is in both.
            let in_rest = in_rest.filter(|(name, _)| !selected.in_columns.contains(*name));
            let mut members: Vec<(&str, Value<'_>)> = Vec::new();
            for (name, encoded) in in_columns.chain(in_rest).filter(|(_, value)| !value.is_empty())
            {
                members.push((name, decode(encoded).ok_or_else(|| malformed(client))?));
            }
            members.sort_unstable_by_key(|(name, _)| *name);
            let uuid = Uuid::from_slice(uuids.value(row)).map_err(|_| malformed(client))?;
            let group = |index: usize| Some(groups[index].value(row)).filter(|key| !key.is_empty());
            each(EventRow {
                project,
                uuid,
                event: events.value(row).into(),
                distinct_id: distinct_ids.value(row).into(),
                distinct_no: distinct_nos.value(row),
                timestamp: Timestamp::from_micros(timestamps.value(row)),
                created_at: Timestamp::from_micros(created_at.value(row)),
                elements_chain: elements.value(row).to_owned(),
                groups: std::array::from_fn(|index| group(index).map(str::to_owned)),
                properties: write_object(members.into_iter()),
                position: positions.value(row),
                historical: historical.value(row),
            })?;
        }
        Ok(())
    }
}
