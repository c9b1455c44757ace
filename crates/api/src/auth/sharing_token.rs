//! Tokens of shared links: what one gives access to.

use catalog::ResolvedLink;

use crate::{AppState, Result};

/// Upstream's length of a token; anything else cannot be one.
const TOKEN_CHARS: usize = 30;

/// The object that a sharing token gives access to; none if the token is not valid.
pub(crate) async fn shared_object(app: &AppState, token: &str) -> Result<Option<ResolvedLink>> {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if token.len() != TOKEN_CHARS || !token.bytes().all(is_token_byte) {
        return Ok(None);
    }
    Ok(app.catalog.sharing().resolve(token).await?)
}
