-- What the pipeline derives from events. Project rows are never deleted, so these tables, which
-- every batch writes, have no foreign keys to them.

-- The first unapplied position of each consumer of the journal.
CREATE TABLE journal_offsets (
    consumer TEXT PRIMARY KEY,
    journal_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

-- The next dense ids of a project; ids are never reused.
CREATE TABLE project_numbers (
    project_id BIGINT PRIMARY KEY,
    next_distinct BIGINT NOT NULL,
    next_person BIGINT NOT NULL
);

CREATE TABLE persons (
    project_id BIGINT NOT NULL,
    no BIGINT NOT NULL,
    uuid TEXT NOT NULL,
    properties TEXT NOT NULL,
    is_identified BOOLEAN NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, no),
    UNIQUE (project_id, uuid)
);
CREATE INDEX persons_by_age ON persons (project_id, created_at, no);

-- A distinct id keeps its row and dense id when its person is deleted; the version of its next
-- person starts above the floor.
CREATE TABLE distinct_ids (
    project_id BIGINT NOT NULL,
    no BIGINT NOT NULL,
    distinct_id TEXT NOT NULL,
    person_no BIGINT,
    version BIGINT NOT NULL,
    version_floor BIGINT NOT NULL,
    PRIMARY KEY (project_id, no),
    UNIQUE (project_id, distinct_id)
);
CREATE INDEX distinct_ids_by_person ON distinct_ids (project_id, person_no);

CREATE TABLE group_types (
    project_id BIGINT NOT NULL,
    type_index BIGINT NOT NULL,
    name TEXT NOT NULL,
    name_singular TEXT,
    name_plural TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, type_index),
    UNIQUE (project_id, name)
);

CREATE TABLE groups (
    project_id BIGINT NOT NULL,
    type_index BIGINT NOT NULL,
    group_key TEXT NOT NULL,
    properties TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (project_id, type_index, group_key)
);
CREATE INDEX groups_by_age ON groups (project_id, type_index, created_at, group_key);

-- `last_seen_at` is null while a definition was only created by a user.
CREATE TABLE event_definitions (
    id TEXT PRIMARY KEY,
    project_id BIGINT NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    owner_id BIGINT REFERENCES users (id) ON DELETE SET NULL,
    verified BOOLEAN NOT NULL,
    verified_at BIGINT,
    verified_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    hidden BOOLEAN NOT NULL,
    enforcement_mode TEXT NOT NULL,
    primary_property TEXT,
    default_columns TEXT NOT NULL,
    created_at BIGINT,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    last_seen_at BIGINT,
    updated_at BIGINT NOT NULL,
    updated_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    UNIQUE (project_id, name)
);

-- `owner` is event, person or group; `type_index` is the group type's, and -1 for the others.
CREATE TABLE property_definitions (
    id TEXT PRIMARY KEY,
    project_id BIGINT NOT NULL,
    owner TEXT NOT NULL,
    type_index BIGINT NOT NULL,
    name TEXT NOT NULL,
    property_type TEXT,
    description TEXT,
    verified BOOLEAN NOT NULL,
    verified_at BIGINT,
    verified_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    hidden BOOLEAN NOT NULL,
    updated_at BIGINT NOT NULL,
    updated_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    UNIQUE (project_id, owner, type_index, name)
);

CREATE TABLE event_properties (
    project_id BIGINT NOT NULL,
    event TEXT NOT NULL,
    property TEXT NOT NULL,
    PRIMARY KEY (project_id, event, property)
);

-- Pending deletions of events, recorded with the change that requested them.
CREATE TABLE event_deletions (
    project_id BIGINT NOT NULL,
    before_position BIGINT NOT NULL,
    distinct_nos TEXT NOT NULL,
    requested_at BIGINT NOT NULL,
    done_at BIGINT,
    events BIGINT,
    PRIMARY KEY (project_id, before_position)
);
CREATE INDEX event_deletions_due ON event_deletions (before_position) WHERE done_at IS NULL;

-- Records that could not be applied. The project is null if it could not be decoded.
CREATE TABLE dead_letters (
    id TEXT PRIMARY KEY,
    project_id BIGINT,
    position BIGINT NOT NULL,
    step TEXT NOT NULL,
    reason TEXT NOT NULL,
    event TEXT,
    distinct_id TEXT,
    record {bytes} NOT NULL,
    created_at BIGINT NOT NULL,
    -- Set by who cannot reach the journal; the server sends the record again.
    replay_wanted_at BIGINT,
    replayed_at BIGINT
);
CREATE INDEX dead_letters_by_project ON dead_letters (project_id, created_at, id);
CREATE INDEX dead_letters_by_position ON dead_letters (position);
