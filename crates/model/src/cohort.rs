//! Cohorts: sets of persons, dynamic (a tree of filters) or static (a list).

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::property::{self, DEPTH_MAX, Dialect, FilterError, Node, Operator, PatternQuota};
use crate::{CohortId, ProjectId, Timestamp, User};

/// A cohort as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cohort {
    pub id: CohortId,
    pub name: Option<String>,
    pub description: String,
    /// Legacy form of `filters`; accepted on write and converted.
    #[schemars(with = "crate::json_shapes::EmptyList")]
    pub groups: Vec<Value>,
    #[schemars(with = "Option<crate::json_shapes::CohortFilters>")]
    pub filters: Option<Map<String, Value>>,
    #[schemars(schema_with = "crate::json_shapes::stored_query")]
    pub query: Option<Value>,
    /// The last calculated version.
    pub version: Option<i64>,
    pub pending_version: Option<i64>,
    pub is_calculating: bool,
    pub created_by: Option<User>,
    pub created_at: Timestamp,
    pub last_calculation: Option<Timestamp>,
    pub errors_calculating: i64,
    pub last_error_message: Option<String>,
    pub count: Option<i64>,
    pub is_static: bool,
    pub cohort_type: Option<CohortType>,
    pub experiment_set: Vec<i64>,
    pub deleted: bool,
    #[serde(skip)]
    pub team_id: ProjectId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CohortType {
    Static,
    PersonProperty,
    Behavioral,
}

/// Conditions in one cohort. Our bound.
const CONDITIONS_MAX: usize = 500;
/// Behavioral conditions in one cohort: each costs a scan of the events.
const BEHAVIORAL_FILTERS_MAX: usize = 20;

/// Validates and compiles the condition tree of filters that are about to be stored.
pub fn cohort_tree(filters: &Map<String, Value>) -> Result<Node, FilterError> {
    compiled(filters, PatternQuota::default())
}

/// Compiles stored filters. Pattern limits do not apply: an older release may have accepted more.
pub fn stored_cohort_tree(filters: &Map<String, Value>) -> Result<Node, FilterError> {
    compiled(filters, PatternQuota::unlimited())
}

fn compiled(filters: &Map<String, Value>, patterns: PatternQuota) -> Result<Node, FilterError> {
    let shape = FilterError::Shape;
    let tree = filters.get("properties").filter(|tree| tree.is_object());
    let tree = tree.ok_or(shape("Filters need an object of properties."))?;
    let mut tally = Tally { conditions: 0, patterns };
    check(tree, 0, &mut tally)?;
    match tally.conditions {
        0 => Err(shape("A cohort needs at least one condition.")),
        count if count > CONDITIONS_MAX => Err(shape("A cohort has too many conditions.")),
        _ => {
            let tree = Node::parse(tree, &Dialect::default())?;
            let mut behavioral_filters = Vec::new();
            tree.behavioral_filters(&mut behavioral_filters);
            match behavioral_filters.len() {
                0..=BEHAVIORAL_FILTERS_MAX => Ok(tree),
                _ => Err(shape("A cohort has at most 20 behavioral conditions.")),
            }
        }
    }
}

/// The `cohort_type` that stored filters imply.
pub fn cohort_type(is_static: bool, filters: Option<&Map<String, Value>>) -> CohortType {
    let tree = filters.and_then(|filters| filters.get("properties"));
    match is_static {
        true => CohortType::Static,
        false if tree.is_some_and(has_behavioral_filters) => CohortType::Behavioral,
        false => CohortType::PersonProperty,
    }
}

/// Walks the JSON instead of compiling it: lists of cohorts call this for each row.
fn has_behavioral_filters(tree: &Value) -> bool {
    let below = tree.get("values").and_then(Value::as_array);
    tree.get("type").is_some_and(|kind| kind == "behavioral")
        || below.is_some_and(|below| below.iter().any(has_behavioral_filters))
}

/// Totals over the tree, checked against the limits.
struct Tally {
    conditions: usize,
    patterns: PatternQuota,
}

