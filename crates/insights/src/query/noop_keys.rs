//! No-op keys: keys of a query that cannot change its result. They are stripped before the query is
//! parsed strictly, so that every remaining unknown key could change the result and is rejected.
//!
//! PostHog's clients send whole objects: null keys, keys at the default that PostHog's query schema
//! documents (`frontend/src/queries/schema/schema-general.ts`), and display options.

use serde_json::{Map, Value as Json};

use DisplayOption::{
    Customizations, Flag, GoalLines, Lifecycles, Number, Numbers, Text, Texts, Unlisted, Word,
};

/// Object name, in the tables below, of series nodes, retention entities and breakdowns.
const NODE: &str = "node";
const ENTITIES: &[&str] = &["targetEntity", "returningEntity"];
const NODE_LISTS: &[&str] = &["series", "nodes", "exclusions", "breakdowns"];

/// Objects with user-defined keys: null may be a value.
const OPAQUE: &[&str] = &["properties", "fixedProperties", "values", "variables"];

/// Display options, by the object that has them. The server stores them for clients.
pub(crate) const DISPLAY_ONLY: &[(&str, &[(&str, DisplayOption)])] = &[
    (
        NODE,
        &[
            ("response", Unlisted),
            ("version", Unlisted),
            ("limit", Unlisted),
            ("orderBy", Unlisted),
            ("uuid", Unlisted),
            ("order", Unlisted),
        ],
    ),
    (
        "trendsFilter",
        &[
            (
                "aggregationAxisFormat",
                Word(&[
                    "numeric",
                    "duration",
                    "duration_ms",
                    "percentage",
                    "percentage_scaled",
                    "currency",
                    "short",
                ]),
            ),
            ("aggregationAxisPostfix", Text),
            ("aggregationAxisPrefix", Text),
            ("confidenceLevel", Number),
            ("decimalPlaces", Number),
            ("detailedResultsAggregationType", Word(&["total", "average", "median"])),
            ("excludeBoxPlotOutliers", Flag),
            ("goalLines", GoalLines),
            ("hiddenLegendIndexes", Numbers),
            ("hidden_legend_indexes", Numbers),
            ("hideWeekends", Flag),
            ("legendPosition", Text),
            ("metricChangeDecreaseColor", Text),
            ("metricChangeIncreaseColor", Text),
            ("metricColorByDirection", Flag),
            ("metricLineDecreaseColor", Text),
            ("metricLineIncreaseColor", Text),
            ("metricShowChange", Flag),
            ("metricSummary", Text),
            ("minDecimalPlaces", Number),
            ("movingAverageIntervals", Number),
            ("resultCustomizationBy", Word(&["value", "position"])),
            ("resultCustomizations", Customizations),
            ("showAlertThresholdLines", Flag),
            ("showAnnotations", Flag),
            ("showConfidenceIntervals", Flag),
            ("showLabelsOnSeries", Flag),
            ("showLegend", Flag),
            ("showMovingAverage", Flag),
            ("showMultipleYAxes", Flag),
            ("showPercentStackView", Flag),
            ("showTrendLines", Flag),
            ("showValuesOnSeries", Flag),
            ("stackBreakdownValues", Flag),
            ("xAxisLabel", Text),
            ("yAxisLabel", Text),
            ("yAxisScaleType", Word(&["linear", "log10"])),
        ],
    ),
    (
        "funnelsFilter",
        &[
            ("breakdownSorting", Text),
            ("funnelStepReference", Word(&["total", "previous"])),
            ("goalLines", GoalLines),
            ("hiddenLegendBreakdowns", Texts),
            ("layout", Word(&["horizontal", "vertical"])),
            ("legendPosition", Text),
            ("resultCustomizations", Customizations),
            ("showAnnotations", Flag),
            ("showLegend", Flag),
            ("showTrendLines", Flag),
            ("showValuesOnSeries", Flag),
            // Selects PostHog's implementation, not the result.
            ("useUdf", Flag),
        ],
    ),
    (
        "retentionFilter",
        &[
            ("cohortLabelStartIndex", Number),
            ("dashboardDisplay", Word(&["table_only", "graph_only", "all"])),
            ("display", Text),
            ("goalLines", GoalLines),
            ("meanRetentionCalculation", Word(&["simple", "weighted", "none"])),
            ("retentionReference", Word(&["total", "previous"])),
            ("selectedInterval", Number),
            ("showMean", Flag),
            ("showTrendLines", Flag),
        ],
    ),
    (
        "lifecycleFilter",
        &[
            ("legendPosition", Text),
            ("showLegend", Flag),
            ("showPercentagesOnSeries", Flag),
            ("showValuesOnSeries", Flag),
            ("stacked", Flag),
            ("toggledLifecycles", Lifecycles),
        ],
    ),
    (
        "stickinessFilter",
        &[
            ("display", Text),
            ("hiddenLegendIndexes", Numbers),
            ("legendPosition", Text),
            ("resultCustomizationBy", Word(&["value", "position"])),
            ("resultCustomizations", Customizations),
            ("showLegend", Flag),
            ("showMultipleYAxes", Flag),
            ("showValuesOnSeries", Flag),
        ],
    ),
    ("pathsFilter", &[("showSidebar", Flag)]),
];

/// The shape of a display option, as the API documents it. It is not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DisplayOption {
    Flag,
    Number,
    Numbers,
    Text,
    Texts,
    Word(&'static [&'static str]),
    GoalLines,
    Lifecycles,
    /// By series or breakdown value.
    Customizations,
    /// Accepted, but not documented.
    Unlisted,
}

