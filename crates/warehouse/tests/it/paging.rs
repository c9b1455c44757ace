//! Lists of events by time, and pagination.

use proptest::prelude::*;
use warehouse::{Cursor, EventRow, Filter, Order, Window};

use crate::support::{Store, at, uuids};

/// Reads all pages and returns the uuids in order.
fn pages(store: &Store, order: Order, limit: usize) -> Vec<u128> {
    let snapshot = store.snapshot();
    let mut seen = Vec::new();
    let mut resume: Option<Cursor> = None;
    loop {
        let window = Window { order, limit, resume, ..Window::default() };
        let listing = snapshot.list(&Filter::default(), &window).unwrap();
        assert!(listing.events.len() <= limit);
        seen.extend(uuids(&listing.events));
        match listing.next {
            Some(next) => resume = Some(next.to_string().parse().unwrap()),
            None => return seen,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]


    #[test]
    fn pagination_visits_every_event_once_with_equal_timestamps(
        times in prop::collection::vec(0..4i64, 1..150),
        limit in 1usize..20,
        flush_at in 0usize..150,
    ) {
        let store = Store::new();
        let mut rows: Vec<EventRow> = times
            .iter()
            .enumerate()
            .map(|(number, time)| EventRow {
                event: format!("event {}", number % 3).into(),
                ..at(number as u128, *time)
            })
            .collect();
        let (first, second) = rows.split_at_mut(flush_at.min(times.len()));
        store.append(first);
        store.warehouse.flush().unwrap();
        store.append(second);
        let mut expected: Vec<(i64, u128)> = times.iter().copied().zip(0..).collect();
        expected.sort();
        let mut expected: Vec<u128> = expected.into_iter().map(|(_, number)| number).collect();
        prop_assert_eq!(&pages(&store, Order::OldestFirst, limit), &expected);
        expected.reverse();
        prop_assert_eq!(&pages(&store, Order::NewestFirst, limit), &expected);
    }
}

#[test]
fn list_has_all_events_that_share_uuid_and_timestamp() {
    let store = Store::new();
    let mut rows = vec![
        EventRow { event: "a".into(), ..at(1, 0) },
        EventRow { event: "b".into(), ..at(1, 0) },
        EventRow { distinct_no: 2, distinct_id: "bob".into(), ..at(1, 0) },
    ];
    store.append(&mut rows);
    store.warehouse.flush().unwrap();
    assert_eq!(pages(&store, Order::NewestFirst, 1), [1, 1, 1]);
}

#[test]
fn list_time_bounds_are_exclusive_and_offset_skips() {
    let store = Store::new();
    store.append(&mut (0..10).map(|number| at(number as u128, number)).collect::<Vec<_>>());
    store.warehouse.flush().unwrap();
    let time = |micros| Some(at(0, micros).timestamp);
    let filter = Filter { after: time(2), before: time(8), ..Filter::default() };
    let window = Window { limit: 3, offset: 1, ..Window::default() };
    let listing = store.snapshot().list(&filter, &window).unwrap();
    assert_eq!(uuids(&listing.events), [6, 5, 4]);
    assert_eq!(store.snapshot().count(&filter).unwrap(), 5);
}

#[test]
fn invalid_cursor_is_rejected() {
    for text in [
        "",
        "1",
        "1.2.3.4",
        "x.00000000000000000000000000000001.1.61",
        "1.00000000000000000000000000000001.1.6",
    ] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
}
