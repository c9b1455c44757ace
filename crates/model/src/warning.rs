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
    IgnoredInvalidTimestamp,
    EventTimestampInFuture,
    EventDroppedTooOld,
    CookielessDisabled,
    ReplayNotStored,
    PerformanceEventNotStored,
    ClientIngestionWarning,
    SetOnException,
    InvalidProcessPersonProfile,
    InvalidEventWhenProcessPersonProfileIsFalse,
    GroupKeyTooLong,
    GroupSetInvalid,
    CannotMergeWithIllegalDistinctId,
    CannotMergeAlreadyIdentified,
    PersonPropertiesSizeViolation,
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
            Self::IgnoredInvalidTimestamp => "ignored_invalid_timestamp",
            Self::EventTimestampInFuture => "event_timestamp_in_future",
            Self::EventDroppedTooOld => "event_dropped_too_old",
            Self::CookielessDisabled => "cookieless_disabled",
            Self::ReplayNotStored => "replay_not_stored",
            Self::PerformanceEventNotStored => "performance_event_not_stored",
            Self::ClientIngestionWarning => "client_ingestion_warning",
            Self::SetOnException => "set_on_exception",
            Self::InvalidProcessPersonProfile => "invalid_process_person_profile",
            Self::InvalidEventWhenProcessPersonProfileIsFalse => {
                "invalid_event_when_process_person_profile_is_false"
            }
            Self::GroupKeyTooLong => "group_key_too_long",
            Self::GroupSetInvalid => "group_set_invalid",
            Self::CannotMergeWithIllegalDistinctId => "cannot_merge_with_illegal_distinct_id",
            Self::CannotMergeAlreadyIdentified => "cannot_merge_already_identified",
            Self::PersonPropertiesSizeViolation => "person_properties_size_violation",
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
