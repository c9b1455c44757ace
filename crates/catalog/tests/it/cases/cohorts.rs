//! Cohorts: who belongs to one, and what may be said about others.

use std::sync::Arc;

use catalog::{
    Actor, CohortChange, Error, FlagChange, IngestBatch, NewCohort, NewCohortKind, PersonIdKind,
    ProjectChanges,
};
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::property::BehavioralFilter;
use model::{Cohort, CohortId, Window};
use serde_json::{Map, Value, json};

use crate::store::{EVERYTHING, Home, Place};

/// More than are looked at in one go.
const PEOPLE: u32 = 1_100;

fn actor(home: &Home) -> Actor {
    Actor { project: Some(home.project.id), ..home.actor() }
}

async fn ingest(home: &Home, from: u64, identity: IdentityChanges) {
    let project = home.project.id;
    let projects = vec![ProjectChanges {
        project,
        identity,
        group_types: vec![],
        groups: vec![],
        first_event: false,
    }];
    let batch =
        IngestBatch { journal: 7, from, reach: from + 1, projects, ..IngestBatch::default() };
    home.catalog.ingest().apply(&batch).await.unwrap();
}

/// Person `n` is known as `dn`; every third is on the plan "pro".
async fn people(home: &Home) {
    let project = home.project.id;
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
        created_at: home.project.created_at,
    };
    let identity = IdentityChanges {
        ids: (1..=PEOPLE).map(id).collect(),
        persons: (1..=PEOPLE).map(person).map(Arc::new).collect(),
        next_distinct: PEOPLE + 1,
        next_person: PEOPLE + 1,
        ..IdentityChanges::default()
    };
    ingest(home, 1, identity).await;
}

fn filters(leaves: Value) -> Map<String, Value> {
    let filters = json!({ "properties": { "type": "AND", "values": leaves } });
    filters.as_object().unwrap().clone()
}

fn did(negated: bool) -> Value {
    json!({ "type": "behavioral", "key": "a", "value": "performed_event", "event_type": "events",
        "time_value": 1, "time_interval": "day", "negation": negated })
}

async fn create(home: &Home, kind: NewCohortKind) -> Cohort {
    let new =
        NewCohort { name: Some("c".into()), description: String::new(), deleted: false, kind };
    home.catalog.cohorts().create(&actor(home), new, &Default::default()).await.unwrap()
}

async fn dynamic(home: &Home, leaves: Value) -> Cohort {
    create(home, NewCohortKind::Dynamic(filters(leaves))).await
}

/// Who has an even number did whatever is asked for.
async fn calculate_due(home: &Home) -> bool {
    let Some(due) = home.catalog.cohorts().next_due().await.unwrap() else { return false };
    let did = |_: &BehavioralFilter, person: PersonNo| person.0.is_multiple_of(2);
    home.catalog.cohorts().calculate(due, &did).await.unwrap();
    true
}

async fn calculate(home: &Home, id: CohortId) -> Cohort {
    while calculate_due(home).await {}
    home.catalog.cohorts().get(home.project.id, id, catalog::Deleted::Exclude).await.unwrap()
}

async fn members(home: &Home, cohort: &Cohort) -> Vec<u32> {
    let (members, total) = home.catalog.cohorts().members(cohort, None, EVERYTHING).await.unwrap();
    assert_eq!(Some(total), cohort.count);
    members.iter().map(|member| member.person.no.0).collect()
}

