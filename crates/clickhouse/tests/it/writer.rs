//! The writer: what it stores once, whatever is repeated, lost or cut otherwise.

use clickhouse::{
    Error, EventFilter, Schema, Told, ToldDistinctId, ToldPerson, Writer, WriterSettings,
};
use model::{Clock, ProjectId};
use serde_json::json;
use testing::seed;
use uuid::Uuid;
use warehouse::{Cursor, EventRow, Order};

use crate::scripted::{Answer, serve};
use crate::support::{JOURNAL, PROJECT, Store, append, client, positions, row, rows, time, writer};

#[test]
fn rows_are_visible_and_durable_after_a_flush() {
    let Some(mut store) = Store::open() else { return };
    store.append(&rows(1..4));
    assert_eq!((store.writer.appended_position(), store.writer.durable_position()), (4, 0));
    assert_eq!(store.all(), []);
    store.writer.flush().unwrap();
    assert_eq!((store.writer.durable_position(), store.writer.applied_position()), (4, 4));
    assert_eq!(store.all(), rows(1..4));
    // Records without rows move the position too.
    store.writer.append(&[], 9).unwrap();
    store.writer.flush().unwrap();
    store.reopen();
    assert_eq!(store.writer.durable_position(), 9);
    assert_eq!(store.all(), rows(1..4));
}

#[test]
fn a_flush_is_due_when_a_row_is_old_or_a_block_is_full() {
    let Some(store) = Store::open() else { return };
    let clock = Clock::at(time("2024-03-01T00:00:00Z"));
    let settings = WriterSettings { rows_max: 10, ..WriterSettings::default() };
    let writer = Writer::open(store.schema.clone(), 1, JOURNAL, settings, clock.clone()).unwrap();
    append(&writer, &rows(1..3));
    writer.flush_due().unwrap();
    assert_eq!(writer.durable_position(), 0);
    clock.advance_seconds(1);
    writer.flush_due().unwrap();
    assert_eq!(writer.durable_position(), 3);
    append(&writer, &rows(3..28));
    // Blocks of ten: all but the last, which is full, but nothing has followed it.
    assert_eq!(writer.durable_position(), 23);
    writer.flush().unwrap();
    assert_eq!(store.stored_rows(), 27);
}

#[test]
fn a_replay_stores_nothing_twice_however_it_is_cut() {
    let Some(mut store) = Store::open() else { return };
    let seed = seed();
    let mut rng = seed.rng();
    let all = rows(0..120);
    for _ in 0..6 {
        // A crash: rows are stored, but the position of the lane is not known to have moved.
        store.database.sql("ALTER TABLE lanes DELETE WHERE 1 SETTINGS mutations_sync = 2");
        store.reopen();
        assert_eq!(store.writer.durable_position(), 0);
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (part, later) = rest.split_at(rng.range(1..=rest.len()));
            store.append(part);
            store.writer.flush().unwrap();
            rest = later;
        }
        assert_eq!(store.all(), all);
    }
    let count = store.reader.count(PROJECT, &EventFilter::default()).unwrap();
    assert_eq!(count, 120);
}

#[test]
fn an_equal_block_is_stored_once() {
    let Some(mut store) = Store::open() else { return };
    for _ in 0..3 {
        store.database.sql("ALTER TABLE lanes DELETE WHERE 1 SETTINGS mutations_sync = 2");
        store.reopen();
        store.append(&rows(0..5));
        store.writer.flush().unwrap();
    }
    assert_eq!(store.stored_rows(), 5, "ClickHouse knows the token");
}

