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
