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
pub(crate) struct Refusal {
    status: StatusCode,
    body: RefusalBody,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PublicError")]
pub(crate) struct RefusalBody {
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
    Nothing(()),
    Name(&'static str),
}

impl Refusal {
    fn new(
        status: StatusCode,
        kind: &'static str,
        code: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        let attr = (kind == "validation_error").then_some(Attr::Nothing(()));
        Self { status, body: RefusalBody { kind, code, detail: detail.into(), attr } }
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
        let detail = "The request names nobody: send distinct_id.";
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "missing_distinct_id", detail)
    }

    pub(crate) fn unknown_content_type(media: &str) -> Self {
        let detail = format!("Bodies of type \"{media}\" are not understood.");
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "invalid_payload", detail)
    }

    pub(crate) fn cut_short() -> Self {
        let detail = "The request body ended early.";
        Self::new(StatusCode::BAD_REQUEST, "validation_error", "invalid_payload", detail)
    }

    pub(crate) fn stalled() -> Self {
        let detail = "The request body did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "server_error", "request_timeout", detail)
    }
}

impl From<Rejection> for Refusal {
    fn from(refused: Rejection) -> Self {
        let (status, kind) = match &refused {
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
        let mut refusal = Self::new(status, kind, refused.code(), refused.to_string());
        if let Rejection::InvalidProject = refused {
            refusal.body.attr = Some(Attr::Name("project_id"));
        }
        refusal
    }
}

impl IntoResponse for Refusal {
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
pub(crate) struct V1Refusal {
    status: StatusCode,
    body: V1RefusalBody,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CaptureV1Error")]
pub(crate) struct V1RefusalBody {
    error: &'static str,
    error_description: Cow<'static, str>,
    error_uri: &'static str,
}

impl V1Refusal {
    fn new(
        status: StatusCode,
        error: &'static str,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        let error_description = description.into();
        Self { status, body: V1RefusalBody { error, error_description, error_uri: ERROR_URI } }
    }

    pub(crate) fn cut_short() -> Self {
        let description = "The request body ended early.";
        Self::new(StatusCode::BAD_REQUEST, "request_decoding_error", description)
    }

    pub(crate) fn stalled() -> Self {
        let description = "The request body did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", description)
    }
}

impl From<V1Rejection> for V1Refusal {
    fn from(refused: V1Rejection) -> Self {
        let status = match &refused {
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
        Self::new(status, refused.code(), refused.to_string())
    }
}

impl IntoResponse for V1Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, axum::Json(self.body)).into_response();
        let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::SERVICE_UNAVAILABLE];
        if again.contains(&self.status) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        response
    }
}
