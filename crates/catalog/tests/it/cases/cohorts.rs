//! Cohorts: members, calculation, and references.

use std::sync::Arc;

use catalog::{
    Actor, CohortChange, Error, FlagChange, IngestBatch, NewCohort, NewCohortKind, PersonIdKind,
    PersonProperties, PersonSource, ProjectChanges, ScannedPerson, StoredPerson,
};
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::property::BehavioralFilter;
use model::{Cohort, CohortId, Window};
use serde_json::{Map, Value, json};

use crate::store::{EVERYTHING, Fixture, TestDatabase};

/// More persons than one batch has.
const PEOPLE: u32 = 1_100;

fn actor(fixture: &Fixture) -> Actor {
    Actor { project: Some(fixture.project.id), ..fixture.actor() }
}

async fn ingest(fixture: &Fixture, from: u64, identity: IdentityChanges) {
    let project = fixture.project.id;
    let projects = vec![ProjectChanges {
        project,
        identity,
        group_types: vec![],
        groups: vec![],
        first_event: false,
    }];
    let batch =
        IngestBatch { journal: 7, from, reach: from + 1, projects, ..IngestBatch::default() };
    fixture.catalog.ingest().apply(&batch).await.unwrap();
}

/// Person `n` has the distinct id `dn`; every third is on the plan "pro".
async fn people(fixture: &Fixture) {
    let project = fixture.project.id;
    let id = |no: u32| DistinctId {
        no: DistinctNo(no),
        text: format!("d{no}"),
        person: Some(PersonNo(no)),
        version: 0,
        version_floor: 0,
    };
    let person = |no: u32| Person {
        no: PersonNo(no),
        uuid: person_uuid(project, &format!("d{no}")),
        properties: JsonObject::from(&Map::from_iter([
            ("email".to_owned(), json!(format!("p{no}@example.com"))),
            ("plan".to_owned(), json!(if no.is_multiple_of(3) { "pro" } else { "free" })),
        ])),
        is_identified: true,
        version: 0,
        created_at: fixture.project.created_at,
    };
    let identity = IdentityChanges {
        ids: (1..=PEOPLE).map(id).collect(),
        persons: (1..=PEOPLE).map(person).map(Arc::new).collect(),
        next_distinct: PEOPLE + 1,
        next_person: PEOPLE + 1,
        ..IdentityChanges::default()
    };
    ingest(fixture, 1, identity).await;
}

fn filters(leaves: Value) -> Map<String, Value> {
    let filters = json!({ "properties": { "type": "AND", "values": leaves } });
    filters.as_object().unwrap().clone()
}

fn did(negated: bool) -> Value {
    json!({ "type": "behavioral", "key": "a", "value": "performed_event", "event_type": "events",
        "time_value": 1, "time_interval": "day", "negation": negated })
}

async fn create(fixture: &Fixture, kind: NewCohortKind) -> Cohort {
    let new =
        NewCohort { name: Some("c".into()), description: String::new(), deleted: false, kind };
    fixture.catalog.cohorts().create(&actor(fixture), new, &Default::default()).await.unwrap()
}

async fn dynamic(fixture: &Fixture, leaves: Value) -> Cohort {
    create(fixture, NewCohortKind::Dynamic(filters(leaves))).await
}

/// The persons of the catalog.
struct AllPersons(Vec<PersonProperties>);

impl AllPersons {
    async fn of(fixture: &Fixture) -> Self {
        let stored = fixture.catalog.persons().scan(fixture.project.id, None, i64::MAX).await;
        let person = |stored: StoredPerson| PersonProperties {
            no: stored.no,
            created_at: stored.created_at,
            properties: serde_json::from_str(&stored.properties).unwrap(),
        };
        Self(stored.unwrap().into_iter().map(person).collect())
    }
}

impl PersonSource for AllPersons {
    fn read(&self, _: Option<PersonNo>, _: usize) -> Vec<ScannedPerson> {
        unreachable!("only flags read distinct ids")
    }

    fn read_properties(
        &self,
        after: Option<PersonNo>,
        limit: usize,
        names: &[&str],
    ) -> Vec<PersonProperties> {
        let persons = self.0.iter().filter(|person| Some(person.no) > after).take(limit);
        let mut persons: Vec<PersonProperties> = persons.cloned().collect();
        for person in &mut persons {
            person.properties.retain(|name, _| names.contains(&name.as_str()));
        }
        persons
    }
}

