-- A deleted dashboard keeps its tiles as they are. Until now it took all of them along, and gave
-- all of them back: those that were taken off before cannot be told from the others any more.
UPDATE dashboard_tiles SET deleted = FALSE
    WHERE deleted AND dashboard_id IN (SELECT id FROM dashboards WHERE deleted);
