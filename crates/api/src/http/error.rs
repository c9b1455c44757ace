//! Error responses of the management API: `{"type","code","detail","attr"}`. The only place that
//! maps other crates' errors to responses.

use std::borrow::Cow;
use std::fmt;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;

pub type Result<T> = std::result::Result<T, Error>;

/// An error response.
#[derive(Debug)]
pub struct Error {
    status: StatusCode,
    body: ErrorBody,
    /// Boxed, since few responses have one and every `Result` would carry its size.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub struct ErrorBody {
    #[serde(rename = "type")]
    kind: &'static str,
    code: Cow<'static, str>,
    detail: String,
    /// Absent where upstream's response has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    attr: Option<Option<String>>,
}

impl Error {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
        attr: Option<String>,
    ) -> Self {
        let attr = Some(attr);
        let body = ErrorBody { kind, code: code.into(), detail: detail.into(), attr };
        Self { status, body, header: None }
    }

    fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.header = Some(Box::new((name, value)));
        self
    }

    /// 400 about one field; `attr` joins nested names with two underscores.
    pub fn invalid(attr: impl Into<String>, code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", code, detail, Some(attr.into()))
    }

    /// 400 that is not about a single field.
    pub fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "invalid_input", detail, None)
    }

    /// 400 without `attr`, as a few of upstream's endpoints have it.
    pub fn without_attr(code: &'static str, detail: impl Into<String>) -> Self {
        let mut error = Self::new(StatusCode::BAD_REQUEST, "validation_error", code, detail, None);
        error.body.attr = None;
        error
    }

    /// The `type` field of the response.
    pub fn kind(&self) -> &'static str {
        self.body.kind
    }

    /// The `detail` member.
    pub fn detail(&self) -> &str {
        &self.body.detail
    }

    /// 400 about a field with a fixed set of values.
    pub fn invalid_choice(attr: &'static str, given: &str) -> Self {
        Self::invalid(attr, "invalid_choice", format!("\"{given}\" is not a valid choice."))
    }

    pub fn required(attr: impl Into<String>) -> Self {
        Self::invalid(attr, "required", "This field is required.")
    }

    /// Swaps code and detail of a missing field, as upstream does in writes of persons.
    pub fn with_code_and_detail_swapped(mut self) -> Self {
        if self.body.code == "required" {
            let code = std::mem::replace(&mut self.body.detail, "required".into());
            self.body.code = code.into();
        }
        self
    }

    /// 400: the body does not parse.
    pub fn parse(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", "parse_error", detail, None)
    }

    /// 400: a query or template in a field does not parse.
    pub fn malformed(attr: impl Into<String>, detail: impl Into<String>) -> Self {
        let mut error = Self::parse(detail);
        error.body.attr = Some(Some(attr.into()));
        error
    }

    pub fn unauthenticated() -> Self {
        Self::unauthorized("not_authenticated", "Authentication credentials were not provided.")
    }

    pub fn unauthorized(code: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", code, detail, None)
            .with(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "authentication_error", "permission_denied", detail, None)
    }

    pub fn not_found() -> Self {
        Self::not_found_because("Not found.")
    }

    pub fn not_found_because(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request", "not_found", detail, None)
    }

    pub fn method_not_allowed(method: &axum::http::Method) -> Self {
        let detail = format!("Method \"{method}\" not allowed.");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "invalid_request", "method_not_allowed", detail, None)
    }

    /// Adds what to do instead to the detail.
    pub fn with_hint(mut self, hint: &str) -> Self {
        self.body.detail = format!("{} {hint}", self.body.detail);
        self
    }

    pub fn not_acceptable() -> Self {
        let detail = "Could not satisfy the request Accept header.";
        let status = StatusCode::NOT_ACCEPTABLE;
        Self::new(status, "invalid_request", "not_acceptable", detail, None)
    }

    pub fn conflict(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "server_error", "conflict", detail, None)
    }

    pub fn too_large(limit_bytes: usize) -> Self {
        let detail = format!("The request body is larger than {limit_bytes} bytes.");
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        Self::new(status, "invalid_request", "payload_too_large", detail, None)
    }

    pub fn unsupported_media_type(given: &str) -> Self {
        let detail = format!("Unsupported media type \"{given}\" in request.");
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(status, "invalid_request", "unsupported_media_type", detail, None)
    }

    pub fn throttled(wait_seconds: u64) -> Self {
        let detail =
            format!("Request was throttled. Expected available in {wait_seconds} seconds.");
        let status = StatusCode::TOO_MANY_REQUESTS;
        Self::new(status, "throttled_error", "throttled", detail, None)
            .with(header::RETRY_AFTER, HeaderValue::from(wait_seconds))
    }

    pub fn timed_out() -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "server_error", "timeout", "The request took too long.", None)
    }

    pub fn read_timeout() -> Self {
        let status = StatusCode::REQUEST_TIMEOUT;
        let detail = "The request body did not arrive in time.";
        Self::new(status, "invalid_request", "request_timeout", detail, None)
    }

    pub fn unavailable(detail: impl Into<String>) -> Self {
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self::new(status, "server_error", "service_unavailable", detail, None)
            .with(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }

    /// 503: all permits, or the memory budget, are in use.
    pub fn busy() -> Self {
        Self::unavailable("The server is busy. Try again in a moment.")
    }

    /// Whether this is a 4xx.
    pub fn is_client_error(&self) -> bool {
        self.status.is_client_error()
    }

    /// 500. Logs the chain of causes, which the response does not show.
    pub(crate) fn internal(cause: &(dyn std::error::Error + 'static)) -> Self {
        let mut causes = cause.to_string();
        let mut next = cause.source();
        while let Some(source) = next {
            causes = format!("{causes}: {source}");
            next = source.source();
        }
        tracing::error!(error = causes, "request failed");
        Self::server_error()
    }

    /// 500 after a handler panicked.
    pub(crate) fn panicked(cause: Option<&str>) -> Self {
        tracing::error!(error = cause.unwrap_or("unknown"), "request panicked");
        Self::server_error()
    }

    fn server_error() -> Self {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Self::new(status, "server_error", "error", "A server error occurred.", None)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if let Some(header) = self.header {
            let (name, value) = *header;
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// The detail, for callers that are not HTTP clients.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.detail())
    }
}

impl std::error::Error for Error {}

impl From<model::FieldError> for Error {
    fn from(error: model::FieldError) -> Self {
        Self::invalid(error.attr, error.code, error.detail)
    }
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Self {
        use catalog::Error as Cause;
        match error {
            Cause::NotFound => Self::not_found(),
            Cause::Refused { field: Some(field), detail } => {
                Self::invalid(field, "invalid_input", detail)
            }
            Cause::Refused { field: None, detail } => Self::bad_request(detail),
            Cause::Invalid { field, code, detail } => Self::invalid(field, code, detail),
            Cause::Stale(detail) => Self::conflict(detail),
            Cause::Taken { field, detail } => Self::invalid(field, "unique", detail),
            Cause::Forbidden(detail) => Self::forbidden(detail),
            Cause::Duplicate { .. } => {
                Self::conflict("Another request created the same object concurrently.")
            }
            Cause::Unavailable(ref source) if source.is_disk_full() => {
                tracing::error!(error = %source, "the disk of the catalog is full");
                Self::unavailable(
                    "The disk of the catalog is full. Nothing can be changed until it has space.",
                )
            }
            Cause::Unavailable(ref source) => {
                tracing::warn!(error = %source, "the catalog is unavailable");
                Self::unavailable("The catalog cannot be reached at the moment.")
            }
            Cause::Owned
            | Cause::OutOfSync
            | Cause::WrongSecretKey
            | Cause::NewerSchema { .. }
            | Cause::OlderSchema { .. }
            | Cause::Migration { .. }
            | Cause::Corrupt { .. }
            | Cause::Backend(_) => Self::internal(&error),
        }
    }
}

/// `Retry-After` of a project with too many concurrent queries.
const QUERY_RETRY_SECONDS: u64 = 5;

impl From<query::Error> for Error {
    fn from(error: query::Error) -> Self {
        use query::Error as Cause;
        match error {
            Cause::Invalid(detail) => Self::bad_request(detail),
            Cause::Cancelled => Self::bad_request(error.to_string()),
            Cause::Parse(detail) => Self::parse(detail),
            Cause::Engine { code, message } => {
                Self::new(StatusCode::BAD_REQUEST, "validation_error", code, message, None)
            }
            Cause::Timeout | Cause::MemoryLimit => {
                let status = StatusCode::GATEWAY_TIMEOUT;
                Self::new(status, "server_error", "error", error.to_string(), None)
            }
            Cause::Throttled => Self::throttled(QUERY_RETRY_SECONDS),
            Cause::MemoryPressure => Self::unavailable(
                "Other queries hold the memory that this one needs. Try again in a moment.",
            ),
            Cause::Busy => {
                Self::unavailable("Too many concurrent reads of events. Try again in a moment.")
            }
            Cause::Unavailable(detail) => Self::unavailable(detail),
            Cause::Catalog(error) => error.into(),
            Cause::Internal(_) | Cause::Refused(_) | Cause::Warehouse(_) | Cause::TaskFailed(_) => {
                Self::internal(&error)
            }
        }
    }
}
