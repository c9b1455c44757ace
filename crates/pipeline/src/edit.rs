//! One edit by hand: load what it touches, decide, and say what to write.

use catalog::{Catalog, EventDeletion, IngestBatch, ProjectChanges};
use model::ProjectId;
use model::edit::{Edit, EditRecord};
use model::json_object::JsonObject;
use model::person::{IdentityChanges, PersonNo};

use crate::commit::Failure;
use crate::groups::GroupLedger;
use crate::identity::Ledger;
use crate::normalise::GroupIdentify;

/// Persons that one transaction changes.
const PERSONS_AT_ONCE: i64 = 1_000;

pub(crate) async fn decide(
    catalog: &Catalog,
    position: u64,
    record: &EditRecord,
) -> Result<IngestBatch, Failure> {
    let project = record.project;
    let mut changes = no_changes(project);
    let mut batch = IngestBatch::default();
    let mut ledger = match &record.edit {
        Edit::DeletePersons { persons, .. } => load(catalog, record, persons).await?,
        Edit::SplitPerson { person, .. } => load(catalog, record, &[*person]).await?,
        Edit::ChangeGroup { .. } | Edit::RenameProperty { .. } => {
            load(catalog, record, &[]).await?
        }
    };
    match &record.edit {
        Edit::DeletePersons { persons, scope } => {
            if scope.has_events() {
                let distinct_nos = ledger.numbers_of(persons);
                batch.deletions.push(EventDeletion { project, before: position, distinct_nos });
            }
            if scope.has_person() {
                ledger.delete(persons);
            }
        }
        Edit::SplitPerson { person, ids } => ledger.split(*person, ids, record.at),
        Edit::ChangeGroup { index, key, set, unset } => {
            let mut groups = GroupLedger::default();
            let known = catalog.groups_by_key(project, &[(*index, key)]).await?;
            known.into_iter().for_each(|group| groups.load(group));
            let kind = String::new();
            let wanted = GroupIdentify { kind, key: key.clone(), set: set.clone() };
            groups.change(*index, &wanted, unset, record.at);
            changes.groups = groups.into_changes().1;
        }
        // Done part by part before, see `next_part`.
        Edit::RenameProperty { .. } => {}
    }
    changes.identity = ledger.take_changes();
    batch.projects.push(changes);
    Ok(batch)
}

/// What an edit of everybody changes about the persons behind `after`, who moves on; none when
/// nobody is left. Repeating a part does no harm, so each is written on its own.
pub(crate) async fn next_part(
    catalog: &Catalog,
    record: &EditRecord,
    after: &mut Option<PersonNo>,
) -> Result<Option<IngestBatch>, Failure> {
    let Edit::RenameProperty { from, to } = &record.edit else { return Ok(None) };
    let project = record.project;
    let persons = catalog.persons_having(project, from, *after, PERSONS_AT_ONCE).await?;
    let Some(last) = persons.last() else { return Ok(None) };
    *after = Some(last.no);
    let mut ledger = load(catalog, record, &[]).await?;
    ledger.load(Vec::new(), persons);
    ledger.rename_property(from, to);
    let changes = ProjectChanges { identity: ledger.take_changes(), ..no_changes(project) };
    Ok(Some(IngestBatch { projects: vec![changes], ..IngestBatch::default() }))
}

fn no_changes(project: ProjectId) -> ProjectChanges {
    ProjectChanges {
        project,
        identity: IdentityChanges::default(),
        group_types: Vec::new(),
        groups: Vec::new(),
        first_event: false,
    }
}

async fn load(
    catalog: &Catalog,
    record: &EditRecord,
    persons: &[PersonNo],
) -> Result<Ledger, Failure> {
    let project = record.project;
    let next = catalog.next_numbers(&[project]).await?[&project];
    let mut ledger = Ledger::new(project, next.distinct, next.person);
    let ids = catalog.distinct_ids_of(project, persons).await?;
    let persons = catalog.persons_by_number(project, persons).await?.into_iter();
    let persons = persons.map(|person| person.map(|properties| JsonObject::from(&properties)));
    ledger.load(ids, persons.collect());
    Ok(ledger)
}
