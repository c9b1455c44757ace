-- Rotating a token deletes expired tokens of all links.
CREATE INDEX sharing_tokens_by_expiry ON sharing_tokens (expires_at);
