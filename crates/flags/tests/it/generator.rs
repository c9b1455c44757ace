//! Generates flags, cohorts and persons from a seed.

use model::CohortId;
use model::flag::filters::{Purpose, groups, prepare};
use model::flag::{BucketingIdentifier, CohortDefinition, CohortKind};
use model::property::Operator;
use serde_json::{Map, Value, json};
use testing::Rng;

use crate::*;

const FLAGS: i64 = 50;
pub const CASES: usize = 25;

const KEYS: [&str; 8] = ["email", "plan", "age", "version", "joined", "tags", "active", "name"];

fn texts() -> Vec<Value> {
    [
        "",
        "a@acme.io",
        "B@ACME.IO",
        "pro",
        "Pro",
        "true",
        "FALSE",
        "null",
        "5",
        "05",
        "5.0",
        "1e2",
        "straße",
        "STRASSE",
        "ΣΊΣΥΦΟΣ",
        "σίσυφος",
        "İ",
        "é",
        "-7",
        " 5",
        "a.b",
        "x\ny",
        "NaN",
    ]
    .map(Value::from)
    .to_vec()
}

fn numbers() -> Vec<Value> {
    vec![
        json!(0),
        json!(5),
        json!(-7),
        json!(5.0),
        json!(5.5),
        json!(100),
        json!(1_700_000_000),
        json!(0.1),
    ]
}

fn dates() -> Vec<Value> {
    [
        "2024-05-01",
        "2024-05-01T10:00:00Z",
        "2024-05-01 10:00:00",
        "2024-05-01T10:00:00+02:00",
        "2101-01-01",
        "2001-02-03T04:05:06.789Z",
        "2024-13-45",
        "soon",
    ]
    .map(Value::from)
    .to_vec()
}

fn versions() -> Vec<Value> {
    [
        "1",
        "1.2",
        "1.2.3",
        "v1.2.3",
        "1.10.0",
        "0.2.3",
        "0.0.3",
        "2.0.0",
        "1.2.3-alpha",
        "1.2.3+5",
        "01.2.3",
        "one",
        "1.2.x",
    ]
    .map(Value::from)
    .to_vec()
}

fn any_value(rng: &mut Rng) -> Value {
    match rng.range(0..9) {
        0 | 1 => rng.pick(&texts()),
        2 => rng.pick(&numbers()),
        3 => json!(rng.chance(50)),
        4 => Value::Null,
        5 => json!([rng.pick(&texts()), rng.pick(&numbers())]),
        6 => rng.pick(&dates()),
        7 => rng.pick(&versions()),
        _ => json!(["true", true]),
    }
}

/// A random filter with any operator that the SDKs support, and a valid value.
fn any_property(rng: &mut Rng, kind: &str) -> Value {
    let known: Vec<Operator> = Operator::ALL
        .iter()
        .copied()
        .filter(|operator| {
            !matches!(operator, Operator::In | Operator::NotIn | Operator::FlagEvaluatesTo)
        })
        .collect();
    let operator = rng.pick(&known);
    let word = operator.as_str();
    let value = if word.starts_with("semver") {
        match operator {
            Operator::SemverWildcard => rng.pick(&[json!("1.*"), json!("1.2.*"), json!("0.*")]),
            _ => rng.pick(&versions()),
        }
    } else if word.starts_with("is_date") {
        rng.pick(
            &[dates(), ["-7d", "30d", "-24h", "-2w", "-3m", "-1y"].map(Value::from).to_vec()]
                .concat(),
        )
    } else if word.ends_with("regex") {
        rng.pick(
            &[
                "^a",
                "@acme\\.io$",
                "pro|Pro",
                "\\d+",
                "^$",
                "[A-Z]{2}",
                "(?i)pro",
                "a.b",
                "^(?!pro)",
                "é",
            ]
            .map(Value::from),
        )
    } else if word.ends_with("_multi") {
        json!([rng.pick(&texts()), rng.pick(&texts())])
    } else if word.ends_with("between") {
        json!([0, rng.pick(&[json!(5), json!("100"), json!(5.5)])])
    } else if ["gt", "gte", "lt", "lte"].contains(&word) {
        rng.pick(&[numbers(), texts()].concat())
    } else if ["exact", "is_not"].contains(&word) {
        loop {
            let value = any_value(rng);
            if !value.is_null() {
                break value;
            }
        }
    } else {
        rng.pick(&texts())
    };
    let mut property =
        json!({"key": rng.pick(&KEYS), "type": kind, "value": value, "operator": word});
    if kind == "group" {
        property["group_type_index"] = json!(0);
    }
    property
}

