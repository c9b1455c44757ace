//! The contract of a journal: what every engine does, wherever it keeps the records.

mod adapters;
mod appends;
mod kills;
mod reads;

use adapters::{Files, JetStream};
use appends::*;
use kills::*;
use reads::*;

use journal::{Journal, Result, Settings};

/// A place for a journal.
trait Adapter: Sized {
    /// None if the engine is not there: the test is skipped.
    fn new() -> Option<Self>;

    /// The same place in another process.
    fn from_name(name: &str) -> Self;

    fn name(&self) -> String;

    /// The path of the cases in this binary.
    const MODULE: &str;

    /// Opens the journal as the one server that uses it, which may have been killed before.
    async fn open(&self, settings: Settings) -> Result<Journal>;

    /// Opens the journal as another server.
    async fn open_as_other(&self, settings: Settings) -> Result<Journal>;

    /// Puts something there that is no journal of ours. There is none yet.
    async fn make_foreign(&self);
}

macro_rules! contract { ($($case:ident),+ $(,)?) => {
    mod files {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() { super::run::<super::Files, _>(super::$case::<super::Files>).await }
    )+}
    mod jetstream {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() { super::run::<super::JetStream, _>(super::$case::<super::JetStream>).await }
    )+}
}; }

contract!(
    records_come_back_in_order_before_and_after_a_restart,
    producers_keep_their_order_and_positions_rise,
    batch_larger_than_a_message_stays_in_order,
    largest_record_is_taken_and_a_larger_one_is_refused,
    full_journal_refuses_until_records_are_released,
    append_that_finds_no_capacity_is_refused_as_busy,
    dropped_append_still_completes,
    empty_batch_succeeds_at_once,
    closed_journal_refuses_appends,
    second_owner_is_refused,
    foreign_journal_is_refused,
    acknowledged_records_survive_kill_9,
    read_batches_keep_their_bounds_and_are_never_empty,
    reader_waits_for_records_and_may_be_interrupted,
    readers_get_the_same_records,
    closing_ends_readers_after_the_last_record,
    released_records_are_out_of_range_and_later_ones_stay,
    positions_continue_after_everything_was_released,
    positions_beyond_the_end_are_out_of_range,
    waiting_falls_to_zero_as_records_are_read,
);

async fn run<A: Adapter, F: Future<Output = ()>>(case: impl FnOnce(A) -> F) {
    if let Some(adapter) = A::new() {
        case(adapter).await;
    }
}
