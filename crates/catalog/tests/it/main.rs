//! The contract of the catalog, on SQLite and on PostgreSQL.

#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

mod cases;
mod store;

/// Expands each case for both engines; a case that is not listed is dead code.
macro_rules! contract {
    ($($module:ident: $($case:ident),+;)+) => {
        mod sqlite {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                crate::cases::$module::$case(crate::store::TestDatabase::sqlite()).await;
            }
        )+)+}
        mod postgres {$($(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                if let Some(database) = crate::store::TestDatabase::postgres() {
                    crate::cases::$module::$case(database).await;
                }
            }
        )+)+}
    };
}

contract! {
    access:
        effective_access_loads_all_rules_in_one_statement;
    feed:
        a_feed_records_what_batches_change_once_it_is_enabled;
    failing:
        only_rejected_values_are_data_errors,
        a_transaction_rolled_back_by_the_engine_blocks_no_later_one,
        transient_errors_are_reported_as_unavailable;
    schema:
        an_empty_database_is_migrated_once,
        a_newer_schema_is_refused,
        join_never_migrates,
        migration_8_restores_tiles_of_deleted_dashboards,
        bootstrap_runs_once,
        one_server_owns_a_postgres_catalog;
    sharing:
        each_rotated_sharing_token_has_its_own_grace_period,
        rotating_past_the_limit_revokes_the_oldest_sharing_token,
        migration_9_keeps_the_grace_period_of_a_rotated_token,
        revalidation_catches_a_link_enabled_after_the_check;
    concurrency:
        concurrent_updates_of_one_row_lose_none,
        concurrent_updates_of_different_rows_all_succeed,
        concurrent_requests_create_the_last_allowed_key_once,
        concurrent_creation_of_a_role_name_succeeds_once,
        concurrent_demotions_leave_one_owner,
        organizations_of_one_name_get_different_slugs,
        concurrent_writers_of_all_objects_never_deadlock;
    projects:
        project_ids_are_never_reused,
        secret_tokens_are_encrypted_and_looked_up_by_hash,
        deleting_an_organization_deletes_projects_and_memberships;
    activity:
        a_change_and_its_log_entry_are_one_transaction,
        a_refused_change_logs_nothing,
        an_update_without_effect_logs_nothing,
        deeply_nested_log_details_stay_readable;
    people:
        members_cannot_grant_or_change_levels_above_their_own,
        the_last_owner_cannot_be_removed_or_demoted,
        new_members_get_the_default_role,
        sessions_end_by_expiry_password_change_and_deactivation,
        the_session_limit_ends_the_oldest_session,
        email_addresses_are_unique_ignoring_case;
    keys:
        api_keys_are_stored_hashed_and_found_by_value,
        last_used_at_is_updated_once_an_hour,
        a_key_edits_only_keys_within_its_own_scopes,
        a_user_without_organization_manages_keys;
    content:
        tags_of_a_page_take_one_statement,
        contents_of_purged_tiles_are_deleted;
    warnings:
        warnings_of_existing_projects_are_listed_newest_first,
        pruning_deletes_old_and_excess_warnings;
    ingest:
        a_batch_is_applied_once_at_the_stored_offset_only,
        listeners_see_a_batch_before_and_after_its_commit,
        distinct_ids_follow_chains_of_merges,
        a_uuid_can_move_to_another_person_in_one_batch,
        bulk_updates_of_existing_persons_are_atomic,
        groups_are_looked_up_by_type_and_key,
        definitions_keep_last_seen_hour_and_first_type,
        names_past_the_definition_quota_are_counted_and_warned_about,
        event_volumes_cover_thirty_days,
        flags_keep_the_latest_call_time,
        dead_letters_are_replayed_once,
        persons_and_distinct_ids_are_scanned_in_batches;
    cohorts:
        dynamic_cohorts_contain_matching_persons,
        a_calculation_does_not_satisfy_later_requests,
        referenced_cohorts_are_calculated_first,
        static_cohorts_accept_any_id_and_follow_merges,
        drafts_are_read_while_another_transaction_writes,
        deleting_used_cohorts_and_reference_cycles_are_refused;
    lists:
        lists_take_a_constant_number_of_statements,
        pages_cover_a_list_without_overlap;
}
