//! Flag evaluation for SDKs: `/flags` and `/decide`, requested at every page load.

mod request;
pub(crate) mod response;

use std::collections::BTreeMap;
use std::convert::Infallible;

use ::capture::{Rejection, Reservation, Sender, decode_within};
use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use catalog::ProjectRow;
use decode::{
    FlagsBody, JsonText, MemoryTracker, Parts, Strictness, decode_text_within, decoded_bytes_hint,
    flags_token, parse_flags, parsed_bytes_max, validate_json,
};
use flags::EvaluationRequest;
use model::json_shapes::IdOrDigits;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::paths;
use crate::http::body_reader::{IncomingRequest, receive};
use crate::http::openapi::{DescribeRequest, DescribeResponse, Operation};
use crate::http::public_error::PublicError;
use crate::sdk::tokens::Owner;
use crate::{App, AppState, Routes};
pub(crate) use request::Endpoint;
use request::RequestOptions;
use response::{Envelope, FlagsResponse, ResponseFormat};

/// Requests hold a person's properties, never events.
const BODY_BYTES_MAX: usize = 2 << 20;
/// Parsed values of a request: enough for a hundred thousand properties.
const VALUES_BYTES_MAX: usize = 16 << 20;
/// Parsed values of most requests, reserved together with the decoded body.
const USUAL_VALUES_BYTES: usize = 4 << 10;

pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .post(paths::FLAGS, evaluate)
        .get(paths::FLAGS, nothing)
        .post(paths::DECIDE, decide)
        .get(paths::DECIDE, nothing)
        .read_only(paths::FLAGS)
        .read_only(paths::DECIDE)
}

async fn evaluate(app: App, sent: FlagsSent) -> Result<Evaluated, PublicError> {
    evaluate_flags(&app, Endpoint::Flags, sent.0).await
}

async fn decide(app: App, sent: FlagsSent) -> Result<Evaluated, PublicError> {
    evaluate_flags(&app, Endpoint::Decide, sent.0).await
}

/// GET evaluates nothing.
async fn nothing(app: App) -> Evaluated {
    let now = app.catalog.clock().now();
    let envelope = Envelope::new(ResponseFormat::Flags, None, now);
    Evaluated(envelope.empty())
}

pub(crate) async fn evaluate_flags<B: HttpBody<Data = Bytes> + Unpin>(
    app: &AppState,
    endpoint: Endpoint,
    mut sent: IncomingRequest<B>,
) -> Result<Evaluated, PublicError> {
    let options = RequestOptions::read(&sent.head, endpoint);
    request::check_content_type(&sent.head)?;
    let (headers, body) = (&sent.head.headers, &mut sent.body);
    let body = receive(app, headers, body, Sender::Public, BODY_BYTES_MAX).await?;
    let parts = Parts {
        query: sent.query(),
        content_type: sent.header(header::CONTENT_TYPE),
        content_encoding: sent.header(header::CONTENT_ENCODING),
        body: &body.bytes,
    };
    let expected = decoded_bytes_hint(&parts, BODY_BYTES_MAX) + USUAL_VALUES_BYTES;
    let decode =
        |memory: &mut MemoryTracker<'_>| decode_text_within(&parts, Strictness::Lenient, memory);
    let (budget, needed) = (app.capture.budget(), JsonText::owned_bytes);
    let text = decode_within(budget, expected, BODY_BYTES_MAX, needed, decode);
    let (reservation, text) = text.await.map_err(Rejection::from)?;
    let token = flags_token(&text).map_err(Rejection::from)?;
    let project = match app.tokens.owner(token.as_deref().unwrap_or("").trim()).await {
        Owner::Known(project) => project,
        Owner::Unknown => {
            validate_json(&text).map_err(Rejection::from)?;
            return Err(PublicError::invalid_token());
        }
        Owner::Unavailable => return Err(Rejection::LookupUnavailable.into()),
    };
    let (_reservation, decoded) = parse_body(app, &text, reservation).await?;
    drop(text);
    let envelope = Envelope::new(options.format, options.request_id, app.catalog.clock().now());
    let config = match options.config {
        true => Some(Box::pin(config(app, &project, endpoint)).await),
        false => None,
    };
    if decoded.disable_flags {
        return Ok(Evaluated(envelope.with_config(config).empty()));
    }
    let evaluation = evaluation_request(app, &sent, &options, decoded)?;
    let evaluated = app.flags.with_context(&project, evaluation, |set, context, selection| {
        envelope.with_config(config).of(&set.evaluate(context, selection))
    });
    match evaluated.await {
        Ok(body) => Ok(Evaluated(body)),
        Err(flags::Unavailable) => Err(Rejection::LookupUnavailable.into()),
    }
}