/// Validates every node and adds it to the tally.
fn check(tree: &Value, depth: usize, tally: &mut Tally) -> Result<(), FilterError> {
    if depth > DEPTH_MAX {
        return Err(FilterError::Shape("Conditions are nested too deeply."));
    }
    let shape = |why| Err(FilterError::Shape(why));
    let Value::Object(fields) = tree else { return shape("A condition is an object.") };
    let kind = match fields.get("type") {
        None | Some(Value::Null) => "person",
        Some(Value::String(kind)) => kind,
        Some(_) => return shape("The type of a condition is a word."),
    };
    match kind {
        "AND" | "OR" => {
            let values = tree.get("values").and_then(Value::as_array);
            let values = values.ok_or(FilterError::Shape("AND and OR need a list of values."))?;
            values.iter().try_for_each(|value| check(value, depth + 1, tally))
        }
        // `Node::parse` validates these: their operators compare event counts.
        "behavioral" => {
            tally.conditions += 1;
            Ok(())
        }
        "person" | "cohort" | "precalculated-cohort" | "static-cohort" => {
            tally.conditions += 1;
            if !matches!(fields.get("negation"), None | Some(Value::Null | Value::Bool(_))) {
                return shape("The negation of a condition is true or false.");
            }
            let value = fields.get("value").unwrap_or(&Value::Null);
            let nested = |value: &Value| value.is_object() || value.is_array();
            if value.is_object() || value.as_array().is_some_and(|all| all.iter().any(nested)) {
                return shape("The value of a condition is a word, a number, or a list of them.");
            }
            let operator = match fields.get("operator").and_then(Value::as_str) {
                Some(word) => Operator::parse(word)?,
                None => Operator::Exact,
            };
            property::check(operator, value, &mut tally.patterns)
        }
        _ if fields.contains_key("values") => shape("Groups of conditions are AND or OR."),
        _ => shape("Conditions are of type person, cohort or behavioral."),
    }
}

/// Converts the legacy form `[{"properties": […]}, …]`: OR over groups, AND within one.
pub fn filters_from_groups(groups: &[Value]) -> Map<String, Value> {
    let all = |group: &Value| {
        let leaves = group.get("properties").and_then(Value::as_array).cloned().unwrap_or_default();
        json!({ "type": "AND", "values": leaves })
    };
    let any: Vec<Value> = groups.iter().map(all).collect();
    let mut filters = Map::new();
    filters.insert("properties".into(), json!({ "type": "OR", "values": any }));
    filters
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cohort_tree_accepts_only_filters_that_can_be_evaluated() {
        let leaf =
            json!({ "type": "person", "key": "email", "operator": "icontains", "value": "@x" });
        let did = json!({ "type": "behavioral", "key": "x", "value": "performed_event",
            "event_type": "events", "time_value": "30", "time_interval": "day" });
        let deep =
            (0..30).fold(leaf.clone(), |below, _| json!({ "type": "AND", "values": [below] }));
        for (tree, expected) in [
            (json!({ "type": "OR", "values": [{ "type": "AND", "values": [leaf] }] }), true),
            (
                json!({ "type": "OR", "values": [{ "type": "cohort", "key": "id", "value": 3 }] }),
                true,
            ),
            (json!({ "type": "OR", "values": [] }), false),
            (json!({ "type": "OR" }), false),
            (json!({ "type": "OR", "values": [{ "type": "behavioral", "key": "x" }] }), false),
            (json!({ "type": "OR", "values": [did] }), true),
            (json!({ "type": "OR", "values": vec![did.clone(); 21] }), false),
            (
                json!({ "type": "OR", "values": [{ "type": "person", "key": "x", "operator": "like" }] }),
                false,
            ),
            (
                json!({ "type": "OR", "values": [{ "key": "x", "operator": "regex", "value": "(" }] }),
                false,
            ),
            (
                json!({ "type": "OR", "values": [{ "type": "cohort", "key": "id", "value": "x" }] }),
                false,
            ),
            (json!({ "type": "AND", "values": vec![leaf.clone(); 501] }), false),
            (deep, false),
            (json!([]), false),
            (json!({ "type": "XOR", "values": [leaf] }), false),
            (json!({ "type": "OR", "values": [5] }), false),
            (
                json!({ "type": "OR", "values": [{ "type": "planet", "key": "x", "value": 1 }] }),
                false,
            ),
            (json!({ "type": "OR", "values": [{ "type": 5, "key": "x", "value": 1 }] }), false),
            (
                json!({ "type": "OR", "values": [{ "key": "x", "value": 1, "negation": "x" }] }),
                false,
            ),
            (json!({ "type": "OR", "values": [{ "key": "x", "value": { "a": 1 } }] }), false),
            (json!({ "type": "OR", "values": [{ "key": "x", "value": [[1]] }] }), false),
        ] {
            let filters = json!({ "properties": tree });
            let found = cohort_tree(filters.as_object().unwrap());
            assert_eq!(found.is_ok(), expected, "{filters}: {found:?}");
        }
        assert!(cohort_tree(&Map::new()).is_err());
        let old = filters_from_groups(&[json!({ "properties": [leaf] })]);
        assert!(cohort_tree(&old).is_ok());
        assert!(cohort_tree(&filters_from_groups(&[])).is_err());
    }
}
