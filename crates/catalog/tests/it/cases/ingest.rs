//! Batches of the pipeline: atomic, once, in order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use catalog::{
    Actor, DefinitionLimits, Error, EventDeletion, FlagChange, IngestBatch, IngestOutcome,
    NewDeadLetter, ProjectChanges, StoredPerson,
};
use model::definition::{
    Day, FlagObservation, Observations, ObservedEvent, ObservedFlag, ObservedProperty,
    PropertyOwner, PropertyType,
};
use model::group::Group;
use model::json_object::JsonObject;
use model::person::{DistinctId, DistinctNo, IdentityChanges, Person, PersonNo, person_uuid};
use model::{ProjectId, Timestamp};
use serde_json::{Map, json};

use crate::store::{EVERYTHING, Fixture, TestDatabase};

const JOURNAL: u128 = 7;
const HOUR_SECONDS: i64 = 3_600;

fn person(project: ProjectId, no: u32, first: &str, at: Timestamp) -> Person<JsonObject> {
    Person {
        no: PersonNo(no),
        uuid: person_uuid(project, first),
        properties: JsonObject::from(&Map::from_iter([("first".to_owned(), json!(first))])),
        is_identified: false,
        version: 0,
        created_at: at,
    }
}

fn id(no: u32, text: &str, person: Option<u32>) -> DistinctId {
    let person = person.map(PersonNo);
    DistinctId { no: DistinctNo(no), text: text.into(), person, version: 0, version_floor: 0 }
}

fn changes(project: ProjectId, identity: IdentityChanges) -> ProjectChanges {
    ProjectChanges { project, identity, group_types: vec![], groups: vec![], first_event: false }
}

fn batch(from: u64, reach: u64) -> IngestBatch {
    IngestBatch { journal: JOURNAL, from, reach, ..IngestBatch::default() }
}

/// Inserts `count` persons with one distinct id each: p1 has d1.
async fn people(fixture: &Fixture, count: u32) {
    let (project, at) = (fixture.project.id, fixture.project.created_at);
    let identity = IdentityChanges {
        ids: (1..=count).map(|no| id(no, &format!("d{no}"), Some(no))).collect(),
        persons: (1..=count).map(|no| person(project, no, &format!("d{no}"), at).into()).collect(),
        next_distinct: count + 1,
        next_person: count + 1,
        ..IdentityChanges::default()
    };
    let batch = IngestBatch { projects: vec![changes(project, identity)], ..batch(1, 2) };
    fixture.catalog.ingest().apply(&batch).await.unwrap();
}