pub async fn a_cohort_is_who_fits_its_conditions(place: Place) {
    let home = place.home().await;
    people(&home).await;
    let pro = dynamic(&home, json!([{ "type": "person", "key": "plan", "value": "pro" }])).await;
    assert!(pro.is_calculating && pro.version.is_none() && pro.count.is_none());
    let pro = calculate(&home, pro.id).await;
    assert_eq!((pro.is_calculating, pro.version, pro.count), (false, Some(1), Some(366)));
    assert!(members(&home, &pro).await.iter().all(|no| no.is_multiple_of(3)));

    let names = ["d3", "d4", "d6", "nobody"].map(str::to_owned);
    let list = create(&home, NewCohortKind::Static(None)).await;
    let list = home
        .catalog
        .cohorts()
        .add_members(&actor(&home), list.id, PersonIdKind::DistinctId, &names)
        .await
        .unwrap();
    assert_eq!(members(&home, &list).await, [3, 4, 6]);
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
        let cohort = dynamic(&home, leaves).await;
        let cohort = calculate(&home, cohort.id).await;
        assert_eq!(members(&home, &cohort).await, expected);
    }

    let change = CohortChange {
        filters: Some(filters(json!([{ "key": "plan", "value": "free" }]))),
        ..Default::default()
    };
    let changed = home
        .catalog
        .cohorts()
        .update(&actor(&home), pro.id, change, &Default::default())
        .await
        .unwrap();
    assert_eq!(
        (changed.is_calculating, changed.count, changed.version),
        (true, Some(366), Some(1)),
        "until the new one is there"
    );
    let changed = calculate(&home, pro.id).await;
    assert_eq!((changed.count, changed.version), (Some(734), Some(2)));
    let left = place.sql("SELECT CAST(COUNT(DISTINCT version) AS TEXT) FROM cohort_people").await;
    assert_eq!(left, ["3"], "lists, first and second versions that count");
    let before = home.catalog.statements();
    let window = Window { limit: 100, offset: 0 };
    home.catalog.cohorts().members(&changed, None, window).await.unwrap();
    assert_eq!(home.catalog.statements() - before, 3);

    // A day later everybody is looked at again.
    assert!(!calculate_due(&home).await);
    place.clock.advance_seconds(25 * 3_600);
    assert!(calculate_due(&home).await);
}

pub async fn those_whose_members_others_ask_for_are_calculated_first(place: Place) {
    let home = place.home().await;
    let actor = actor(&home);
    let leaf = |plan: &str| json!([{ "key": "plan", "value": plan }]);
    let outer = dynamic(&home, leaf("pro")).await;
    let inner = dynamic(&home, leaf("pro")).await;
    let change = async |id, leaves| {
        let change = CohortChange { filters: Some(filters(leaves)), ..Default::default() };
        home.catalog.cohorts().update(&actor, id, change, &Default::default()).await.unwrap();
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
            let due = home.catalog.cohorts().next_due().await.unwrap().unwrap();
            assert_eq!(due.id, expected);
            home.catalog
                .cohorts()
                .calculate(due, &|_: &BehavioralFilter, _: PersonNo| false)
                .await
                .unwrap();
        }
        assert!(home.catalog.cohorts().next_due().await.unwrap().is_none());
        change(inner.id, leaf("pro")).await;
    }
}

pub async fn a_calculation_answers_no_request_that_came_after_it_began(place: Place) {
    let home = place.home().await;
    people(&home).await;
    let actor = actor(&home);
    let leaf = |plan: &str| json!([{ "key": "plan", "value": plan }]);
    let cohort = dynamic(&home, leaf("pro")).await;
    let change = async |plan: &str| {
        let change = CohortChange { filters: Some(filters(leaf(plan))), ..Default::default() };
        let seen = Default::default();
        home.catalog.cohorts().update(&actor, cohort.id, change, &seen).await.unwrap();
    };
    let read = async || {
        home.catalog
            .cohorts()
            .get(home.project.id, cohort.id, catalog::Deleted::Exclude)
            .await
            .unwrap()
    };
    let nobody_did = |_: &BehavioralFilter, _: PersonNo| false;
    // One that fails, one that succeeds, and one that nobody asked for.
    let due = home.catalog.cohorts().next_due().await.unwrap().unwrap();
    change("free").await;
    home.catalog.cohorts().record_failure(&due, "why").await.unwrap();
    let failed = read().await;
    assert_eq!((failed.is_calculating, failed.errors_calculating), (true, 1));
    let due = home.catalog.cohorts().next_due().await.unwrap().unwrap();
    change("pro").await;
    home.catalog.cohorts().calculate(due, &nobody_did).await.unwrap();
    let behind = read().await;
    assert_eq!((behind.is_calculating, behind.count), (true, Some(734)));
    let whole = calculate(&home, cohort.id).await;
    assert_eq!(
        (whole.is_calculating, whole.count, whole.errors_calculating),
        (false, Some(366), 0)
    );
    assert_eq!(whole.version, whole.pending_version);
    place.clock.advance_seconds(25 * 3_600);
    let due = home.catalog.cohorts().next_due().await.unwrap().unwrap();
    assert!(read().await.is_calculating);
    change("free").await;
    home.catalog.cohorts().calculate(due, &nobody_did).await.unwrap();
    assert_eq!(calculate(&home, cohort.id).await.count, Some(734));
    // Nothing is left to do where the last one failed.
    change("pro").await;
    let due = home.catalog.cohorts().next_due().await.unwrap().unwrap();
    home.catalog.cohorts().record_failure(&due, "why").await.unwrap();
    let failed = read().await;
    assert_eq!((failed.is_calculating, failed.count), (false, Some(734)));
    assert!(home.catalog.cohorts().next_due().await.unwrap().is_none());
}

