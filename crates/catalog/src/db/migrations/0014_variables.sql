-- Variables of HogQL statements, with defaults. Their names are unique within a project.
CREATE TABLE insight_variables (
    id TEXT PRIMARY KEY,
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    code_name TEXT NOT NULL,
    type TEXT NOT NULL,
    default_value TEXT NOT NULL,
    options TEXT,
    created_by BIGINT REFERENCES users (id) ON DELETE SET NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (project_id, code_name)
);