pub async fn a_batch_is_applied_once_at_the_stored_offset_only(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    assert_eq!(fixture.catalog.ingest().offset().await.unwrap(), None);
    people(&fixture, 300).await;
    fixture.catalog.ingest().wait_applied(1).await;
    assert_eq!(fixture.catalog.ingest().offset().await.unwrap(), Some((JOURNAL, 2)));
    let numbers = fixture.catalog.persons().next_dense_ids(&[project, ProjectId(9)]).await.unwrap();
    assert_eq!((numbers[&project].distinct, numbers[&project].person), (301, 301));
    assert_eq!((numbers[&ProjectId(9)].distinct, numbers[&ProjectId(9)].person), (1, 1));

    let more = IdentityChanges { persons: vec![], next_distinct: 9, ..IdentityChanges::default() };
    for wrong in [batch(1, 2), batch(3, 4), IngestBatch { journal: 8, ..batch(2, 3) }] {
        let projects = vec![changes(project, more.clone())];
        let refused = fixture.catalog.ingest().apply(&IngestBatch { projects, ..wrong }).await;
        assert!(matches!(refused, Err(Error::OutOfSync)), "{refused:?}");
    }
    let numbers = fixture.catalog.persons().next_dense_ids(&[project]).await.unwrap();
    assert_eq!(numbers[&project].distinct, 301, "a refused batch leaves nothing behind");

    let texts: Vec<String> = (1..=300).map(|no| format!("d{no}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let before = fixture.catalog.statements();
    let (ids, persons) = fixture.catalog.persons().identities(project, &texts).await.unwrap();
    assert_eq!((ids.len(), persons.len()), (300, 300));
    assert_eq!(fixture.catalog.statements() - before, 1);
    assert_eq!(
        fixture.catalog.persons().identities(ProjectId(9), &texts).await.unwrap(),
        (vec![], vec![])
    );
}

pub async fn a_uuid_can_move_to_another_person_in_one_batch(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (project, at) = (fixture.project.id, fixture.project.created_at);
    people(&fixture, 3).await;
    let earlier = Timestamp::from_micros(at.as_micros() - 1);
    let written = [person(project, 2, "d9", earlier), person(project, 4, "d2", at)];
    let identity = IdentityChanges {
        persons: written.iter().cloned().map(Arc::new).collect(),
        rekeyed: vec![PersonNo(2)],
        next_distinct: 4,
        next_person: 5,
        ..IdentityChanges::default()
    };
    let batch = IngestBatch { projects: vec![changes(project, identity)], ..batch(2, 3) };
    fixture.catalog.ingest().apply(&batch).await.unwrap();
    let numbers = [PersonNo(2), PersonNo(4)];
    let mut found = fixture.catalog.persons().by_no(project, &numbers).await.unwrap();
    found.sort_by_key(|person| person.no);
    let written: Vec<Person> =
        written.into_iter().map(|one| one.map(|properties| properties.to_map())).collect();
    assert_eq!(found, written);
}

/// Covers a batch whose last row is rejected: the rows before it are rolled back.
pub async fn bulk_updates_of_existing_persons_are_atomic(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (project, at) = (fixture.project.id, fixture.project.created_at);
    people(&fixture, 300).await;
    let changed = |no: u32| {
        let new = person(project, no, &format!("d{no}"), at);
        let properties = new.properties.changed([("plan", "\"team\"".into())], []);
        Person { properties, version: 7, is_identified: true, ..new }
    };
    let written: Vec<Person<JsonObject>> = (1..=290).map(changed).chain([changed(301)]).collect();
    let identity = |broken: Option<Person<JsonObject>>| IdentityChanges {
        persons: written.iter().cloned().chain(broken).map(Arc::new).collect(),
        first_new_person: 301,
        next_distinct: 301,
        next_person: 302,
        ..IdentityChanges::default()
    };
    let twice = Person { uuid: person_uuid(project, "d299"), ..changed(302) };
    let projects = vec![changes(project, identity(Some(twice)))];
    let refused = fixture.catalog.ingest().apply(&IngestBatch { projects, ..batch(2, 3) }).await;
    assert!(refused.is_err());
    let all: Vec<PersonNo> = (1..=302).map(PersonNo).collect();
    let found = fixture.catalog.persons().by_no(project, &all).await.unwrap();
    assert_eq!(found.len(), 300);
    assert!(found.iter().all(|person| person.version == 0));

    let gone = IdentityChanges { first_new_person: 302, ..identity(None) };
    let projects = vec![changes(project, gone)];
    let refused = fixture.catalog.ingest().apply(&IngestBatch { projects, ..batch(2, 3) }).await;
    assert!(matches!(refused, Err(Error::OutOfSync)), "301 is not there: {refused:?}");

    let projects = vec![changes(project, identity(None))];
    fixture.catalog.ingest().apply(&IngestBatch { projects, ..batch(2, 3) }).await.unwrap();
    let mut found = fixture.catalog.persons().by_no(project, &all).await.unwrap();
    found.sort_by_key(|person| person.no);
    let untouched = (291..=300).map(|no| person(project, no, &format!("d{no}"), at));
    let mut expected: Vec<Person> = written
        .iter()
        .cloned()
        .chain(untouched)
        .map(|one| one.map(|properties| properties.to_map()))
        .collect();
    expected.sort_by_key(|person| person.no);
    assert_eq!(found, expected);
}

pub async fn listeners_see_a_batch_before_and_after_its_commit(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let ingest = fixture.catalog.ingest();
    let note = seen.clone();
    ingest.on_prepare(move |batch| {
        note.lock().unwrap().push(format!("prepare {}..{}", batch.from, batch.reach));
    });
    let note = seen.clone();
    ingest.on_apply(move |outcome| {
        let IngestOutcome::Committed(projects) = outcome else { panic!("{outcome:?}") };
        note.lock().unwrap().push(format!("committed {}", projects.len()));
    });
    people(&fixture, 1).await;
    assert!(ingest.apply(&batch(1, 3)).await.is_err(), "the offset is 2");
    ingest.apply(&batch(2, 5)).await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, ["prepare 1..2", "committed 1", "prepare 2..5", "committed 0"]);
}

pub async fn distinct_ids_follow_chains_of_merges(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    people(&fixture, 4).await;
    // Merges 1 into 2 and 2 into 3; the batch itself loaded only d2.
    let identity = IdentityChanges {
        merges: vec![(PersonNo(1), PersonNo(2)), (PersonNo(2), PersonNo(3))],
        ids: vec![DistinctId { version: 1, ..id(2, "d2", Some(3)) }],
        persons: vec![Arc::new(Person {
            is_identified: true,
            version: 5,
            ..person(project, 3, "d3", fixture.project.created_at)
        })],
        next_distinct: 5,
        next_person: 5,
        ..IdentityChanges::default()
    };
    let merge = IngestBatch { projects: vec![changes(project, identity)], ..batch(2, 3) };
    fixture.catalog.ingest().apply(&merge).await.unwrap();
    let (ids, persons) =
        fixture.catalog.persons().identities(project, &["d1", "d2", "d3", "d4"]).await.unwrap();
    let mut found: Vec<(&str, u32, i64)> =
        ids.iter().map(|id| (id.text.as_str(), id.person.unwrap().0, id.version)).collect();
    found.sort();
    assert_eq!(found, [("d1", 3, 2), ("d2", 3, 1), ("d3", 3, 0), ("d4", 4, 0)]);
    let mut left: Vec<(u32, i64)> =
        persons.iter().map(|person| (person.no.0, person.version)).collect();
    left.sort();
    assert_eq!(left, [(3, 5), (4, 0)]);
    let of_three =
        fixture.catalog.persons().distinct_ids_of(project, &[PersonNo(3)]).await.unwrap();
    assert_eq!(of_three.len(), 3);

    // Distinct ids of a deleted person keep their dense ids.
    let identity = IdentityChanges {
        deleted: vec![PersonNo(4)],
        ids: vec![DistinctId { version_floor: 100, ..id(4, "d4", None) }],
        next_distinct: 5,
        next_person: 5,
        ..IdentityChanges::default()
    };
    let deletion = EventDeletion { project, before: 3, distinct_nos: vec![DistinctNo(4)] };
    let delete = IngestBatch {
        projects: vec![changes(project, identity)],
        deletions: vec![deletion.clone()],
        ..batch(3, 4)
    };
    fixture.catalog.ingest().apply(&delete).await.unwrap();
    let (ids, persons) = fixture.catalog.persons().identities(project, &["d4"]).await.unwrap();
    assert_eq!((ids[0].no.0, ids[0].person, ids[0].version_floor), (4, None, 100));
    assert!(persons.is_empty());
    assert_eq!(fixture.catalog.ingest().deletions_due().await.unwrap(), vec![deletion.clone()]);
    fixture.catalog.ingest().deletion_done(&deletion, 3).await.unwrap();
    assert!(fixture.catalog.ingest().deletions_due().await.unwrap().is_empty());
}

pub async fn groups_are_looked_up_by_type_and_key(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    let group = |index, key: &str, version| Group {
        index,
        key: key.into(),
        properties: Map::from_iter([("seats".to_owned(), json!(version))]),
        version,
        created_at: fixture.project.created_at,
    };
    for (from, groups) in
        [(1, vec![group(0, "acme", 1), group(1, "acme", 1)]), (2, vec![group(0, "acme", 2)])]
    {
        let group_types = match from {
            1 => vec![("company".to_owned(), 0), ("team".to_owned(), 1)],
            _ => vec![],
        };
        let changes = ProjectChanges {
            group_types,
            groups,
            first_event: from == 1,
            ..changes(project, IdentityChanges { next_distinct: 1, ..Default::default() })
        };
        let batch = IngestBatch { projects: vec![changes], ..batch(from, from + 1) };
        fixture.catalog.ingest().apply(&batch).await.unwrap();
    }
    let types = fixture.catalog.groups().types_of_projects(&[project]).await.unwrap();
    assert_eq!(types[&project], [("company".to_owned(), 0), ("team".to_owned(), 1)]);
    let wanted = [(0, "acme"), (0, "other"), (1, "acme")];
    let found = fixture.catalog.groups().by_key(project, &wanted).await.unwrap();
    assert_eq!(found, [group(0, "acme", 2), group(1, "acme", 1)]);
    let scanned = fixture.catalog.groups().scan(project, 0, None, 9).await.unwrap();
    assert_eq!(scanned, [group(0, "acme", 2)]);
    let behind = fixture.catalog.groups().scan(project, 0, Some("acme"), 9).await.unwrap();
    assert_eq!(behind, []);
    assert!(fixture.catalog.projects().get(project).await.unwrap().ingested_event);
    assert!(fixture.catalog.ingest().rules(&[project]).await.unwrap()[&project].ingested_event);
}

// contract: ingestion 123, 125
pub async fn definitions_keep_last_seen_hour_and_first_type(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (project, start) = (fixture.project.id, database.clock.now());
    let see = |from: u64, seconds: i64, kinds: Vec<Option<PropertyType>>| {
        let event = |at| ObservedEvent { project, name: "signup".into(), at };
        let property = |kind| ObservedProperty {
            project,
            owner: PropertyOwner::Event,
            name: "n".into(),
            kind,
        };
        let at = start.plus_seconds(seconds);
        let observations = Observations {
            events: vec![event(at), event(at.plus_seconds(1))],
            properties: kinds.into_iter().map(property).collect(),
            pairs: vec![(project, "signup".into(), "n".into())],
            ..Observations::default()
        };
        IngestBatch { observations, ..batch(from, from + 1) }
    };
    let definition = || async {
        let sql = "SELECT CAST(created_at AS TEXT) || ' ' || CAST(last_seen_at AS TEXT) \
                   FROM event_definitions";
        let event = database.sql(sql).await;
        let sql = "SELECT COALESCE(property_type, 'none') FROM property_definitions";
        (event, database.sql(sql).await)
    };
    let told = |created: i64, seen: i64| {
        let micros = |seconds| start.plus_seconds(seconds).as_micros();
        vec![format!("{} {}", micros(created), micros(seen))]
    };
    let numeric = Some(PropertyType::Numeric);
    let text = Some(PropertyType::String);
    for (from, at, kinds, seen, kind) in [
        (1, 0, vec![None], 0, "none"),
        (2, 60, vec![None, numeric, text], 0, "Numeric"),
        (3, HOUR_SECONDS, vec![text], HOUR_SECONDS, "Numeric"),
        (4, 30, vec![], HOUR_SECONDS, "Numeric"),
    ] {
        fixture.catalog.ingest().apply(&see(from, at, kinds)).await.unwrap();
        assert_eq!(definition().await, (told(0, seen), vec![kind.to_owned()]), "batch {from}");
    }
    assert_eq!(database.sql("SELECT event || property FROM event_properties").await, ["signupn"]);
}

pub async fn names_past_the_definition_quota_are_counted_and_warned_about(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (project, now) = (fixture.project.id, database.clock.now());
    let see = |from: u64, events: &[&str], properties: &[&str]| {
        let event = |name: &&str| ObservedEvent { project, name: (*name).into(), at: now };
        let property = |name: &&str| ObservedProperty {
            project,
            owner: PropertyOwner::Event,
            name: (*name).into(),
            kind: Some(PropertyType::Numeric),
        };
        let pair = |name: &&str| (project, events[0].to_owned(), (*name).to_owned());
        let counts = events.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let observations = Observations {
            events: events.iter().map(event).collect(),
            properties: properties.iter().map(property).collect(),
            pairs: properties.iter().map(pair).collect(),
            volumes: HashMap::from([((project, Day::of(now)), counts)]),
            ..Observations::default()
        };
        IngestBatch { observations, ..batch(from, from + 1) }
    };
    let limits = |events, properties| DefinitionLimits { events, properties };
    fixture.catalog.definitions().set_limits(limits(2, 3));
    fixture.catalog.ingest().apply(&see(1, &["a"], &["p", "q"])).await.unwrap();
    assert_eq!(fixture.catalog.definitions().names_skipped(), 0);
    fixture
        .catalog
        .ingest()
        .apply(&see(2, &["a", "b", "c", "d"], &["p", "r", "s", "t"]))
        .await
        .unwrap();
    fixture.catalog.ingest().apply(&see(3, &["d", "e"], &["q", "t"])).await.unwrap();
    let names = |table: &'static str| {
        let database = &database;
        async move { database.sql(&format!("SELECT name FROM {table} ORDER BY name")).await }
    };
    assert_eq!(names("event_definitions").await, ["a", "b"]);
    assert_eq!(names("property_definitions").await, ["p", "q", "r"]);
    assert_eq!(fixture.catalog.definitions().names_skipped(), 2 + 2 + 2 + 1);
    let volumes = "SELECT event FROM event_volumes ORDER BY event";
    assert_eq!(database.sql(volumes).await, ["a", "b"], "what is not defined is not counted");
    let warned = "SELECT type FROM ingestion_warnings";
    assert_eq!(database.sql(warned).await, ["too_many_definitions"], "once an hour");
    // Definitions beyond a lowered limit stay and can still change.
    fixture.catalog.definitions().set_limits(limits(1, 1));
    fixture.catalog.ingest().apply(&see(4, &["b", "f"], &["r", "u"])).await.unwrap();
    assert_eq!(names("event_definitions").await, ["a", "b"]);
    fixture.catalog.definitions().set_limits(limits(3, 4));
    fixture.catalog.ingest().apply(&see(5, &["b", "f"], &["r", "u"])).await.unwrap();
    assert_eq!(names("event_definitions").await, ["a", "b", "f"]);
    assert_eq!(names("property_definitions").await, ["p", "q", "r", "u"]);
    let typed = fixture
        .catalog
        .property_definitions()
        .non_string_types(project, ["r", "t", "other"], true)
        .await
        .unwrap();
    assert_eq!(typed.into_keys().collect::<Vec<_>>(), [(PropertyOwner::Event, "r".to_owned())]);
}

