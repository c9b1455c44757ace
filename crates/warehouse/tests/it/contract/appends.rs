//! What becomes of appended rows: once, whole, and the latest copy.

use ::model::{ProjectId, Timestamp};
use warehouse::{DeleteSelection, EventRow, Order};

use super::{Adapter, DAY_MICROS, Filled, PROJECT, numbers, pages};

pub fn rows_come_back_as_they_were_appended<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let whole = EventRow {
        event: "caf\u{e9} \"quoted\" `back` {braces} \\ \u{1f426}".into(),
        distinct_id: "\u{4e2d}'; --".into(),
        distinct_no: 4_000_000_000,
        created_at: Timestamp::from_micros(filled.noon + 123_456),
        elements_chain: r#"a:href="/x"text="\"hi\"";div"#.into(),
        groups: [Some("acme".into()), None, Some("\u{e4}".into()), None, Some("5".into())],
        properties: r#"{"a":"x"}"#.into(),
        historical: true,
        ..filled.event(u128::MAX, 654_321)
    };
    let years_ago = filled.event(2, -20 * 366 * DAY_MICROS);
    filled.append([whole, years_ago]);
    let expected = vec![filled.journal[1].clone(), filled.journal[0].clone()];
    assert_eq!(filled.all(PROJECT), expected);
    for row in &expected {
        assert_eq!(filled.adapter.get(PROJECT, row.uuid).as_ref(), Some(row));
    }
    assert_eq!(filled.restart().all(PROJECT), expected);
}

pub fn replay_stores_no_event_twice<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let event = |filled: &Filled<A>, number: u128| EventRow {
        event: format!("event {}", number % 3).into(),
        ..filled.event(number, number as i64)
    };
    let mut expected = Vec::new();
    for round in 0..4u128 {
        let rows: Vec<EventRow> =
            (round * 10..round * 10 + 10).map(|number| event(&filled, number)).collect();
        filled.append(rows);
        if round == 1 {
            filled.adapter.sink().flush().unwrap();
            assert_eq!(filled.adapter.sink().durable_position(), 20);
        }
        assert_eq!(filled.adapter.sink().applied_position(), filled.journal.len() as u64);
        expected.extend(round * 10..round * 10 + 10);
        filled = filled.holds(&expected);
    }
    // From the start, though all of it is stored.
    filled.play(0);
    filled.adapter.settle();
    filled.holds(&expected);
}

pub fn position_without_rows_becomes_durable<A: Adapter>() {
    let adapter = A::open(None);
    adapter.sink().append(&[], 5).unwrap();
    adapter.sink().flush().unwrap();
    assert_eq!(adapter.sink().durable_position(), 5);
    let adapter = adapter.restart();
    assert_eq!((adapter.sink().durable_position(), adapter.sink().applied_position()), (5, 5));
}

pub fn equal_copy_is_listed_once<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let first = EventRow { properties: r#"{"a": 1, "b":"x"}"#.into(), ..filled.event(1, 0) };
    let copy = EventRow {
        properties: r#"{"b":"\u0078","a":1}"#.into(),
        created_at: Timestamp::from_micros(first.created_at.as_micros() + 1_000),
        ..first.clone()
    };
    filled.append([first]);
    filled.append([copy.clone()]);
    filled.append([copy.clone(), copy]);
    let filled = filled.holds(&[1]);
    let stored = filled.all(PROJECT).remove(0);
    assert_eq!(json(&stored), serde_json::json!({ "a": 1, "b": "x" }));
}

/// The copies have another content and the same UTC date, which a store may use to find copies.
pub fn changed_copy_replaces_the_stored_event<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    for at_once in [false, true] {
        let number = |case: u128| case * 2 + u128::from(at_once);
        let changes: [fn(EventRow) -> EventRow; 5] = [
            |row| EventRow { properties: r#"{"a":1.0}"#.into(), ..row },
            |row| EventRow { properties: "{}".into(), ..row },
            |row| EventRow {
                timestamp: Timestamp::from_micros(row.timestamp.as_micros() - 3_600_000_000),
                ..row
            },
            |row| EventRow { elements_chain: "button".into(), ..row },
            |row| EventRow { groups: [None, Some("acme".into()), None, None, None], ..row },
        ];
        let first = |filled: &Filled<A>, case: usize| EventRow {
            properties: r#"{"a":1}"#.into(),
            ..filled.event(number(case as u128), 0)
        };
        let firsts: Vec<EventRow> = (0..changes.len()).map(|case| first(&filled, case)).collect();
        let copies: Vec<EventRow> =
            firsts.iter().cloned().zip(changes).map(|(row, change)| change(row)).collect();
        if at_once {
            filled.append(firsts.iter().zip(&copies).flat_map(|(a, b)| [a.clone(), b.clone()]));
        } else {
            filled.append(firsts);
            filled.append(copies.clone());
        }
        for _ in 0..2 {
            let stored = filled.all(PROJECT);
            for copy in &copies {
                let found: Vec<&EventRow> =
                    stored.iter().filter(|row| row.uuid == copy.uuid).collect();
                let [found] = found[..] else { panic!("{} of {copy:?}", found.len()) };
                assert_eq!(&EventRow { position: 0, ..found.clone() }, copy);
            }
            filled = filled.restart();
        }
    }
}

pub fn events_that_share_a_uuid_differ_by_name_and_distinct_id<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let named =
        |filled: &Filled<A>, name: &str| EventRow { event: name.into(), ..filled.event(1, 0) };
    let others = EventRow { distinct_no: 2, distinct_id: "bob".into(), ..filled.event(1, 0) };
    filled.append([named(&filled, "a"), named(&filled, "b"), others]);
    assert_eq!(numbers(&pages(&filled, Order::NewestFirst, 1)), [1, 1, 1]);
    filled.holds(&[1, 1, 1]);
}

pub fn projects_do_not_share_events<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let other = EventRow { project: ProjectId(2), ..filled.event(1, 0) };
    filled.append([filled.event(1, 0), filled.event(2, 1), other]);
    filled.delete(&DeleteSelection::All, 3);
    for _ in 0..2 {
        assert_eq!(filled.numbers(), []);
        assert_eq!(filled.adapter.get(PROJECT, filled.journal[2].uuid), None);
        assert_eq!(filled.all(ProjectId(2)), [filled.journal[2].clone()]);
        filled = filled.restart();
    }
}

fn json(row: &EventRow) -> serde_json::Value {
    serde_json::from_str(&row.properties).unwrap()
}
