//! What every catalog promises, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod cases;
mod store;

/// Expands each case for every engine; a case that is not listed is dead code.
macro_rules! contract {
    ($($module:ident: $($case:ident),+;)+) => {
        mod sqlite {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::cases::$module::$case(crate::store::Place::sqlite()).await;
            }
        )+)+}
        mod postgres {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(place) = crate::store::Place::postgres().await {
                    crate::cases::$module::$case(place).await;
                }
            }
        )+)+}
    };
}

contract! {
    access:
        a_member_hears_every_rule_in_one_statement;
    failing:
        only_refused_values_are_blamed_on_them,
        a_transaction_that_ended_by_itself_is_in_nobodys_way,
        what_may_pass_is_no_failure_for_good;
    schema:
        an_empty_database_is_migrated_once,
        a_newer_schema_is_refused,
        a_command_beside_a_server_never_migrates,
        what_an_older_build_deleted_keeps_its_tiles,
        the_first_start_happens_once,
        one_server_owns_a_postgres_catalog;
    sharing:
        every_token_before_the_present_one_has_its_own_grace,
        of_too_many_renewed_tokens_the_oldest_goes,
        a_token_that_an_older_build_renewed_keeps_its_grace,
        a_link_that_came_on_after_a_look_shows_nothing_more;
    concurrency:
        fifty_writers_of_one_row_lose_nothing,
        fifty_writers_of_different_rows_all_succeed,
        the_last_key_is_made_once,
        one_of_many_takes_a_role_name,
        two_owners_who_lower_each_other_leave_one,
        organizations_of_one_name_have_different_slugs,
        writers_of_everything_never_wait_in_a_circle;
    projects:
        project_numbers_are_never_reused,
        secret_tokens_are_sealed_and_found_by_hash,
        a_deleted_organization_takes_its_projects_and_people_along;
    activity:
        a_change_and_its_entry_are_written_together,
        a_refused_change_leaves_no_entry,
        nothing_is_logged_when_nothing_changes,
        the_log_is_readable_however_deep_a_change_is;
    people:
        nobody_rises_above_themselves_or_touches_their_betters,
        an_organization_keeps_an_owner,
        a_new_member_starts_in_the_default_role,
        sessions_end_with_time_password_and_account,
        the_oldest_of_too_many_sessions_ends,
        an_address_is_taken_in_any_case;
    keys:
        a_key_is_stored_hashed_and_found_by_its_value,
        its_use_is_noted_once_an_hour,
        a_key_manages_only_what_is_within_itself,
        somebody_without_an_organization_still_keeps_keys;
    content:
        a_page_of_tagged_objects_takes_one_more_statement_however_long,
        what_no_tile_can_show_again_is_gone;
    warnings:
        warnings_of_projects_that_are_there_are_listed_newest_first,
        old_warnings_go_and_so_do_the_oldest_of_too_many;
    ingest:
        a_batch_is_applied_once_and_only_where_the_catalog_stands,
        ids_follow_their_person_through_several_merges,
        a_uuid_that_one_person_gives_up_another_may_have,
        persons_that_are_known_are_changed_in_their_places,
        groups_are_found_by_type_and_key,
        definitions_keep_their_hour_and_their_first_type,
        names_past_the_bound_of_a_project_are_counted_and_warned_of_but_not_defined,
        volumes_are_summed_over_thirty_days_and_older_ones_go,
        a_flag_keeps_its_latest_call,
        dead_letters_wait_to_be_sent_again_once,
        persons_and_their_ids_are_scanned_part_by_part;
    cohorts:
        a_cohort_is_who_fits_its_conditions,
        a_calculation_answers_no_request_that_came_after_it_began,
        those_whose_members_others_ask_for_are_calculated_first,
        lists_are_filled_by_any_name_and_follow_who_is_merged,
        cohorts_that_are_needed_or_would_need_themselves_are_refused;
    lists:
        lists_take_as_many_statements_for_many_as_for_one,
        pages_cover_a_list_once;
}
