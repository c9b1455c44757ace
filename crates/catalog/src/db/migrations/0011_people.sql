-- Hashes of the networks that an account logged in from: failed logins from elsewhere do not lock
-- its owner out there.
CREATE TABLE login_networks (
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    network_hash TEXT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (user_id, network_hash)
);

-- The first entry is the first distinct id of a person, which scans read. Without `no` in the index
-- both engines scan the primary key instead, past the ids of all earlier persons.
CREATE INDEX distinct_ids_by_person_no ON distinct_ids (project_id, person_no, no);
DROP INDEX distinct_ids_by_person;
