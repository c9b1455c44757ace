//! Decides a batch of events: loads the identities and groups it touches, applies the events in
//! memory, and assembles one catalog transaction.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ahash::RandomState;
use catalog::{Catalog, IngestBatch, NextDenseIds, ProjectChanges};
use model::ProjectId;
use model::person::DistinctNo;

use crate::definitions::Definitions;
use crate::groups::GroupCache;
use crate::identity::{IdentityCache, Request};
use crate::normalize::{EventWarning, NormalizedEvent};
use crate::prepare::{Parsed, PreparedRecord, Subject};
use crate::rows::{ResolvedEvent, group_columns};

/// Bounds of the identity caches of all projects together: distinct ids, and bytes of properties.
/// Beyond either, all caches are evicted.
const CACHED_IDS_MAX: usize = 16 << 10;
const CACHED_BYTES_MAX: usize = 8 << 20;

/// Why a batch was not written.
pub(crate) enum Failure {
    /// A record in it can never be written.
    Poison(String),
    /// A store failed; the same batch can be retried.
    Retry(crate::Error),
}

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Self {
        match error.is_data_error() {
            true => Self::Poison(causes(&error)),
            false => Self::Retry(error.into()),
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

/// Identities of recent batches, by project: active users send more events soon. The caches hold
/// committed state only, so a failed batch evicts them, and so do edits.
pub(crate) type IdentityCaches = HashMap<ProjectId, IdentityCache>;

/// The events of a batch by project, in journal order.
type ByProject<'i, 'a> = BTreeMap<ProjectId, Vec<(u64, &'i NormalizedEvent<'a>)>>;

pub(crate) fn by_project<'i, 'a>(items: &'i [PreparedRecord<'a>]) -> ByProject<'i, 'a> {
    let mut all = ByProject::new();
    for item in items {
        if let Some(event) = item.event() {
            all.entry(event.project).or_default().push((item.position, event));
        }
    }
    all
}

/// Every distinct id that the events name, without duplicates.
pub(crate) fn ids_named<'i>(events: &[(u64, &'i NormalizedEvent<'_>)]) -> Vec<&'i str> {
    let mut visited: HashSet<&str, RandomState> = HashSet::default();
    let ids = events.iter().map(|(_, event)| event.distinct_id);
    let merged = events.iter().filter_map(|(_, event)| Some(event.merge.as_ref()?.other.as_str()));
    ids.chain(merged).filter(|id| visited.insert(*id)).collect()
}

/// The changes to write to the catalog, and the rows for the warehouse.
pub(crate) struct Decided<'i, 'a> {
    pub batch: IngestBatch,
    pub rows: Vec<ResolvedEvent<'i, 'a>>,
}

/// Decides what `items` change, without writing. Afterwards the caches hold the state as if the
/// batch was committed; the caller evicts them if the commit fails.
pub(crate) async fn decide<'i, 'a>(
    catalog: &Catalog,
    items: &'i [PreparedRecord<'a>],
    is_new: impl Fn(ProjectId) -> bool,
    definitions: &mut Definitions,
    identity_caches: &mut IdentityCaches,
) -> Result<Decided<'i, 'a>, Failure> {
    let events = by_project(items);
    let mut groups = load(catalog, &events, identity_caches).await?;
    let work = || {
        let mut decided = Decided { batch: IngestBatch::default(), rows: Vec::new() };
        for (project, events) in &events {
            if let (Some(identities), Some(groups)) =
                (identity_caches.get_mut(project), groups.remove(project))
            {
                let mut changes =
                    decide_project(*project, events, identities, groups, definitions, &mut decided);
                changes.first_event = is_new(*project);
                decided.batch.projects.push(changes);
            }
        }
        decided.rows.sort_by_key(|row| row.position);
        for item in items {
            match &item.parsed {
                Parsed::Dropped(warnings) => decided.batch.warnings.extend_from_slice(warnings),
                Parsed::DeadLetter { step, reason } => {
                    decided.batch.dead_letters.push(item.dead_letter(step, reason.clone()));
                }
                Parsed::Event(_) | Parsed::Edit(_) => {}
            }
        }
        decided
    };
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| Failure::Poison("applying it panicked".into()))
}

