use std::collections::HashSet;

use model::edit::SplitIds;
use serde_json::json;

use super::*;

/// A project that keeps its rows from one batch to the next, like the catalog does.
#[derive(Default)]
struct World {
    ids: HashMap<String, DistinctId>,
    persons: HashMap<PersonNo, Person>,
    next: (u32, u32),
    clock: i64,
    warnings: Vec<WarningKind>,
}

impl World {
    fn send(&mut self, event: &str, id: &str, properties: Value) -> &mut Self {
        let object = |name: &str| {
            properties.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
        };
        let text = |name: &str| properties.get(name).and_then(Value::as_str).map(str::to_owned);
        let other = text("alias").or_else(|| text("anon"));
        let merge = other.map(|other| Merge { other, dangerously: event == "$merge_dangerously" });
        let unset: Vec<String> = text("unset").into_iter().collect();
        let person = match text("person").as_deref() {
            Some("off") => PersonStep::Personless,
            Some("known") => PersonStep::OnlyIfKnown,
            _ => PersonStep::Full,
        };
        self.clock += 1_000_000;
        let mut ledger = self.ledger();
        let changes = PersonChanges { set: object("set"), set_once: object("once"), unset };
        let (_, warnings) = ledger.apply(&Request {
            event,
            event_uuid: Uuid::from_u128(7),
            distinct_id: id,
            time: Timestamp::from_micros(self.clock),
            person,
            merge: merge.as_ref(),
            changes: &changes,
            copies: Copies::default(),
        });
        self.warnings = warnings;
        let changes = ledger.take_changes();
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

    fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(ProjectId(1), self.next.0, self.next.1);
        let persons = self.persons.values().cloned();
        let persons = persons.map(|person| person.map(|properties| JsonObject::from(&properties)));
        ledger.load(self.ids.values().cloned().collect(), persons.collect());
        ledger
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
    let mut world = World::default();
    world.send("e", "u", json!({"set": {"a": 1, "o": {"j": 2}}, "once": {"a": 2, "b": 3}}));
    assert_eq!(world.facts("u"), json!({"a": 1, "b": 3, "o": {"j": 2}}));
    let person = world.person("u").unwrap();
    assert_eq!(person.properties["$creator_event_uuid"], json!(Uuid::from_u128(7).to_string()));
    assert_eq!((person.version, person.is_identified), (0, false));
    assert_eq!(person.created_at, Timestamp::from_micros(1_000_000));
    world.send("e", "u", json!({"once": {"a": 9}}));
    assert_eq!(world.person("u").unwrap().version, 0);
    world.send("e", "u", json!({"set": {"o": {"k": 1}, "a": null}}));
    assert_eq!(world.facts("u"), json!({"a": null, "b": 3, "o": {"k": 1}}));
    world.send("e", "u", json!({"once": {"a": 9}, "unset": "b"}));
    assert_eq!(world.facts("u"), json!({"a": null, "o": {"k": 1}}));
    assert_eq!(world.person("u").unwrap().version, 2);
}

// contract: ingestion 83-85
#[test]
fn noise_alone_is_not_worth_a_write() {
    let mut world = World::default();
    world.send("e", "u", json!({"set": {"$current_url": "1", "utm_source": "g"}}));
    world.send("$pageview", "u", json!({"set": {"$current_url": "2"}}));
    assert_eq!(
        (world.facts("u")["$current_url"].clone(), world.person("u").unwrap().version),
        (json!("1"), 0)
    );
    world.send("$pageview", "u", json!({"set": {"$current_url": "3", "utm_source": "h"}}));
    assert_eq!(
        (world.facts("u")["$current_url"].clone(), world.person("u").unwrap().version),
        (json!("3"), 1)
    );
    world.send("$identify", "u", json!({"set": {"$current_url": "4"}}));
    assert_eq!(
        (world.facts("u")["$current_url"].clone(), world.person("u").unwrap().version),
        (json!("4"), 2)
    );
}

// contract: ingestion 91, 95, 97-99, 103, 105, 106, 108, 109
#[test]
fn ids_meet_their_person() {
    let mut world = World::default();
    world.send("$identify", "u", json!({"anon": "a"}));
    assert!(world.same("u", "a"));
    let person = world.person("u").unwrap();
    assert_eq!((person.uuid, person.is_identified), (person_uuid(ProjectId(1), "u"), true));
    world.send("$identify", "u", json!({"anon": "a2"}));
    assert!(world.same("a", "a2"));

    let mut world = World::default();
    world.send("e", "a", json!({})).send("$identify", "u", json!({"anon": "a"}));
    assert_eq!(world.person("u").unwrap().uuid, person_uuid(ProjectId(1), "a"));
    assert!(world.person("u").unwrap().is_identified);

    let mut world = World::default();
    world.send("e", "u", json!({})).send("$identify", "u", json!({"anon": "a"}));
    assert_eq!(world.person("a").unwrap().uuid, person_uuid(ProjectId(1), "u"));

    let mut world = World::default();
    world.send("e", "a", json!({"person": "off"}));
    assert!(world.person("a").is_none());
    world.send("$feature_flag_called", "a", json!({"person": "known"}));
    assert!(world.person("a").is_none());
    world.send("$identify", "u", json!({"anon": "a"}));
    assert!(world.same("u", "a"));
    assert_eq!(world.person("u").unwrap().uuid, person_uuid(ProjectId(1), "a"));

    let mut world = World::default();
    world.send("e", "a", json!({"person": "off"})).send("e", "a", json!({}));
    assert_eq!(world.person("a").unwrap().uuid, person_uuid(ProjectId(1), "a"));
    world.send("$create_alias", "a", json!({"alias": "a"}));
    world.send("$identify", "a", json!({}));
    world.send("$create_alias", "a", json!({}));
    assert!(!world.person("a").unwrap().is_identified);
}

// contract: ingestion 100-102
#[test]
fn persons_merge_unless_the_other_is_identified() {
    let mut world = World::default();
    world.send("e", "a", json!({"set": {"x": 1, "y": 1}})).send("e", "u", json!({"set": {"y": 2}}));
    let gone = world.person("a").unwrap().no;
    world.send("$identify", "u", json!({"anon": "a"}));
    assert!(world.same("u", "a") && !world.persons.contains_key(&gone));
    assert_eq!(world.facts("u"), json!({"x": 1, "y": 2}));
    let person = world.person("u").unwrap();
    assert_eq!((person.created_at, person.version), (Timestamp::from_micros(1_000_000), 1));

    world.send("$identify", "v", json!({"anon": "b"}));
    world.send("$identify", "v", json!({"anon": "u", "set": {"z": 1}}));
    assert!(!world.same("u", "v"));
    assert_eq!(world.warnings, [WarningKind::CannotMergeAlreadyIdentified]);
    assert_eq!(world.facts("v"), json!({"z": 1}));
    world.send("$merge_dangerously", "v", json!({"alias": "u"}));
    assert!(world.same("u", "v") && world.same("a", "b"));
}

// contract: ingestion 96
#[test]
fn an_update_that_is_too_large_is_refused_alone() {
    let mut world = World::default();
    world.send("e", "u", json!({"set": {"a": 1}}));
    world.send("e", "u", json!({"set": {"big": "x".repeat(PROPERTIES_BYTES_MAX)}}));
    assert_eq!(world.warnings, [WarningKind::PersonPropertiesSizeViolation]);
    assert_eq!(world.facts("u"), json!({"a": 1}));
}

#[test]
fn an_illegal_id_is_never_merged() {
    let mut world = World::default();
    world.send("$identify", "u", json!({"anon": "null", "set": {"a": 1}}));
    assert_eq!(world.warnings, [WarningKind::CannotMergeWithIllegalDistinctId]);
    assert_eq!(world.facts("u"), json!({"a": 1}));
    assert!(world.person("null").is_none() && !world.person("u").unwrap().is_identified);
}

impl World {
    fn edit(&mut self, edit: impl FnOnce(&mut Ledger)) -> &mut Self {
        let mut ledger = self.ledger();
        edit(&mut ledger);
        let changes = ledger.take_changes();
        self.next = (changes.next_distinct, changes.next_person);
        changes.deleted.iter().for_each(|gone| drop(self.persons.remove(gone)));
        self.ids.extend(changes.ids.into_iter().map(|id| (id.text.clone(), id)));
        changes.persons.iter().for_each(|person| self.keep(person));
        self
    }
}

// contract: ingestion 110
#[test]
fn a_deleted_persons_id_comes_back_as_somebody_new_with_the_same_uuid() {
    let mut world = World::default();
    world.send("$set", "u", json!({"set": {"a": 1}}));
    world.send("$set", "u", json!({"set": {"a": 2}}));
    let (old, number) = (world.person("u").unwrap().clone(), world.ids["u"].no);
    world.edit(|ledger| {
        assert_eq!(ledger.numbers_of(&[old.no]), [number]);
        ledger.delete(&[old.no, PersonNo(99)]);
    });
    assert!(world.person("u").is_none() && world.persons.is_empty());
    world.send("e", "u", json!({"set": {"b": 1}}));
    let new = world.person("u").unwrap();
    assert_eq!((new.uuid, world.ids["u"].no), (old.uuid, number));
    assert!(new.no != old.no && new.version > old.version + 100, "{new:?}");
    assert_eq!(world.facts("u"), json!({"b": 1}));
}

#[test]
fn a_split_gives_each_leaving_id_a_person_of_its_own() {
    let together = || {
        let mut world = World::default();
        world.send("$identify", "a", json!({"anon": "b", "set": {"x": 1}}));
        world.send("$identify", "a", json!({"anon": "c"}));
        world
    };
    for (leaving, stay, uuid_of) in [
        (SplitIds::AllExcept("a".into()), vec!["a"], "a"),
        // The uuid goes with the id it was made of.
        (SplitIds::AllExcept("b".into()), vec!["b"], "b"),
        (SplitIds::Only(vec!["c".into(), "stranger".into()]), vec!["a", "b"], "a"),
        // Somebody must stay.
        (SplitIds::AllExcept("stranger".into()), vec!["a", "b", "c"], "a"),
        (SplitIds::Only(vec!["a".into(), "b".into(), "c".into()]), vec!["a", "b", "c"], "a"),
    ] {
        let mut world = together();
        let (whole, at) = (world.person("a").unwrap().clone(), Timestamp::from_micros(9));
        world.edit(|ledger| ledger.split(whole.no, &leaving, at));
        let kept = world.person(stay[0]).unwrap();
        assert_eq!((kept.no, kept.uuid), (whole.no, person_uuid(ProjectId(1), uuid_of)));
        assert_eq!(kept.properties, whole.properties, "{leaving:?}");
        for id in ["a", "b", "c"] {
            let person = world.person(id).unwrap();
            assert_eq!(person.no == whole.no, stay.contains(&id), "{leaving:?}: {id}");
            if person.no != whole.no {
                assert_eq!(person.uuid, person_uuid(ProjectId(1), id));
                assert_eq!(person.version, whole.version + 101);
                assert!(person.properties.is_empty() && !person.is_identified);
            }
        }
        let uuids: HashSet<Uuid> = world.persons.values().map(|person| person.uuid).collect();
        assert_eq!(uuids.len(), world.persons.len(), "{leaving:?}");
    }
}

#[test]
fn a_name_that_is_set_and_set_once_counts_once() {
    let mut world = World::default();
    let large = "x".repeat(PROPERTIES_BYTES_MAX / 2 + 1);
    world.send("e", "u", json!({"set": {"a": large}, "once": {"a": large}}));
    assert_eq!((world.facts("u"), world.warnings.len()), (json!({"a": large}), 0));
    world.send("e", "v", json!({"set": {"a": large}, "once": {"b": large}}));
    assert_eq!(world.warnings, [WarningKind::PersonPropertiesSizeViolation]);
    assert_eq!(world.facts("v"), json!({}));
}

#[test]
fn a_chain_of_merges_in_one_batch_moves_every_id_to_its_end() {
    let mut world = World::default();
    for nth in 0..50 {
        world.send("e", &format!("u{nth}"), json!({}));
    }
    let (mut one_by_one, mut at_once) = (world.ledger(), world.ledger());
    let mut moves = Vec::new();
    for nth in 1..50 {
        for ledger in [&mut one_by_one, &mut at_once] {
            let (into, other) = (format!("u{nth}"), format!("u{}", nth - 1));
            let merge = Merge { other, dangerously: true };
            ledger.apply(&Request {
                event: "$merge_dangerously",
                event_uuid: Uuid::from_u128(7),
                distinct_id: &into,
                time: Timestamp::from_micros(1),
                person: PersonStep::Full,
                merge: Some(&merge),
                changes: &PersonChanges::default(),
                copies: Copies::default(),
            });
        }
        moves.extend(one_by_one.take_changes().merges);
    }
    let all = at_once.take_changes();
    assert_eq!(all.merges, moves);
    let ids = |ledger: &Ledger| {
        let mut ids: Vec<DistinctId> = ledger.ids.values().map(|slot| slot.row.clone()).collect();
        ids.sort_by_key(|id| id.no);
        ids
    };
    assert_eq!(ids(&at_once), ids(&one_by_one));
    let owners: HashSet<_> = all.ids.iter().map(|id| id.person).collect();
    assert_eq!((all.ids.len(), owners.len()), (49, 1), "but the last, which stays");
    assert_eq!(ids(&at_once)[0].version, 49, "each merge is news to readers");
}
