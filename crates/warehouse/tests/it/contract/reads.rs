//! Lists, single events and values.

use warehouse::{ColumnKey, EventRow, Filter, Order, ValueCount, Window};

use super::{Adapter, Filled, PROJECT, listed, numbers, pages};

/// Many events share a time, and some a uuid.
pub fn list_visits_every_event_once_in_order<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let event = |filled: &Filled<A>, number: u32| EventRow {
        event: format!("event {}", number % 3).into(),
        distinct_no: number % 4,
        distinct_id: format!("person {}", number % 4).into(),
        ..filled.event(u128::from(number % 50), i64::from(number * 7 % 5))
    };
    for numbers in [0..40, 40..61] {
        let rows: Vec<EventRow> = numbers.map(|number| event(&filled, number)).collect();
        filled.append(rows);
    }
    let mut expected = filled.journal.clone();
    expected.sort_by_key(|row| (row.timestamp, row.uuid, row.event.clone(), row.distinct_no));
    for limit in [7, 61, 100] {
        assert_eq!(pages(&filled, Order::OldestFirst, limit), expected);
    }
    expected.reverse();
    assert_eq!(pages(&filled, Order::NewestFirst, 13), expected);
}

pub fn list_bounds_are_exclusive_and_offset_skips<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let rows: Vec<EventRow> = (0..10).map(|number| filled.event(number, number as i64)).collect();
    filled.append(rows);
    let time = |at: usize| Some(filled.journal[at].timestamp);
    let filter = Filter { after: time(2), before: time(8), ..Filter::default() };
    let window = Window { limit: 3, offset: 1, ..Window::default() };
    let listing = filled.adapter.list(PROJECT, &filter, &window);
    assert_eq!(numbers(&listing.events), [6, 5, 4]);
    let window = Window { resume: listing.next, limit: 3, ..Window::default() };
    assert_eq!(numbers(&filled.adapter.list(PROJECT, &filter, &window).events), [3]);
    assert_eq!(listed(&filled, &filter), (3..8).collect());
}

pub fn list_selects_by_event_and_distinct_id<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let event = |filled: &Filled<A>, number: u32| EventRow {
        event: ["a", "A", "b' or 1"][number as usize % 3].into(),
        distinct_no: number % 4,
        distinct_id: format!("person {}", number % 4).into(),
        ..filled.event(number.into(), number.into())
    };
    let rows: Vec<EventRow> = (0..24).map(|number| event(&filled, number)).collect();
    filled.append(rows);
    let of = |events: Option<&[&str]>, distinct_nos: Option<&[u32]>| Filter {
        events: events.map(|names| names.iter().map(|name| (*name).to_owned()).collect()),
        distinct_nos: distinct_nos.map(|all| all.iter().copied().collect()),
        ..Filter::default()
    };
    type IsSelected = fn(u128) -> bool;
    let cases: [(Filter, IsSelected); 6] = [
        (of(Some(&["b' or 1"]), None), |number| number % 3 == 2),
        (of(Some(&["a", "none"]), None), |number| number % 3 == 0),
        (of(None, Some(&[1, 3])), |number| number % 2 == 1),
        (of(Some(&["A"]), Some(&[2])), |number| number % 3 == 1 && number % 4 == 2),
        (of(Some(&[]), None), |_| false),
        (of(None, Some(&[])), |_| false),
    ];
    for (filter, is_selected) in cases {
        let expected = (0..24).filter(|number| is_selected(*number)).collect();
        assert_eq!(listed(&filled, &filter), expected, "{filter:?}");
    }
}

pub fn get_finds_the_latest_event_with_a_uuid<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let other = EventRow { event: "later".into(), ..filled.event(7, -1_000) };
    let rows: Vec<EventRow> = (0..20).map(|number| filled.event(number, 0)).collect();
    filled.append(rows);
    filled.append([other]);
    for _ in 0..2 {
        let get = |number: u128| filled.adapter.get(PROJECT, uuid::Uuid::from_u128(number));
        assert_eq!(get(3).as_ref(), Some(&filled.journal[3]));
        assert_eq!(get(7).as_ref(), Some(&filled.journal[20]));
        assert_eq!(get(99), None);
        filled = filled.restart();
    }
}

pub fn values_are_counted_by_frequency<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let values = [
        r#""b""#,
        "1",
        r#""b""#,
        "true",
        "null",
        r#"["x",1]"#,
        "1",
        r#""b""#,
        r#""1""#,
        "1.50",
        r#""b""#,
        "true",
        "1",
    ];
    let rows: Vec<EventRow> = (0..)
        .zip(values)
        .map(|(number, value)| EventRow {
            event: if number % 2 == 0 { "even" } else { "odd" }.into(),
            properties: format!(r#"{{"v":{value},"other":{number}}}"#),
            ..filled.event(number, number as i64)
        })
        .collect();
    filled.append(rows);
    let of = |key: &ColumnKey, filter: &Filter, limit: usize| -> Vec<(String, u64)> {
        let counted = filled.adapter.values(PROJECT, key, filter, limit);
        counted.into_iter().map(|ValueCount { json, events }| (json, events)).collect()
    };
    let v = ColumnKey::Property("v".into());
    let all = of(&v, &Filter::default(), 100);
    let text = |(json, events): &(String, u64)| format!("{json} {events}");
    let first: Vec<String> = all[..3].iter().map(text).collect();
    assert_eq!(first, [r#""b" 4"#, "1 3", "true 2"]);
    let mut once: Vec<String> = all[3..].iter().map(text).collect();
    once.sort();
    assert_eq!(once, [r#""1" 1"#, "1.50 1", r#"["x",1] 1"#]);
    assert_eq!(of(&v, &Filter::default(), 2).len(), 2);
    let odd = Filter { events: Some(["odd".to_owned()].into()), ..Filter::default() };
    let before = Filter { before: Some(filled.journal[4].timestamp), ..odd };
    let mut of_two: Vec<String> = of(&v, &before, 100).iter().map(text).collect();
    of_two.sort();
    assert_eq!(of_two, ["1 1", "true 1"]);
    let names = of(&ColumnKey::Event, &Filter::default(), 100);
    assert_eq!(names, [(r#""even""#.to_owned(), 7), (r#""odd""#.to_owned(), 6)]);
    let ids = of(&ColumnKey::DistinctId, &Filter::default(), 100);
    assert_eq!(ids, [(r#""ann""#.to_owned(), 13)]);
    assert_eq!(of(&ColumnKey::Property("none".into()), &Filter::default(), 100), []);
}
