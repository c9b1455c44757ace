-- Networks that an account was entered from, as hashes: strangers who guess elsewhere do not lock its
-- owner out there.
CREATE TABLE login_networks (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    network_hash TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, network_hash)
);

-- The first id of a person, which scans of persons ask for, is the first entry here. Without the
-- number both databases walk the primary key instead, past the ids of everybody before.
CREATE INDEX distinct_ids_by_person_no ON distinct_ids (project_id, person_no, no);
DROP INDEX distinct_ids_by_person;
