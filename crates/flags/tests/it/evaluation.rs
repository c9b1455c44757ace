//! Evaluation of one flag in one context: result and reason.

use flags::{Failure, RecordedSteps, RequestRuntime, Selection, Step, Stored, Subject};
use model::CohortId;
use model::flag::{CohortDefinition, CohortKind, EvaluationRuntime};
use serde_json::{Value, json};

use crate::*;

fn group(properties: Value, rollout: Value) -> Value {
    json!({"properties": properties, "rollout_percentage": rollout})
}

fn is(key: &str, value: &str) -> Value {
    json!({"key": key, "type": "person", "value": value, "operator": "exact"})
}

#[test]
fn conditions_are_evaluated_in_order_and_the_highest_reason_reported() {
    let pro = person("u", json!({"plan": "pro"}));
    let free = person("u", json!({"plan": "free"}));
    let plan = |value: &str, rollout: i64| group(json!([is("plan", value)]), json!(rollout));
    for (groups, context, expected) in [
        (json!([group(json!([]), json!(100))]), &pro, (json!(true), "condition_match", Some(0))),
        (json!([group(json!([]), json!(null))]), &pro, (json!(true), "condition_match", Some(0))),
        (json!([{}]), &pro, (json!(true), "condition_match", Some(0))),
        (
            json!([group(json!([]), json!(0))]),
            &pro,
            (json!(false), "out_of_rollout_bound", Some(0)),
        ),
        (
            json!([plan("x", 100), plan("pro", 100)]),
            &pro,
            (json!(true), "condition_match", Some(1)),
        ),
        (
            json!([plan("pro", 0), plan("x", 100)]),
            &pro,
            (json!(false), "out_of_rollout_bound", Some(0)),
        ),
        (
            json!([plan("x", 100), plan("y", 100)]),
            &free,
            (json!(false), "no_condition_match", Some(1)),
        ),
        (json!([]), &pro, (json!(false), "no_condition_match", None)),
    ] {
        assert_eq!(decided(json!({ "groups": groups }), context), expected, "{groups}");
    }
}

#[test]
fn flag_result_does_not_depend_on_other_flags() {
    let variants = json!({"variants": [
        {"key": "a", "rollout_percentage": 30}, {"key": "b", "rollout_percentage": 70}]});
    let filters = |at: i64| match at % 4 {
        0 => json!({"groups": [{"rollout_percentage": at % 100}]}),
        1 => json!({"groups": [{"rollout_percentage": 60}], "multivariate": variants}),
        2 => json!({"groups": [{}], "multivariate": variants}),
        _ => json!({"groups": [group(json!([is("plan", "pro")]), json!(50))]}),
    };
    let key = |at: i64| format!("flag-{}-{at}", "x".repeat(at as usize % 40));
    let all: Vec<_> = (0..300).map(|at| flag(at, &key(at), filters(at))).collect();
    let set = compile(&all);
    let mut on = 0;
    for id in ["u", "user_123456", "0190f3a2-7b1c-7000-8000-1234567890ab", &"long ".repeat(20), ""]
    {
        let context = person(id, json!({"plan": "pro"}));
        let results = set.evaluate(&context, &everything());
        for one in &all {
            let alone = compile(std::slice::from_ref(one));
            let alone = alone.evaluate(&context, &everything());
            let among = result_of(&results, &one.key);
            assert_eq!(shown(among), shown(&alone.results[0]), "{} for {id}", one.key);
            on += usize::from(among.enabled);
        }
    }
    assert!((500..1_400).contains(&on), "{on} of 1500 are on");
}

// contract: flags 60-62
#[test]
fn first_matching_condition_decides_variant_and_payload() {
    let variants = json!({"variants": [
        {"key": "a", "rollout_percentage": 0}, {"key": "b", "rollout_percentage": 100}]});
    for (groups, expected) in [
        (json!([{}, {"variant": "a"}]), "b"),
        (json!([{"variant": "a"}, {}]), "a"),
        (json!([{"variant": "ghost"}]), "b"),
    ] {
        let filters = json!({"groups": groups, "multivariate": variants,
            "payloads": {"a": "1", "b": "2", "true": "3"}});
        let set = compile(&[flag(1, "f", filters)]);
        let results = set.evaluate(&person("u", json!({})), &everything());
        let result = &results.results[0];
        assert_eq!(result.variant, Some(expected), "{groups}");
        assert_eq!(result.payload, Some(if expected == "a" { "1" } else { "2" }));
    }
}