fn any_group(rng: &mut Rng, id: i64, of_group: bool, variants: &[&str]) -> Value {
    let kind = if of_group { "group" } else { "person" };
    let mut properties: Vec<Value> =
        (0..rng.range(0..3)).map(|_| any_property(rng, kind)).collect();
    if !of_group && rng.chance(15) {
        let operator = rng.pick(&["in", "not_in", "exact"]);
        properties.push(json!({"key": "id", "type": "cohort", "value": rng.range(0..4) as i64 + 1, "operator": operator}));
    }
    // Depends only on earlier flags on persons, so that the SDKs see the same properties.
    if !of_group && id > 10 && rng.chance(15) {
        let below = rng.range(0..10) as i64 + 1;
        let value = rng.pick(&[json!(true), json!(false), json!("b")]);
        properties.push(json!({"key": below.to_string(), "type": "flag", "operator": "flag_evaluates_to", "value": value}));
    }
    let mut group = json!({"properties": properties});
    match rng.range(0..4) {
        0 => {}
        1 => group["rollout_percentage"] = json!(100),
        _ => {
            group["rollout_percentage"] =
                rng.pick(&[json!(0), json!(12.5), json!(33.33), json!(50), json!(99.9)])
        }
    }
    if !variants.is_empty() && rng.chance(30) {
        group["variant"] = json!(rng.pick(variants));
    }
    group
}

fn any_flag(rng: &mut Rng, id: i64) -> FlagDefinition {
    let of_group = id > 10 && rng.chance(15);
    let variants: &[&str] = if rng.chance(40) { &["a", "b", "c"] } else { &[] };
    let groups: Vec<Value> =
        (0..=rng.range(0..3)).map(|_| any_group(rng, id, of_group, variants)).collect();
    let mut filters = json!({"groups": groups, "early_exit": rng.chance(20)});
    if of_group {
        filters["aggregation_group_type_index"] = json!(0);
    }
    if !variants.is_empty() {
        let shares = rng.pick(&[[33.33, 33.33, 33.34], [0.0, 50.0, 50.0], [10.0, 0.0, 90.0]]);
        let variants: Vec<Value> = variants
            .iter()
            .zip(shares)
            .map(|(key, share)| json!({"key": key, "rollout_percentage": share}))
            .collect();
        filters["multivariate"] = json!({ "variants": variants });
    }
    if rng.chance(10) {
        filters["holdout"] = json!({"id": 3, "exclusion_percentage": rng.pick(&[0, 20, 100])});
    }
    let mut definition = flag(id, &format!("flag-{id}"), filters);
    definition.active = rng.chance(90);
    if !of_group && rng.chance(10) {
        definition.bucketing_identifier = Some(BucketingIdentifier::DeviceId);
    }
    definition
}

/// Retries until the filters are valid, as only valid ones can be stored.
fn any_stored_flag(rng: &mut Rng, id: i64) -> FlagDefinition {
    loop {
        let mut definition = any_flag(rng, id);
        let purpose = Purpose { stored: None, remote_configuration: false };
        if let Ok(filters) = prepare(definition.filters.clone(), purpose) {
            definition.filters = filters;
            return definition;
        }
    }
}

fn any_cohorts(rng: &mut Rng) -> Vec<CohortDefinition> {
    let mut cohorts = vec![CohortDefinition { id: CohortId(1), kind: CohortKind::Static }];
    for id in 2..=4 {
        let leaf = |rng: &mut Rng| {
            let mut leaf = any_property(rng, "person");
            leaf["negation"] = json!(rng.chance(20));
            leaf
        };
        let (one, other) = (leaf(rng), leaf(rng));
        let mut values = vec![json!({"type": "AND", "values": [one, other]})];
        if id == 4 {
            values.push(json!({"type": "AND", "values": [
                {"type": "cohort", "key": "id", "value": 3, "negation": rng.chance(50)}]}));
        }
        let tree = json!({"type": rng.pick(&["AND", "OR"]), "values": values});
        cohorts.push(CohortDefinition { id: CohortId(id), kind: CohortKind::Dynamic(tree) });
    }
    cohorts
}

