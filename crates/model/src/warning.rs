//! Ingestion warnings: problems with events that a project sent.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};

use schemars::JsonSchema;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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
    /// The project has reached its limit of definitions: the event is stored, its new names are not
    /// defined.
    TooManyDefinitions,
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
            Self::TooManyDefinitions => "too_many_definitions",
        }
    }
}

impl WarningKind {
    /// Whether it is exempt from the throttle of one per hour.
    pub const fn is_unthrottled(self) -> bool {
        matches!(
            self,
            Self::CannotMergeWithIllegalDistinctId
                | Self::CannotMergeAlreadyIdentified
                | Self::InvalidEventWhenProcessPersonProfileIsFalse
                | Self::ClientIngestionWarning
        )
    }
}

/// Allows one warning an hour per project, kind and event name.
#[derive(Default)]
pub struct Throttle {
    hasher: RandomState,
    /// Time of the last warning, by hash of the key.
    last: HashMap<u64, Timestamp>,
    order: VecDeque<u64>,
}

const PERIOD_SECONDS: i64 = 3_600;
/// About 300 kB. When full, the oldest key is evicted and may warn again early.
const KEYS_MAX: usize = 10_000;

impl Throttle {
    pub fn allows(&self, warning: &Warning) -> bool {
        let last = self.last.get(&self.key(warning));
        warning.kind.is_unthrottled()
            || last.is_none_or(|last| warning.timestamp.seconds_since(*last) >= PERIOD_SECONDS)
    }

    /// Records that the warning was emitted.
    pub fn record(&mut self, warning: &Warning) {
        let key = self.key(warning);
        if self.last.insert(key, warning.timestamp).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
    }

    fn key(&self, warning: &Warning) -> u64 {
        self.hasher.hash_one((warning.project, warning.kind, &warning.details.event))
    }
}

/// The `details` object of a warning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
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
    /// The message of `$$client_ingestion_warning`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warning_throttle_is_bounded() {
        let mut throttle = Throttle::default();
        let warning = |key: usize, kind| Warning {
            project: ProjectId(1),
            kind,
            timestamp: Timestamp::from_micros(0),
            details: WarningDetails { event: Some(key.to_string()), ..Default::default() },
        };
        for key in 0..=KEYS_MAX {
            throttle.record(&warning(key, WarningKind::InvalidEvent));
            throttle.record(&warning(key, WarningKind::InvalidEvent));
        }
        assert_eq!((throttle.last.len(), throttle.order.len()), (KEYS_MAX, KEYS_MAX));
        assert!(throttle.allows(&warning(0, WarningKind::InvalidEvent)));
        assert!(!throttle.allows(&warning(1, WarningKind::InvalidEvent)));
        assert!(throttle.allows(&warning(1, WarningKind::MissingEventName)));
        throttle.record(&warning(1, WarningKind::ClientIngestionWarning));
        assert!(throttle.allows(&warning(1, WarningKind::ClientIngestionWarning)));
    }
}