pub async fn event_volumes_cover_thirty_days(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let (project, today) = (fixture.project.id, Day::of(database.clock.now()));
    let seen = |from: u64, volumes: &[(i64, i64)], since| {
        let volumes = volumes.iter().map(|(days_ago, count)| {
            let counts = HashMap::from([("signup".to_owned(), *count), ("other".to_owned(), 1)]);
            ((project, today.minus(*days_ago)), counts)
        });
        let event = ObservedEvent { project, name: "signup".into(), at: database.clock.now() };
        let volumes = volumes.collect();
        let observations = Observations {
            events: vec![event],
            volumes,
            volumes_since: since,
            ..Observations::default()
        };
        IngestBatch { observations, ..batch(from, from + 1) }
    };
    let volume = || async {
        let found = fixture.catalog.event_definitions().by_name(project, "signup").await;
        found.unwrap().volume_30_day
    };
    fixture.catalog.ingest().apply(&seen(1, &[], None)).await.unwrap();
    assert_eq!(volume().await, 0);
    fixture
        .catalog
        .ingest()
        .apply(&seen(2, &[(-1, 1), (0, 10), (29, 100), (30, 1_000)], None))
        .await
        .unwrap();
    fixture.catalog.ingest().apply(&seen(3, &[(0, 5)], None)).await.unwrap();
    assert_eq!(volume().await, 116, "today and the 29 days before");
    database.clock.advance_seconds(86_400);
    assert_eq!(volume().await, 16);
    fixture.catalog.ingest().apply(&seen(4, &[], Some(today.minus(29)))).await.unwrap();
    let days = database
        .sql("SELECT CAST(day AS TEXT) FROM event_volumes WHERE event = 'other' ORDER BY day");
    let kept = [29, 0, -1].map(|days_ago| today.minus(days_ago).0.to_string());
    assert_eq!(days.await, kept);
}

