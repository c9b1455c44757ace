use std::collections::{BTreeSet, HashSet};

use super::*;

/// Places of the document whose JSON is really open. The types of the web interface are generated from
/// the document, so every other place has a schema.
const OPEN: &[&str] = &[
    // Properties of events, persons and groups.
    "CaptureBody.properties",
    "CaptureV1Event.options",
    "CaptureV1Event.properties",
    "CapturedEvent.properties",
    "Event.properties",
    "EventPerson.properties",
    "FlagsRequest.group_properties{}",
    "FlagsRequest.person_properties",
    "Group.group_properties",
    "GroupActor.properties",
    "InsightVariable.default_value",
    "InsightVariableFields.default_value",
    "MergePreview.properties",
    "NewGroup.group_properties",
    "Person.properties",
    "PersonItem.properties",
    "Properties.properties",
    "TimelineEvent.properties",
    // One such value: in an edit, in a step of an explanation, in the log of changes.
    "Change.after",
    "Change.before",
    "EvaluationStep.found",
    "NewValue.value",
    "PropertyConflict.dropped",
    "PropertyConflict.kept",
    "TestedEvaluation.payload",
    "TestedEvaluation.person_properties",
    "TestedProperty.actual_value",
    "TestedProperty.value",
    "NewValue2.value",
    // Payloads of flags.
    "FlagFilters.payloads",
    "GET /api/projects/{project_id}/feature_flags/{id}/remote_config 200",
    // Cells of rows, and values that statements take.
    "HogQLQuery.values",
    "QueryResults[][]",
    "QueryVariable.value",
    "Selected.results[][]",
    // Stored for clients without being read, or as they sent it in a legacy form.
    "Dashboard.breakdown_colors[]",
    "Dashboard.quick_filter_ids[]",
    "DashboardTemplate2.tiles[]",
    "DashboardTemplate2.variables[]",
    "DashboardFields.breakdown_colors[]",
    "DashboardFields.quick_filter_ids[]",
    "FeatureFlagFields.rollback_conditions",
    "FeatureFlagUsage.rollback_conditions",
    "FeatureFlagWithAccess.rollback_conditions",
    "FeatureFlagWithCohort.rollback_conditions",
    "Insight.filters",
    "TrendingInsight.filters",
    "Me.events_column_config",
    "Me.has_seen_product_intro_for",
    "Me.hedgehog_config",
    "Me.notification_settings",
    "Project.correlation_config",
    "Project.extra_settings",
    "Project.has_completed_onboarding_for",
    "Project.modifiers",
    "Project.test_account_filters[]",
    "ProjectItem.has_completed_onboarding_for",
    "ProjectSettingsChange.correlation_config",
    "ProjectSettingsChange.extra_settings",
    "ProjectSettingsChange.has_completed_onboarding_for",
    "ProjectSettingsChange.modifiers",
    "ProjectSettingsChange.test_account_filters[]",
    "TemplateVariable.default",
    "User.hedgehog_config",
    "UserSettingsChange.events_column_config",
    "UserSettingsChange.has_seen_product_intro_for",
    "UserSettingsChange.hedgehog_config",
    "UserSettingsChange.notification_settings",
    // Ids of any type: those that are no numbers are reported.
    "KeysFields.ids[]",
    // This document.
    "GET /api/schema 200",
];

#[test]
fn operation_ids_are_unique() {
    let schema = schema();
    let paths = schema["paths"].as_object().unwrap();
    let operations = paths.values().flat_map(|path| path.as_object().unwrap().values());
    let names: Vec<&str> =
        operations.map(|operation| operation["operationId"].as_str().unwrap()).collect();
    assert!(!names.is_empty());
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "{names:?}");
}

