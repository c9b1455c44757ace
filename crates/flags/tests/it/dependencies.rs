//! Flags that depend on other flags.

use flags::Selection;
use serde_json::{Value, json};

use crate::*;

fn on_flag(id: Value, value: Value) -> Value {
    json!({"groups": [{"properties": [
        {"key": id, "type": "flag", "operator": "flag_evaluates_to", "value": value}]}]})
}

// contract: flags 76
#[test]
fn flag_dependency_compares_the_result() {
    let variants = json!({"groups": [{}], "multivariate": {"variants": [
        {"key": "test", "rollout_percentage": 100}]}});
    for (base, active, value, expected) in [
        (variants.clone(), true, json!(true), true),
        (variants.clone(), true, json!("test"), true),
        (variants.clone(), true, json!("Test"), false),
        (variants.clone(), true, json!(false), false),
        (variants.clone(), false, json!(false), true),
        (variants, false, json!(true), false),
        (json!({"groups": [{"rollout_percentage": 0}]}), true, json!(false), true),
    ] {
        let mut base = flag(1, "z-base", base);
        base.active = active;
        let set = compile(&[flag(2, "a-top", on_flag(json!("1"), value.clone())), base]);
        let results = set.evaluate(&person("u", json!({})), &everything());
        assert_eq!(result_of(&results, "a-top").enabled, expected, "{active} {value}");
    }
}

#[test]
fn missing_or_cyclic_dependency_disables_dependent_flags() {
    let set = compile(&[
        flag(1, "a", on_flag(json!("9"), json!(false))),
        flag(2, "b", on_flag(json!("1"), json!(false))),
        flag(3, "c", on_flag(json!("4"), json!(false))),
        flag(4, "d", on_flag(json!("3"), json!(false))),
        flag(5, "e", on_flag(json!("4"), json!(false))),
        flag(6, "f", json!({"groups": [{}]})),
        flag(7, "g", on_flag(json!("7"), json!(false))),
    ]);
    let results = set.evaluate(&person("u", json!({})), &everything());
    for key in ["a", "b", "c", "d", "e", "g"] {
        let (value, reason, _) = shown(result_of(&results, key));
        assert_eq!((value, reason), (json!(false), "missing_dependency"), "{key}");
    }
    assert!(result_of(&results, "f").enabled);
    assert!(results.errors, "a circle is an error");
    assert!(set.chain(FlagId(2)).is_empty() && set.chain(FlagId(3)).is_empty());
}

#[test]
fn selected_flags_evaluate_their_dependencies() {
    let set = compile(&[
        flag(1, "z", json!({"groups": [{}]})),
        flag(2, "m", on_flag(json!("1"), json!(true))),
        flag(3, "a", on_flag(json!("2"), json!(true))),
        flag(4, "other", json!({"groups": [{}]})),
    ]);
    let selection = Selection { keys: Some(vec!["a".into()]), ..Selection::default() };
    let results = set.evaluate(&person("u", json!({})), &selection);
    let found: Vec<&str> = results.results.iter().map(|one| one.flag.key.as_str()).collect();
    assert_eq!(found, ["a", "m", "z"]);
    assert!(results.results.iter().all(|result| result.enabled));
    assert_eq!(set.chain(FlagId(3)), ["z", "m", "a"]);
}

#[test]
fn long_dependency_chain_is_evaluated_without_recursion() {
    const FLAGS: i64 = 2_000;
    let mut definitions = vec![flag(1, "f1", json!({"groups": [{}]}))];
    for id in 2..=FLAGS {
        let below = (id - 1).to_string();
        definitions.push(flag(id, &format!("f{id}"), on_flag(json!(below), json!(true))));
    }
    let set = compile(&definitions);
    let results = set.evaluate(&person("u", json!({})), &everything());
    assert_eq!(results.results.iter().filter(|result| result.enabled).count(), FLAGS as usize);
}