/// Flags, and the contexts that they are evaluated in.
pub struct Scenario {
    pub set: FlagSet,
    /// Definitions as SDKs fetch them.
    pub definitions: Value,
    pub cases: Vec<Value>,
    /// The flags without the probes.
    pub local: Vec<FlagDefinition>,
}

pub fn any_scenario(rng: &mut Rng) -> Scenario {
    let cohorts = any_cohorts(rng);
    let mut flags: Vec<FlagDefinition> = (1..=FLAGS).map(|id| any_stored_flag(rng, id)).collect();
    let trees: Map<String, Value> = cohorts
        .iter()
        .filter_map(|cohort| match &cohort.kind {
            CohortKind::Dynamic(tree) => Some((cohort.id.to_string(), tree.clone())),
            CohortKind::Static => None,
        })
        .collect();
    flags.extend(probes(&flags, &trees));
    let set = with_cohorts(&flags, cohorts);
    let local: Vec<FlagDefinition> =
        flags.iter().map(|flag| set.for_local_evaluation(flag)).collect();
    let definitions = json!({"flags": local, "cohorts": trees,
        "group_type_mapping": {"0": "company"}, "property_matching_version": 1});
    let held = |rng: &mut Rng| -> Map<String, Value> {
        KEYS.iter().map(|key| ((*key).to_owned(), any_value(rng))).collect()
    };
    let cases = (0..CASES)
        .map(|n| {
            let in_group = rng.chance(60);
            json!({
                "distinct_id": format!("user-{n}-{}", rng.range(0..1_000_000)),
                "device_id": rng.chance(50).then(|| format!("device-{}", rng.range(0..1_000))),
                "person_properties": held(rng),
                "groups": if in_group { json!({"company": "acme"}) } else { json!({}) },
                "group_properties": if in_group { json!({"company": held(rng)}) } else { json!({}) },
            })
        })
        .collect();
    let local = local.into_iter().filter(|flag| !flag.key.starts_with(PROBE)).collect();
    Scenario { set, definitions, cases, local }
}

/// Keys of probes: flags with a single property filter of a flag or of a cohort.
pub fn probe_of_flag(key: &str, group: usize, property: usize) -> String {
    format!("{PROBE}{key}-{group}-{property}")
}

pub fn probe_of_cohort(cohort: &str, leaf: usize) -> String {
    format!("{PROBE}cohort-{cohort}-{leaf}")
}

/// Key prefix of probes.
pub const PROBE: &str = "probe-";

/// A flag whose result tells how an SDK evaluates one property.
fn probe(id: i64, key: String, property: &Value) -> FlagDefinition {
    let of_group = (property["type"] == "group").then_some(0);
    let condition = json!({"properties": [property], "aggregation_group_type_index": of_group});
    flag(id, &key, json!({"groups": [condition], "aggregation_group_type_index": of_group}))
}

fn probes(definitions: &[FlagDefinition], cohorts: &Map<String, Value>) -> Vec<FlagDefinition> {
    let mut probes = Vec::new();
    let mut add = |key: String, property: &Value| {
        probes.push(probe(FLAGS + 1 + probes.len() as i64, key, property));
    };
    for definition in definitions {
        for (at, group) in groups(&definition.filters).iter().enumerate() {
            for (nth, property) in group["properties"].as_array().unwrap().iter().enumerate() {
                add(probe_of_flag(&definition.key, at, nth), property);
            }
        }
    }
    for (cohort, tree) in cohorts {
        for (nth, leaf) in leaves(tree).into_iter().enumerate() {
            add(probe_of_cohort(cohort, nth), leaf);
        }
    }
    probes
}

/// The leaf conditions of a cohort, in order.
pub fn leaves(tree: &Value) -> Vec<&Value> {
    match tree["values"].as_array() {
        Some(values) => values.iter().flat_map(leaves).collect(),
        None => vec![tree],
    }
}
