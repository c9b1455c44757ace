-- Links by which a person without a password sets one: the first owner of an instance, and accounts
-- whose password is forgotten. A user has at most one; a new one replaces it.
CREATE TABLE setup_links (
    user_id BIGINT PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    hash TEXT NOT NULL UNIQUE,
    -- Also names organization and project.
    is_first_start BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
