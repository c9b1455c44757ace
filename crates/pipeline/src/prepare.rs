//! From the bytes of a record to something that can be applied. Pure.

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

use crate::normalise::{Finding, Layout, Normalised, Outcome, Rules, normalise};

/// The rules of the projects of a batch; none of one that is not there.
pub(crate) type RulesOf = HashMap<ProjectId, Option<Rules>, RandomState>;

/// A record and what it means.
pub(crate) struct Item<'a> {
    pub position: u64,
    pub record: &'a [u8],
    pub meaning: Meaning<'a>,
}

pub(crate) enum Meaning<'a> {
    Event(Box<Normalised<'a>>),
    Edit(EditRecord),
    /// Not stored, and worth these warnings.
    Dropped(Vec<Warning>),
    Dead {
        step: &'static str,
        reason: String,
    },
}

impl<'a> Item<'a> {
    pub fn read(record: Record<'a>, rules: &RulesOf, geoip: &GeoIp, layout: &mut Layout) -> Self {
        // A record that makes the code panic must not stop the ones behind it.
        let meaning = catch_unwind(AssertUnwindSafe(|| read(record.bytes, rules, geoip, layout)));
        let meaning = meaning.unwrap_or_else(|_| dead("read", "reading it panicked"));
        Self { position: record.position.as_u64(), record: record.bytes, meaning }
    }

    pub fn event(&self) -> Option<&Normalised<'a>> {
        match &self.meaning {
            Meaning::Event(event) => Some(event),
            Meaning::Edit(_) | Meaning::Dropped(_) | Meaning::Dead { .. } => None,
        }
    }

    pub const fn is_edit(&self) -> bool {
        matches!(self.meaning, Meaning::Edit(_))
    }

    pub fn dead_letter(&self, step: &'static str, reason: String) -> NewDeadLetter {
        let accepted = AcceptedEvent::decode(self.record).ok();
        // No catalog keeps U+0000 in text; the record itself stays as it is.
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

fn dead<'a>(step: &'static str, reason: impl ToString) -> Meaning<'a> {
    Meaning::Dead { step, reason: reason.to_string() }
}

fn read<'a>(record: &'a [u8], rules: &RulesOf, geoip: &GeoIp, layout: &mut Layout) -> Meaning<'a> {
    let rules = match project_of(record).map(|project| rules.get(&project)) {
        Some(Some(Some(rules))) => rules,
        Some(_) => return dead("read", "its project is not there"),
        None => return dead("read", "the record does not say its project"),
    };
    if record.first() == Some(&KIND_EDIT) {
        return EditRecord::decode(record).map_or_else(|error| dead("read", error), Meaning::Edit);
    }
    let event = match AcceptedEvent::decode(record) {
        Ok(event) => event,
        Err(error) => return dead("read", error),
    };
    match normalise(&event, rules, geoip, layout) {
        Ok(Outcome::Store(normalised)) => Meaning::Event(normalised),
        Ok(Outcome::Drop(findings)) => {
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
            Meaning::Dropped(findings.into_iter().map(|finding| subject.warn(finding)).collect())
        }
        Err(error) => dead("normalise", error),
    }
}

/// What a warning is about.
pub(crate) struct Subject<'a> {
    pub project: ProjectId,
    pub at: Timestamp,
    pub uuid: Option<Uuid>,
    pub event: &'a str,
    pub distinct_id: &'a str,
}

impl Subject<'_> {
    pub fn warn(&self, finding: Finding) -> Warning {
        let details = WarningDetails {
            event_uuid: self.uuid,
            event: Some(self.event.to_owned()),
            distinct_id: Some(self.distinct_id.to_owned()),
            message: finding.message,
            ..WarningDetails::default()
        };
        Warning { project: self.project, kind: finding.kind, timestamp: self.at, details }
    }
}
