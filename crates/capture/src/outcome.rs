//! Outcomes of capture requests: acceptance or a rejection with its contract code.

use thiserror::Error;
use uuid::Uuid;

use crate::counters::DropReason;
use crate::{Busy, DecodeFailure};

/// The valid events are durable in the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Products that the SDK should stop sending.
    pub quota_limited: &'static [&'static str],
    /// Sent with `navigator.sendBeacon`: nobody reads the response.
    pub beacon: bool,
}

/// Nothing was stored. `Display` is the response's `detail`.
#[derive(Debug, Error)]
pub enum Rejection {
    /// 400 `invalid_payload`
    #[error("{0}")]
    InvalidPayload(decode::Error),
    /// 413 `payload_too_large`
    #[error("The payload is too large.")]
    TooLarge,
    /// 401 `invalid_api_key`
    #[error("{detail}")]
    InvalidApiKey { detail: &'static str },
    /// 401 `invalid_personal_api_key`
    #[error("The personal API key is invalid.")]
    InvalidPersonalApiKey,
    /// 400 `invalid_project`
    #[error("The project to send events to could not be determined.")]
    InvalidProject,
    /// 503 `fetch_team_fail`: the token lookup is unavailable.
    #[error("The project could not be looked up. Try again.")]
    LookupUnavailable,
    /// 503: the memory budget or the journal's queue is exhausted.
    #[error("The server is busy. Try again.")]
    Busy,
    /// 503: the journal refuses appends; its error is logged, not shown.
    #[error("Events cannot be stored now. Try again.")]
    JournalUnavailable(#[source] journal::Error),
}

impl Rejection {
    /// The response's `code`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidPayload(_) => "invalid_payload",
            Self::TooLarge => "payload_too_large",
            Self::InvalidApiKey { .. } => "invalid_api_key",
            Self::InvalidPersonalApiKey => "invalid_personal_api_key",
            Self::InvalidProject => "invalid_project",
            Self::LookupUnavailable | Self::Busy | Self::JournalUnavailable(_) => "fetch_team_fail",
        }
    }
}

impl From<decode::Error> for Rejection {
    fn from(error: decode::Error) -> Self {
        match error {
            decode::Error::TooLarge => Self::TooLarge,
            decode::Error::OutOfMemory => Self::Busy,
            error => Self::InvalidPayload(error),
        }
    }
}

impl From<journal::Error> for Rejection {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::Busy { .. } => Self::Busy,
            // SDKs split the batch in half and retry.
            journal::Error::TooLarge { .. } => Self::TooLarge,
            error => Self::JournalUnavailable(error),
        }
    }
}

impl From<DecodeFailure> for Rejection {
    fn from(failure: DecodeFailure) -> Self {
        match failure {
            DecodeFailure::Busy => Self::Busy,
            DecodeFailure::Invalid(error) => error.into(),
        }
    }
}

impl From<DecodeFailure> for V1Rejection {
    fn from(failure: DecodeFailure) -> Self {
        match failure {
            DecodeFailure::Busy => Self::Unavailable(None),
            DecodeFailure::Invalid(error) => error.into(),
        }
    }
}

impl From<Busy> for Rejection {
    fn from(_: Busy) -> Self {
        Self::Busy
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V1Accepted {
    /// Echoed in the response.
    pub request_id: Uuid,
    /// One per event, in order.
    pub results: Vec<(Uuid, V1Result)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum V1Result {
    Ok,
    /// Stored without person processing: the distinct id identifies nobody.
    PersonProcessingDisabled,
    Dropped(DropReason),
}

impl V1Result {
    /// The response's `result`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::PersonProcessingDisabled => "warning",
            Self::Dropped(_) => "drop",
        }
    }

    /// The response's `details`.
    pub const fn details(self) -> Option<&'static str> {
        match self {
            Self::Ok => None,
            Self::PersonProcessingDisabled => Some("person_processing_disabled"),
            Self::Dropped(reason) => Some(reason.v1_tag()),
        }
    }
}

/// Nothing was stored. `Display` is the response's `error_description`.
#[derive(Debug, Error)]
pub enum V1Rejection {
    #[error("The header {0} is missing.")]
    MissingHeader(&'static str),
    #[error("The header {0} is not valid.")]
    InvalidHeader(&'static str),
    #[error("The content type must be application/json.")]
    UnsupportedContentType,
    #[error("The content encoding is not supported.")]
    UnsupportedEncoding,
    #[error("The API token is not valid.")]
    InvalidApiToken,
    #[error("The request has no body.")]
    EmptyBody,
    #[error("{0}")]
    Undecodable(decode::Error),
    #[error("{0}")]
    Unparsable(decode::Error),
    #[error("The batch is empty.")]
    EmptyBatch,
    #[error("created_at must be a time in RFC 3339.")]
    InvalidBatch,
    #[error("An event has no uuid.")]
    MissingEventUuid,
    #[error("An event's uuid is not valid.")]
    InvalidEventUuid,
    #[error("Two events have the same uuid.")]
    DuplicateEventUuid,
    #[error("The payload is too large.")]
    TooLarge,
    /// 503. The journal's error, if any, is logged, not shown.
    #[error("Events cannot be stored now. Try again.")]
    Unavailable(#[source] Option<journal::Error>),
}

impl V1Rejection {
    /// The response's `error`.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::MissingHeader(_) => "missing_required_headers",
            Self::InvalidHeader(_) => "invalid_header_value",
            Self::UnsupportedContentType => "unsupported_content_type",
            Self::UnsupportedEncoding => "unsupported_encoding",
            Self::InvalidApiToken => "invalid_api_token",
            Self::EmptyBody => "empty_body",
            Self::Undecodable(_) => "request_decoding_error",
            Self::Unparsable(_) => "request_parsing_error",
            Self::EmptyBatch => "empty_batch",
            Self::InvalidBatch => "invalid_batch",
            Self::MissingEventUuid => "missing_event_uuid",
            Self::InvalidEventUuid => "invalid_event_uuid",
            Self::DuplicateEventUuid => "duplicate_event_uuid",
            Self::TooLarge => "payload_too_large",
            Self::Unavailable(_) => "service_unavailable",
        }
    }
}

impl From<decode::Error> for V1Rejection {
    fn from(error: decode::Error) -> Self {
        use decode::Error;
        match error {
            Error::Empty => Self::EmptyBody,
            Error::EmptyBatch => Self::EmptyBatch,
            Error::TooLarge => Self::TooLarge,
            Error::OutOfMemory => Self::Unavailable(None),
            Error::Encoding(_) | Error::Form | Error::Utf8 => Self::Undecodable(error),
            Error::Json | Error::TooDeep | Error::Shape => Self::Unparsable(error),
        }
    }
}

impl From<journal::Error> for V1Rejection {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::TooLarge { .. } => Self::TooLarge,
            error => Self::Unavailable(Some(error)),
        }
    }
}

impl From<Busy> for V1Rejection {
    fn from(_: Busy) -> Self {
        Self::Unavailable(None)
    }
}
