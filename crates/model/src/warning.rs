//! Ingestion warnings: what a project should know about the events it sent.

use serde::Serialize;
use uuid::Uuid;

use crate::{ProjectId, Timestamp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub project: ProjectId,
    pub kind: WarningKind,
    pub timestamp: Timestamp,
    pub details: WarningDetails,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    MissingEventName,
    SkippingEventInvalidDistinctId,
    DistinctIdTruncated,
    SkippingEventInvalidUuid,
    InvalidEventProperties,
    /// An element of a batch that is not an object.
    InvalidEvent,
    MessageSizeTooLarge,
}

impl WarningKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MissingEventName => "missing_event_name",
            Self::SkippingEventInvalidDistinctId => "skipping_event_invalid_distinct_id",
            Self::DistinctIdTruncated => "distinct_id_truncated",
            Self::SkippingEventInvalidUuid => "skipping_event_invalid_uuid",
            Self::InvalidEventProperties => "invalid_event_properties",
            Self::InvalidEvent => "invalid_event",
            Self::MessageSizeTooLarge => "message_size_too_large",
        }
    }
}

/// What is known of the event, as the warning's `details` object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WarningDetails {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_uuid: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
}
