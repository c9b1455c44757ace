-- A deleted dashboard keeps its tiles as they are. Before, deleting it deleted all of its tiles and
-- restoring it restored them, so tiles deleted earlier can no longer be distinguished.
UPDATE dashboard_tiles SET deleted = FALSE
    WHERE deleted AND dashboard_id IN (SELECT id FROM dashboards WHERE deleted);
