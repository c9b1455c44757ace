//! The pipeline with a real journal and real stores, on SQLite and PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod applying;
mod crash_recovery;
mod harness;
mod random_streams;
mod reference_model;
mod reordering;

/// Expands each case for both engines; a case that is not listed is dead code.
macro_rules! contract {
    ($($module:ident: $($case:ident),+;)+) => {
        mod sqlite {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::$module::$case(crate::harness::Database::sqlite()).await;
            }
        )+)+}
        mod postgres {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(database) = crate::harness::Database::postgres() {
                    crate::$module::$case(database).await;
                }
            }
        )+)+}
    };
}

contract! {
    reordering:
        reordered_and_repeated_batches_converge;
    applying:
        event_becomes_a_row_a_person_and_definitions,
        poison_records_are_dead_lettered_and_the_rest_applied,
        catalog_failure_dead_letters_nothing,
        groups_become_columns_up_to_five_types,
        pipeline_refuses_stores_of_another_journal,
        deleted_definition_is_recreated_by_its_event,
        rename_property_edit_changes_all_persons;
    crash_recovery:
        killed_process_recovers_to_the_uninterrupted_state;
    random_streams:
        random_event_streams_agree_with_the_reference_model,
        random_streams_with_crashes_agree_with_uninterrupted_runs,
        new_persons_in_one_batch_equal_those_in_many;
}