#[test]
fn group_conditions_are_bucketed_by_group_key_and_skipped_without_group() {
    let filters = json!({"aggregation_group_type_index": 0, "groups": [{
        "properties": [{"key": "tier", "type": "group", "group_type_index": 0, "value": "gold"}],
        "rollout_percentage": 100,
    }]});
    let alone = person("u", json!({"tier": "gold"}));
    assert_eq!(decided(filters.clone(), &alone), (json!(false), "no_group_type", Some(0)));
    let gold = in_group(person("u", json!({})), 0, "acme", json!({"tier": "gold"}));
    assert_eq!(decided(filters, &gold), (json!(true), "condition_match", Some(0)));
    let by_key = json!({"aggregation_group_type_index": 0, "groups": [{"properties": [
        {"key": "$group_key", "type": "group", "group_type_index": 0, "value": "acme"}]}]});
    assert_eq!(decided(by_key, &gold).0, json!(true));
    let half = json!({"aggregation_group_type_index": 0, "groups": [{"rollout_percentage": 50}]});
    for user in ["a", "b", "c", "d", "e", "f"] {
        let member = in_group(person(user, json!({})), 0, "acme", json!({}));
        assert_eq!(decided(half.clone(), &member).0, decided(half.clone(), &gold).0, "{user}");
    }
}

// contract: flags 81
#[test]
fn one_flag_may_have_conditions_on_persons_and_on_groups() {
    let filters = json!({"groups": [
        {"properties": [is("plan", "pro")], "aggregation_group_type_index": null},
        {"properties": [], "rollout_percentage": 100, "aggregation_group_type_index": 0},
    ]});
    let acme = in_group(person("u", json!({})), 0, "acme", json!({}));
    assert_eq!(decided(filters.clone(), &acme), (json!(true), "condition_match", Some(1)));
    let alone = person("u", json!({}));
    assert_eq!(decided(filters, &alone), (json!(false), "no_condition_match", Some(0)));
}

// contract: flags 78-80
#[test]
fn evaluation_order_is_enrollment_holdout_conditions_with_early_exit() {
    let enrolment = json!({"feature_enrollment": true, "groups": [{}]});
    for (properties, expected) in [
        (json!({"$feature_enrollment/f": "true"}), (json!(true), "super_condition_value", Some(0))),
        (json!({"$feature_enrollment/f": true}), (json!(true), "super_condition_value", Some(0))),
        (
            json!({"$feature_enrollment/f": "TRUE"}),
            (json!(false), "super_condition_value", Some(0)),
        ),
        (
            json!({"$feature_enrollment/f": "false"}),
            (json!(false), "super_condition_value", Some(0)),
        ),
        (json!({}), (json!(true), "condition_match", Some(0))),
    ] {
        assert_eq!(decided(enrolment.clone(), &person("u", properties)), expected);
    }
    let legacy = json!({"super_groups": [{"properties": [is("beta", "yes")]}], "groups": [{}]});
    for (properties, expected) in [
        (json!({"beta": "yes"}), (json!(true), "super_condition_value", Some(0))),
        (json!({"beta": "no"}), (json!(false), "super_condition_value", Some(0))),
        (json!({}), (json!(true), "condition_match", Some(0))),
    ] {
        assert_eq!(decided(legacy.clone(), &person("u", properties)), expected);
    }
    let user = person("u", json!({}));
    let holdout =
        |share: i64| json!({"holdout": {"id": 3, "exclusion_percentage": share}, "groups": [{}]});
    let held = (json!("holdout-3"), "holdout_condition_value", None);
    assert_eq!(decided(holdout(100), &user), held);
    assert_eq!(decided(holdout(0), &user), (json!(true), "condition_match", Some(0)));
    let older = json!({"groups": [{}],
        "holdout_groups": [{"rollout_percentage": 100, "variant": "holdout-3"}]});
    assert_eq!(decided(older, &user), held);
    let exit = |on: bool| json!({"early_exit": on, "groups": [{"rollout_percentage": 0}, {}]});
    assert_eq!(decided(exit(true), &user), (json!(false), "out_of_rollout_bound", Some(0)));
    assert_eq!(decided(exit(false), &user), (json!(true), "condition_match", Some(1)));
}

