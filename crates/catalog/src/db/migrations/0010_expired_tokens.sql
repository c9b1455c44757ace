-- Renewing a link deletes the tokens that are too old, wherever they are.
CREATE INDEX sharing_tokens_by_expiry ON sharing_tokens (expires_at);