/// Persons with an even dense id match every behavioral filter.
async fn calculate_due(fixture: &Fixture) -> bool {
    let Some(due) = fixture.catalog.cohorts().next_due().await.unwrap() else { return false };
    let did = |_: &BehavioralFilter, person: PersonNo| person.0.is_multiple_of(2);
    fixture.catalog.cohorts().calculate(due, &AllPersons::of(fixture).await, &did).await.unwrap();
    true
}

async fn calculate(fixture: &Fixture, id: CohortId) -> Cohort {
    while calculate_due(fixture).await {}
    fixture.catalog.cohorts().get(fixture.project.id, id, catalog::Deleted::Exclude).await.unwrap()
}

async fn members(fixture: &Fixture, cohort: &Cohort) -> Vec<u32> {
    let (members, total) =
        fixture.catalog.cohorts().members(cohort, None, EVERYTHING).await.unwrap();
    assert_eq!(Some(total), cohort.count);
    members.iter().map(|member| member.person.no.0).collect()
}

pub async fn dynamic_cohorts_contain_matching_persons(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    people(&fixture).await;
    let pro = dynamic(&fixture, json!([{ "type": "person", "key": "plan", "value": "pro" }])).await;
    assert!(pro.is_calculating && pro.version.is_none() && pro.count.is_none());
    let pro = calculate(&fixture, pro.id).await;
    assert_eq!((pro.is_calculating, pro.version, pro.count), (false, Some(1), Some(366)));
    assert!(members(&fixture, &pro).await.iter().all(|no| no.is_multiple_of(3)));

    let names = ["d3", "d4", "d6", "nobody"].map(str::to_owned);
    let list = create(&fixture, NewCohortKind::Static(None)).await;
    let list = fixture
        .catalog
        .cohorts()
        .add_members(&actor(&fixture), list.id, PersonIdKind::DistinctId, &names)
        .await
        .unwrap();
    assert_eq!(members(&fixture, &list).await, [3, 4, 6]);
    for (leaves, expected) in [
        (
            json!([{ "type": "cohort", "key": "id", "value": pro.id }, { "type": "cohort", "key": "id", "value": list.id }]),
            vec![3, 6],
        ),
        (
            json!([{ "type": "cohort", "key": "id", "value": list.id }, { "type": "cohort", "key": "id", "value": pro.id, "negation": true }]),
            vec![4],
        ),
        (json!([{ "key": "email", "operator": "regex", "value": "^p110[0-9]@" }]), vec![1_100]),
        (json!([did(false), { "type": "cohort", "key": "id", "value": list.id }]), vec![4, 6]),
        (json!([did(true), { "type": "cohort", "key": "id", "value": list.id }]), vec![3]),
    ] {
        let cohort = dynamic(&fixture, leaves).await;
        let cohort = calculate(&fixture, cohort.id).await;
        assert_eq!(members(&fixture, &cohort).await, expected);
    }

    let change = CohortChange {
        filters: Some(filters(json!([{ "key": "plan", "value": "free" }]))),
        ..Default::default()
    };
    let changed = fixture
        .catalog
        .cohorts()
        .update(&actor(&fixture), pro.id, change, &Default::default())
        .await
        .unwrap();
    assert_eq!(
        (changed.is_calculating, changed.count, changed.version),
        (true, Some(366), Some(1)),
        "until the new one is there"
    );
    let changed = calculate(&fixture, pro.id).await;
    assert_eq!((changed.count, changed.version), (Some(734), Some(2)));
    let left =
        database.sql("SELECT CAST(COUNT(DISTINCT version) AS TEXT) FROM cohort_people").await;
    assert_eq!(left, ["3"], "lists, first and second versions that count");
    let before = fixture.catalog.statements();
    let window = Window { limit: 100, offset: 0 };
    fixture.catalog.cohorts().members(&changed, None, window).await.unwrap();
    assert_eq!(fixture.catalog.statements() - before, 3);

    // A day later the cohort is stale and calculated again.
    assert!(!calculate_due(&fixture).await);
    database.clock.advance_seconds(25 * 3_600);
    assert!(calculate_due(&fixture).await);
}

