-- Each change of an insight or dashboard increases its version, so that an editor who loaded an older
-- one is told instead of overwriting it.
ALTER TABLE insights ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE dashboards ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