/// Loads the identities that the events name into the caches, and returns their groups.
async fn load(
    catalog: &Catalog,
    events: &ByProject<'_, '_>,
    identity_caches: &mut IdentityCaches,
) -> Result<HashMap<ProjectId, GroupCache>, Failure> {
    let projects: Vec<ProjectId> = events.keys().copied().collect();
    let total =
        |count: fn(&IdentityCache) -> usize| identity_caches.values().map(count).sum::<usize>();
    if total(IdentityCache::ids) > CACHED_IDS_MAX || total(IdentityCache::bytes) > CACHED_BYTES_MAX
    {
        identity_caches.clear();
    }
    let new: Vec<ProjectId> =
        projects.iter().copied().filter(|project| !identity_caches.contains_key(project)).collect();
    if !new.is_empty() {
        let next = catalog.persons().next_dense_ids(&new).await?;
        let fresh = next.into_iter().map(|(project, NextDenseIds { distinct, person })| {
            (project, IdentityCache::new(project, distinct, person))
        });
        identity_caches.extend(fresh);
    }
    let mut types = catalog.groups().types_of_projects(&projects).await?;
    let mut all = HashMap::new();
    for (project, events) in events {
        let Some(identities) = identity_caches.get_mut(project) else { continue };
        let unknown: Vec<&str> =
            ids_named(events).into_iter().filter(|id| identities.number(id).is_none()).collect();
        if !unknown.is_empty() {
            let (ids, persons) = catalog.persons().identities_to_change(*project, &unknown).await?;
            identities.load(ids, persons);
        }
        let group_types = types.remove(project).unwrap_or_default();
        // A new type has no groups yet.
        let keys: HashSet<(u8, &str)> = events
            .iter()
            .filter_map(|(_, event)| event.group_identify.as_ref())
            .filter_map(|identify| {
                let kind = group_types.iter().find(|(name, _)| *name == identify.kind)?;
                Some((kind.1, identify.key.as_str()))
            })
            .collect();
        let keys: Vec<(u8, &str)> = keys.into_iter().collect();
        let known = catalog.groups().by_key(*project, &keys).await?;
        let mut groups = GroupCache::new(group_types);
        known.into_iter().for_each(|group| groups.load(group));
        all.insert(*project, groups);
    }
    Ok(all)
}

fn decide_project<'i, 'a>(
    project: ProjectId,
    events: &[(u64, &'i NormalizedEvent<'a>)],
    identities: &mut IdentityCache,
    mut groups: GroupCache,
    definitions: &mut Definitions,
    decided: &mut Decided<'i, 'a>,
) -> ProjectChanges {
    for (position, event) in events {
        let (distinct_no, warnings) = apply(identities, event);
        let columns = group_columns(event, |kind| groups.index(kind));
        let index = event.group_identify.as_ref().and_then(|identify| {
            let index = groups.index(&identify.kind)?;
            groups.identify(index, identify, event.time, event.received_at);
            Some(index)
        });
        definitions.observe(event, index, &mut decided.batch.observations);
        warn(event, warnings, decided);
        decided.rows.push(ResolvedEvent {
            position: *position,
            event,
            distinct_no,
            groups: columns,
        });
    }
    let (group_types, groups) = groups.into_changes();
    let identity = identities.take_changes();
    ProjectChanges { project, identity, group_types, groups, first_event: false }
}

fn apply(
    identities: &mut IdentityCache,
    event: &NormalizedEvent<'_>,
) -> (DistinctNo, Vec<model::WarningKind>) {
    identities.apply(&Request {
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

fn warn(
    event: &NormalizedEvent<'_>,
    warnings: Vec<model::WarningKind>,
    decided: &mut Decided<'_, '_>,
) {
    let subject = Subject {
        project: event.project,
        at: event.received_at,
        uuid: Some(event.uuid),
        event: event.name,
        distinct_id: event.distinct_id,
    };
    let all = event.warnings.iter().cloned().chain(warnings.into_iter().map(EventWarning::from));
    decided.batch.warnings.extend(all.map(|warning| subject.warn(warning)));
}
