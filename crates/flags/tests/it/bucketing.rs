//! Bucketing identifiers: distinct id, device id, stored hash key.

use std::collections::HashMap;

use flags::{Failure, HashKeys, bucket};
use model::flag::BucketingIdentifier;
use serde_json::json;

use crate::*;

const KEY: &str = "f";

fn half() -> FlagDefinition {
    flag(1, KEY, json!({"groups": [{"rollout_percentage": 50}]}))
}

fn enabled(definition: FlagDefinition, context: &Context<'_>) -> bool {
    compile(&[definition]).evaluate(context, &everything()).results[0].enabled
}

fn inside(identifier: &str) -> bool {
    bucket(KEY, identifier, "") <= 0.5
}

/// One identifier inside the rollout, and one outside.
fn sides() -> (String, String) {
    let of = |side: bool| (0..).map(|n| format!("id-{n}")).find(|id| inside(id) == side).unwrap();
    (of(true), of(false))
}

// contract: flags 82
#[test]
fn flag_can_bucket_by_device_id() {
    let (inside, outside) = sides();
    let mut by_device = half();
    by_device.bucketing_identifier = Some(BucketingIdentifier::DeviceId);
    for distinct_id in [&inside, &outside] {
        let at =
            |device| Context { device_id: device, ..Context::unknown_person(distinct_id, now()) };
        assert!(enabled(by_device.clone(), &at(Some(inside.as_str()))));
        assert!(!enabled(by_device.clone(), &at(Some(outside.as_str()))));
        assert!(!enabled(by_device.clone(), &at(None)), "no device, no bucket");
    }
}

#[test]
fn experience_continuity_prefers_stored_hash_key_then_anonymous_id() {
    let (inside, outside) = sides();
    let stored = HashMap::from([(KEY.to_owned(), inside.clone())]);
    let mut lasting = half();
    lasting.ensure_experience_continuity = true;
    let context = |hash_keys, anonymous| Context {
        hash_keys,
        anon_distinct_id: anonymous,
        ..Context::unknown_person(&outside, now())
    };
    let anonymous = Some(inside.as_str());
    assert!(enabled(lasting.clone(), &context(HashKeys::Known(&stored), None)));
    assert!(enabled(lasting.clone(), &context(HashKeys::Known(&stored), Some(&outside))));
    assert!(enabled(lasting.clone(), &context(HashKeys::None, anonymous)));
    assert!(!enabled(lasting.clone(), &context(HashKeys::None, None)));
    assert!(
        !enabled(half(), &context(HashKeys::Known(&stored), anonymous)),
        "only where asked for"
    );
    let set = compile(&[lasting, flag(2, "g", json!({"groups": [{}]}))]);
    let results = set.evaluate(&context(HashKeys::Unavailable, None), &everything());
    assert_eq!(result_of(&results, KEY).failure, Some(Failure::DatabaseError));
    assert!(result_of(&results, "g").enabled);
}