#[test]
fn of_copies_of_an_event_the_latest_counts() {
    let Some(store) = Store::open() else { return };
    let first = row(1, json!({"price": 1}));
    let mut later = EventRow { position: 2, ..first.clone() };
    later.properties = json!({"price": 2}).to_string();
    later.timestamp = first.timestamp.plus_seconds(60);
    store.append(std::slice::from_ref(&first));
    store.writer.flush().unwrap();
    store.append(std::slice::from_ref(&later));
    store.writer.flush().unwrap();
    assert_eq!(store.all(), [later.clone()]);
    assert_eq!(store.reader.get(PROJECT, first.uuid).unwrap(), Some(later.clone()));
    // Another name or distinct id is another event, with the same uuid too.
    let other = EventRow { position: 3, event: "closed".into(), ..later.clone() };
    store.append(std::slice::from_ref(&other));
    store.writer.flush().unwrap();
    assert_eq!(store.reader.count(PROJECT, &EventFilter::default()).unwrap(), 2);
    assert_eq!(store.reader.get(PROJECT, first.uuid).unwrap(), Some(other));
    // So does a copy that is dated to another day, until a sweep deletes the older.
    let moved = EventRow { position: 4, timestamp: later.timestamp.plus_seconds(86_400), ..later };
    store.append(&[moved]);
    store.writer.flush().unwrap();
    assert_eq!(store.reader.count(PROJECT, &EventFilter::default()).unwrap(), 3);
}

#[test]
fn an_insert_whose_answer_is_lost_or_refused_is_repeated_with_the_same_rows() {
    let Some(store) = Store::open() else { return };
    let real = store.database.url.clone();
    let name = store.database.name.clone();
    // Opening the schema and the lane takes requests too; after them, every second insert fails.
    let mut inserts = 0;
    let (url, requests) = serve(Some(real), move |_, request| {
        if !request.head.contains("INSERT+INTO+events") {
            return Answer::Forward;
        }
        inserts += 1;
        match inserts % 4 {
            1 => Answer::Lose,
            2 => Answer::exception(500, 252, "Too many parts (3000). (TOO_MANY_PARTS)"),
            3 => Answer::Status(503, String::new(), Vec::new()),
            _ => Answer::Forward,
        }
    });
    let url = url.replace("/stats", &format!("/{name}"));
    let writer = writer(&Schema::open(client(&url)).unwrap(), JOURNAL);
    append(&writer, &rows(1..4));
    assert!(matches!(writer.flush(), Err(Error::Away { .. })));
    // What is appended meanwhile waits for the next block.
    append(&writer, &rows(4..6));
    assert!(matches!(writer.flush_due(), Err(Error::TooManyParts { .. })));
    assert!(writer.flush().unwrap_err().is_transient());
    assert_eq!(writer.durable_position(), 0);
    assert!(writer.flush().is_err(), "the first block is stored, the answer of the second is lost");
    assert_eq!(writer.durable_position(), 4);
    while writer.flush().is_err() {}
    assert_eq!(writer.durable_position(), 6);
    assert_eq!(store.all(), rows(1..6));
    assert_eq!(store.stored_rows(), 5);
    let token = |head: &str| {
        let (_, rest) = head.split_once("insert_deduplication_token=")?;
        rest.split(['&', ' ']).next().map(str::to_owned)
    };
    let mut bodies: Vec<(String, Vec<u8>)> =
        requests.try_iter().filter_map(|one| Some((token(&one.head)?, one.body))).collect();
    bodies.dedup();
    assert_eq!(bodies.len(), 2, "a token never names two contents");
}

#[test]
fn a_lane_of_another_journal_is_refused_and_can_begin_anew() {
    let Some(store) = Store::open() else { return };
    store.append(&rows(1..4));
    store.writer.flush().unwrap();
    let clock = Clock::at(time("2024-03-01T00:00:00Z"));
    let open = |journal| {
        Writer::open(store.schema.clone(), 0, journal, WriterSettings::default(), clock.clone())
    };
    assert!(matches!(open(JOURNAL + 1), Err(Error::Journal { stored: JOURNAL, .. })));
    let settings = WriterSettings::default();
    let anew =
        Writer::begin_anew(store.schema.clone(), 0, JOURNAL + 1, settings, clock.clone()).unwrap();
    assert_eq!(anew.durable_position(), 0);
    // The same positions name other rows now.
    let others: Vec<_> =
        rows(1..4).into_iter().map(|row| EventRow { event: "other".into(), ..row }).collect();
    append(&anew, &others);
    anew.flush().unwrap();
    assert_eq!(store.all().len(), 6);
    assert_eq!(open(JOURNAL + 1).unwrap().durable_position(), 4);
}

