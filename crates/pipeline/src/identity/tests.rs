use std::collections::HashSet;

use model::edit::SplitIds;
use serde_json::json;

use super::*;

/// A project that stores its rows from batch to batch, like the catalog.
#[derive(Default)]
struct Project {
    ids: HashMap<String, DistinctId>,
    persons: HashMap<PersonNo, Person>,
    next: (u32, u32),
    clock: i64,
    warnings: Vec<WarningKind>,
}

impl Project {
    fn send(&mut self, event: &str, id: &str, properties: Value) -> &mut Self {
        let object = |name: &str| {
            properties.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let text = |name: &str| properties.get(name).and_then(Value::as_str).map(str::to_owned);
        let other = text("alias").or_else(|| text("anon"));
        let merge = other.map(|other| Merge { other, dangerously: event == "$merge_dangerously" });
        let unset: Vec<String> = text("unset").into_iter().collect();
        let person = match text("person").as_deref() {
            Some("off") => PersonProcessing::Personless,
            Some("known") => PersonProcessing::OnlyIfKnown,
            _ => PersonProcessing::Full,
        };
        self.clock += 1_000_000;
        let mut identities = self.identities();
        let changes = PersonChanges { set: object("set"), set_once: object("once"), unset };
        let (_, warnings) = identities.apply(&Request {
            event,
            event_uuid: Uuid::from_u128(7),
            distinct_id: id,
            time: Timestamp::from_micros(self.clock),
            person,
            merge: merge.as_ref(),
            changes: &changes,
            copies: CopiedProperties::default(),
        });
        self.warnings = warnings;
        let changes = identities.take_changes();
        self.next = (changes.next_distinct, changes.next_person);
        for person in &changes.persons {
            let is_known = self.persons.contains_key(&person.no);
            assert_eq!(person.no.0 < changes.first_new_person, is_known, "{}", person.no.0);
        }
        for (gone, _) in &changes.merges {
            self.persons.remove(gone);
        }
        for id in changes.ids {
            self.ids.insert(id.text.clone(), id);
        }
        for person in changes.persons {
            self.keep(&person);
        }
        self
    }

    fn identities(&self) -> IdentityCache {
        let mut identities = IdentityCache::new(ProjectId(1), self.next.0, self.next.1);
        let persons = self.persons.values().cloned();
        let persons = persons.map(|person| person.map(|properties| JsonObject::from(&properties)));
        identities.load(self.ids.values().cloned().collect(), persons.collect());
        identities
    }

    fn keep(&mut self, person: &Person<JsonObject>) {
        self.persons.insert(person.no, person.clone().map(|properties| properties.to_map()));
    }

    fn person(&self, id: &str) -> Option<&Person> {
        self.persons.get(&self.ids.get(id)?.person?)
    }

    fn facts(&self, id: &str) -> Value {
        let mut properties = self.person(id).unwrap().properties.clone();
        properties.remove("$creator_event_uuid");
        Value::Object(properties)
    }

    fn same(&self, a: &str, b: &str) -> bool {
        self.person(a).map(|person| person.no) == self.person(b).map(|person| person.no)
    }
}

// contract: ingestion 77-80, 82
#[test]
fn properties_are_set_once_set_and_unset_in_that_order() {
    let mut project = Project::default();
    project.send("e", "u", json!({"set": {"a": 1, "o": {"j": 2}}, "once": {"a": 2, "b": 3}}));
    assert_eq!(project.facts("u"), json!({"a": 1, "b": 3, "o": {"j": 2}}));
    let person = project.person("u").unwrap();
    assert_eq!(person.properties["$creator_event_uuid"], json!(Uuid::from_u128(7).to_string()));
    assert_eq!((person.version, person.is_identified), (0, false));
    assert_eq!(person.created_at, Timestamp::from_micros(1_000_000));
    project.send("e", "u", json!({"once": {"a": 9}}));
    assert_eq!(project.person("u").unwrap().version, 0);
    project.send("e", "u", json!({"set": {"o": {"k": 1}, "a": null}}));
    assert_eq!(project.facts("u"), json!({"a": null, "b": 3, "o": {"k": 1}}));
    project.send("e", "u", json!({"once": {"a": 9}, "unset": "b"}));
    assert_eq!(project.facts("u"), json!({"a": null, "o": {"k": 1}}));
    assert_eq!(project.person("u").unwrap().version, 2);
}

// contract: ingestion 83-85
#[test]
fn volatile_properties_alone_do_not_update_a_person() {
    let mut project = Project::default();
    project.send("e", "u", json!({"set": {"$current_url": "1", "utm_source": "g"}}));
    project.send("$pageview", "u", json!({"set": {"$current_url": "2"}}));
    assert_eq!(
        (project.facts("u")["$current_url"].clone(), project.person("u").unwrap().version),
        (json!("1"), 0)
    );
    project.send("$pageview", "u", json!({"set": {"$current_url": "3", "utm_source": "h"}}));
    assert_eq!(
        (project.facts("u")["$current_url"].clone(), project.person("u").unwrap().version),
        (json!("3"), 1)
    );
    project.send("$identify", "u", json!({"set": {"$current_url": "4"}}));
    assert_eq!(
        (project.facts("u")["$current_url"].clone(), project.person("u").unwrap().version),
        (json!("4"), 2)
    );
}

// contract: ingestion 91, 95, 97-99, 103, 105, 106, 108, 109
#[test]
fn identify_links_distinct_ids_to_one_person() {
    let mut project = Project::default();
    project.send("$identify", "u", json!({"anon": "a"}));
    assert!(project.same("u", "a"));
    let person = project.person("u").unwrap();
    assert_eq!((person.uuid, person.is_identified), (person_uuid(ProjectId(1), "u"), true));
    project.send("$identify", "u", json!({"anon": "a2"}));
    assert!(project.same("a", "a2"));

    let mut project = Project::default();
    project.send("e", "a", json!({})).send("$identify", "u", json!({"anon": "a"}));
    assert_eq!(project.person("u").unwrap().uuid, person_uuid(ProjectId(1), "a"));
    assert!(project.person("u").unwrap().is_identified);

    let mut project = Project::default();
    project.send("e", "u", json!({})).send("$identify", "u", json!({"anon": "a"}));
    assert_eq!(project.person("a").unwrap().uuid, person_uuid(ProjectId(1), "u"));

    let mut project = Project::default();
    project.send("e", "a", json!({"person": "off"}));
    assert!(project.person("a").is_none());
    project.send("$feature_flag_called", "a", json!({"person": "known"}));
    assert!(project.person("a").is_none());
    project.send("$identify", "u", json!({"anon": "a"}));
    assert!(project.same("u", "a"));
    assert_eq!(project.person("u").unwrap().uuid, person_uuid(ProjectId(1), "a"));

    let mut project = Project::default();
    project.send("e", "a", json!({"person": "off"})).send("e", "a", json!({}));
    assert_eq!(project.person("a").unwrap().uuid, person_uuid(ProjectId(1), "a"));
    project.send("$create_alias", "a", json!({"alias": "a"}));
    project.send("$identify", "a", json!({}));
    project.send("$create_alias", "a", json!({}));
    assert!(!project.person("a").unwrap().is_identified);
}

// contract: ingestion 100-102
#[test]
fn persons_merge_unless_the_other_is_identified() {
    let mut project = Project::default();
    project.send("e", "a", json!({"set": {"x": 1, "y": 1}})).send(
        "e",
        "u",
        json!({"set": {"y": 2}}),
    );
    let gone = project.person("a").unwrap().no;
    project.send("$identify", "u", json!({"anon": "a"}));
    assert!(project.same("u", "a") && !project.persons.contains_key(&gone));
    assert_eq!(project.facts("u"), json!({"x": 1, "y": 2}));
    let person = project.person("u").unwrap();
    assert_eq!((person.created_at, person.version), (Timestamp::from_micros(1_000_000), 1));

    project.send("$identify", "v", json!({"anon": "b"}));
    project.send("$identify", "v", json!({"anon": "u", "set": {"z": 1}}));
    assert!(!project.same("u", "v"));
    assert_eq!(project.warnings, [WarningKind::CannotMergeAlreadyIdentified]);
    assert_eq!(project.facts("v"), json!({"z": 1}));
    project.send("$merge_dangerously", "v", json!({"alias": "u"}));
    assert!(project.same("u", "v") && project.same("a", "b"));
}

// contract: ingestion 96
#[test]
fn oversized_property_update_is_rejected_with_a_warning() {
    let mut project = Project::default();
    project.send("e", "u", json!({"set": {"a": 1}}));
    project.send("e", "u", json!({"set": {"big": "x".repeat(PROPERTIES_BYTES_MAX)}}));
    assert_eq!(project.warnings, [WarningKind::PersonPropertiesSizeViolation]);
    assert_eq!(project.facts("u"), json!({"a": 1}));
}

#[test]
fn illegal_distinct_id_is_never_merged() {
    let mut project = Project::default();
    project.send("$identify", "u", json!({"anon": "null", "set": {"a": 1}}));
    assert_eq!(project.warnings, [WarningKind::CannotMergeWithIllegalDistinctId]);
    assert_eq!(project.facts("u"), json!({"a": 1}));
    assert!(project.person("null").is_none() && !project.person("u").unwrap().is_identified);
}

impl Project {
    fn edit(&mut self, edit: impl FnOnce(&mut IdentityCache)) -> &mut Self {
        let mut identities = self.identities();
        edit(&mut identities);
        let changes = identities.take_changes();
        self.next = (changes.next_distinct, changes.next_person);
        changes.deleted.iter().for_each(|gone| drop(self.persons.remove(gone)));
        changes.merges.iter().for_each(|(gone, _)| drop(self.persons.remove(gone)));
        self.ids.extend(changes.ids.into_iter().map(|id| (id.text.clone(), id)));
        changes.persons.iter().for_each(|person| self.keep(person));
        self
    }
}

// contract: ingestion 110
#[test]
fn id_of_a_deleted_person_gets_a_new_person_with_the_same_uuid() {
    let mut project = Project::default();
    project.send("$set", "u", json!({"set": {"a": 1}}));
    project.send("$set", "u", json!({"set": {"a": 2}}));
    let (old, number) = (project.person("u").unwrap().clone(), project.ids["u"].no);
    project.edit(|identities| {
        assert_eq!(identities.numbers_of(&[old.no]), [number]);
        identities.delete(&[old.no, PersonNo(99)]);
    });
    assert!(project.person("u").is_none() && project.persons.is_empty());
    project.send("e", "u", json!({"set": {"b": 1}}));
    let new = project.person("u").unwrap();
    assert_eq!((new.uuid, project.ids["u"].no), (old.uuid, number));
    assert!(new.no != old.no && new.version > old.version + 100, "{new:?}");
    assert_eq!(project.facts("u"), json!({"b": 1}));
}

#[test]
fn split_gives_each_leaving_id_a_person_of_its_own() {
    let together = || {
        let mut project = Project::default();
        project.send("$identify", "a", json!({"anon": "b", "set": {"x": 1}}));
        project.send("$identify", "a", json!({"anon": "c"}));
        project
    };
    for (leaving, stay, uuid_of) in [
        (SplitIds::AllExcept("a".into()), vec!["a"], "a"),
        // The uuid goes with the id that it is derived from.
        (SplitIds::AllExcept("b".into()), vec!["b"], "b"),
        (SplitIds::Only(vec!["c".into(), "stranger".into()]), vec!["a", "b"], "a"),
        // At least one id must stay.
        (SplitIds::AllExcept("stranger".into()), vec!["a", "b", "c"], "a"),
        (SplitIds::Only(vec!["a".into(), "b".into(), "c".into()]), vec!["a", "b", "c"], "a"),
    ] {
        let mut project = together();
        let (before, at) = (project.person("a").unwrap().clone(), Timestamp::from_micros(9));
        project.edit(|identities| identities.split(before.no, &leaving, at));
        let remaining = project.person(stay[0]).unwrap();
        assert_eq!((remaining.no, remaining.uuid), (before.no, person_uuid(ProjectId(1), uuid_of)));
        assert_eq!(remaining.properties, before.properties, "{leaving:?}");
        for id in ["a", "b", "c"] {
            let person = project.person(id).unwrap();
            assert_eq!(person.no == before.no, stay.contains(&id), "{leaving:?}: {id}");
            if person.no != before.no {
                assert_eq!(person.uuid, person_uuid(ProjectId(1), id));
                assert_eq!(person.version, before.version + 101);
                assert!(person.properties.is_empty() && !person.is_identified);
            }
        }
        let uuids: HashSet<Uuid> = project.persons.values().map(|person| person.uuid).collect();
        assert_eq!(uuids.len(), project.persons.len(), "{leaving:?}");
    }
}

#[test]
fn edit_merges_identified_persons_and_keeps_the_survivors_properties() {
    let mut project = Project::default();
    project.send("$identify", "a", json!({"anon": "a2", "set": {"x": 1, "y": 1}}));
    project.send("$identify", "b", json!({"anon": "b2", "set": {"y": 2, "z": 2}}));
    let (into, gone) = (project.person("a").unwrap().clone(), project.person("b").unwrap().clone());
    for other in [gone.no, gone.no, into.no, PersonNo(99)] {
        project.edit(|identities| identities.merge_persons(into.no, other));
        assert!(project.same("a", "b") && project.same("a2", "b2"));
    }
    let person = project.person("b2").unwrap();
    assert_eq!((person.no, person.uuid), (into.no, into.uuid));
    assert_eq!(project.facts("b"), json!({"x": 1, "y": 1, "z": 2}));
    assert!(person.version > into.version.max(gone.version));
}

#[test]
fn property_in_set_and_set_once_counts_once_against_the_size_limit() {
    let mut project = Project::default();
    let large = "x".repeat(PROPERTIES_BYTES_MAX / 2 + 1);
    project.send("e", "u", json!({"set": {"a": large}, "once": {"a": large}}));
    assert_eq!((project.facts("u"), project.warnings.len()), (json!({"a": large}), 0));
    project.send("e", "v", json!({"set": {"a": large}, "once": {"b": large}}));
    assert_eq!(project.warnings, [WarningKind::PersonPropertiesSizeViolation]);
    assert_eq!(project.facts("v"), json!({}));
}

#[test]
fn chain_of_merges_in_one_batch_moves_every_id_to_the_survivor() {
    let mut project = Project::default();
    for nth in 0..50 {
        project.send("e", &format!("u{nth}"), json!({}));
    }
    let (mut one_by_one, mut at_once) = (project.identities(), project.identities());
    let mut moves = Vec::new();
    for nth in 1..50 {
        for identities in [&mut one_by_one, &mut at_once] {
            let (into, other) = (format!("u{nth}"), format!("u{}", nth - 1));
            let merge = Merge { other, dangerously: true };
            identities.apply(&Request {
                event: "$merge_dangerously",
                event_uuid: Uuid::from_u128(7),
                distinct_id: &into,
                time: Timestamp::from_micros(1),
                person: PersonProcessing::Full,
                merge: Some(&merge),
                changes: &PersonChanges::default(),
                copies: CopiedProperties::default(),
            });
        }
        moves.extend(one_by_one.take_changes().merges);
    }
    let all = at_once.take_changes();
    assert_eq!(all.merges, moves);
    let ids = |identities: &IdentityCache| {
        let mut ids: Vec<DistinctId> =
            identities.ids.values().map(|slot| slot.row.clone()).collect();
        ids.sort_by_key(|id| id.no);
        ids
    };
    assert_eq!(ids(&at_once), ids(&one_by_one));
    let owners: HashSet<_> = all.ids.iter().map(|id| id.person).collect();
    assert_eq!((all.ids.len(), owners.len()), (49, 1), "but the last, which stays");
    assert_eq!(ids(&at_once)[0].version, 49, "each merge is news to readers");
}
