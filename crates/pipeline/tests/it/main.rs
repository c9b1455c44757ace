//! The pipeline between a real journal and real stores, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod any_order;
mod applying;
mod killing;
mod model_of_persons;
mod random_streams;
mod world;

/// Expands each case for every engine; a case that is not listed is dead code.
macro_rules! contract {
    ($($module:ident: $($case:ident),+;)+) => {
        mod sqlite {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::$module::$case(crate::world::Database::sqlite()).await;
            }
        )+)+}
        mod postgres {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(database) = crate::world::Database::postgres().await {
                    crate::$module::$case(database).await;
                }
            }
        )+)+}
    };
}

contract! {
    any_order:
        batches_in_any_order_and_again_give_the_same_answer;
    applying:
        an_event_becomes_a_row_a_person_and_definitions,
        records_that_cannot_be_applied_are_set_aside_and_stop_nobody,
        a_catalog_in_trouble_sets_nothing_aside,
        groups_become_columns_and_a_sixth_type_none,
        stores_that_do_not_belong_together_are_refused,
        a_deleted_definition_comes_back_with_its_event,
        a_property_takes_another_name_for_everybody;
    killing:
        killed_anywhere_it_ends_as_if_it_had_never_been;
    random_streams:
        any_stream_gives_what_the_model_says,
        a_run_with_crashes_equals_one_without;
}
