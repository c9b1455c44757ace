//! The pipeline between a real journal and real stores, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod applying;
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
    applying:
        an_event_becomes_a_row_a_person_and_definitions,
        records_that_cannot_be_applied_are_set_aside_and_stop_nobody,
        groups_become_columns_and_a_sixth_type_none,
        stores_that_do_not_belong_together_are_refused,
        a_deleted_definition_comes_back_with_its_event,
        a_property_takes_another_name_for_everybody;
    random_streams:
        any_stream_gives_what_the_model_says,
        a_run_with_crashes_equals_one_without;
}
