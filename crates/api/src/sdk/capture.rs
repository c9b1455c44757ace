//! Event capture. A 200 means that the journal has the events on disk.

use std::convert::Infallible;

use ::capture::{Accepted, Endpoint, Rejection, Sender, V1Accepted, V1Rejection, V1Request};
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use schemars::{JsonSchema, SchemaGenerator};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::paths;
use crate::http::body_reader::{IncomingRequest, ReadError, discard, receive};
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::public_error::{CaptureV1Error, CaptureV1ErrorBody, PublicError, PublicErrorBody};
use crate::{App, AppState, Routes};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const REQUEST_ID: HeaderName = HeaderName::from_static("posthog-request-id");

pub(crate) fn routes(routes: Routes) -> Routes {
    let routes = paths::EVENTS
        .into_iter()
        .fold(routes, |routes, path| routes.post(path, events).get(path, events))
        .post(paths::ENGAGE, engage)
        .get(paths::ENGAGE, engage)
        .post(paths::RECORDINGS, recordings)
        .get(paths::RECORDINGS, recordings)
        .post(paths::AI_EVENTS, events)
        .post(paths::EVENTS_V1, v1)
        .post(paths::GENERAL_EVENTS_V1, v1);
    paths::UNSUPPORTED.into_iter().fold(routes, Routes::unsupported)
}

async fn events(app: App, sent: CaptureRequest) -> Result<Captured, PublicError> {
    capture_events(&app, Endpoint::Events, sent.0).await
}

async fn engage(app: App, sent: CaptureRequest) -> Result<Captured, PublicError> {
    capture_events(&app, Endpoint::Engage, sent.0).await
}

async fn recordings(app: App, sent: CaptureRequest) -> Result<Captured, PublicError> {
    capture_events(&app, Endpoint::Recordings, sent.0).await
}

async fn v1(app: App, sent: CaptureV1Request) -> Result<CapturedV1, CaptureV1Error> {
    capture_events_v1(&app, sent.0).await
}

pub(crate) async fn capture_events<B: HttpBody<Data = Bytes> + Unpin>(
    app: &AppState,
    endpoint: Endpoint,
    mut sent: IncomingRequest<B>,
) -> Result<Captured, PublicError> {
    let received_at = app.catalog.clock().now();
    let bytes_max = app.capture.limits().body_bytes_max;
    let (headers, body) = (&sent.head.headers, &mut sent.body);
    let body = receive(app, headers, body, Sender::Public, bytes_max).await?;
    let request = capture::Request {
        endpoint,
        query: sent.query(),
        content_type: sent.header(header::CONTENT_TYPE),
        content_encoding: sent.header(header::CONTENT_ENCODING),
        body: &body.bytes,
        client_ip: sent.client_ip(app),
        received_at,
    };
    let prepared = app.capture.prepare(request).await?;
    // Free the connection's read buffer before waiting for the journal.
    drop((body, sent));
    Ok(Captured(app.capture.commit(prepared).await?))
}

pub(crate) async fn capture_events_v1<B: HttpBody<Data = Bytes> + Unpin>(
    app: &AppState,
    sent: IncomingRequest<B>,
) -> Result<CapturedV1, CaptureV1Error> {
    let received_at = app.catalog.clock().now();
    let bytes_max = app.capture.limits().v1_body_bytes_max;
    let client_ip = sent.client_ip(app);
    let IncomingRequest { head, mut body, .. } = sent;
    let text = |name: HeaderName| head.headers.get(name)?.to_str().ok();
    let named = |name: &'static str| text(HeaderName::from_static(name));
    let request = V1Request {
        authorization: text(header::AUTHORIZATION),
        content_type: text(header::CONTENT_TYPE),
        content_encoding: text(header::CONTENT_ENCODING),
        user_agent: text(header::USER_AGENT),
        sdk_info: named("posthog-sdk-info"),
        attempt: named("posthog-attempt"),
        request_id: named("posthog-request-id"),
        request_timestamp: named("posthog-request-timestamp"),
        body: &[],
        client_ip,
        received_at,
    };
    if let Err(refused) = app.capture.check_v1_headers(&request).await {
        discard(app, &head.headers, &mut body).await;
        return Err(refused.into());
    }
    let body = receive(app, &head.headers, &mut body, Sender::Public, bytes_max).await?;
    Ok(CapturedV1(app.capture.v1(V1Request { body: &body.bytes, ..request }).await?))
}

impl From<ReadError> for PublicError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooLarge => Rejection::TooLarge.into(),
            ReadError::Busy => Rejection::Busy.into(),
            ReadError::Timeout => Self::read_timeout(),
            ReadError::Disconnected => Self::truncated_body(),
        }
    }
}

