-- Cohorts: dynamic, by filters, or static.

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

-- Members per version of a cohort; static cohorts have version 0 only. Written concurrently with
-- the pipeline, so a member may be a deleted person.
CREATE TABLE cohort_people (
    cohort_id BIGINT NOT NULL REFERENCES cohorts (id) ON DELETE CASCADE,
    version BIGINT NOT NULL,
    person_no BIGINT NOT NULL,
    project_id BIGINT NOT NULL,
    PRIMARY KEY (cohort_id, version, person_no)
);
CREATE INDEX cohort_people_by_person ON cohort_people (project_id, person_no);
