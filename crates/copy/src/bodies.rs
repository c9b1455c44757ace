//! The request that creates an object here, from the object as the source's API shows it.

use serde_json::{Map, Value, json};

use crate::kind::Kind;

/// What the API shows instead of a payload that this key may not read.
const REDACTED_PAYLOAD: &str = "********* (encrypted)";

/// The fields that are taken over, by kind. What is not listed is computed by the server, belongs to
/// users, or refers to what does not exist here.
const fn fields(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Cohort => &["name", "description", "is_static", "filters", "groups"],
        Kind::Action => &[
            "name",
            "description",
            "tags",
            "steps",
            "post_to_slack",
            "slack_message_format",
            "pinned_at",
        ],
        Kind::Dashboard => &[
            "name",
            "description",
            "pinned",
            "tags",
            "restriction_level",
            "filters",
            "variables",
            "breakdown_colors",
        ],
        Kind::Insight => &[
            "name",
            "derived_name",
            "description",
            "query",
            "filters",
            "tags",
            "saved",
            "favorited",
            "dashboards",
        ],
        Kind::Flag => &[
            "key",
            "name",
            "filters",
            "active",
            "archived",
            "created_at",
            "ensure_experience_continuity",
            "tags",
            "evaluation_contexts",
            "analytics_dashboards",
            "has_enriched_analytics",
            "is_remote_configuration",
            "has_encrypted_payloads",
            "evaluation_runtime",
            "bucketing_identifier",
        ],
        Kind::Annotation => {
            &["content", "date_marker", "creation_type", "scope", "dashboard_item", "dashboard_id"]
        }
        Kind::EventDefinition => &[
            "name",
            "description",
            "tags",
            "verified",
            "hidden",
            "default_columns",
            "primary_property",
            "enforcement_mode",
        ],
        Kind::PropertyDefinition => &["description", "tags", "verified", "hidden", "property_type"],
        Kind::GroupType => &["name_singular", "name_plural"],
        Kind::Setting | Kind::ShortId | Kind::Tile | Kind::Members => &[],
    }
}

/// What is read of an object besides the fields that are taken over.
const READ: [&str; 6] =
    ["id", "short_id", "group_type", "group_type_index", "evaluation_tags", "name"];

pub fn is_read(kind: Kind, name: &str) -> bool {
    fields(kind).contains(&name) || READ.contains(&name)
}

/// The settings of a project that are taken over. The others switch on what does not exist here,
/// say who may enter, or belong to the project itself.
pub const SETTINGS: [&str; 18] = [
    "timezone",
    "week_start_day",
    "anonymize_ips",
    "app_urls",
    "test_account_filters",
    "test_account_filters_default_checked",
    "path_cleaning_filters",
    "person_display_name_properties",
    "data_attributes",
    "correlation_config",
    "autocapture_opt_out",
    "heatmaps_opt_in",
    "person_processing_opt_out",
    "drop_events_older_than_seconds",
    "live_events_columns",
    "flags_persistence_default",
    "base_currency",
    "primary_dashboard",
];

/// The body of the request, with the source's ids. An error is the reason why the object cannot be
/// taken.
pub fn body(kind: Kind, object: &Value) -> Result<Map<String, Value>, String> {
    let mut body = Map::new();
    for name in fields(kind) {
        // Null is the default of every field.
        if let Some(value) = object.get(*name).filter(|value| !value.is_null()) {
            body.insert((*name).into(), value.clone());
        }
    }
    match kind {
        Kind::Cohort => prepare_cohort(&mut body),
        Kind::Insight => prepare_insight(&mut body)?,
        Kind::Flag => prepare_flag(&mut body, object)?,
        _ => {}
    }
    Ok(body)
}

/// The body as a change: the server keeps the filters of a flag that a request does not name.
pub fn replacing(kind: Kind, mut body: Map<String, Value>) -> Map<String, Value> {
    if let (Kind::Flag, Some(Value::Object(filters))) = (kind, body.get_mut("filters")) {
        for name in ["multivariate", "holdout", "feature_enrollment", "early_exit"] {
            filters.entry(name).or_insert(Value::Null);
        }
        filters.entry("payloads").or_insert_with(|| json!({}));
    }
    body
}

fn is_true(fields: &Map<String, Value>, name: &str) -> bool {
    fields.get(name).and_then(Value::as_bool) == Some(true)
}

/// The members of a static cohort are copied apart. Old cohorts have `groups` instead of filters.
fn prepare_cohort(body: &mut Map<String, Value>) {
    let has_groups =
        body.get("groups").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let has_filters = body.get("filters").and_then(|filters| filters.get("properties"));
    let has_filters =
        has_filters.is_some_and(|tree| tree.as_object().is_some_and(|t| !t.is_empty()));
    let is_static = is_true(body, "is_static");
    if is_static || !has_filters {
        body.remove("filters");
    }
    if is_static || has_filters || !has_groups {
        body.remove("groups");
    }
}

/// An insight has one query: a new one, or legacy filters.
fn prepare_insight(body: &mut Map<String, Value>) -> Result<(), String> {
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if body.get("filters").is_some_and(is_empty) || body.contains_key("query") {
        body.remove("filters");
    }
    match body.contains_key("query") || body.contains_key("filters") {
        true => Ok(()),
        false => Err("it has neither a query nor filters".into()),
    }
}