/// Unsupported keys: object, key, and the default at which PostHog behaves as if the key were absent.
/// An object is compared after its own no-op keys are stripped.
pub(crate) const DEFAULTS: &[(&str, &str, &str)] = &[
    ("HogQLQuery", "sendRawQuery", "false"),
    ("EventsQuery", "actionSteps", "[]"),
    ("TrendsQuery", "calendarHeatmapFilter", "{}"),
    ("calendarHeatmapFilter", "bucketBySessionStart", "false"),
    ("trendsFilter", "compare", "false"),
    ("LifecycleQuery", "customAggregationTarget", "false"),
    ("stickinessFilter", "compare", "false"),
    ("funnelsFilter", "customAggregationTarget", "false"),
    ("retentionFilter", "customAggregationTarget", "false"),
];

/// Strips no-op keys from an object of a query, and recursively from the objects in it. `kind` is the
/// query's kind or the object's key.
pub fn strip_noop_keys(kind: &str, query: &mut Map<String, Json>) {
    for (key, value) in query.iter_mut().filter(|(key, _)| !OPAQUE.contains(&key.as_str())) {
        match value {
            Json::Object(fields) if ENTITIES.contains(&key.as_str()) => {
                strip_noop_keys(NODE, fields)
            }
            Json::Object(fields) => strip_noop_keys(key, fields),
            Json::Array(nodes) if NODE_LISTS.contains(&key.as_str()) => {
                nodes.iter_mut().filter_map(Json::as_object_mut).for_each(|fields| {
                    strip_noop_keys(NODE, fields);
                });
            }
            _ => {}
        }
    }
    query.retain(|key, value| !is_noop(kind, key, value));
}

fn is_noop(object: &str, key: &str, value: &Json) -> bool {
    let mut options = DISPLAY_ONLY.iter().filter(|(name, _)| *name == object);
    value.is_null()
        || options.any(|(_, options)| options.iter().any(|(name, _)| *name == key))
        || DEFAULTS.iter().any(|(name, known, default)| {
            *name == object && *known == key && is_default(value, default)
        })
}

/// Numbers compare by value: 1 equals 1.0.
fn is_default(value: &Json, default: &str) -> bool {
    let Ok(default) = serde_json::from_str::<Json>(default) else { return false };
    value == &default || value.as_f64().zip(default.as_f64()).is_some_and(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Insight;

    /// A minimal query of a kind that has the object.
    fn minimal_query(object: &str) -> Json {
        let kind = match object {
            "trendsFilter" | "calendarHeatmapFilter" => "TrendsQuery",
            "funnelsFilter" | "compareFilter" => "FunnelsQuery",
            "retentionFilter" => "RetentionQuery",
            "stickinessFilter" => "StickinessQuery",
            "lifecycleFilter" => "LifecycleQuery",
            "pathsFilter" => "PathsQuery",
            NODE => "TrendsQuery",
            kind => kind,
        };
        let mut query = json!({ "kind": kind });
        if !matches!(kind, "RetentionQuery" | "PathsQuery") {
            query["series"] = json!([{ "kind": "EventsNode" }, { "kind": "EventsNode" }]);
        }
        query
    }

    fn read(object: &str, key: &str, value: Json) -> crate::Result<Insight> {
        let mut query = minimal_query(object);
        match object {
            NODE => query["series"][0][key] = value,
            kind if kind.ends_with("Query") => query[key] = value,
            filter => query[filter] = json!({ key: value }),
        }
        let kind = query["kind"].as_str().unwrap().to_owned();
        Insight::parse(&kind, &query).unwrap()
    }

    #[test]
    fn unsupported_keys_are_accepted_at_their_defaults_and_rejected_otherwise() {
        let own = |object: &str| !["HogQLQuery", "EventsQuery"].contains(&object);
        for (object, key, default) in DEFAULTS.iter().filter(|entry| own(entry.0)) {
            let default: Json = serde_json::from_str(default).unwrap();
            for value in [default, Json::Null] {
                let taken = read(object, key, value.clone());
                assert!(taken.is_ok(), "{object}.{key} {value}: {taken:?}");
            }
            for other in [json!("frobnicate"), json!([7]), json!({ "frobnicate": 7 })] {
                let refused = read(object, key, other.clone());
                assert!(refused.is_err(), "{object}.{key} {other} changes the answer");
            }
        }
        assert!(read("calendarHeatmapFilter", "bucketBySessionStart", json!(true)).is_err());
    }

    #[test]
    fn display_options_are_accepted_with_any_value_and_unknown_keys_only_as_null() {
        for (object, keys) in DISPLAY_ONLY {
            for (key, _) in *keys {
                let taken = read(object, key, json!("anything"));
                assert!(taken.is_ok(), "{object}.{key}: {taken:?}");
            }
            assert!(read(object, "frobnicate", Json::Null).is_ok(), "{object}");
            assert!(read(object, "frobnicate", json!(false)).is_err(), "{object}");
        }
    }

    #[test]
    fn user_defined_objects_keep_their_nulls() {
        let mut query = json!({
            "values": { "name": null }, "variables": { "a": null }, "connectionId": null,
            "filters": { "properties": [{ "value": null }], "dateRange": null },
        });
        strip_noop_keys("HogQLQuery", query.as_object_mut().unwrap());
        let kept = json!({
            "values": { "name": null }, "variables": { "a": null },
            "filters": { "properties": [{ "value": null }] },
        });
        assert_eq!(query, kept);
    }
}