/// Parses the body once memory for its values is reserved.
async fn parse_body<'a>(
    app: &'a AppState,
    text: &JsonText<'_>,
    mut reservation: Reservation<'a>,
) -> Result<(Reservation<'a>, FlagsBody), PublicError> {
    let values = parsed_bytes_max(text.as_str().as_bytes());
    if values > VALUES_BYTES_MAX {
        return Err(Rejection::TooLarge.into());
    }
    let bytes = text.owned_bytes() + values;
    if let Err(busy) = reservation.grow(bytes) {
        // Waiting for more of the large lane while holding part of it could deadlock.
        if !reservation.is_small() {
            return Err(Rejection::from(busy).into());
        }
        // While it waits, only the decoded body stays reserved.
        reservation.shrink(text.owned_bytes());
        let larger = app.capture.budget().reserve_decoded_large(bytes).await;
        reservation = larger.map_err(Rejection::from)?;
        reservation.grow(bytes).map_err(Rejection::from)?;
    }
    let decoded = parse_flags(text).map_err(Rejection::from)?;
    Ok((reservation, decoded))
}

fn evaluation_request<B>(
    app: &AppState,
    sent: &IncomingRequest<B>,
    options: &RequestOptions,
    body: FlagsBody,
) -> Result<EvaluationRequest, PublicError> {
    let address = request::forwarded_address(app, sent).filter(|_| !body.geoip_disable);
    let selection = options.selection(&sent.head, &body);
    Ok(EvaluationRequest {
        distinct_id: body.distinct_id.ok_or_else(PublicError::missing_distinct_id)?,
        device_id: body.device_id,
        anon_distinct_id: body.anon_distinct_id,
        groups: body.groups,
        person_properties: body.person_properties,
        group_properties: body.group_properties,
        address,
        selection,
    })
}

/// The remote config, which saves browsers a request.
async fn config(app: &AppState, project: &ProjectRow, endpoint: Endpoint) -> Map<String, Value> {
    let config = crate::sdk::remote_config::RemoteConfig::of(app, project).await;
    let mut config = match json!(config) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    };
    config.remove("token");
    config.insert("config".into(), json!({ "enable_collect_everything": true }));
    config.insert("isAuthenticated".into(), json!(false));
    config.insert("toolbarParams".into(), json!({}));
    if endpoint == Endpoint::Decide {
        config.insert("editorParams".into(), json!({}));
    }
    config
}

struct FlagsSent(IncomingRequest<Body>);

impl FromRequest<AppState> for FlagsSent {
    type Rejection = Infallible;

    async fn from_request(request: Request, _: &AppState) -> Result<Self, Infallible> {
        Ok(Self(IncomingRequest::from_router(request)))
    }
}

/// A serialized JSON body.
pub(crate) struct Evaluated(String);

impl IntoResponse for Evaluated {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}

#[derive(JsonSchema)]
#[allow(dead_code, reason = "describes what the decoder reads")]
struct FlagsRequest {
    /// The project's API key.
    token: String,
    distinct_id: Option<String>,
    /// Keys of groups by their type.
    groups: Option<BTreeMap<String, IdOrDigits>>,
    person_properties: Option<Map<String, Value>>,
    /// By the group's type.
    group_properties: Option<BTreeMap<String, Map<String, Value>>>,
    #[serde(rename = "$anon_distinct_id")]
    anon_distinct_id: Option<String>,
    #[serde(rename = "$device_id")]
    device_id: Option<String>,
    geoip_disable: Option<bool>,
    disable_flags: Option<bool>,
    flag_keys: Option<Vec<String>>,
    evaluation_contexts: Option<Vec<String>>,
    evaluation_runtime: Option<String>,
}

impl DescribeRequest for FlagsSent {
    fn describe(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.body::<FlagsRequest>(schemas);
        for name in ["v", "config", "compression", "only_evaluate_survey_feature_flags"] {
            operation.query_parameter(name, json!({ "type": "string" }));
        }
    }
}

impl DescribeResponse for Evaluated {
    fn describe_response(operation: &mut Operation, schemas: &mut SchemaGenerator) {
        operation.response::<FlagsResponse>(200, schemas);
    }
}
