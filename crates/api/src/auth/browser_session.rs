//! Browser sessions: the session cookie and what it may do.
//!
//! A cookie alone never writes: the request must also carry the session's CSRF token in a header,
//! which no form can, come from this origin, and be JSON or an uploaded form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use catalog::{Secret, UserRow, hash_token};
use schemars::SchemaGenerator;

use crate::http::body::{self, RequestBody};
use crate::http::openapi::{DescribeRequest, Operation, SESSION_COOKIE as COOKIE};
use crate::{AppState, Error, Result};

/// Holds the CSRF token, a hash of the session token, which pages send back as a header.
const CSRF_COOKIE: &str = "hedgerow_csrf";
const CSRF_HEADER: &str = "x-csrftoken";
/// Two weeks: a longer absence takes a new log-in.
pub(crate) const SESSION_SECONDS: i64 = 14 * 24 * 3_600;

/// The user of a valid session cookie. A write must also pass the CSRF checks.
pub(crate) async fn user(parts: &Parts, app: &AppState) -> Result<Option<(Secret, UserRow)>> {
    let client = Client::of(parts);
    let Some(session) = &client.session else { return Ok(None) };
    let Some(user) = app.catalog.sessions().user(session).await? else { return Ok(None) };
    client.check_write()?;
    Ok(Some((session.clone(), user)))
}

/// Whether the request carries a valid session cookie. Grants nothing by itself.
pub(crate) async fn has_valid_session(parts: &Parts, app: &AppState) -> bool {
    let Some(session) = cookie(&parts.headers, COOKIE).map(Secret::given) else { return false };
    matches!(app.catalog.sessions().user(&session).await, Ok(Some(_)))
}

/// The parts of a request that session and CSRF checks need.
pub(crate) struct Client {
    pub session: Option<Secret>,
    csrf: Option<String>,
    method: Method,
    /// The `Content-Type` header, if any.
    content_type: Option<String>,
    has_body: bool,
    same_origin: bool,
    secure: bool,
}

impl Client {
    fn of(parts: &Parts) -> Self {
        let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let has_body =
            !matches!(&*body::received(parts), RequestBody::Complete(bytes) if bytes.is_empty());
        Self {
            session: cookie(&parts.headers, COOKIE).map(Secret::given),
            csrf: text(CSRF_HEADER).map(str::to_owned),
            method: parts.method.clone(),
            content_type: text(header::CONTENT_TYPE.as_str()).map(str::to_owned),
            has_body,
            same_origin: same_origin(parts),
            secure: text("x-forwarded-proto") == Some("https"),
        }
    }

    pub(crate) fn check_write(&self) -> Result<()> {
        if matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        let expected = self.session.as_ref().map(csrf_token);
        let is_read = |given: &str| body::is_json(given) || body::is_multipart(given);
        let is_read = self.content_type.as_deref().map_or(!self.has_body, is_read);
        if !self.same_origin || !is_read || self.csrf.is_none() || self.csrf != expected {
            return Err(csrf_error());
        }
        Ok(())
    }

    /// Prevents log-in CSRF: a cross-site HTML form cannot send JSON.
    pub(crate) fn check_log_in(&self) -> Result<()> {
        let given = self.content_type.as_deref().unwrap_or("");
        if !body::is_json(given) {
            return Err(Error::unsupported_media_type(given));
        }
        if self.same_origin { Ok(()) } else { Err(csrf_error()) }
    }

    pub(crate) fn cookies(&self, session: &Secret) -> Vec<String> {
        let secure = if self.secure { "; Secure" } else { "" };
        let csrf = csrf_token(session);
        let session = session.reveal();
        vec![
            format!(
                "{COOKIE}={session}; Path=/; HttpOnly; SameSite=Lax; Max-Age={SESSION_SECONDS}{secure}"
            ),
            format!(
                "{CSRF_COOKIE}={csrf}; Path=/; SameSite=Lax; Max-Age={SESSION_SECONDS}{secure}"
            ),
        ]
    }

    pub(crate) fn cleared(&self) -> Vec<String> {
        [COOKIE, CSRF_COOKIE].map(|name| format!("{name}=; Path=/; Max-Age=0")).to_vec()
    }
}

fn csrf_error() -> Error {
    Error::forbidden("CSRF Failed: the request did not come from this site.")
}

/// Only a page of this origin can read the cookie that holds it.
fn csrf_token(session: &Secret) -> String {
    hash_token(&format!("csrf:{}", session.reveal())).split_off("sha256$".len())
}

pub(crate) fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value.to_owned())
}

/// Browsers send `Origin` with every cross-site POST, so a request without it is not one.
fn same_origin(parts: &Parts) -> bool {
    let Some(origin) = parts.headers.get(header::ORIGIN) else { return true };
    let host = parts.headers.get("x-forwarded-host").or_else(|| parts.headers.get(header::HOST));
    let (Ok(origin), Some(Ok(host))) = (origin.to_str(), host.map(HeaderValue::to_str)) else {
        return false;
    };
    origin.split_once("://").is_some_and(|(_, authority)| authority == host)
}

impl FromRequestParts<AppState> for Client {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self> {
        Ok(Self::of(parts))
    }
}

impl DescribeRequest for Client {
    fn describe(_: &mut Operation, _: &mut SchemaGenerator) {}
}
