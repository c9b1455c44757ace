//! Property test of random operations against a model: a map of the live events.

use std::collections::BTreeMap;

use ::model::{ProjectId, Timestamp};
use proptest::prelude::*;
use uuid::Uuid;
use warehouse::{
    ColumnKey, CompactionKind, DeleteSelection, EventRow, Filter, Predicate, Projection, Value,
};

use crate::support::{NOON, Store, all, row};

#[derive(Clone, Debug)]
enum Action {
    Append(Vec<Event>),
    Flush,
    Compact(CompactionKind),
    DeletePerson(u32),
    DeleteUuid(u8),
    DeleteDay(i64),
    DeleteProject(u8),
    Sweep,
    /// A crash: unflushed rows are lost and replayed.
    Crash,
}

#[derive(Clone, Debug)]
struct Event {
    project: u8,
    uuid: u8,
    name: u8,
    person: u32,
    day: i64,
    value: u8,
}

impl Event {
    fn row(&self, position: u64) -> EventRow {
        EventRow {
            project: ProjectId(i64::from(self.project)),
            uuid: Uuid::from_u128(u128::from(self.uuid) << 70),
            event: format!("event {}", self.name).into(),
            distinct_id: format!("person {}", self.person).into(),
            distinct_no: self.person,
            timestamp: Timestamp::from_micros(NOON + self.day * 86_400_000_000),
            properties: format!(
                r#"{{"v":{},"p{}":null,"q{}":"x"}}"#,
                self.value, self.value, self.value
            ),
            position,
            ..row(0)
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    (0..2u8, 0..24u8, 0..2u8, 0..3u32, -20..20i64, 0..3u8).prop_map(
        |(project, uuid, name, person, day, value)| Event {
            project,
            uuid,
            name,
            person,
            day,
            value,
        },
    )
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => prop::collection::vec(event(), 1..40).prop_map(Action::Append),
        3 => Just(Action::Flush),
        2 => Just(Action::Compact(CompactionKind::Minor)),
        1 => Just(Action::Compact(CompactionKind::Major)),
        1 => (0..3u32).prop_map(Action::DeletePerson),
        1 => (0..24u8).prop_map(Action::DeleteUuid),
        1 => (-20..20i64).prop_map(Action::DeleteDay),
        1 => (0..2u8).prop_map(Action::DeleteProject),
        1 => Just(Action::Sweep),
        2 => Just(Action::Crash),
    ]
}

/// The journal: records in order, which can be replayed from any position.
#[derive(Clone, Debug)]
enum Record {
    Event(Box<EventRow>),
    Delete(ProjectId, DeleteSelection),
}

type Identity = (Uuid, String, u32);

#[derive(Default)]
struct Model {
    journal: Vec<Record>,
    live: BTreeMap<ProjectId, BTreeMap<Identity, EventRow>>,
}

impl Model {
    fn apply(&mut self, record: Record) {
        match &record {
            Record::Event(row) => {
                let identity = (row.uuid, row.event.to_string(), row.distinct_no);
                let project = self.live.entry(row.project).or_default();
                let same = |stored: &EventRow| {
                    stored.timestamp == row.timestamp && stored.properties == row.properties
                };
                if !project.get(&identity).is_some_and(same) {
                    project.insert(identity, (**row).clone());
                }
            }
            Record::Delete(project, selection) => {
                let project = self.live.entry(*project).or_default();
                project.retain(|_, row| !matches_selection(selection, row));
            }
        }
        self.journal.push(record);
    }
}

fn matches_selection(selection: &DeleteSelection, row: &EventRow) -> bool {
    match selection {
        DeleteSelection::DistinctNos(numbers) => numbers.contains(&row.distinct_no),
        DeleteSelection::Uuids(uuids) => uuids.contains(&row.uuid),
        DeleteSelection::Time { from, to } => {
            let time = row.timestamp.as_micros();
            from.is_none_or(|from| from <= time) && to.is_none_or(|to| time < to)
        }
        DeleteSelection::All => true,
    }
}

/// Applies journal records from `first` on, as the pipeline does: batches end at deletes.
fn play(store: &Store, journal: &[Record], first: usize) {
    let mut batch = Vec::new();
    for (position, record) in journal.iter().enumerate().skip(first) {
        match record {
            Record::Event(row) => batch.push((**row).clone()),
            Record::Delete(project, selection) => {
                store.take(&std::mem::take(&mut batch), position as u64);
                store.warehouse.delete(*project, selection, position as u64).unwrap();
            }
        }
    }
    store.take(&batch, journal.len() as u64);
}

fn check(store: &Store, model: &Model) {
    for project in [0, 1].map(ProjectId) {
        let snapshot = store.warehouse.snapshot(project);
        let stored = all(&snapshot);
        let mut expected: Vec<EventRow> =
            model.live.get(&project).into_iter().flat_map(|live| live.values().cloned()).collect();
        expected.sort_by_key(|row| (row.timestamp, row.uuid, row.event.clone(), row.distinct_no));
        assert_eq!(stored.len(), expected.len());
        for (stored, expected) in stored.iter().zip(&expected) {
            let json = |row: &EventRow| -> serde_json::Value {
                serde_json::from_str(&row.properties).unwrap()
            };
            assert_eq!(json(stored), json(expected));
            let bare =
                |row: &EventRow| EventRow { properties: String::new(), position: 0, ..row.clone() };
            assert_eq!(bare(stored), bare(expected));
        }
        assert_eq!(snapshot.totals().events, expected.len() as u64);
        check_filter(&snapshot, &expected);
    }
}

fn check_filter(snapshot: &warehouse::Snapshot, expected: &[EventRow]) {
    let value_is_one =
        Predicate::test(ColumnKey::Property("v".into()), |value| value == Some(Value::Number("1")));
    let null =
        Predicate::test(ColumnKey::Property("p1".into()), |value| value == Some(Value::Null));
    let full = Filter {
        events: Some(["event 1".to_owned()].into()),
        excluded_events: ["event 0".to_owned(), "none".to_owned()].into(),
        distinct_nos: Some([0, 2].into_iter().collect()),
        after: Some(Timestamp::from_micros(NOON - 15 * 86_400_000_000)),
        before: Some(Timestamp::from_micros(NOON + 12 * 86_400_000_000)),
        predicate: Some(Predicate::All(vec![value_is_one, null])),
    };
    // Every combination of conditions, since each may take another code path.
    for parts in 0..32 {
        let has = |part: u32| parts & 1 << part != 0;
        let filter = Filter {
            events: full.events.clone().filter(|_| has(0)),
            distinct_nos: full.distinct_nos.clone().filter(|_| has(1)),
            after: full.after.filter(|_| has(2)),
            before: full.before.filter(|_| has(2)),
            predicate: full.predicate.clone().filter(|_| has(3)),
            excluded_events: full.excluded_events.iter().filter(|_| has(4)).cloned().collect(),
        };
        let wanted = |row: &&EventRow| {
            filter.events.as_ref().is_none_or(|_| *row.event == *"event 1")
                && !filter.excluded_events.contains(&*row.event)
                && filter.distinct_nos.as_ref().is_none_or(|_| row.distinct_no != 1)
                && filter.after.is_none_or(|after| row.timestamp > after)
                && filter.before.is_none_or(|before| row.timestamp < before)
                && filter.predicate.as_ref().is_none_or(|_| row.properties.contains(r#""v":1"#))
        };
        let wanted: Vec<_> = expected.iter().filter(wanted).collect();
        assert_eq!(snapshot.count(&filter).unwrap(), wanted.len() as u64, "{filter:?}");
        let ranges = snapshot.scan_ranges(&filter).unwrap().into_iter();
        let mut scanned: Vec<i64> = ranges
            .flat_map(|range| range.read(&filter, &Projection::default()).unwrap().timestamps)
            .collect();
        scanned.sort_unstable();
        let wanted: Vec<i64> = wanted.iter().map(|row| row.timestamp.as_micros()).collect();
        assert_eq!(scanned, wanted, "{filter:?}");
    }
    for row in expected.iter().step_by(expected.len() / 3 + 1) {
        let event = snapshot.get(row.uuid).unwrap().expect("a listed event is found by its uuid");
        assert_eq!(event.uuid, row.uuid);
    }
    let values = snapshot
        .values(&ColumnKey::Property("v".into()), &Filter::default(), &|_| true, 10)
        .unwrap();
    for value in ["0", "1", "2"] {
        let has_value = |row: &&EventRow| row.properties.contains(&format!(r#""v":{value},"#));
        let counted = values.iter().find(|count| count.json == value);
        let expected = expected.iter().filter(has_value).count() as u64;
        assert_eq!(counted.map_or(0, |count| count.events), expected);
    }
}

fn run(actions: Vec<Action>) {
    let mut store = Store::new();
    let mut model = Model::default();
    for action in actions {
        let first = model.journal.len();
        match action {
            Action::Append(events) => {
                for event in events {
                    model.apply(Record::Event(Box::new(event.row(model.journal.len() as u64))));
                }
            }
            Action::DeletePerson(number) => {
                model.apply(Record::Delete(
                    ProjectId(0),
                    DeleteSelection::DistinctNos([number].into()),
                ));
            }
            Action::DeleteUuid(uuid) => {
                let uuid = Uuid::from_u128(u128::from(uuid) << 70);
                model.apply(Record::Delete(ProjectId(1), DeleteSelection::Uuids([uuid].into())));
            }
            Action::DeleteDay(day) => {
                let from = NOON + day * 86_400_000_000;
                let range =
                    DeleteSelection::Time { from: Some(from), to: Some(from + 3 * 86_400_000_000) };
                model.apply(Record::Delete(ProjectId(0), range));
            }
            Action::DeleteProject(project) => {
                let project = ProjectId(i64::from(project));
                model.apply(Record::Delete(project, DeleteSelection::All));
            }
            Action::Flush => {
                store.warehouse.flush().unwrap();
                assert_eq!(store.warehouse.durable_position(), model.journal.len() as u64);
            }
            Action::Compact(effort) => drop(store.warehouse.compact(effort).unwrap()),
            Action::Sweep => {
                store.clock.advance_seconds(600);
                store.warehouse.sweep().unwrap();
            }
            Action::Crash => {
                store = store.reopen();
                let durable = store.warehouse.durable_position() as usize;
                play(&store, &model.journal, durable);
            }
        }
        play(&store, &model.journal, first);
        assert_eq!(store.warehouse.applied_position(), model.journal.len() as u64);
        check(&store, &model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_appends_deletes_and_crashes_agree_with_the_model(
        actions in prop::collection::vec(action(), 1..30)
    ) {
        run(actions);
    }
}
