//! Parses a journal record into an event, an edit, or a dead letter. Pure.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ahash::RandomState;
use catalog::NewDeadLetter;
use geoip::GeoIp;
use journal::Record;
use model::edit::{EditRecord, KIND_EDIT};
use model::event::{AcceptedEvent, EventUuid, project_of};
use model::{ProjectId, Timestamp, Warning, WarningDetails};
use uuid::Uuid;

use crate::normalize::{EventWarning, Layout, NormalizedEvent, Outcome, Rules, normalize};

/// The rules of a batch's projects; `None` for a project that does not exist.
pub(crate) type RulesByProject = HashMap<ProjectId, Option<Rules>, RandomState>;

/// A record and its parsed form.
pub(crate) struct PreparedRecord<'a> {
    pub position: u64,
    pub record: &'a [u8],
    pub parsed: Parsed<'a>,
}

pub(crate) enum Parsed<'a> {
    Event(Box<NormalizedEvent<'a>>),
    Edit(EditRecord),
    /// Dropped with these ingestion warnings.
    Dropped(Vec<Warning>),
    DeadLetter {
        step: &'static str,
        reason: String,
    },
}

impl<'a> PreparedRecord<'a> {
    pub fn parse(
        record: Record<'a>,
        rules: &RulesByProject,
        geoip: &GeoIp,
        layout: &mut Layout,
    ) -> Self {
        // A record that makes the code panic must not block the ones after it.
        let parsed = catch_unwind(AssertUnwindSafe(|| read(record.bytes, rules, geoip, layout)));
        let parsed = parsed.unwrap_or_else(|_| dead("read", "reading it panicked"));
        Self { position: record.position.as_u64(), record: record.bytes, parsed }
    }

    pub fn event(&self) -> Option<&NormalizedEvent<'a>> {
        match &self.parsed {
            Parsed::Event(event) => Some(event),
            Parsed::Edit(_) | Parsed::Dropped(_) | Parsed::DeadLetter { .. } => None,
        }
    }

    pub const fn is_edit(&self) -> bool {
        matches!(self.parsed, Parsed::Edit(_))
    }

    pub fn dead_letter(&self, step: &'static str, reason: String) -> NewDeadLetter {
        let accepted = AcceptedEvent::decode(self.record).ok();
        // The catalog rejects U+0000 in text; the record itself is stored as bytes, unchanged.
        let shown = |text: &str| text.replace('\0', "\u{fffd}");
        NewDeadLetter {
            project: project_of(self.record),
            position: self.position,
            step,
            reason: shown(&reason),
            event: accepted.as_ref().map(|event| shown(event.name)),
            distinct_id: accepted.as_ref().map(|event| shown(event.distinct_id)),
            record: self.record.to_vec(),
        }
    }
}

fn dead<'a>(step: &'static str, reason: impl ToString) -> Parsed<'a> {
    Parsed::DeadLetter { step, reason: reason.to_string() }
}

fn read<'a>(
    record: &'a [u8],
    rules: &RulesByProject,
    geoip: &GeoIp,
    layout: &mut Layout,
) -> Parsed<'a> {
    let rules = match project_of(record).map(|project| rules.get(&project)) {
        Some(Some(Some(rules))) => rules,
        Some(_) => return dead("read", "its project is not there"),
        None => return dead("read", "the record does not say its project"),
    };
    if record.first() == Some(&KIND_EDIT) {
        return EditRecord::decode(record).map_or_else(|error| dead("read", error), Parsed::Edit);
    }
    let event = match AcceptedEvent::decode(record) {
        Ok(event) => event,
        Err(error) => return dead("read", error),
    };
    match normalize(&event, rules, geoip, layout) {
        Ok(Outcome::Store(normalised)) => Parsed::Event(normalised),
        Ok(Outcome::Drop(warnings)) => {
            let subject = Subject {
                project: event.project,
                at: event.received_at,
                uuid: match event.uuid {
                    EventUuid::Given(uuid) => Some(uuid),
                    EventUuid::Seed(_) => None,
                },
                event: event.name,
                distinct_id: event.distinct_id,
            };
            Parsed::Dropped(warnings.into_iter().map(|warning| subject.warn(warning)).collect())
        }
        Err(error) => dead("normalise", error),
    }
}

/// The event that a warning is about.
pub(crate) struct Subject<'a> {
    pub project: ProjectId,
    pub at: Timestamp,
    pub uuid: Option<Uuid>,
    pub event: &'a str,
    pub distinct_id: &'a str,
}

impl Subject<'_> {
    pub fn warn(&self, warning: EventWarning) -> Warning {
        let details = WarningDetails {
            event_uuid: self.uuid,
            event: Some(self.event.to_owned()),
            distinct_id: Some(self.distinct_id.to_owned()),
            message: warning.message,
            ..WarningDetails::default()
        };
        Warning { project: self.project, kind: warning.kind, timestamp: self.at, details }
    }
}