pub async fn flags_keep_the_latest_call_time(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    let actor = Actor { project: Some(project), ..fixture.actor() };
    let flag = |key: &str| FlagChange { key: Some(key.into()), ..FlagChange::default() };
    let flag = fixture.catalog.flags().create(&actor, flag("beta")).await.unwrap();
    let at = |seconds: i64| database.clock.now().plus_seconds(seconds);
    let told = |key: &str, how| ObservedFlag { project, key: key.into(), observation: how };
    for (from, flags, called, enriched) in [
        (1, vec![], None, false),
        (2, vec![told("beta", FlagObservation::Called(at(0)))], Some(at(0)), false),
        (3, vec![told("beta", FlagObservation::Called(at(-60)))], Some(at(0)), false),
        (
            4,
            vec![
                told("beta", FlagObservation::Called(at(120))),
                told("beta", FlagObservation::Called(at(60))),
                told("unknown", FlagObservation::Called(at(60))),
                told("unknown", FlagObservation::Enriched),
                told("beta", FlagObservation::Enriched),
            ],
            Some(at(120)),
            true,
        ),
    ] {
        let observations = Observations { flags, ..Observations::default() };
        let batch = IngestBatch { observations, ..batch(from, from + 1) };
        fixture.catalog.ingest().apply(&batch).await.unwrap();
        let found = fixture.catalog.flags().get(project, flag.id).await.unwrap();
        let known = (found.last_called_at, found.has_enriched_analytics);
        assert_eq!(known, (called, enriched), "batch {from}");
    }
}

