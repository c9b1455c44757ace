-- Timestamps are microseconds since 1970 UTC; UUIDs and JSON are strings.

-- Has one row.
CREATE TABLE instance (
    id BIGINT PRIMARY KEY,
    vault_proof {bytes} NOT NULL
);

-- Soft-deleted, because its projects are.
CREATE TABLE organizations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    slug TEXT NOT NULL UNIQUE,
    members_can_use_personal_api_keys BOOLEAN NOT NULL,
    settings TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);

-- Soft-deleted, so that an id is never reused.
CREATE TABLE projects (
    id {serial},
    uuid TEXT NOT NULL UNIQUE,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    api_token TEXT UNIQUE,
    secret_hash TEXT UNIQUE,
    secret_sealed {bytes},
    secret_backup_hash TEXT UNIQUE,
    secret_backup_sealed {bytes},
    timezone TEXT NOT NULL,
    settings TEXT NOT NULL,
    ingested_event BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted_at BIGINT
);
CREATE INDEX projects_by_organization ON projects (organization_id);

CREATE TABLE users (
    id {serial},
    uuid TEXT NOT NULL UNIQUE,
    distinct_id TEXT NOT NULL UNIQUE,
    email TEXT NOT NULL,
    email_lower TEXT NOT NULL UNIQUE,
    first_name TEXT NOT NULL,
    last_name TEXT NOT NULL,
    password_hash TEXT,
    is_active BOOLEAN NOT NULL,
    is_email_verified BOOLEAN NOT NULL,
    is_staff BOOLEAN NOT NULL,
    settings TEXT NOT NULL,
    current_organization_id TEXT REFERENCES organizations (id) ON DELETE SET NULL,
    current_project_id BIGINT REFERENCES projects (id) ON DELETE SET NULL,
    date_joined BIGINT NOT NULL,
    last_login BIGINT
);

CREATE TABLE memberships (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    level BIGINT NOT NULL,
    joined_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

CREATE TABLE personal_api_keys (
    id TEXT PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    label TEXT NOT NULL,
    hash TEXT NOT NULL UNIQUE,
    mask TEXT NOT NULL,
    scopes TEXT NOT NULL,
    scoped_teams TEXT,
    scoped_organizations TEXT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    last_rolled_at BIGINT
);
CREATE INDEX personal_api_keys_by_user ON personal_api_keys (user_id, created_at);

CREATE TABLE sessions (
    hash TEXT PRIMARY KEY,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_by_user ON sessions (user_id);
CREATE INDEX sessions_by_expiry ON sessions (expires_at);

CREATE TABLE roles (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    name_lower TEXT NOT NULL,
    feature_flags_access_level BIGINT NOT NULL,
    is_default BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    UNIQUE (organization_id, name_lower)
);
CREATE UNIQUE INDEX roles_default ON roles (organization_id) WHERE is_default;

CREATE TABLE role_memberships (
    id TEXT PRIMARY KEY,
    role_id TEXT NOT NULL REFERENCES roles (id) ON DELETE CASCADE,
    membership_id TEXT NOT NULL REFERENCES memberships (id) ON DELETE CASCADE,
    joined_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (role_id, membership_id)
);
CREATE INDEX role_memberships_by_member ON role_memberships (membership_id);

CREATE TABLE activity_log (
    id TEXT PRIMARY KEY,
    organization_id TEXT NOT NULL,
    project_id BIGINT,
    user_id BIGINT REFERENCES users (id) ON DELETE SET NULL,
    activity TEXT NOT NULL,
    scope TEXT NOT NULL,
    item_id TEXT NOT NULL,
    detail TEXT NOT NULL,
    is_system BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX activity_log_by_item ON activity_log (organization_id, scope, item_id, created_at, id);
CREATE INDEX activity_log_by_organization ON activity_log (organization_id, created_at, id);

CREATE TABLE annotations (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    organization_id TEXT NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    content TEXT,
    date_marker BIGINT,
    creation_type TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted BOOLEAN NOT NULL
);
CREATE INDEX annotations_by_project ON annotations (project_id, created_at);
CREATE INDEX annotations_by_organization ON annotations (organization_id, scope);

CREATE TABLE actions (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    post_to_slack BOOLEAN NOT NULL,
    slack_message_format TEXT NOT NULL,
    steps TEXT NOT NULL,
    pinned_at BIGINT,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    deleted BOOLEAN NOT NULL
);
CREATE INDEX actions_by_project ON actions (project_id, created_at);
CREATE UNIQUE INDEX actions_live_name ON actions (project_id, name) WHERE NOT deleted;

CREATE TABLE taggings (
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    object TEXT NOT NULL,
    object_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (project_id, object, object_id, tag)
);

CREATE TABLE ingestion_warnings (
    id TEXT PRIMARY KEY,
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    details TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX ingestion_warnings_by_project ON ingestion_warnings (project_id, created_at, id);
CREATE INDEX ingestion_warnings_by_age ON ingestion_warnings (created_at);
