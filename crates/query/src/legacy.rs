//! Converts an insight's legacy `filters` to the equivalent query.

use facts::Filters;
use model::FieldError;
use serde_json::{Map, Value as Json, json};

use crate::parse::check;

/// The insight that a legacy endpoint computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyInsightKind {
    Trend,
    Funnel,
    Retention,
    Paths,
}

type Fields = Map<String, Json>;

/// Values of the legacy key `insight`.
const INSIGHT_KINDS: [&str; 6] =
    ["TRENDS", "STICKINESS", "LIFECYCLE", "FUNNELS", "RETENTION", "PATHS"];

/// Legacy key, and its key in the query.
const TRENDS: &[(&str, &str)] = &[
    ("display", "display"),
    ("formula", "formula"),
    ("smoothing_intervals", "smoothingIntervals"),
];
const FUNNELS: &[(&str, &str)] = &[
    ("funnel_viz_type", "funnelVizType"),
    ("funnel_order_type", "funnelOrderType"),
    ("funnel_window_interval", "funnelWindowInterval"),
    ("funnel_window_interval_unit", "funnelWindowIntervalUnit"),
    ("bin_count", "binCount"),
    ("funnel_from_step", "funnelFromStep"),
    ("funnel_to_step", "funnelToStep"),
];
const RETENTION: &[(&str, &str)] = &[
    ("target_entity", "targetEntity"),
    ("returning_entity", "returningEntity"),
    ("period", "period"),
    ("total_intervals", "totalIntervals"),
    ("retention_type", "retentionType"),
];
const PATHS: &[(&str, &str)] = &[
    ("include_event_types", "includeEventTypes"),
    ("start_point", "startPoint"),
    ("end_point", "endPoint"),
    ("step_limit", "stepLimit"),
    ("edge_limit", "edgeLimit"),
];

/// Keys with the same name in both.
const SAME: &[(&str, &str)] = &[
    ("breakdown", "breakdown"),
    ("breakdown_type", "breakdown_type"),
    ("breakdowns", "breakdowns"),
    ("date_from", "date_from"),
    ("date_to", "date_to"),
    ("exclusions", "exclusions"),
    ("interval", "interval"),
];

fn refused(attr: &str, detail: String) -> FieldError {
    FieldError { attr: attr.into(), code: "invalid_input", detail }
}

fn picked(filters: &Fields, names: &[(&str, &str)]) -> Json {
    let fields = names.iter().filter_map(|(old, new)| {
        let value = filters.get(*old).filter(|value| !value.is_null())?;
        Some(((*new).to_owned(), value.clone()))
    });
    Json::Object(fields.collect())
}

/// The query of legacy filters; none when they are empty. `kind` is the kind of insight where the
/// filters name none.
pub fn convert_legacy_filters(
    filters: &Fields,
    kind: Option<LegacyInsightKind>,
) -> Result<Option<Json>, FieldError> {
    if filters.is_empty() && kind.is_none() {
        return Ok(None);
    }
    match filters.get("insight") {
        None | Some(Json::Null) => {}
        Some(Json::String(word)) if INSIGHT_KINDS.contains(&word.as_str()) => {}
        Some(other) => return Err(refused("insight", format!("{other} is not a kind."))),
    }
    let text = |name: &str| filters.get(name).and_then(Json::as_str);
    let shown_as = text("shown_as").unwrap_or_default();
    let kind_name = match (text("insight"), shown_as, kind) {
        (Some("STICKINESS"), ..) | (_, "Stickiness", _) => "StickinessQuery",
        (Some("LIFECYCLE"), ..) | (_, "Lifecycle", _) => "LifecycleQuery",
        (Some("FUNNELS"), ..) | (None, _, Some(LegacyInsightKind::Funnel)) => "FunnelsQuery",
        (Some("RETENTION"), ..) | (None, _, Some(LegacyInsightKind::Retention)) => "RetentionQuery",
        (Some("PATHS"), ..) | (None, _, Some(LegacyInsightKind::Paths)) => "PathsQuery",
        _ => "TrendsQuery",
    };
    let mut query = Fields::from_iter([("kind".to_owned(), json!(kind_name))]);
    let dates = picked(filters, &[("date_from", "date_from"), ("date_to", "date_to")]);
    query.insert("dateRange".into(), dates);
    query.insert("properties".into(), properties("properties", filters.get("properties"))?);
    if let Some(filter) = filters.get("filter_test_accounts").and_then(Json::as_bool) {
        query.insert("filterTestAccounts".into(), filter.into());
    }
    let mut set = |name: &str, value: Json| drop(query.insert(name.to_owned(), value));
    let has_series = !matches!(kind_name, "RetentionQuery" | "PathsQuery");
    if has_series {
        set("series", series(filters)?.into());
    }
    if has_series && let Some(interval) = text("interval") {
        set("interval", interval.into());
    }
    match kind_name {
        "TrendsQuery" => set("trendsFilter", picked(filters, TRENDS)),
        "FunnelsQuery" => {
            let mut funnel = picked(filters, FUNNELS);
            if let Some(excluded) = entities(filters, "exclusions")? {
                funnel["exclusions"] =
                    excluded.into_iter().map(exclusion).collect::<Result<_, _>>()?;
            }
            set("funnelsFilter", funnel);
        }
        "RetentionQuery" => set("retentionFilter", picked(filters, RETENTION)),
        "PathsQuery" => set("pathsFilter", picked(filters, PATHS)),
        _ => {}
    }
    if matches!(kind_name, "TrendsQuery" | "FunnelsQuery")
        && (filters.contains_key("breakdown") || filters.contains_key("breakdowns"))
    {
        let names = ["breakdown", "breakdown_type", "breakdowns"].map(|name| (name, name));
        set("breakdownFilter", picked(filters, &names));
    }
    if matches!(kind_name, "TrendsQuery" | "StickinessQuery")
        && filters.get("compare").and_then(Json::as_bool) == Some(true)
    {
        set("compareFilter", json!({ "compare": true }));
    }
    let query = Json::Object(query);
    check(&query).map_err(|why| blame_legacy_key(&why.to_string(), &query))?;
    Ok(Some(query))
}

