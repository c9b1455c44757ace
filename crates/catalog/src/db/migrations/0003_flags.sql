-- Keys are unique among live flags. The counts are derived from the filters, for list filters.
CREATE TABLE feature_flags (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    name TEXT NOT NULL,
    filters TEXT NOT NULL,
    active BOOLEAN NOT NULL,
    archived BOOLEAN NOT NULL,
    deleted BOOLEAN NOT NULL,
    version BIGINT NOT NULL,
    ensure_experience_continuity BOOLEAN NOT NULL,
    evaluation_runtime TEXT,
    bucketing_identifier TEXT,
    evaluation_contexts TEXT NOT NULL,
    rollback_conditions TEXT,
    performed_rollback BOOLEAN NOT NULL,
    is_remote_configuration BOOLEAN NOT NULL,
    has_encrypted_payloads BOOLEAN NOT NULL,
    payloads_sealed {bytes},
    has_enriched_analytics BOOLEAN NOT NULL,
    usage_dashboard_id BIGINT,
    analytics_dashboards TEXT NOT NULL,
    variant_count BIGINT NOT NULL,
    fully_rolled_out BOOLEAN NOT NULL,
    last_called_at BIGINT,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    last_modified_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX feature_flags_live_key ON feature_flags (project_id, key) WHERE NOT deleted;
CREATE INDEX feature_flags_by_age ON feature_flags (project_id, created_at);

-- References of a flag's conditions.
CREATE TABLE feature_flag_dependencies (
    flag_id BIGINT NOT NULL REFERENCES feature_flags (id) ON DELETE CASCADE,
    depends_on BIGINT NOT NULL,
    PRIMARY KEY (flag_id, depends_on)
);
CREATE INDEX feature_flag_dependents ON feature_flag_dependencies (depends_on);

CREATE TABLE feature_flag_cohorts (
    flag_id BIGINT NOT NULL REFERENCES feature_flags (id) ON DELETE CASCADE,
    cohort_id BIGINT NOT NULL,
    PRIMARY KEY (flag_id, cohort_id)
);
CREATE INDEX feature_flag_cohorts_by_cohort ON feature_flag_cohorts (cohort_id);

CREATE TABLE feature_flag_role_access (
    id {serial},
    flag_id BIGINT NOT NULL REFERENCES feature_flags (id) ON DELETE CASCADE,
    role_id TEXT NOT NULL REFERENCES roles (id) ON DELETE CASCADE,
    added_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (flag_id, role_id)
);
CREATE INDEX feature_flag_role_access_by_role ON feature_flag_role_access (role_id);

-- The identifier that buckets a person, for flags with experience continuity.
CREATE TABLE flag_hash_keys (
    project_id BIGINT NOT NULL,
    person_no BIGINT NOT NULL,
    flag_key TEXT NOT NULL,
    hash_key TEXT NOT NULL,
    PRIMARY KEY (project_id, person_no, flag_key)
);