#[test]
fn projects_are_apart_and_lists_have_pages() {
    let Some(store) = Store::open() else { return };
    let mut all = rows(1..10);
    all[3].project = ProjectId(8);
    all[4].event = "closed".into();
    store.append(&all);
    store.writer.flush().unwrap();
    let list = |filter: &EventFilter, order, limit, offset| {
        positions(&store.reader.list(PROJECT, filter, order, limit, offset).unwrap())
    };
    let any = EventFilter::default();
    assert_eq!(list(&any, Order::NewestFirst, 3, 0), [9, 8, 7]);
    assert_eq!(list(&any, Order::OldestFirst, 4, 2), [3, 5, 6, 7]);
    let closed = EventFilter { events: Some(vec!["closed".to_owned()]), ..any.clone() };
    assert_eq!(list(&closed, Order::NewestFirst, 9, 0), [5]);
    let (from, to) = (Some(all[1].timestamp), Some(all[5].timestamp));
    let between = EventFilter { from, to, ..any.clone() };
    assert_eq!(list(&between, Order::OldestFirst, 9, 0), [2, 3, 5]);
    let last = &store.reader.list(PROJECT, &any, Order::OldestFirst, 4, 0).unwrap()[3];
    let after = Some(Cursor::new(last.timestamp, last.uuid, &last.event, last.distinct_no));
    let later = EventFilter { after, before_position: Some(8), ..any.clone() };
    assert_eq!(list(&later, Order::OldestFirst, 9, 0), [6, 7]);
    let nobody = EventFilter { distinct_nos: Some(vec![4]), ..any };
    assert_eq!(store.reader.count(PROJECT, &nobody).unwrap(), 0);
    let span = store.reader.span(PROJECT).unwrap();
    assert_eq!(span, Some((all[0].timestamp, all[8].timestamp)));
    assert_eq!(store.reader.span(ProjectId(99)).unwrap(), None);
    assert_eq!(store.reader.totals(PROJECT).unwrap().events, 8);
}

#[test]
fn what_is_told_again_changes_nothing_and_the_later_position_counts() {
    let Some(store) = Store::open() else { return };
    let person = |no: u32, plan: &str, position| ToldPerson {
        project: PROJECT,
        person_no: no,
        person_id: Uuid::from_u128(no.into()),
        created_at: time("2024-01-01T00:00:00Z"),
        is_identified: true,
        is_deleted: false,
        properties: json!({"plan": plan, "x": null}).to_string(),
        position,
    };
    let id = |person: u32, position| ToldDistinctId {
        project: PROJECT,
        distinct_no: 3,
        distinct_id: "ann".to_owned(),
        person_no: Some(person),
        person_id: Uuid::from_u128(person.into()),
        position,
    };
    let told = |persons, distinct_ids| Told { persons, distinct_ids, ..Told::default() };
    let late = told(vec![person(1, "pro", 8)], vec![id(2, 8)]);
    let early = told(vec![person(1, "free", 5)], vec![id(1, 5)]);
    for told in [&late, &early, &late] {
        store.writer.tell(told).unwrap();
    }
    let persons = "SELECT properties, position FROM persons FINAL FORMAT JSONCompactEachRow";
    let persons = store.database.sql(persons).replace("\"8\"", "8");
    assert_eq!(persons, r#"[{"plan":"tpro","x":"z"}, 8]"#);
    let owner = "SELECT person_no FROM distinct_ids FINAL";
    assert_eq!(store.database.sql(owner), "2");
}
