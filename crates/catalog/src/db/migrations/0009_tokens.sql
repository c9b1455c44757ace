-- Earlier tokens of links, each valid until it expires. Before, a link stored only one of them, in
-- columns that are no longer read.
CREATE TABLE sharing_tokens (
    id {serial},
    sharing_id BIGINT NOT NULL REFERENCES sharing_configurations (id) ON DELETE CASCADE,
    token_hash TEXT NOT NULL UNIQUE,
    expires_at BIGINT NOT NULL
);
CREATE INDEX sharing_tokens_by_sharing ON sharing_tokens (sharing_id);
INSERT INTO sharing_tokens (sharing_id, token_hash, expires_at)
    SELECT id, previous_hash, previous_expires_at FROM sharing_configurations
    WHERE previous_hash IS NOT NULL AND previous_expires_at IS NOT NULL;
UPDATE sharing_configurations SET previous_hash = NULL, previous_expires_at = NULL;