pub async fn dead_letters_are_replayed_once(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    let letter = |position, project| NewDeadLetter {
        project,
        position,
        step: "decode",
        reason: "cut short".into(),
        event: Some("e".into()),
        distinct_id: None,
        record: vec![1, 2, 0],
    };
    let dead_letters = vec![letter(1, Some(project)), letter(2, None)];
    fixture.catalog.ingest().apply(&IngestBatch { dead_letters, ..batch(1, 3) }).await.unwrap();
    let dead_letters = vec![letter(5, Some(project))];
    fixture.catalog.ingest().apply(&IngestBatch { dead_letters, ..batch(3, 6) }).await.unwrap();
    let (all, total) = fixture.catalog.dead_letters().list(None, EVERYTHING).await.unwrap();
    assert_eq!((all.len(), total), (3, 3));
    let (own, total) =
        fixture.catalog.dead_letters().list(Some(project), EVERYTHING).await.unwrap();
    assert_eq!((own.len(), total, own[0].position), (2, 2, 5));
    assert_eq!(fixture.catalog.dead_letters().positions(2, 5).await.unwrap(), [2].into());
    let (_, record) = fixture.catalog.dead_letters().get(Some(project), own[0].id).await.unwrap();
    assert_eq!(record, [1, 2, 0]);
    let strange = fixture.catalog.dead_letters().get(Some(ProjectId(99)), own[0].id).await;
    assert!(matches!(strange, Err(Error::NotFound)));
    assert!(fixture.catalog.dead_letters().mark_replayed(own[0].id).await.unwrap());
    assert!(!fixture.catalog.dead_letters().mark_replayed(own[0].id).await.unwrap());
    assert_eq!(fixture.catalog.dead_letters().list(Some(project), EVERYTHING).await.unwrap().1, 1);
    assert_eq!(fixture.catalog.dead_letters().prune().await.unwrap(), 0);
    database.clock.advance_seconds(31 * 24 * HOUR_SECONDS);
    assert_eq!(fixture.catalog.dead_letters().prune().await.unwrap(), 1);
    assert_eq!(fixture.catalog.dead_letters().list(None, EVERYTHING).await.unwrap().1, 2);
}

