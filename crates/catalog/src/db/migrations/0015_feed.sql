-- Which persons, distinct ids, groups and cohorts a warehouse that joins them at its engine has yet to
-- be told. Recorded only while there is such a warehouse. The last row stays, so that a warehouse can be
-- found to lack rows that were removed.
CREATE TABLE feed_changes (
    id {serial},
    project_id BIGINT NOT NULL,
    position BIGINT NOT NULL,
    changes TEXT NOT NULL
);