/// Maps a parse error to the legacy key that caused it.
fn blame_legacy_key(why: &str, query: &Json) -> FieldError {
    let (path, detail) = why.split_once(": ").unwrap_or(("", why));
    let renamed = [TRENDS, FUNNELS, RETENTION, PATHS].into_iter().flatten();
    let renamed = renamed.chain(SAME.iter());
    let mut steps = path.split('.');
    let old = steps.find_map(|step| renamed.clone().find(|(_, new)| *new == step));
    let node = path.strip_prefix("series.").and_then(|rest| rest.split('.').next()?.parse().ok());
    let kind = node.and_then(|node: usize| query["series"][node]["kind"].as_str());
    match (old, kind) {
        (_, Some("ActionsNode")) => refused("actions", detail.to_owned()),
        (_, Some(_)) => refused("events", detail.to_owned()),
        (Some((old, _)), None) => refused(old, detail.to_owned()),
        (None, None) => refused("", why.to_owned()),
    }
}

/// A list of events, actions or exclusions; none where the key is missing.
fn entities<'f>(filters: &'f Fields, name: &str) -> Result<Option<Vec<&'f Fields>>, FieldError> {
    let no_list = || refused(name, "Expected a list of objects.".into());
    let all = match filters.get(name) {
        None | Some(Json::Null) => return Ok(None),
        Some(sent) => sent.as_array().ok_or_else(no_list)?,
    };
    all.iter()
        .map(|entity| entity.as_object().ok_or_else(no_list))
        .collect::<Result<_, _>>()
        .map(Some)
}

/// Events and actions, sorted by `order`.
fn series(filters: &Fields) -> Result<Vec<Json>, FieldError> {
    let mut entities_of: Vec<(&str, &Fields)> = Vec::new();
    for name in ["events", "actions"] {
        entities_of.extend(
            entities(filters, name)?.unwrap_or_default().into_iter().map(|entity| (name, entity)),
        );
    }
    entities_of.sort_by_key(|(_, entity)| entity.get("order").and_then(Json::as_i64).unwrap_or(0));
    let node = |(attr, entity)| node(attr, attr == "actions", entity).map(Json::Object);
    let mut nodes = entities_of.into_iter().map(node).collect::<Result<Vec<Json>, FieldError>>()?;
    if nodes.is_empty() {
        nodes.push(json!({ "kind": "EventsNode", "event": "$pageview" }));
    }
    Ok(nodes)
}

/// A funnel exclusion: an event that must not happen between two steps.
fn exclusion(entity: &Fields) -> Result<Json, FieldError> {
    let is_action = entity.get("type").and_then(Json::as_str) == Some("actions");
    let mut node = node("exclusions", is_action, entity)?;
    for (old, new) in [("funnel_from_step", "funnelFromStep"), ("funnel_to_step", "funnelToStep")] {
        if let Some(step) = entity.get(old) {
            node.insert(new.into(), step.clone());
        }
    }
    Ok(Json::Object(node))
}

fn node(attr: &str, is_action: bool, entity: &Fields) -> Result<Fields, FieldError> {
    let names = ["name", "custom_name", "math", "math_property", "math_group_type_index"];
    let mut node = match picked(entity, &names.map(|name| (name, name))) {
        Json::Object(node) => node,
        _ => Fields::new(),
    };
    let id = entity.get("id").cloned().unwrap_or_default();
    if is_action {
        node.insert("kind".into(), "ActionsNode".into());
        let number = id.as_str().and_then(|text| text.parse::<i64>().ok());
        node.insert("id".into(), number.map_or(id, Json::from));
    } else {
        node.insert("kind".into(), "EventsNode".into());
        node.insert("event".into(), id);
    }
    if entity.contains_key("properties") {
        node.insert("properties".into(), properties(attr, entity.get("properties"))?);
    }
    Ok(node)
}

