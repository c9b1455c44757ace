//! From an event whose numbers are known to the row that is stored.

use std::sync::Arc;

use model::person::DistinctNo;
use warehouse::{EventRow, GROUP_TYPES};

use crate::normalise::{GROUP_NAMES, Normalised, PersonStep};

/// The event's groups by the index of their types; those of unknown types are left out.
pub(crate) fn group_columns<'e>(
    event: &'e Normalised<'_>,
    mut index_of: impl FnMut(&str) -> Option<u8>,
) -> Vec<(u8, &'e str)> {
    let known = |(kind, key): &'e (String, String)| Some((index_of(kind)?, key.as_str()));
    event.groups.iter().filter_map(known).collect()
}

pub(crate) fn row(
    event: &Normalised<'_>,
    position: u64,
    distinct_no: DistinctNo,
    groups: &[(u8, &str)],
) -> EventRow {
    let mut columns: [Option<String>; GROUP_TYPES] = Default::default();
    if event.person != PersonStep::Personless {
        for (column, name) in columns.iter_mut().zip(GROUP_NAMES) {
            *column = event.properties.text(name);
        }
    }
    for (index, key) in groups {
        columns[usize::from(*index)] = Some((*key).to_owned());
    }
    EventRow {
        project: event.project,
        uuid: event.uuid,
        event: Arc::from(event.name),
        distinct_id: Arc::from(event.distinct_id),
        distinct_no: distinct_no.0,
        timestamp: event.time,
        created_at: event.received_at,
        elements_chain: event.elements_chain.clone(),
        groups: columns,
        properties: event.properties.to_json(groups),
        position,
        historical: event.historical,
    }
}