#[test]
fn schema_is_open_only_where_the_json_is() {
    let schema = schema();
    let mut found = BTreeSet::new();
    for (name, schema) in schema["components"]["schemas"].as_object().unwrap() {
        open_places(schema, name, &mut found);
    }
    for (path, methods) in schema["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let at = format!("{} {path}", method.to_uppercase());
            for parameter in operation["parameters"].as_array().unwrap() {
                let name = parameter["name"].as_str().unwrap();
                open_places(&parameter["schema"], &format!("{at}?{name}"), &mut found);
            }
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            if !body.is_null() {
                open_places(body, &format!("{at} body"), &mut found);
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                let media = response["content"].as_object().into_iter().flatten();
                for schema in media.filter_map(|(_, content)| content.get("schema")) {
                    open_places(schema, &format!("{at} {status}"), &mut found);
                }
            }
        }
    }
    let allowed: BTreeSet<String> = OPEN.iter().map(|place| (*place).to_owned()).collect();
    let appeared: Vec<_> = found.difference(&allowed).collect();
    assert!(appeared.is_empty(), "places without a schema: {appeared:#?}");
    let gone: Vec<_> = allowed.difference(&found).collect();
    assert!(gone.is_empty(), "these have a schema now, and leave the list: {gone:#?}");
}

/// Adds the places below `schema` that accept any value, any object or any list.
fn open_places(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    const DESCRIBING: [&str; 11] = [
        "type",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "enum",
        "const",
        "properties",
        "items",
        "prefixItems",
        "patternProperties",
    ];
    let Value::Object(fields) = schema else {
        if *schema == Value::Bool(true) {
            found.insert(at.to_owned());
        }
        return;
    };
    let further = fields.get("additionalProperties").filter(|further| further.is_object());
    if further.is_none() && !DESCRIBING.iter().any(|word| fields.contains_key(*word)) {
        found.insert(at.to_owned());
        return;
    }
    let is = |wanted: &str| match &fields.get("type") {
        Some(Value::String(word)) => word == wanted,
        Some(Value::Array(words)) => words.iter().any(|word| word == wanted),
        _ => false,
    };
    let has = |words: &[&str]| words.iter().any(|word| fields.contains_key(*word));
    let composed = has(&["$ref", "anyOf", "oneOf", "allOf"]);
    let is_empty = |limit: &str| fields.get(limit).is_some_and(|most| *most == 0);
    let any_object = is("object")
        && !composed
        && !has(&["properties"])
        && further.is_none()
        && !is_empty("maxProperties");
    let any_list = is("array") && !has(&["items", "prefixItems"]) && !is_empty("maxItems");
    if any_object || any_list || fields.get("additionalProperties") == Some(&Value::Bool(true)) {
        found.insert(at.to_owned());
    }
    for (name, property) in
        fields.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        open_places(property, &format!("{at}.{name}"), found);
    }
    if let Some(further) = further {
        open_places(further, &format!("{at}{{}}"), found);
    }
    if let Some(items) = fields.get("items") {
        open_places(items, &format!("{at}[]"), found);
    }
    for word in ["anyOf", "oneOf", "allOf", "prefixItems"] {
        for part in fields.get(word).and_then(Value::as_array).into_iter().flatten() {
            open_places(part, at, found);
        }
    }
}

#[test]
fn references_of_the_schema_resolve() {
    fn check(value: &Value, known: &serde_json::Map<String, Value>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(target)) = fields.get("$ref") {
                    let name = target.strip_prefix("#/components/schemas/");
                    assert!(name.is_some_and(|name| known.contains_key(name)), "{target}");
                }
                fields.values().for_each(|value| check(value, known));
            }
            Value::Array(items) => items.iter().for_each(|value| check(value, known)),
            _ => {}
        }
    }
    let schema = schema();
    check(&schema, schema["components"]["schemas"].as_object().unwrap());
}

#[tokio::test]
async fn panic_becomes_a_500_without_its_message() {
    let broken = async || -> Response { panic!("a secret") };
    let router: Router = Router::new().fallback(broken);
    let router = router.layer(CatchPanicLayer::custom(cors::panicked));
    let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
    assert_eq!(response.status(), 500);
    let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert!(body.contains("server_error") && !body.contains("secret"), "{body}");
}
