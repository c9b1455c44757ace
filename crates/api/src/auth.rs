//! Authentication and authorization of management requests: credentials, scopes, membership,
//! access levels, and the limits on how often a client may try.

pub(crate) mod access;
pub(crate) mod browser_session;
pub(crate) mod caller;
pub(crate) mod credentials;
pub(crate) mod hogql_scope;
pub(crate) mod login_limits;
pub(crate) mod rate_limits;
pub(crate) mod resources;
pub(crate) mod sharing_token;
