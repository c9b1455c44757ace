-- Sets of persons: by their properties, or as a list.

CREATE TABLE cohorts (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name TEXT,
    description TEXT NOT NULL,
    is_static BOOLEAN NOT NULL,
    filters TEXT,
    version BIGINT,
    pending_version BIGINT,
    is_calculating BOOLEAN NOT NULL,
    last_calculation BIGINT,
    errors_calculating BIGINT NOT NULL,
    last_error_message TEXT,
    count BIGINT,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    deleted BOOLEAN NOT NULL
);
CREATE INDEX cohorts_by_project ON cohorts (project_id, created_at);

-- Who belongs to which version of a cohort; lists have version 0 only. Written beside the
-- pipeline, so a person may be gone that is still named here.
CREATE TABLE cohort_people (
    cohort_id BIGINT NOT NULL REFERENCES cohorts (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    person_no BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    PRIMARY KEY (cohort_id, version, person_no)
);
CREATE INDEX cohort_people_by_person ON cohort_people (project_id, person_no);