// contract: flags 74-75
#[test]
fn cohort_conditions_support_static_dynamic_and_nested_cohorts() {
    let on = |operator: &str, id: i64| {
        json!({"groups": [{"properties": [
            {"key": "id", "type": "cohort", "value": id, "operator": operator}]}]})
    };
    let tree = json!({"type": "OR", "values": [
        {"type": "AND", "values": [is("plan", "pro")]},
        {"type": "cohort", "key": "id", "value": 7},
    ]});
    let cohorts = vec![
        CohortDefinition { id: CohortId(7), kind: CohortKind::Static },
        CohortDefinition { id: CohortId(8), kind: CohortKind::Dynamic(tree) },
    ];
    let listed = [CohortId(7)].into();
    for (operator, id, properties, member, expected) in [
        ("in", 7, json!({}), true, true),
        ("in", 7, json!({}), false, false),
        ("not_in", 7, json!({}), true, false),
        ("not_in", 7, json!({}), false, true),
        ("in", 8, json!({"plan": "pro"}), false, true),
        ("in", 8, json!({}), true, true),
        ("in", 8, json!({}), false, false),
    ] {
        let set = with_cohorts(&[flag(1, "f", on(operator, id))], cohorts.clone());
        let mut context = person("u", properties.clone());
        if member {
            context.cohorts = flags::Membership::Known(&listed);
        }
        let results = set.evaluate(&context, &everything());
        let case = format!("{operator} {id} {properties} {member}");
        assert_eq!(results.results[0].enabled, expected, "{case}");
        assert!(!results.errors, "{case}");
    }
    let set =
        with_cohorts(&[flag(1, "f", on("in", 9)), flag(2, "g", json!({"groups": [{}]}))], cohorts);
    let results = set.evaluate(&person("u", json!({})), &everything());
    assert!(results.errors, "a cohort that is gone is an error");
    assert_eq!(result_of(&results, "f").failure, Some(Failure::CohortNotFound));
    assert!(result_of(&results, "g").enabled, "and only its flag fails");
}

#[test]
fn cyclic_cohorts_match_nobody() {
    let other = |id: i64| CohortKind::Dynamic(json!({"type": "cohort", "key": "id", "value": id}));
    let ring = vec![
        CohortDefinition { id: CohortId(1), kind: other(2) },
        CohortDefinition { id: CohortId(2), kind: other(1) },
    ];
    let filters =
        json!({"groups": [{"properties": [{"key": "id", "type": "cohort", "value": 1}]}]});
    let set = with_cohorts(&[flag(1, "f", filters)], ring);
    assert!(!set.evaluate(&person("u", json!({})), &everything()).results[0].enabled);
}

// contract: flags 66-67
#[test]
fn request_properties_override_stored_ones() {
    let stored = object(json!({"email": "a", "plan": "pro"}));
    let context = |overrides: Value| Context {
        person: Subject::new(object(overrides), Stored::Known(&stored)),
        ..Context::unknown_person("u", now())
    };
    let wants = |key: &str, value: &str| json!({"groups": [{"properties": [is(key, value)]}]});
    assert_eq!(decided(wants("email", "b"), &context(json!({"email": "b"}))).0, json!(true));
    assert_eq!(decided(wants("email", "b"), &context(json!({}))).0, json!(false));
    assert_eq!(decided(wants("plan", "pro"), &context(json!({"email": "b"}))).0, json!(true));
    let nobody = person("u", json!({"email": "b"}));
    let unlike = json!({"groups": [{"properties": [
        {"key": "plan", "type": "person", "operator": "is_not", "value": "pro"}]}]});
    assert_eq!(decided(unlike, &nobody).0, json!(true));
}

