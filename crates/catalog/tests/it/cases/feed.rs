//! The outbox of a warehouse that joins persons, groups and cohorts.

use std::collections::BTreeSet;

use catalog::{Changed, IngestBatch, ProjectChanges};
use model::ProjectId;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use serde_json::Map;

use crate::store::{Fixture, TestDatabase};

const JOURNAL: u128 = 7;

fn person(fixture: &Fixture, no: u32, first: &str) -> Person<JsonObject> {
    Person {
        no: PersonNo(no),
        uuid: person_uuid(fixture.project.id, first),
        properties: JsonObject::from(&Map::new()),
        is_identified: false,
        version: 0,
        created_at: fixture.project.created_at,
    }
}

fn id(no: u32, person: u32) -> DistinctId {
    let (text, person) = (format!("d{no}"), Some(PersonNo(person)));
    DistinctId { no: DistinctNo(no), text, person, version: 0, version_floor: 0 }
}

async fn apply(fixture: &Fixture, from: u64, identity: IdentityChanges) {
    let identity = IdentityChanges { next_distinct: 10, next_person: 10, ..identity };
    let project = fixture.project.id;
    let changes = ProjectChanges {
        project,
        identity,
        group_types: vec![],
        groups: vec![],
        first_event: false,
    };
    let projects = vec![changes];
    let batch =
        IngestBatch { journal: JOURNAL, from, reach: from + 1, projects, ..Default::default() };
    fixture.catalog.ingest().apply(&batch).await.unwrap();
}

fn changed(persons: &[u32], distinct_ids: &[u32]) -> Changed {
    Changed {
        persons: persons.iter().map(|no| PersonNo(*no)).collect(),
        distinct_ids: distinct_ids.iter().map(|no| DistinctNo(*no)).collect(),
        ..Changed::default()
    }
}

/// The project, position and content of what is recorded.
async fn recorded(fixture: &Fixture) -> Vec<(ProjectId, u64, Changed)> {
    let changes = fixture.catalog.feed().after(0, 100).await.unwrap();
    assert!(changes.is_sorted_by_key(|change| change.id));
    changes.into_iter().map(|one| (one.project, one.position, one.changed)).collect()
}

pub async fn a_feed_records_what_batches_change_once_it_is_enabled(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (feed, project) = (fixture.catalog.feed(), fixture.project.id);
    let first = IdentityChanges {
        ids: vec![id(1, 1), id(2, 2), id(3, 2)],
        persons: vec![person(&fixture, 1, "d1").into(), person(&fixture, 2, "d2").into()],
        ..IdentityChanges::default()
    };
    apply(&fixture, 1, first).await;
    assert_eq!((recorded(&fixture).await, feed.position().await.unwrap()), (vec![], None));
    assert!(!feed.take_recorded());

    feed.enable();
    // A merge moves distinct ids that the batch does not have.
    let merge = IdentityChanges {
        merges: vec![(PersonNo(2), PersonNo(1))],
        ids: vec![id(4, 1)],
        persons: vec![person(&fixture, 1, "d1").into()],
        ..IdentityChanges::default()
    };
    apply(&fixture, 2, merge).await;
    // A person that gets another uuid brings its distinct ids.
    let rekeyed = IdentityChanges {
        persons: vec![person(&fixture, 1, "d2").into()],
        rekeyed: vec![PersonNo(1)],
        ..IdentityChanges::default()
    };
    apply(&fixture, 3, rekeyed).await;
    apply(&fixture, 4, IdentityChanges { deleted: vec![PersonNo(1)], ..Default::default() }).await;
    apply(&fixture, 5, IdentityChanges::default()).await;
    let expected = [
        (project, 3, changed(&[1, 2], &[2, 3, 4])),
        (project, 4, changed(&[1], &[1, 2, 3, 4])),
        (project, 5, changed(&[1], &[])),
    ];
    assert_eq!(recorded(&fixture).await, expected);
    assert_eq!(feed.position().await.unwrap(), Some(6));
    assert!(feed.take_recorded() && !feed.take_recorded());

    let (_, last) = feed.bounds().await.unwrap().unwrap();
    feed.forget_before(last).await.unwrap();
    assert_eq!(recorded(&fixture).await, expected[2..]);
    assert_eq!(feed.bounds().await.unwrap(), Some((last, last)));
    let ids = feed.distinct_ids(project, &[DistinctNo(3)]).await.unwrap();
    assert_eq!((ids[0].text.as_str(), ids[0].person), ("d3", None), "its person was deleted");
    assert_eq!(BTreeSet::from_iter(feed.projects().await.unwrap()), BTreeSet::from([project]));
}
