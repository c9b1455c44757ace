//! Applies one edit of persons or groups: loads what it touches and decides the changes.

use catalog::{Catalog, EventDeletion, IngestBatch, ProjectChanges};
use model::ProjectId;
use model::edit::{Edit, EditRecord};
use model::json_object::JsonObject;
use model::person::{IdentityChanges, Person, PersonNo};

use crate::commit::Failure;
use crate::groups::GroupCache;
use crate::identity::IdentityCache;
use crate::normalize::GroupIdentify;

/// Persons per transaction of an edit that touches all persons.
const PERSONS_PER_TRANSACTION: i64 = 1_000;

pub(crate) async fn decide(
    catalog: &Catalog,
    position: u64,
    record: &EditRecord,
) -> Result<IngestBatch, Failure> {
    let project = record.project;
    let mut changes = no_changes(project);
    let mut batch = IngestBatch::default();
    let mut identities = match &record.edit {
        Edit::DeletePersons { persons, .. } => load(catalog, record, persons).await?,
        Edit::SplitPerson { person, .. } => load(catalog, record, &[*person]).await?,
        // The catalog moves their distinct ids, so they are not loaded.
        Edit::MergePersons { person, other } => {
            let mut identities = load(catalog, record, &[]).await?;
            identities.load(Vec::new(), persons(catalog, record, &[*person, *other]).await?);
            identities
        }
        Edit::ChangeGroup { .. } | Edit::RenameProperty { .. } => {
            load(catalog, record, &[]).await?
        }
    };
    match &record.edit {
        Edit::DeletePersons { persons, scope } => {
            if scope.has_events() {
                let distinct_nos = identities.numbers_of(persons);
                batch.deletions.push(EventDeletion { project, before: position, distinct_nos });
            }
            if scope.has_person() {
                identities.delete(persons);
            }
        }
        Edit::SplitPerson { person, ids } => identities.split(*person, ids, record.at),
        Edit::MergePersons { person, other } => identities.merge_persons(*person, *other),
        Edit::ChangeGroup { index, key, set, unset } => {
            let mut groups = GroupCache::default();
            let known = catalog.groups().by_key(project, &[(*index, key)]).await?;
            known.into_iter().for_each(|group| groups.load(group));
            let kind = String::new();
            let identify = GroupIdentify { kind, key: key.clone(), set: set.clone() };
            groups.change(*index, &identify, unset, record.at);
            changes.groups = groups.into_changes().1;
        }
        // Written before in chunks, see `next_chunk`.
        Edit::RenameProperty { .. } => {}
    }
    changes.identity = identities.take_changes();
    batch.projects.push(changes);
    Ok(batch)
}

/// The next chunk of an edit of all persons: those after `after`, which advances. `None` when all
/// are done. Chunks are idempotent, so each is its own transaction.
pub(crate) async fn next_chunk(
    catalog: &Catalog,
    record: &EditRecord,
    after: &mut Option<PersonNo>,
) -> Result<Option<IngestBatch>, Failure> {
    let Edit::RenameProperty { from, to } = &record.edit else { return Ok(None) };
    let project = record.project;
    let persons = catalog
        .persons()
        .candidates_with_property(project, from, *after, PERSONS_PER_TRANSACTION)
        .await?;
    let Some(last) = persons.last() else { return Ok(None) };
    *after = Some(last.no);
    let mut identities = load(catalog, record, &[]).await?;
    identities.load(Vec::new(), persons);
    identities.rename_property(from, to);
    let changes = ProjectChanges { identity: identities.take_changes(), ..no_changes(project) };
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

/// The next dense ids, and these persons with all their distinct ids.
async fn load(
    catalog: &Catalog,
    record: &EditRecord,
    numbers: &[PersonNo],
) -> Result<IdentityCache, Failure> {
    let project = record.project;
    let next = catalog.persons().next_dense_ids(&[project]).await?[&project];
    let mut identities = IdentityCache::new(project, next.distinct, next.person);
    let ids = catalog.persons().distinct_ids_of(project, numbers).await?;
    identities.load(ids, persons(catalog, record, numbers).await?);
    Ok(identities)
}

async fn persons(
    catalog: &Catalog,
    record: &EditRecord,
    numbers: &[PersonNo],
) -> Result<Vec<Person<JsonObject>>, Failure> {
    let persons = catalog.persons().by_no(record.project, numbers).await?.into_iter();
    let persons = persons.map(|person| person.map(|properties| JsonObject::from(&properties)));
    Ok(persons.collect())
}
