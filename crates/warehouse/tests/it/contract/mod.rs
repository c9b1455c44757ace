//! The contract of a warehouse: what every implementation does, whatever engine stores the rows.
//!
//! The cases use [`Sink`] to write and an [`Adapter`] to read and restart, so that another
//! implementation runs the same ones. Its test binary includes this folder
//! (`#[path = "../../../warehouse/tests/it/contract/mod.rs"] mod contract;`), implements the adapter
//! and expands the cases once for each: `mod name { crate::contract::contract_of!(crate::MyAdapter); }`.

mod appends;
mod deletes;
mod properties;
mod reads;

use std::collections::BTreeSet;
use std::time::Duration;

use ::model::{ProjectId, Timestamp};
use uuid::Uuid;
use warehouse::{
    ColumnKey, Cursor, DeleteSelection, EventRow, Filter, Listing, NewRow, Order, Sink, ValueCount,
    Window,
};

pub use appends::*;
pub use deletes::*;
pub use properties::*;
pub use reads::*;

/// A warehouse under test.
pub trait Adapter: Sized {
    /// An empty store. It drops events older than `age_max`, if that is given.
    fn open(age_max: Option<Duration>) -> Self;

    /// Opens the store again as after a killed process: what was not durable is lost.
    fn restart(self) -> Self;

    fn sink(&self) -> &dyn Sink;

    /// Returns once all appended rows are visible. May also have the store rearrange them.
    fn settle(&self);

    /// The store's clock.
    fn now(&self) -> Timestamp;

    /// `filter` has no predicate.
    fn list(&self, project: ProjectId, filter: &Filter, window: &Window) -> Listing;

    fn get(&self, project: ProjectId, uuid: Uuid) -> Option<EventRow>;

    /// The most frequent values but null.
    fn values(
        &self,
        project: ProjectId,
        key: &ColumnKey,
        filter: &Filter,
        limit: usize,
    ) -> Vec<ValueCount>;
}

/// Expands the cases for one adapter; a case that is not listed is dead code. They are skipped where
/// the engine is not available.
macro_rules! contract_of {
    ($adapter:ty) => {
        $crate::contract::contract_of!($adapter, true);
    };
    ($adapter:ty, $available:expr) => {
        $crate::contract::contract_of! { $adapter, $available;
            rows_come_back_as_they_were_appended,
            replay_stores_no_event_twice,
            position_without_rows_becomes_durable,
            equal_copy_is_listed_once,
            changed_copy_replaces_the_stored_event,
            events_that_share_a_uuid_differ_by_name_and_distinct_id,
            projects_do_not_share_events,
            delete_hides_what_it_selects_and_nothing_else,
            delete_keeps_events_appended_later,
            replay_does_not_resurrect_deleted_events,
            deleted_copy_does_not_bring_back_the_event_it_replaced,
            retention_drops_events_older_than_age_max,
            properties_come_back_with_equal_values_and_literals,
            repeated_property_name_keeps_the_last_value,
            list_visits_every_event_once_in_order,
            list_bounds_are_exclusive_and_offset_skips,
            list_selects_by_event_and_distinct_id,
            get_finds_the_latest_event_with_a_uuid,
            values_are_counted_by_frequency,
        }
    };
    ($adapter:ty, $available:expr; $($case:ident),+ $(,)?) => {
        $(#[test] fn $case() {
            if $available {
                $crate::contract::$case::<$adapter>()
            }
        })+
    };
}
pub(crate) use contract_of;

const PROJECT: ProjectId = ProjectId(1);
const DAY_MICROS: i64 = 86_400_000_000;
/// Bound of the lists of these tests.
const ALL: usize = 100_000;

/// A store and the journal that fills it.
struct Filled<A> {
    adapter: A,
    journal: Vec<EventRow>,
    /// Noon of the store's yesterday, UTC. What is within twelve hours of it has one date.
    noon: i64,
}

impl<A: Adapter> Filled<A> {
    fn new() -> Self {
        Self::keeping(None)
    }

