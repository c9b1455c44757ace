-- Insights, dashboards, tiles, collaborators and sharing links.

CREATE TABLE dashboards (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name TEXT,
    description TEXT NOT NULL,
    pinned BOOLEAN NOT NULL,
    creation_mode TEXT NOT NULL,
    restriction_level BIGINT NOT NULL,
    filters TEXT NOT NULL,
    variables TEXT,
    breakdown_colors TEXT NOT NULL,
    data_color_theme_id BIGINT,
    quick_filter_ids TEXT NOT NULL,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    last_accessed_at BIGINT,
    deleted BOOLEAN NOT NULL
);
CREATE INDEX dashboards_by_project ON dashboards (project_id, deleted);

-- `kind` is derived from the query, for list filters.
CREATE TABLE insights (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    short_id TEXT NOT NULL,
    name TEXT,
    derived_name TEXT,
    description TEXT,
    query TEXT,
    filters TEXT NOT NULL,
    kind TEXT,
    position BIGINT,
    favorited BOOLEAN NOT NULL,
    saved BOOLEAN NOT NULL,
    is_sample BOOLEAN NOT NULL,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    last_modified_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    last_modified_at BIGINT NOT NULL,
    deleted BOOLEAN NOT NULL,
    UNIQUE (project_id, short_id)
);
CREATE INDEX insights_by_project ON insights (project_id, deleted);

CREATE TABLE insight_views (
    insight_id BIGINT NOT NULL REFERENCES insights (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    viewed_at BIGINT NOT NULL,
    PRIMARY KEY (insight_id, user_id)
);
CREATE INDEX insight_views_by_user ON insight_views (user_id, viewed_at);

CREATE TABLE dashboard_notes (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    body TEXT NOT NULL,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    last_modified_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    last_modified_at BIGINT NOT NULL
);

CREATE TABLE dashboard_buttons (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    url TEXT NOT NULL,
    text TEXT NOT NULL,
    placement TEXT NOT NULL,
    style TEXT NOT NULL
);

-- A tile has exactly one content. It is live while neither it, its dashboard nor its insight is
-- deleted.
CREATE TABLE dashboard_tiles (
    id {serial},
    dashboard_id BIGINT NOT NULL REFERENCES dashboards (id) ON DELETE CASCADE,
    insight_id BIGINT REFERENCES insights (id) ON DELETE CASCADE,
    note_id BIGINT REFERENCES dashboard_notes (id) ON DELETE CASCADE,
    button_id BIGINT REFERENCES dashboard_buttons (id) ON DELETE CASCADE,
    layouts TEXT NOT NULL,
    color TEXT,
    filters_overrides TEXT NOT NULL,
    show_description BOOLEAN,
    transparent_background BOOLEAN,
    deleted BOOLEAN NOT NULL,
    UNIQUE (dashboard_id, insight_id),
    UNIQUE (dashboard_id, note_id),
    UNIQUE (dashboard_id, button_id)
);
CREATE INDEX dashboard_tiles_by_insight ON dashboard_tiles (insight_id);
CREATE INDEX dashboard_tiles_by_note ON dashboard_tiles (note_id);
CREATE INDEX dashboard_tiles_by_button ON dashboard_tiles (button_id);

CREATE TABLE dashboard_collaborators (
    id TEXT PRIMARY KEY,
    dashboard_id BIGINT NOT NULL REFERENCES dashboards (id) ON DELETE CASCADE,
    user_id BIGINT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    added_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (dashboard_id, user_id)
);
CREATE INDEX dashboard_collaborators_by_user ON dashboard_collaborators (user_id);

-- Links to a dashboard or an insight. The previous token is valid until it expires.
CREATE TABLE sharing_configurations (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    dashboard_id BIGINT UNIQUE REFERENCES dashboards (id) ON DELETE CASCADE,
    insight_id BIGINT UNIQUE REFERENCES insights (id) ON DELETE CASCADE,
    enabled BOOLEAN NOT NULL,
    settings TEXT,
    token_hash TEXT NOT NULL UNIQUE,
    token_sealed {bytes} NOT NULL,
    previous_hash TEXT UNIQUE,
    previous_expires_at BIGINT,
    created_at BIGINT NOT NULL
);

ALTER TABLE annotations ADD COLUMN dashboard_id BIGINT REFERENCES dashboards (id) ON DELETE SET NULL;
ALTER TABLE annotations ADD COLUMN insight_id BIGINT REFERENCES insights (id) ON DELETE SET NULL;
CREATE INDEX annotations_by_dashboard ON annotations (dashboard_id);
CREATE INDEX annotations_by_insight ON annotations (insight_id);
