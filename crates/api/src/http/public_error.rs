//! Error responses of public routes, in the two shapes that SDKs read. They differ from
//! management's in that only validation errors have `attr`.

use std::borrow::Cow;

use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use capture::{Rejection, V1Rejection};
use schemars::JsonSchema;
use serde::Serialize;

/// Short, since outages are usually brief and SDKs back off by themselves.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
/// Documentation of errors.
const ERROR_URI: &str = "/api/schema";

#[derive(Debug)]
pub(crate) struct PublicError {
    status: StatusCode,
    body: PublicErrorBody,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PublicError")]
pub(crate) struct PublicErrorBody {
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'static str,
    detail: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attr: Option<Attr>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
enum Attr {
    Null(()),
    Name(&'static str),
}

impl PublicError {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let attr = (kind == "validation_error").then_some(Attr::Null(()));
        Self { status, body: PublicErrorBody { kind, code, detail: detail.into(), attr } }
    }

    pub(crate) fn method_not_allowed(method: &Method) -> Self {
        let detail = format!("Method \"{method}\" not allowed.");
        let status = StatusCode::METHOD_NOT_ALLOWED;
        Self::new(status, "invalid_request", "method_not_allowed", detail)
    }

    pub(crate) fn not_found(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "invalid_request", "not_found", detail)
    }

    pub(crate) fn invalid_token() -> Self {
        let detail = "Project API key invalid. You can find it in the project's settings.";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", "invalid_api_key", detail)
    }

    pub(crate) fn missing_distinct_id() -> Self {
        let detail = "The request has no distinct_id.";
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "missing_distinct_id", detail)
    }

    pub(crate) fn unknown_content_type(media: &str) -> Self {
        let detail = format!("Unsupported content type \"{media}\".");
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "invalid_payload", detail)
    }

    pub(crate) fn truncated_body() -> Self {
        let detail = "The request body ended early.";
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "invalid_payload", detail)
    }

    pub(crate) fn read_timeout() -> Self {
        let detail = "The request body did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "server_error", "request_timeout", detail)
    }
}

impl From<Rejection> for PublicError {
    fn from(rejection: Rejection) -> Self {
        let (status, kind) = match &rejection {
            Rejection::InvalidPayload(_) | Rejection::InvalidProject => {
                (StatusCode::BAD_REQUEST, "validation_error")
            }
            Rejection::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "validation_error"),
            Rejection::InvalidApiKey { .. } | Rejection::InvalidPersonalApiKey => {
                (StatusCode::UNAUTHORIZED, "authentication_error")
            }
            Rejection::LookupUnavailable | Rejection::Busy => {
                (StatusCode::SERVICE_UNAVAILABLE, "server_error")
            }
            // The journal itself logs when it starts to reject appends.
            Rejection::JournalUnavailable(error) => {
                tracing::debug!(%error, "events could not be stored");
                (StatusCode::SERVICE_UNAVAILABLE, "server_error")
            }
        };
        let mut error = Self::new(status, kind, rejection.code(), rejection.to_string());
        if let Rejection::InvalidProject = rejection {
            error.body.attr = Some(Attr::Name("project_id"));
        }
        error
    }
}

impl IntoResponse for PublicError {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}

/// The error response of a whole capture v1 request.
#[derive(Debug)]
pub(crate) struct CaptureV1Error {
    status: StatusCode,
    body: CaptureV1ErrorBody,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CaptureV1Error")]
pub(crate) struct CaptureV1ErrorBody {
    error: &'static str,
    error_description: Cow<'static, str>,
    error_uri: &'static str,
}

impl CaptureV1Error {
    fn new(
        status: StatusCode,
        error: &'static str,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        let error_description = description.into();
        Self { status, body: CaptureV1ErrorBody { error, error_description, error_uri: ERROR_URI } }
    }

    pub(crate) fn truncated_body() -> Self {
        let description = "The request body ended early.";
        Self::new(StatusCode::BAD_REQUEST, "request_decoding_error", description)
    }

    pub(crate) fn read_timeout() -> Self {
        let description = "The request body did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", description)
    }
}

impl From<V1Rejection> for CaptureV1Error {
    fn from(rejection: V1Rejection) -> Self {
        let status = match &rejection {
            V1Rejection::MissingHeader(_)
            | V1Rejection::InvalidHeader(_)
            | V1Rejection::EmptyBody
            | V1Rejection::Undecodable(_)
            | V1Rejection::Unparsable(_)
            | V1Rejection::EmptyBatch
            | V1Rejection::InvalidBatch
            | V1Rejection::MissingEventUuid
            | V1Rejection::InvalidEventUuid
            | V1Rejection::DuplicateEventUuid => StatusCode::BAD_REQUEST,
            V1Rejection::InvalidApiToken => StatusCode::UNAUTHORIZED,
            V1Rejection::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            V1Rejection::UnsupportedContentType | V1Rejection::UnsupportedEncoding => {
                StatusCode::UNSUPPORTED_MEDIA_TYPE
            }
            V1Rejection::Unavailable(cause) => {
                tracing::debug!(error = ?cause, "events could not be stored");
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self::new(status, rejection.code(), rejection.to_string())
    }
}

impl IntoResponse for CaptureV1Error {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        let retryable = [StatusCode::REQUEST_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];
        if retryable.contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}