    fn keeping(age_max: Option<Duration>) -> Self {
        let adapter = A::open(age_max);
        let midnight = adapter.now().as_micros() / DAY_MICROS * DAY_MICROS;
        Self { adapter, journal: Vec::new(), noon: midnight - DAY_MICROS / 2 }
    }

    /// An event `micros` after noon.
    fn event(&self, number: u128, micros: i64) -> EventRow {
        EventRow {
            project: PROJECT,
            uuid: Uuid::from_u128(number),
            event: "$pageview".into(),
            distinct_id: "ann".into(),
            distinct_no: 1,
            timestamp: Timestamp::from_micros(self.noon + micros),
            created_at: Timestamp::from_micros(self.noon + 5),
            elements_chain: String::new(),
            groups: Default::default(),
            properties: r#"{"$browser":"Firefox"}"#.into(),
            position: 0,
            historical: false,
        }
    }

    /// Appends events to the journal and to the store.
    fn append(&mut self, rows: impl IntoIterator<Item = EventRow>) {
        let first = self.journal.len();
        for row in rows {
            let position = self.journal.len() as u64;
            self.journal.push(EventRow { position, ..row });
        }
        self.play(first);
        self.adapter.settle();
    }

    /// Appends the journal's records from `first` on.
    fn play(&self, first: usize) {
        let rows = &self.journal[first.min(self.journal.len())..];
        let rows: Vec<NewRow<'_>> = rows.iter().map(|row| row.as_new().unwrap()).collect();
        self.adapter.sink().append(&rows, self.journal.len() as u64).unwrap();
    }

    fn delete(&self, selection: &DeleteSelection, before: u64) {
        self.adapter.sink().delete(PROJECT, selection, before).unwrap();
    }

    /// Kills the process and replays the journal.
    fn restart(self) -> Self {
        let adapter = self.adapter.restart();
        let filled = Self { adapter, ..self };
        let durable = filled.adapter.sink().durable_position();
        assert!(durable <= filled.journal.len() as u64, "durable beyond the journal: {durable}");
        filled.play(durable as usize);
        filled.adapter.settle();
        filled
    }

    /// All events of a project, oldest first.
    fn all(&self, project: ProjectId) -> Vec<EventRow> {
        let window = Window { order: Order::OldestFirst, limit: ALL, ..Window::default() };
        let listing = self.adapter.list(project, &Filter::default(), &window);
        assert_eq!(listing.next, None);
        listing.events
    }

    fn numbers(&self) -> Vec<u128> {
        numbers(&self.all(PROJECT))
    }

    /// Asserts which events are visible, now and after a restart with a replay.
    fn holds(self, expected: &[u128]) -> Self {
        assert_eq!(self.numbers(), expected);
        let again = self.restart();
        assert_eq!(again.numbers(), expected, "after a restart");
        again
    }
}

fn numbers(rows: &[EventRow]) -> Vec<u128> {
    rows.iter().map(|row| row.uuid.as_u128()).collect()
}

/// Reads all pages of a list.
fn pages<A: Adapter>(filled: &Filled<A>, order: Order, limit: usize) -> Vec<EventRow> {
    let mut read = Vec::new();
    let mut resume: Option<Cursor> = None;
    loop {
        let window = Window { order, limit, resume, ..Window::default() };
        let listing = filled.adapter.list(PROJECT, &Filter::default(), &window);
        assert!(listing.events.len() <= limit);
        read.extend(listing.events);
        match listing.next {
            // Through its string, as clients send it.
            Some(next) => resume = Some(next.to_string().parse().unwrap()),
            None => return read,
        }
    }
}

/// Numbers of the events that `filter` selects.
fn listed<A: Adapter>(filled: &Filled<A>, filter: &Filter) -> BTreeSet<u128> {
    let window = Window { limit: ALL, ..Window::default() };
    numbers(&filled.adapter.list(PROJECT, filter, &window).events).into_iter().collect()
}
