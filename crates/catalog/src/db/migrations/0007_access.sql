-- Access rules: about the project, about all objects of a kind (id 0), or about one object. Each
-- rule is for a member, for a role, or, with neither, for everyone.
CREATE TABLE access_controls (
    id {serial},
    project_id BIGINT NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    resource TEXT NOT NULL,
    resource_id BIGINT NOT NULL,
    membership_id TEXT REFERENCES memberships (id) ON DELETE CASCADE,
    role_id TEXT REFERENCES roles (id) ON DELETE CASCADE,
    access_level TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX access_controls_by_project ON access_controls (project_id, resource, resource_id);
CREATE INDEX access_controls_by_member ON access_controls (membership_id);
CREATE INDEX access_controls_by_role ON access_controls (role_id);
CREATE UNIQUE INDEX access_controls_one_for_a_member
    ON access_controls (project_id, resource, resource_id, membership_id)
    WHERE membership_id IS NOT NULL;
CREATE UNIQUE INDEX access_controls_one_for_a_role
    ON access_controls (project_id, resource, resource_id, role_id) WHERE role_id IS NOT NULL;
CREATE UNIQUE INDEX access_controls_one_for_everybody
    ON access_controls (project_id, resource, resource_id)
    WHERE membership_id IS NULL AND role_id IS NULL;