pub async fn referenced_cohorts_are_calculated_first(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let actor = actor(&fixture);
    let leaf = |plan: &str| json!([{ "key": "plan", "value": plan }]);
    let outer = dynamic(&fixture, leaf("pro")).await;
    let inner = dynamic(&fixture, leaf("pro")).await;
    let change = async |id, leaves| {
        let change = CohortChange { filters: Some(filters(leaves)), ..Default::default() };
        fixture.catalog.cohorts().update(&actor, id, change, &Default::default()).await.unwrap();
    };
    let asking = json!([{
        "type": "behavioral", "key": "a", "event_type": "events", "value": "performed_event",
        "time_value": 30, "time_interval": "day",
        "event_filters": [{ "type": "cohort", "key": "id", "value": inner.id.0 }],
    }]);
    change(outer.id, asking).await;
    for _ in 0..2 {
        change(inner.id, leaf("free")).await;
        for expected in [inner.id, outer.id] {
            let due = fixture.catalog.cohorts().next_due().await.unwrap().unwrap();
            assert_eq!(due.id(), expected);
            let persons = AllPersons::of(&fixture).await;
            fixture
                .catalog
                .cohorts()
                .calculate(due, &persons, &|_: &BehavioralFilter, _: PersonNo| false)
                .await
                .unwrap();
        }
        assert!(fixture.catalog.cohorts().next_due().await.unwrap().is_none());
        change(inner.id, leaf("pro")).await;
    }
}

pub async fn a_calculation_does_not_satisfy_later_requests(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    people(&fixture).await;
    let actor = actor(&fixture);
    let leaf = |plan: &str| json!([{ "key": "plan", "value": plan }]);
    let cohort = dynamic(&fixture, leaf("pro")).await;
    let change = async |plan: &str| {
        let change = CohortChange { filters: Some(filters(leaf(plan))), ..Default::default() };
        let seen = Default::default();
        fixture.catalog.cohorts().update(&actor, cohort.id, change, &seen).await.unwrap();
    };
    let read = async || {
        fixture
            .catalog
            .cohorts()
            .get(fixture.project.id, cohort.id, catalog::Deleted::Exclude)
            .await
            .unwrap()
    };
    let nobody_did = |_: &BehavioralFilter, _: PersonNo| false;
    // One request fails, one succeeds, and one is due to age.
    let due = fixture.catalog.cohorts().next_due().await.unwrap().unwrap();
    change("free").await;
    fixture.catalog.cohorts().record_failure(&due, "why").await.unwrap();
    let failed = read().await;
    assert_eq!((failed.is_calculating, failed.errors_calculating), (true, 1));
    let due = fixture.catalog.cohorts().next_due().await.unwrap().unwrap();
    change("pro").await;
    fixture
        .catalog
        .cohorts()
        .calculate(due, &AllPersons::of(&fixture).await, &nobody_did)
        .await
        .unwrap();
    let behind = read().await;
    assert_eq!((behind.is_calculating, behind.count), (true, Some(734)));
    let whole = calculate(&fixture, cohort.id).await;
    assert_eq!(
        (whole.is_calculating, whole.count, whole.errors_calculating),
        (false, Some(366), 0)
    );
    assert_eq!(whole.version, whole.pending_version);
    database.clock.advance_seconds(25 * 3_600);
    let due = fixture.catalog.cohorts().next_due().await.unwrap().unwrap();
    assert!(read().await.is_calculating);
    change("free").await;
    fixture
        .catalog
        .cohorts()
        .calculate(due, &AllPersons::of(&fixture).await, &nobody_did)
        .await
        .unwrap();
    assert_eq!(calculate(&fixture, cohort.id).await.count, Some(734));
    // A failure is not retried until the next request.
    change("pro").await;
    let due = fixture.catalog.cohorts().next_due().await.unwrap().unwrap();
    fixture.catalog.cohorts().record_failure(&due, "why").await.unwrap();
    let failed = read().await;
    assert_eq!((failed.is_calculating, failed.count), (false, Some(734)));
    assert!(fixture.catalog.cohorts().next_due().await.unwrap().is_none());
}