impl From<ReadError> for CaptureV1Error {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::TooLarge => V1Rejection::TooLarge.into(),
            ReadError::Busy => V1Rejection::Unavailable(None).into(),
            ReadError::Timeout => Self::read_timeout(),
            ReadError::Disconnected => Self::truncated_body(),
        }
    }
}

struct CaptureRequest(IncomingRequest<Body>);

impl FromRequest<AppState> for CaptureRequest {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self(IncomingRequest::from_router(request)))
    }
}

struct CaptureV1Request(IncomingRequest<Body>);

impl FromRequest<AppState> for CaptureV1Request {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self(IncomingRequest::from_router(request)))
    }
}

pub(crate) struct Captured(Accepted);

impl IntoResponse for Captured {
    fn into_response(self) -> Response {
        if self.0.beacon {
            return StatusCode::NO_CONTENT.into_response();
        }
        let mut response = match self.0.quota_limited {
            [] => Response::new("{\"status\":1}".into()),
            paused => {
                let body = json!({ "status": 1, "quota_limited": paused });
                Response::new(body.to_string().into())
            }
        };
        response.headers_mut().insert(header::CONTENT_TYPE, JSON);
        response
    }
}

pub(crate) struct CapturedV1(V1Accepted);

impl IntoResponse for CapturedV1 {
    fn into_response(self) -> Response {
        let id = self.0.request_id.to_string();
        let mut response =
            axum::Json(V1Answer { results: V1Results(self.0.results) }).into_response();
        if let Ok(id) = HeaderValue::try_from(id) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        response
    }
}

#[derive(Serialize)]
struct V1Answer {
    results: V1Results,
}

struct V1Results(Vec<(uuid::Uuid, capture::V1Result)>);

/// Serializes a map in the order of the batch.
impl Serialize for V1Results {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (uuid, result) in &self.0 {
            let (result, details) = (result.as_str(), result.details());
            map.serialize_entry(uuid, &V1ResultBody { result, details })?;
        }
        map.end()
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CaptureV1Result")]
struct V1ResultBody {
    result: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'static str>,
}

/// The documented shape; all other shapes that SDKs have ever sent are accepted too.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes what the decoder reads")]
struct CaptureBody {
    /// The project's API key.
    api_key: String,
    event: Option<String>,
    distinct_id: Option<String>,
    properties: Option<serde_json::Map<String, Value>>,
    timestamp: Option<String>,
    batch: Option<Vec<CapturedEvent>>,
    historical_migration: Option<bool>,
    sent_at: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes what the decoder reads")]
struct CapturedEvent {
    event: String,
    uuid: Option<uuid::Uuid>,
    distinct_id: Option<String>,
    properties: Option<serde_json::Map<String, Value>>,
    timestamp: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes what the decoder reads")]
struct CaptureV1Body {
    created_at: String,
    historical_migration: Option<bool>,
    batch: Vec<CaptureV1Event>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes what the decoder reads")]
struct CaptureV1Event {
    event: String,
    uuid: uuid::Uuid,
    distinct_id: String,
    timestamp: String,
    options: Option<serde_json::Map<String, Value>>,
    properties: Option<serde_json::Map<String, Value>>,
    session_id: Option<String>,
    window_id: Option<String>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct CaptureAnswer {
    status: i64,
    quota_limited: Option<Vec<String>>,
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes the response")]
struct CaptureV1Answer {
    results: std::collections::BTreeMap<uuid::Uuid, V1ResultBody>,
}

impl DescribeRequest for CaptureRequest {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<CaptureBody>(schemas);
        for name in ["data", "compression", "_", "sent_at", "ver", "ip", "beacon"] {
            operation.query_parameter(name, json!({ "type": "string" }));
        }
    }
}

impl DescribeRequest for CaptureV1Request {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<CaptureV1Body>(schemas);
        for name in [
            "Authorization",
            "PostHog-Sdk-Info",
            "PostHog-Attempt",
            "PostHog-Request-Id",
            "PostHog-Request-Timestamp",
        ] {
            operation.header_parameter(name, json!({ "type": "string" }));
        }
    }
}

impl DescribeResponse for Captured {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<CaptureAnswer>(200, schemas);
        operation.empty_response(204);
    }
}

impl DescribeResponse for CapturedV1 {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<CaptureV1Answer>(200, schemas);
    }
}

impl<T: DescribeResponse> DescribeResponse for Result<T, PublicError> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        T::describe_response(operation, schemas);
        operation.response_default::<PublicErrorBody>(schemas);
    }
}

impl<T: DescribeResponse> DescribeResponse for Result<T, CaptureV1Error> {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        T::describe_response(operation, schemas);
        operation.response_default::<CaptureV1ErrorBody>(schemas);
    }
}
