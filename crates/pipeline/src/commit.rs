//! One batch of events: load what it touches, decide, write everything in one transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ahash::RandomState;
use catalog::{Catalog, IngestBatch, NextDenseIds, ProjectChanges};
use model::ProjectId;
use model::person::DistinctNo;

use crate::definitions::Definitions;
use crate::groups::GroupLedger;
use crate::identity::{Ledger, Request};
use crate::normalise::{Finding, Normalised};
use crate::prepare::{Item, Meaning, Subject};
use crate::rows::{Placed, group_columns};

/// What the ledgers of all projects keep together, in ids and in bytes of properties; past it all
/// begin anew.
const KEPT_IDS_MAX: usize = 16 << 10;
const KEPT_BYTES_MAX: usize = 8 << 20;

/// Why a batch was not written.
pub(crate) enum Failure {
    /// Something in it cannot be written, now or later.
    Fault(String),
    /// Nothing is wrong with the batch.
    Later(crate::Error),
}

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Self {
        match error.is_data_error() {
            true => Self::Fault(causes(&error)),
            false => Self::Later(error.into()),
        }
    }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

/// Ids and persons of the batches before, by project: who is here now mostly stays for a while.
/// Only what was written may stay, so a batch that fails empties it; edits by hand do as well.
pub(crate) type Ledgers = HashMap<ProjectId, Ledger>;

/// The events of a batch by project, in order.
type ByProject<'i, 'a> = BTreeMap<ProjectId, Vec<(u64, &'i Normalised<'a>)>>;

pub(crate) fn by_project<'i, 'a>(items: &'i [Item<'a>]) -> ByProject<'i, 'a> {
    let mut all = ByProject::new();
    for item in items {
        if let Some(event) = item.event() {
            all.entry(event.project).or_default().push((item.position, event));
        }
    }
    all
}

/// Every id that the events name, each once.
pub(crate) fn ids_named<'i>(events: &[(u64, &'i Normalised<'_>)]) -> Vec<&'i str> {
    let mut seen: HashSet<&str, RandomState> = HashSet::default();
    let own = events.iter().map(|(_, event)| event.distinct_id);
    let others = events.iter().filter_map(|(_, event)| Some(event.merge.as_ref()?.other.as_str()));
    own.chain(others).filter(|id| seen.insert(*id)).collect()
}

/// What deciding a batch gave: the changes to write, and the rows that follow from them.
pub(crate) struct Decided<'i, 'a> {
    pub batch: IngestBatch,
    pub rows: Vec<Placed<'i, 'a>>,
}

/// Decides what `items` change, without writing anything. `ledgers` then stand as if it was
/// written.
pub(crate) async fn decide<'i, 'a>(
    catalog: &Catalog,
    items: &'i [Item<'a>],
    is_new: impl Fn(ProjectId) -> bool,
    definitions: &mut Definitions,
    ledgers: &mut Ledgers,
) -> Result<Decided<'i, 'a>, Failure> {
    let events = by_project(items);
    let mut groups = load(catalog, &events, ledgers).await?;
    let work = || {
        let mut decided = Decided { batch: IngestBatch::default(), rows: Vec::new() };
        for (project, events) in &events {
            if let (Some(ledger), Some(groups)) = (ledgers.get_mut(project), groups.remove(project))
            {
                let mut changes =
                    decide_project(*project, events, ledger, groups, definitions, &mut decided);
                changes.first_event = is_new(*project);
                decided.batch.projects.push(changes);
            }
        }
        decided.rows.sort_by_key(|row| row.position);
        for item in items {
            match &item.meaning {
                Meaning::Dropped(warnings) => decided.batch.warnings.extend_from_slice(warnings),
                Meaning::Dead { step, reason } => {
                    decided.batch.dead_letters.push(item.dead_letter(step, reason.clone()));
                }
                Meaning::Event(_) | Meaning::Edit(_) => {}
            }
        }
        decided
    };
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Failure::Fault("applying it panicked".into()))
}

