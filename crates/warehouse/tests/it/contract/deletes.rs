//! Deletes up to a position, and retention.

use std::time::Duration;

use warehouse::{DeleteSelection, EventRow};

use super::{Adapter, DAY_MICROS, Filled, PROJECT};

/// Thirty events of three persons, a minute apart.
fn people<A: Adapter>() -> Filled<A> {
    let mut filled = Filled::<A>::new();
    let event = |filled: &Filled<A>, number: u32| EventRow {
        distinct_no: number % 3,
        distinct_id: format!("person {}", number % 3).into(),
        ..filled.event(number.into(), i64::from(number) * 60_000_000)
    };
    for numbers in [0..20, 20..30] {
        let rows: Vec<EventRow> = numbers.map(|number| event(&filled, number)).collect();
        filled.append(rows);
    }
    filled
}

/// A selection of the events, and whether it has the event with a number.
type Selected<A> = (fn(&Filled<A>) -> DeleteSelection, fn(u128) -> bool);

pub fn delete_hides_what_it_selects_and_nothing_else<A: Adapter>() {
    let selections: [Selected<A>; 4] = [
        (|_| DeleteSelection::DistinctNos([1].into()), |number| number % 3 == 1),
        (
            |filled| DeleteSelection::Uuids([3, 25].map(|at| filled.journal[at].uuid).into()),
            |number| [3, 25].contains(&number),
        ),
        (|_| DeleteSelection::All, |_| true),
        (
            |filled| DeleteSelection::Time {
                from: Some(filled.journal[5].timestamp.as_micros()),
                to: Some(filled.journal[22].timestamp.as_micros()),
            },
            |number| (5..22).contains(&number),
        ),
    ];
    for (selection, is_deleted) in selections {
        let filled = people::<A>();
        let selection = selection(&filled);
        filled.delete(&selection, 30);
        let left: Vec<u128> = (0..30).filter(|number| !is_deleted(*number)).collect();
        assert_eq!(filled.numbers(), left, "at once, {selection:?}");
        // A repetition changes nothing.
        filled.delete(&selection, 30);
        let filled = filled.holds(&left);
        for row in &filled.journal {
            let found = filled.adapter.get(PROJECT, row.uuid);
            assert_eq!(found.is_none(), is_deleted(row.uuid.as_u128()), "{selection:?}");
        }
    }
}

pub fn delete_keeps_events_appended_later<A: Adapter>() {
    let mut filled = people::<A>();
    filled.delete(&DeleteSelection::DistinctNos([1].into()), 25);
    let left = |filled: &Filled<A>| -> Vec<u128> {
        filled.all(PROJECT).iter().filter(|row| row.distinct_no == 1).map(number).collect()
    };
    assert_eq!(left(&filled), [25, 28]);
    let later = EventRow { distinct_id: "person 1".into(), ..filled.event(100, 60_000_000_000) };
    filled.append([later]);
    assert_eq!(left(&filled), [25, 28, 100]);
    assert_eq!(left(&filled.restart()), [25, 28, 100]);
}

fn number(row: &EventRow) -> u128 {
    row.uuid.as_u128()
}

pub fn replay_does_not_resurrect_deleted_events<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    let rows: Vec<EventRow> = (0..5).map(|number| filled.event(number, number as i64)).collect();
    filled.append(rows);
    filled.delete(&DeleteSelection::All, 3);
    let filled = filled.holds(&[3, 4]);
    filled.adapter.sink().flush().unwrap();
    filled.play(0);
    filled.adapter.settle();
    filled.holds(&[3, 4]);
}

/// The delete selects the copy only, by its time.
pub fn deleted_copy_does_not_bring_back_the_event_it_replaced<A: Adapter>() {
    let mut filled = Filled::<A>::new();
    filled.append([filled.event(1, 0), filled.event(2, 0)]);
    filled.append([filled.event(1, -50)]);
    let then = filled.journal[2].timestamp.as_micros();
    filled.delete(&DeleteSelection::Time { from: Some(then), to: Some(then + 1) }, 3);
    let filled = filled.holds(&[2]);
    filled.adapter.sink().flush().unwrap();
    filled.holds(&[2]);
}

pub fn retention_drops_events_older_than_age_max<A: Adapter>() {
    let mut filled = Filled::<A>::keeping(Some(Duration::from_secs(30 * 86_400)));
    let now = filled.adapter.now().as_micros() - filled.noon;
    let days_ago =
        |filled: &Filled<A>, days: i64| filled.event(days as u128, now - days * DAY_MICROS);
    let rows = [50, 31, 29, 0].map(|days| days_ago(&filled, days));
    filled.append(rows);
    filled.adapter.sink().flush().unwrap();
    filled.adapter.sink().apply_retention().unwrap();
    filled.holds(&[29, 0]);
}