fn prepare_flag(body: &mut Map<String, Value>, object: &Value) -> Result<(), String> {
    // The older name.
    if let (None, Some(tags)) = (body.get("evaluation_contexts"), object.get("evaluation_tags"))
        && !tags.is_null()
    {
        body.insert("evaluation_contexts".into(), tags.clone());
    }
    let Some(Value::Object(filters)) = body.get_mut("filters") else { return Ok(()) };
    let payloads = filters.get("payloads").and_then(Value::as_object);
    if payloads.is_some_and(|payloads| payloads.values().any(|value| value == REDACTED_PAYLOAD)) {
        return Err("its payloads are encrypted, and this key may not read them".into());
    }
    if let Some(enrollment) = filters.remove("super_groups").filter(|value| !is_blank(value)) {
        let key = object.get("key").and_then(Value::as_str).unwrap_or_default();
        if !is_enrollment(&enrollment, key) {
            return Err("its super_groups are no early access enrollment".into());
        }
        filters.insert("feature_enrollment".into(), true.into());
    }
    let holdouts = filters.remove("holdout_groups").filter(|value| !is_blank(value));
    if let Some(holdouts) = holdouts
        && filters.get("holdout").is_none_or(Value::is_null)
    {
        let holdout = holdout(&holdouts).ok_or("its holdout_groups have no holdout")?;
        filters.insert("holdout".into(), holdout);
    }
    Ok(())
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// The one form that PostHog wrote: whoever enrolled, by the flag's own property. Today's is
/// `feature_enrollment`.
fn is_enrollment(groups: &Value, key: &str) -> bool {
    let [group] = groups.as_array().map_or(&[][..], Vec::as_slice) else { return false };
    let properties = group.get("properties").and_then(Value::as_array);
    let [property] = properties.map_or(&[][..], Vec::as_slice) else { return false };
    let everyone = group.get("rollout_percentage").and_then(Value::as_f64).unwrap_or(100.0);
    everyone >= 100.0 && property.get("key") == Some(&json!(format!("$feature_enrollment/{key}")))
}

/// `holdout_groups`, in today's form. The id is a part of what is hashed, so it stays.
fn holdout(groups: &Value) -> Option<Value> {
    let group = groups.as_array()?.first()?;
    let id: i64 = group.get("variant")?.as_str()?.strip_prefix("holdout-")?.parse().ok()?;
    Some(json!({ "id": id, "exclusion_percentage": group.get("rollout_percentage")? }))
}

/// What people call the object.
pub fn title(kind: Kind, object: &Value) -> String {
    let names: &[&str] = match kind {
        Kind::Flag => &["key"],
        Kind::Annotation => &["content"],
        Kind::GroupType => &["group_type"],
        _ => &["name", "derived_name"],
    };
    let mut named = names.iter().filter_map(|name| object.get(*name)?.as_str());
    named.find(|text| !text.is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_cohorts_have_no_filters_and_old_ones_keep_groups() {
        let tree = json!({"properties": {"type": "OR", "values": []}});
        for (object, expected) in [
            (
                json!({"name": "a", "is_static": true, "filters": {"properties": {}}, "groups": []}),
                json!({"name": "a", "is_static": true}),
            ),
            (
                json!({"name": "a", "filters": tree, "groups": [1]}),
                json!({"name": "a", "filters": tree}),
            ),
            (
                json!({"name": "a", "filters": null, "groups": [{"days": 1}]}),
                json!({"name": "a", "groups": [{"days": 1}]}),
            ),
        ] {
            assert_eq!(Value::Object(body(Kind::Cohort, &object).unwrap()), expected);
        }
    }

    #[test]
    fn insight_has_one_query() {
        let both =
            json!({"name": "a", "query": {"kind": "TrendsQuery"}, "filters": {"events": []}});
        let taken = body(Kind::Insight, &both).unwrap();
        assert!(taken.contains_key("query") && !taken.contains_key("filters"));
        let old = json!({"name": "a", "query": null, "filters": {"insight": "TRENDS"}});
        assert!(body(Kind::Insight, &old).unwrap().contains_key("filters"));
        assert!(body(Kind::Insight, &json!({"name": "a", "filters": {}})).is_err());
    }

    #[test]
    fn older_forms_of_flags_keep_their_meaning() {
        let filters = |sent: Value| -> Result<Value, String> {
            let object = json!({"key": "new", "filters": sent});
            Ok(body(Kind::Flag, &object)?.remove("filters").unwrap())
        };
        let enrollment = json!([{"properties": [{"key": "$feature_enrollment/new", "type": "person", "operator": "exact", "value": ["true"]}], "rollout_percentage": 100}]);
        let holdouts =
            json!([{"properties": [], "rollout_percentage": 10, "variant": "holdout-3"}]);
        for (sent, expected) in [
            (
                json!({"groups": [], "super_groups": enrollment}),
                json!({"groups": [], "feature_enrollment": true}),
            ),
            (json!({"groups": [], "super_groups": null}), json!({"groups": []})),
            (
                json!({"holdout_groups": holdouts}),
                json!({"holdout": {"id": 3, "exclusion_percentage": 10}}),
            ),
            (json!({"holdout_groups": []}), json!({})),
        ] {
            assert_eq!(filters(sent).unwrap(), expected);
        }
        for refused in [
            json!({"super_groups": [{"properties": [{"key": "email"}]}]}),
            json!({"holdout_groups": [{"variant": "other"}]}),
            json!({"payloads": {"true": REDACTED_PAYLOAD}}),
        ] {
            assert!(filters(refused.clone()).is_err(), "{refused}");
        }
    }
}