pub async fn static_cohorts_accept_any_id_and_follow_merges(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    people(&fixture).await;
    let actor = actor(&fixture);
    let list = create(&fixture, NewCohortKind::Static(None)).await;
    let uuid = person_uuid(fixture.project.id, "d9").to_string();
    for (by, name) in [
        (PersonIdKind::DistinctId, "d1"),
        (PersonIdKind::Email, "p5@example.com"),
        (PersonIdKind::PersonUuid, &uuid),
    ] {
        let names = [name.to_owned(), "nobody".to_owned()];
        fixture.catalog.cohorts().add_members(&actor, list.id, by, &names).await.unwrap();
    }
    let read = async || {
        fixture
            .catalog
            .cohorts()
            .get(fixture.project.id, list.id, catalog::Deleted::Exclude)
            .await
            .unwrap()
    };
    assert_eq!(members(&fixture, &read().await).await, [1, 5, 9]);
    let identity = IdentityChanges {
        merges: vec![
            (PersonNo(1), PersonNo(2)),
            (PersonNo(2), PersonNo(5)),
            (PersonNo(9), PersonNo(10)),
        ],
        next_distinct: PEOPLE + 1,
        next_person: PEOPLE + 1,
        ..IdentityChanges::default()
    };
    ingest(&fixture, 2, identity).await;
    let of = async |no| {
        fixture
            .catalog
            .cohorts()
            .static_of_person(fixture.project.id, PersonNo(no))
            .await
            .unwrap()
            .len()
    };
    assert_eq!((of(1).await, of(5).await, of(9).await, of(10).await), (0, 1, 0, 1));
    let uuid = person_uuid(fixture.project.id, "d10");
    fixture.catalog.cohorts().remove_member(&actor, list.id, uuid).await.unwrap();
    assert_eq!(members(&fixture, &read().await).await, [5]);
    let again = fixture.catalog.cohorts().remove_member(&actor, list.id, uuid).await;
    assert!(matches!(again, Err(Error::NotFound)));

    let pro = dynamic(&fixture, json!([{ "key": "plan", "value": "pro" }])).await;
    let pro = calculate(&fixture, pro.id).await;
    let refused =
        fixture.catalog.cohorts().add_members(&actor, pro.id, PersonIdKind::DistinctId, &[]).await;
    assert!(matches!(refused, Err(Error::Refused { .. })));
    // A caller who loaded the cohort before the calculation ended reads the new members.
    fixture.catalog.cohorts().recalculate(&actor, pro.id).await.unwrap();
    assert_eq!(calculate(&fixture, pro.id).await.version, Some(2));
    assert_eq!(Some(members(&fixture, &pro).await.len() as i64), pro.count);
    let copy = create(&fixture, NewCohortKind::Static(None)).await;
    let copy = fixture.catalog.cohorts().copy_members(&actor, pro.id, copy.id).await.unwrap();
    assert_eq!(copy.count, pro.count);
    let definitions = fixture.catalog.cohorts().definitions(fixture.project.id).await.unwrap();
    assert_eq!(definitions.len(), 3);
}

pub async fn deleting_used_cohorts_and_reference_cycles_are_refused(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let actor = actor(&fixture);
    let leaf = json!({ "key": "plan", "value": "pro" });
    let on = |id: CohortId| json!([{ "type": "cohort", "key": "id", "value": id }]);
    let first = dynamic(&fixture, json!([leaf])).await;
    let second = dynamic(&fixture, on(first.id)).await;
    for (id, leaves, expected) in [
        (first.id, on(first.id), "Cohorts cannot reference other cohorts in a loop."),
        (first.id, on(second.id), "Cohorts cannot reference other cohorts in a loop."),
        (first.id, on(CohortId(99)), "There is no such cohort in this project."),
    ] {
        let change = CohortChange { filters: Some(filters(leaves)), ..Default::default() };
        let refused = fixture
            .catalog
            .cohorts()
            .update(&actor, id, change, &Default::default())
            .await
            .unwrap_err();
        assert_eq!(refused.to_string(), expected);
    }
    let asks = |id: CohortId| FlagChange {
        key: Some("uses-it".into()),
        filters: json!({ "groups": [{ "properties": on(id) }] }).as_object().cloned(),
        ..Default::default()
    };
    fixture.catalog.flags().create(&actor, asks(CohortId(99))).await.unwrap_err();
    fixture.catalog.flags().create(&actor, asks(first.id)).await.unwrap();
    let delete = || CohortChange { deleted: Some(true), ..Default::default() };
    let refused = fixture
        .catalog
        .cohorts()
        .update(&actor, first.id, delete(), &Default::default())
        .await
        .unwrap_err();
    assert!(refused.to_string().ends_with("uses-it"), "{refused}");
    fixture
        .catalog
        .cohorts()
        .update(&actor, second.id, delete(), &Default::default())
        .await
        .unwrap();
}

/// Waiting for the write lock would end with an error, since it is not released.
pub async fn drafts_are_read_while_another_transaction_writes(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let stored = dynamic(&fixture, json!([{ "key": "plan", "value": "pro" }])).await;
    let draft = filters(json!([{ "type": "cohort", "key": "id", "value": stored.id }]));
    let writer = fixture.catalog.begin().await.unwrap();
    let cohorts = fixture.catalog.cohorts();
    cohorts.draft(fixture.project.id, &draft, &Default::default()).await.unwrap();
    drop(writer);
}
