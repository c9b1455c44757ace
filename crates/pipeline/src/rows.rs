//! Builds warehouse rows from events whose dense ids are resolved.

use std::borrow::Cow;

use model::person::DistinctNo;
use warehouse::{GROUP_TYPES, NewRow, Property, PropertySource};

use crate::normalize::{ANY_GROUP, GroupKey, NormalizedEvent, PersonProcessing, group_names};

/// The event's groups by type index; groups of unknown types are skipped.
pub(crate) fn group_columns<'e>(
    event: &'e NormalizedEvent<'_>,
    mut index_of: impl FnMut(&str) -> Option<u8>,
) -> Vec<(u8, &'e GroupKey)> {
    let known = |(kind, key): &'e (String, GroupKey)| Some((index_of(kind)?, key));
    event.groups.iter().filter_map(known).collect()
}

/// An event with its position, distinct id's dense id and group indexes.
#[derive(Debug)]
pub(crate) struct ResolvedEvent<'e, 'a> {
    pub position: u64,
    pub event: &'e NormalizedEvent<'a>,
    pub distinct_no: DistinctNo,
    pub groups: Vec<(u8, &'e GroupKey)>,
}

impl ResolvedEvent<'_, '_> {
    pub fn row(&self) -> NewRow<'_> {
        let Self { position, event, distinct_no, ref groups } = *self;
        let mut columns: [Option<Cow<'_, str>>; GROUP_TYPES] = Default::default();
        let is_sent = event.properties.present() & ANY_GROUP != 0;
        if is_sent && event.person != PersonProcessing::Personless {
            for (column, name) in columns.iter_mut().zip(group_names()) {
                *column = event.properties.text(name);
            }
        }
        for (index, key) in groups {
            columns[usize::from(*index)] = Some(Cow::Borrowed(&key.text));
        }
        NewRow {
            project: event.project,
            uuid: event.uuid,
            event: event.name,
            distinct_id: event.distinct_id,
            distinct_no: distinct_no.0,
            timestamp: event.time,
            created_at: event.received_at,
            elements_chain: &event.elements_chain,
            groups: columns,
            properties: self,
            position,
            historical: event.historical,
        }
    }
}

impl PropertySource for ResolvedEvent<'_, '_> {
    fn each(&self, show: &mut dyn FnMut(Property<'_>)) {
        self.event.properties.with_groups(&self.groups, show);
    }

    fn bytes_max(&self) -> usize {
        let keys = self.groups.iter().map(|(_, key)| key.json.len());
        self.event.properties.bytes_max() + keys.sum::<usize>()
    }
}
