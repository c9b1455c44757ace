//! The options of a flag evaluation in the request's head.

use std::net::IpAddr;

use axum::http::header;
use axum::http::request::Parts;
use decode::FlagsBody;
use flags::{RequestRuntime, Selection};
use uuid::Uuid;

use super::response::ResponseFormat;
use crate::AppState;
use crate::http::body_reader::IncomingRequest;
use crate::http::path::query_parameter;
use crate::http::public_error::PublicError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Flags,
    Decide,
}

pub(super) struct RequestOptions {
    pub format: ResponseFormat,
    /// Whether the response includes the remote config.
    pub config: bool,
    pub request_id: Option<Uuid>,
    only_surveys: bool,
}

/// Substrings of browsers' User-Agent.
const BROWSERS: [&str; 5] = ["Mozilla/", "Chrome/", "Safari/", "Firefox/", "Edge/"];
const SERVER_SDKS: [&str; 8] = ["python", "ruby", "php", "java", "go", "node", "dotnet", "elixir"];
const CLIENT_SDKS: [&str; 4] = ["android", "ios", "react-native", "flutter"];
const SERVER_TOOLS: [&str; 2] = ["python-requests/", "curl/"];
/// Headers that only browsers send.
const BROWSER_HEADERS: [&str; 4] = ["origin", "referer", "sec-fetch-mode", "sec-fetch-site"];

impl RequestOptions {
    pub(super) fn read(head: &Parts, endpoint: Endpoint) -> Self {
        let given = |name: &str| query_parameter(head, name).filter(|text| !text.is_empty());
        let version = given("v").map(|text| text.parse::<i64>().unwrap_or(1));
        let config = given("config").map(|text| is_true(&text));
        let format = match (endpoint, version) {
            (Endpoint::Decide, Some(2)) => ResponseFormat::EnabledMap,
            (Endpoint::Decide, Some(3)) => ResponseFormat::Maps { both_spellings: true },
            (Endpoint::Decide, Some(4..)) => ResponseFormat::Flags,
            (Endpoint::Decide, _) => ResponseFormat::Keys,
            (Endpoint::Flags, Some(2..)) => ResponseFormat::Flags,
            (Endpoint::Flags, None) if config.is_none() => ResponseFormat::Flags,
            (Endpoint::Flags, _) => ResponseFormat::Maps { both_spellings: false },
        };
        let implied = endpoint == Endpoint::Decide || version.is_none();
        Self {
            format,
            config: config.unwrap_or(implied),
            request_id: head
                .headers
                .get("x-request-id")
                .and_then(|id| Uuid::parse_str(id.to_str().ok()?).ok()),
            only_surveys: given("only_evaluate_survey_feature_flags")
                .is_some_and(|text| is_true(&text)),
        }
    }

    pub(super) fn selection(&self, head: &Parts, body: &FlagsBody) -> Selection {
        Selection {
            keys: body.flag_keys.clone(),
            contexts: body.evaluation_contexts.iter().cloned().collect(),
            runtime: match body.evaluation_runtime.as_deref() {
                Some("client") => RequestRuntime::Client,
                Some("server") => RequestRuntime::Server,
                Some(_) => RequestRuntime::All,
                None => runtime(head),
            },
            only_surveys: self.only_surveys,
        }
    }
}

fn is_true(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "true" | "1" | "yes")
}

fn runtime(head: &Parts) -> RequestRuntime {
    let agent = head.headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok());
    let agent = agent.unwrap_or_default();
    let is_sdk = |names: &[&str]| {
        let sdk = agent.strip_prefix("posthog-").and_then(|rest| rest.split_once('/'));
        sdk.is_some_and(|(name, _)| names.contains(&name))
    };
    if BROWSERS.iter().any(|word| agent.contains(word)) {
        RequestRuntime::Client
    } else if is_sdk(&SERVER_SDKS) || SERVER_TOOLS.iter().any(|word| agent.contains(word)) {
        RequestRuntime::Server
    } else if is_sdk(&CLIENT_SDKS)
        || BROWSER_HEADERS.iter().any(|name| head.headers.contains_key(*name))
    {
        RequestRuntime::Client
    } else {
        RequestRuntime::Unknown
    }
}

/// Rejects content types that no SDK sends.
pub(super) fn check_content_type(head: &Parts) -> Result<(), PublicError> {
    const KNOWN: [&str; 5] = [
        "application/json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/octet-stream",
        "application/gzip",
    ];
    let Some(given) = head.headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    let media = media.trim().to_ascii_lowercase();
    if media.is_empty() || KNOWN.contains(&media.as_str()) {
        return Ok(());
    }
    Err(PublicError::unknown_content_type(&media))
}

/// The address in `X-Forwarded-For`, or in its CGI spelling. Without it there is no GeoIP lookup:
/// the peer may be a server-side SDK rather than the user.
pub(super) fn forwarded_address<B>(app: &AppState, sent: &IncomingRequest<B>) -> Option<IpAddr> {
    let headers = &sent.head.headers;
    let spelled_for_cgi = headers.get("http_x_forwarded_for");
    if let Some(value) = spelled_for_cgi.filter(|_| !headers.contains_key("x-forwarded-for")) {
        return value.to_str().ok()?.split(',').next()?.trim().parse().ok();
    }
    if !headers.contains_key("x-forwarded-for") {
        return None;
    }
    sent.client_ip(app)
}
