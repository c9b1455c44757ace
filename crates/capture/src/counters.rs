//! Counters of accepted and dropped events since the start.

use std::sync::atomic::{AtomicU64, Ordering};

use model::WarningKind;

/// Why an event of an accepted request was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    NotAnObject,
    MissingName,
    MissingDistinctId,
    InvalidUuid,
    InvalidProperties,
    TooLarge,
    NameTooLong,
    DistinctIdTooLong,
    InvalidTimestamp,
    InvalidOptions,
    PerformanceEvent,
}

impl DropReason {
    pub const ALL: [Self; 11] = [
        Self::NotAnObject,
        Self::MissingName,
        Self::MissingDistinctId,
        Self::InvalidUuid,
        Self::InvalidProperties,
        Self::TooLarge,
        Self::NameTooLong,
        Self::DistinctIdTooLong,
        Self::InvalidTimestamp,
        Self::InvalidOptions,
        Self::PerformanceEvent,
    ];

    /// The metrics' label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotAnObject => "not_an_object",
            Self::MissingName => "missing_name",
            Self::MissingDistinctId => "missing_distinct_id",
            Self::InvalidUuid => "invalid_uuid",
            Self::InvalidProperties => "invalid_properties",
            Self::TooLarge => "too_large",
            Self::NameTooLong => "name_too_long",
            Self::DistinctIdTooLong => "distinct_id_too_long",
            Self::InvalidTimestamp => "invalid_timestamp",
            Self::InvalidOptions => "invalid_options",
            Self::PerformanceEvent => "performance_event",
        }
    }

    /// The name in capture v1's results.
    pub(crate) const fn v1_tag(self) -> &'static str {
        match self {
            Self::MissingName => "missing_event_name",
            Self::NameTooLong => "event_name_too_long",
            Self::MissingDistinctId => "missing_distinct_id",
            Self::DistinctIdTooLong => "distinct_id_too_large",
            Self::InvalidTimestamp => "invalid_event_timestamp",
            Self::InvalidProperties => "malformed_event_properties",
            Self::PerformanceEvent => "dropped_performance_event",
            Self::InvalidOptions => "invalid_options",
            Self::TooLarge => "event_too_big",
            Self::NotAnObject | Self::InvalidUuid => "rejected",
        }
    }

    /// The ingestion warning. `None` for reasons that only v1 has: v1 reports them per event.
    pub(crate) const fn warning(self) -> Option<WarningKind> {
        match self {
            Self::NotAnObject => Some(WarningKind::InvalidEvent),
            Self::MissingName => Some(WarningKind::MissingEventName),
            Self::MissingDistinctId => Some(WarningKind::SkippingEventInvalidDistinctId),
            Self::InvalidUuid => Some(WarningKind::SkippingEventInvalidUuid),
            Self::InvalidProperties => Some(WarningKind::InvalidEventProperties),
            Self::TooLarge => Some(WarningKind::MessageSizeTooLarge),
            Self::NameTooLong
            | Self::DistinctIdTooLong
            | Self::InvalidTimestamp
            | Self::InvalidOptions
            | Self::PerformanceEvent => None,
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    accepted: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
    warnings_lost: AtomicU64,
}

/// Drops of one request by reason; added to the counters once its events are durable.
pub(crate) type Drops = [u64; DropReason::ALL.len()];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersSnapshot {
    pub accepted: u64,
    pub dropped: Vec<(DropReason, u64)>,
    /// Warnings dropped because their queue was full.
    pub warnings_lost: u64,
}

impl Counters {
    pub(crate) fn add(&self, accepted: u64, drops: &Drops) {
        self.accepted.fetch_add(accepted, Ordering::Relaxed);
        for (counter, dropped) in self.dropped.iter().zip(drops) {
            if *dropped > 0 {
                counter.fetch_add(*dropped, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn count_lost_warning(&self) {
        self.warnings_lost.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> CountersSnapshot {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CountersSnapshot {
            accepted: count(&self.accepted),
            dropped: DropReason::ALL.into_iter().zip(self.dropped.iter().map(count)).collect(),
            warnings_lost: count(&self.warnings_lost),
        }
    }
}
