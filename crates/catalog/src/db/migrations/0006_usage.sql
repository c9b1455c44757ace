-- Whether a flag's usage dashboard has the insights of who viewed and used the feature.
ALTER TABLE feature_flags ADD COLUMN usage_dashboard_enriched BOOLEAN NOT NULL DEFAULT FALSE;

-- The flag whose persons a static cohort is yet to be filled with.
ALTER TABLE cohorts ADD COLUMN fill_from_flag BIGINT;

-- Event counts per name and UTC day since 1970.
CREATE TABLE event_volumes (
    project_id BIGINT NOT NULL,
    event TEXT NOT NULL,
    day BIGINT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (project_id, event, day)
);
CREATE INDEX event_volumes_by_day ON event_volumes (day);