#[test]
fn unavailable_store_fails_only_flags_that_need_it() {
    let needs = json!({"groups": [{"properties": [is("plan", "pro")]}]});
    let set = compile(&[
        flag(1, "a", needs),
        flag(2, "b", json!({"groups": [{}]})),
        flag(3, "c", json!({"groups": [{"properties": [is("email", "x")]}]})),
    ]);
    let context = Context {
        person: Subject::new(object(json!({"email": "x"})), Stored::Unavailable),
        ..Context::unknown_person("u", now())
    };
    let results = set.evaluate(&context, &everything());
    assert!(results.errors);
    assert_eq!(result_of(&results, "a").failure, Some(Failure::DatabaseError));
    assert!(result_of(&results, "b").enabled);
    assert!(result_of(&results, "c").enabled, "what was sent needs no store");
}

#[test]
fn malformed_flag_fails_alone() {
    let set = compile(&[flag(1, "a", json!({"groups": 5})), flag(2, "b", json!({"groups": [{}]}))]);
    let results = set.evaluate(&person("u", json!({})), &everything());
    assert_eq!(result_of(&results, "a").failure, Some(Failure::InvalidFilters));
    assert!(result_of(&results, "b").enabled && results.errors);
}

#[test]
fn requests_select_flags_by_key_context_and_runtime() {
    let everyone = || json!({"groups": [{}]});
    let mut definitions: Vec<_> = ["all", "client", "server", "web", "encrypted", "inactive"]
        .iter()
        .zip(1..)
        .map(|(key, id)| flag(id, key, everyone()))
        .collect();
    definitions[0].evaluation_runtime = Some(EvaluationRuntime::All);
    definitions[1].evaluation_runtime = Some(EvaluationRuntime::Client);
    definitions[2].evaluation_runtime = Some(EvaluationRuntime::Server);
    definitions[3].evaluation_contexts = vec!["web".into()];
    definitions[4].has_encrypted_payloads = true;
    definitions[5].active = false;
    let set = compile(&definitions);
    let runtime = |runtime| Selection { runtime, ..Selection::default() };
    let contexts =
        |name: &str| Selection { contexts: [name.into()].into(), ..Selection::default() };
    let keys = |keys: &[&str]| Selection {
        keys: Some(keys.iter().map(|key| (*key).to_owned()).collect()),
        ..Selection::default()
    };
    for (selection, expected) in [
        (everything(), vec!["all", "client", "server", "web"]),
        (runtime(RequestRuntime::Client), vec!["all", "client", "web"]),
        (runtime(RequestRuntime::Server), vec!["all", "server", "web"]),
        (runtime(RequestRuntime::Unknown), vec!["all", "web"]),
        (contexts("web"), vec!["all", "client", "server", "web"]),
        (contexts("ios"), vec!["all", "client", "server"]),
        (keys(&["web", "nope", "inactive"]), vec!["web"]),
        (Selection { only_surveys: true, ..Selection::default() }, vec![]),
    ] {
        let results = set.evaluate(&person("u", json!({})), &selection);
        let found: Vec<&str> = results.results.iter().map(|one| one.flag.key.as_str()).collect();
        assert_eq!(found, expected, "{selection:?}");
    }
}

#[test]
fn trace_records_each_comparison_and_hash() {
    let filters = json!({"groups": [
        {"properties": [is("plan", "pro")], "rollout_percentage": 100},
        {"properties": [], "rollout_percentage": 50},
    ]});
    let set = compile(&[flag(1, "f", filters)]);
    let mut steps = RecordedSteps::default();
    set.evaluate_with(&person("u", json!({"plan": "x"})), &everything(), &mut steps);
    let value = flags::bucket("f", "u", "");
    assert_eq!(
        steps.into_steps(),
        [
            Step::Flag { key: "f".into() },
            Step::Property {
                key: "plan".into(),
                operator: "exact",
                found: Some(json!("x")),
                fits: false,
            },
            Step::Condition { index: 0, result: "no_condition_match" },
            Step::Hash { purpose: "rollout", identifier: "u".into(), value, bound: 0.5 },
            Step::Condition {
                index: 1,
                result: if value <= 0.5 { "condition_match" } else { "out_of_rollout_bound" },
            },
        ]
    );
}

#[test]
fn empty_identifier_is_in_every_rollout() {
    let none = json!({"groups": [{"rollout_percentage": 0}]});
    let context = Context::unknown_person("", now());
    assert_eq!(decided(none, &context).0, json!(true));
}