pub async fn persons_and_distinct_ids_are_scanned_in_batches(database: TestDatabase) {
    let fixture = database.bootstrapped().await;
    let project = fixture.project.id;
    people(&fixture, 5).await;
    let first = fixture.catalog.persons().scan(project, None, 3).await.unwrap();
    let numbers = |part: &[StoredPerson]| -> Vec<u32> { part.iter().map(|one| one.no.0).collect() };
    assert_eq!(numbers(&first), [1, 2, 3]);
    assert!(first[0].properties.contains(r#""first":"d1""#));
    let rest = fixture.catalog.persons().scan(project, Some(PersonNo(3)), 3).await.unwrap();
    assert_eq!(numbers(&rest), [4, 5]);
    let ids =
        fixture.catalog.persons().scan_distinct_ids(project, Some(DistinctNo(3)), 9).await.unwrap();
    let id = |no: u32| (DistinctNo(no), format!("d{no}"), Some(PersonNo(no)));
    assert_eq!(ids, [id(4), id(5)]);
    let whole = fixture.catalog.persons().scan(project, Some(PersonNo(4)), 9).await.unwrap();
    assert_eq!(whole[0].uuid, person_uuid(project, "d5"));
    let elsewhere = fixture.catalog.persons().scan(ProjectId(9), None, 9).await.unwrap();
    assert!(elsewhere.is_empty());
    let known =
        fixture.catalog.persons().no_by_uuid(project, person_uuid(project, "d2")).await.unwrap();
    assert_eq!(known, Some(PersonNo(2)));
    let unknown =
        fixture.catalog.persons().no_by_uuid(project, person_uuid(project, "x")).await.unwrap();
    assert_eq!(unknown, None);
}