pub async fn lists_are_filled_by_any_name_and_follow_who_is_merged(place: Place) {
    let home = place.home().await;
    people(&home).await;
    let actor = actor(&home);
    let list = create(&home, NewCohortKind::Static(None)).await;
    let uuid = person_uuid(home.project.id, "d9").to_string();
    for (by, name) in [
        (PersonIdKind::DistinctId, "d1"),
        (PersonIdKind::Email, "p5@example.com"),
        (PersonIdKind::PersonUuid, &uuid),
    ] {
        let names = [name.to_owned(), "nobody".to_owned()];
        home.catalog.cohorts().add_members(&actor, list.id, by, &names).await.unwrap();
    }
    let read = async || {
        home.catalog
            .cohorts()
            .get(home.project.id, list.id, catalog::Deleted::Exclude)
            .await
            .unwrap()
    };
    assert_eq!(members(&home, &read().await).await, [1, 5, 9]);
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
    ingest(&home, 2, identity).await;
    let of = async |no| {
        home.catalog.cohorts().static_of_person(home.project.id, PersonNo(no)).await.unwrap().len()
    };
    assert_eq!((of(1).await, of(5).await, of(9).await, of(10).await), (0, 1, 0, 1));
    let uuid = person_uuid(home.project.id, "d10");
    home.catalog.cohorts().remove_member(&actor, list.id, uuid).await.unwrap();
    assert_eq!(members(&home, &read().await).await, [5]);
    let again = home.catalog.cohorts().remove_member(&actor, list.id, uuid).await;
    assert!(matches!(again, Err(Error::NotFound)));

    let pro = dynamic(&home, json!([{ "key": "plan", "value": "pro" }])).await;
    let pro = calculate(&home, pro.id).await;
    let refused =
        home.catalog.cohorts().add_members(&actor, pro.id, PersonIdKind::DistinctId, &[]).await;
    assert!(matches!(refused, Err(Error::Refused { .. })));
    // Whoever found it before the next calculation ended reads what counts since.
    home.catalog.cohorts().recalculate(&actor, pro.id).await.unwrap();
    assert_eq!(calculate(&home, pro.id).await.version, Some(2));
    assert_eq!(Some(members(&home, &pro).await.len() as i64), pro.count);
    let copy = create(&home, NewCohortKind::Static(None)).await;
    let copy = home.catalog.cohorts().copy_members(&actor, pro.id, copy.id).await.unwrap();
    assert_eq!(copy.count, pro.count);
    let definitions = home.catalog.cohorts().definitions(home.project.id).await.unwrap();
    assert_eq!(definitions.len(), 3);
}

pub async fn cohorts_that_are_needed_or_would_need_themselves_are_refused(place: Place) {
    let home = place.home().await;
    let actor = actor(&home);
    let leaf = json!({ "key": "plan", "value": "pro" });
    let on = |id: CohortId| json!([{ "type": "cohort", "key": "id", "value": id }]);
    let first = dynamic(&home, json!([leaf])).await;
    let second = dynamic(&home, on(first.id)).await;
    for (id, leaves, expected) in [
        (first.id, on(first.id), "Cohorts cannot reference other cohorts in a loop."),
        (first.id, on(second.id), "Cohorts cannot reference other cohorts in a loop."),
        (first.id, on(CohortId(99)), "There is no such cohort in this project."),
    ] {
        let change = CohortChange { filters: Some(filters(leaves)), ..Default::default() };
        let refused = home
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
    home.catalog.flags().create(&actor, asks(CohortId(99))).await.unwrap_err();
    home.catalog.flags().create(&actor, asks(first.id)).await.unwrap();
    let delete = || CohortChange { deleted: Some(true), ..Default::default() };
    let refused = home
        .catalog
        .cohorts()
        .update(&actor, first.id, delete(), &Default::default())
        .await
        .unwrap_err();
    assert!(refused.to_string().ends_with("uses-it"), "{refused}");
    home.catalog.cohorts().update(&actor, second.id, delete(), &Default::default()).await.unwrap();
}