/// A list or a group unchanged; `{"key__operator": value}` converted to a list.
fn properties(attr: &str, filters: Option<&Json>) -> Result<Json, FieldError> {
    let read = match filters {
        Some(Json::Object(old)) if !old.contains_key("values") && !old.is_empty() => {
            key_operator_list(old)
        }
        other => other.cloned().unwrap_or(json!([])),
    };
    Filters::check(&read).map_err(|why| refused(attr, why.to_string()))?;
    Ok(read)
}

fn key_operator_list(old: &Fields) -> Json {
    let filter = |(name, value): (&String, &Json)| {
        let (key, operator) = name.rsplit_once("__").unwrap_or((name, "exact"));
        json!({ "key": key, "operator": operator, "value": value, "type": "event" })
    };
    old.iter().map(filter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_filters_convert_to_queries() {
        let filters = json!({
            "insight": "TRENDS",
            "events": [{ "id": "b", "order": 1 }, { "id": "a", "order": 0, "math": "dau" }],
            "actions": [{ "id": "7", "order": 2 }],
            "date_from": "-7d",
            "interval": "week",
            "properties": { "plan__icontains": "pro", "$browser": "Chrome" },
            "breakdown": "$os",
            "compare": true,
            "display": "BoldNumber",
        });
        let expected = json!({
            "kind": "TrendsQuery",
            "series": [
                { "kind": "EventsNode", "event": "a", "math": "dau" },
                { "kind": "EventsNode", "event": "b" },
                { "kind": "ActionsNode", "id": 7 },
            ],
            "dateRange": { "date_from": "-7d" },
            "interval": "week",
            "properties": [
                { "key": "$browser", "operator": "exact", "value": "Chrome", "type": "event" },
                { "key": "plan", "operator": "icontains", "value": "pro", "type": "event" },
            ],
            "breakdownFilter": { "breakdown": "$os" },
            "compareFilter": { "compare": true },
            "trendsFilter": { "display": "BoldNumber" },
        });
        let read =
            |filters: &Json, kind| convert_legacy_filters(filters.as_object().unwrap(), kind);
        assert_eq!(read(&filters, None).unwrap(), Some(expected));
        assert_eq!(convert_legacy_filters(&Fields::new(), None).unwrap(), None);
        for wrong in [
            json!({ "insight": "BOGUS" }),
            json!({ "insight": 5 }),
            json!({ "events": "zz" }),
            json!({ "actions": [5] }),
            json!({ "properties": 5 }),
            json!({ "events": [{ "id": "a", "properties": ["x"] }] }),
        ] {
            assert!(read(&wrong, Some(LegacyInsightKind::Trend)).is_err(), "{wrong}");
        }
        for (wrong, attr) in [
            (json!({ "interval": "fortnight" }), "interval"),
            (json!({ "display": 5 }), "display"),
            (json!({ "smoothing_intervals": "x" }), "smoothing_intervals"),
            (json!({ "date_from": 5 }), "date_from"),
            (json!({ "events": [{ "id": 5 }] }), "events"),
            (json!({ "actions": [{ "id": 5, "math": "odd" }] }), "actions"),
        ] {
            let refused = read(&wrong, Some(LegacyInsightKind::Trend)).unwrap_err();
            assert_eq!(refused.attr, attr, "{refused}");
        }
        let funnel = |excluded: Json| json!({ "events": [{ "id": "a" }, { "id": "b", "order": 1 }], "exclusions": excluded });
        let excluded = json!([{ "id": "7", "type": "actions", "funnel_to_step": 1 }]);
        let query = read(&funnel(excluded), Some(LegacyInsightKind::Funnel)).unwrap().unwrap();
        let excluded = json!([{ "kind": "ActionsNode", "id": 7, "funnelToStep": 1 }]);
        assert_eq!(query["funnelsFilter"], json!({ "exclusions": excluded }));
        for wrong in [json!("x"), json!([5]), json!([{ "id": "c", "funnel_to_step": "x" }])] {
            let refused = read(&funnel(wrong), Some(LegacyInsightKind::Funnel)).unwrap_err();
            assert_eq!(refused.attr, "exclusions", "{refused}");
        }
        let retention = json!({ "period": "Week" });
        let query = read(&retention, Some(LegacyInsightKind::Retention)).unwrap().unwrap();
        assert_eq!(query["kind"], "RetentionQuery");
        assert_eq!(query["retentionFilter"], json!({ "period": "Week" }));
    }
}
