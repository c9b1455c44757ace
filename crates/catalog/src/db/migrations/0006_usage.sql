-- Whether a flag's usage dashboard tells who saw and used the feature.
ALTER TABLE feature_flags ADD COLUMN usage_dashboard_enriched BOOLEAN NOT NULL DEFAULT FALSE;

-- The flag whose people a list still has to be filled with.
ALTER TABLE cohorts ADD COLUMN fill_from_flag BIGINT;

-- How many events of a name each of the last days had, in the days of UTC since 1970.
CREATE TABLE event_volumes (
    project_id BIGINT NOT NULL,
    event TEXT NOT NULL,
    day BIGINT NOT NULL,
    events BIGINT NOT NULL,
    PRIMARY KEY (project_id, event, day)
);
CREATE INDEX event_volumes_by_day ON event_volumes (day);