/// Fills the ledgers with what the events name, and gives the groups they name.
async fn load(
    catalog: &Catalog,
    events: &ByProject<'_, '_>,
    ledgers: &mut Ledgers,
) -> Result<HashMap<ProjectId, GroupLedger>, Failure> {
    let projects: Vec<ProjectId> = events.keys().copied().collect();
    let held = |count: fn(&Ledger) -> usize| ledgers.values().map(count).sum::<usize>();
    if held(Ledger::ids) > KEPT_IDS_MAX || held(Ledger::bytes) > KEPT_BYTES_MAX {
        ledgers.clear();
    }
    let new: Vec<ProjectId> =
        projects.iter().copied().filter(|project| !ledgers.contains_key(project)).collect();
    if !new.is_empty() {
        let next = catalog.persons().next_dense_ids(&new).await?;
        let fresh = next.into_iter().map(|(project, NextDenseIds { distinct, person })| {
            (project, Ledger::new(project, distinct, person))
        });
        ledgers.extend(fresh);
    }
    let mut types = catalog.groups().types_of_projects(&projects).await?;
    let mut all = HashMap::new();
    for (project, events) in events {
        let Some(ledger) = ledgers.get_mut(project) else { continue };
        let unknown: Vec<&str> =
            ids_named(events).into_iter().filter(|id| ledger.number(id).is_none()).collect();
        if !unknown.is_empty() {
            let (ids, persons) = catalog.persons().identities_to_change(*project, &unknown).await?;
            ledger.load(ids, persons);
        }
        let group_types = types.remove(project).unwrap_or_default();
        // A type that is new has no groups yet.
        let keys: HashSet<(u8, &str)> = events
            .iter()
            .filter_map(|(_, event)| event.group_identify.as_ref())
            .filter_map(|wanted| {
                let kind = group_types.iter().find(|(name, _)| *name == wanted.kind)?;
                Some((kind.1, wanted.key.as_str()))
            })
            .collect();
        let keys: Vec<(u8, &str)> = keys.into_iter().collect();
        let known = catalog.groups().by_key(*project, &keys).await?;
        let mut groups = GroupLedger::new(group_types);
        known.into_iter().for_each(|group| groups.load(group));
        all.insert(*project, groups);
    }
    Ok(all)
}

fn decide_project<'i, 'a>(
    project: ProjectId,
    events: &[(u64, &'i Normalised<'a>)],
    ledger: &mut Ledger,
    mut groups: GroupLedger,
    definitions: &mut Definitions,
    decided: &mut Decided<'i, 'a>,
) -> ProjectChanges {
    for (position, event) in events {
        let (distinct_no, findings) = apply(ledger, event);
        let columns = group_columns(event, |kind| groups.index(kind));
        let index = event.group_identify.as_ref().and_then(|wanted| {
            let index = groups.index(&wanted.kind)?;
            groups.identify(index, wanted, event.time, event.received_at);
            Some(index)
        });
        definitions.see(event, index, &mut decided.batch.observations);
        warn(event, findings, decided);
        decided.rows.push(Placed { position: *position, event, distinct_no, groups: columns });
    }
    let (group_types, groups) = groups.into_changes();
    let identity = ledger.take_changes();
    ProjectChanges { project, identity, group_types, groups, first_event: false }
}

fn apply(ledger: &mut Ledger, event: &Normalised<'_>) -> (DistinctNo, Vec<model::WarningKind>) {
    ledger.apply(&Request {
        event: event.name,
        event_uuid: event.uuid,
        distinct_id: event.distinct_id,
        time: event.time,
        person: event.person,
        merge: event.merge.as_ref(),
        changes: &event.changes,
        copies: event.copies(),
    })
}

fn warn(event: &Normalised<'_>, findings: Vec<model::WarningKind>, decided: &mut Decided<'_, '_>) {
    let subject = Subject {
        project: event.project,
        at: event.received_at,
        uuid: Some(event.uuid),
        event: event.name,
        distinct_id: event.distinct_id,
    };
    let all = event.warnings.iter().cloned().chain(findings.into_iter().map(Finding::from));
    decided.batch.warnings.extend(all.map(|finding| subject.warn(finding)));
}
