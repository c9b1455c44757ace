//! The JSON shape of insight queries, as clients send them.

use schemars::JsonSchema;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value as Json};
use warehouse::GROUP_TYPES;

use crate::query::noop_keys::strip_noop_keys;
use crate::{Error, Interval, Result};

/// Keys that every query may have in addition to those of its kind.
const ALWAYS: &[&str] =
    &["kind", "version", "tags", "modifiers", "response", "name", "dataColorTheme"];

/// Keys of [`Base`].
const BASE: &[&str] = &[
    "dateRange",
    "properties",
    "filterTestAccounts",
    "samplingFactor",
    "aggregation_group_type_index",
];

/// The keys that all kinds of insight share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Base {
    #[serde(rename = "dateRange")]
    pub date_range: DateRange,
    /// A list of property filters, or a group of them.
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    pub properties: Json,
    #[serde(rename = "filterTestAccounts")]
    pub filter_test_accounts: bool,
    /// Accepted and ignored: results are exact.
    #[serde(rename = "samplingFactor")]
    pub sampling_factor: Option<f64>,
    /// Counts groups of this type instead of persons.
    pub aggregation_group_type_index: Option<usize>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DateRange {
    pub date_from: Option<String>,
    pub date_to: Option<String>,
    #[serde(rename = "explicitDate")]
    pub explicit_date: Option<bool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "SeriesKind")]
pub enum NodeKind {
    #[default]
    #[serde(rename = "EventsNode")]
    Events,
    #[serde(rename = "ActionsNode")]
    Actions,
    #[serde(rename = "GroupNode")]
    Group,
}

/// A series: which events it selects, and how they are counted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "SeriesNode")]
pub struct Node {
    pub kind: NodeKind,
    /// None for all events.
    pub event: Option<String>,
    /// Of an action.
    #[schemars(with = "Option<model::json_shapes::IdOrDigits>")]
    pub id: Option<Json>,
    pub name: Option<String>,
    pub custom_name: Option<String>,
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    pub properties: Json,
    #[serde(rename = "fixedProperties")]
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    pub fixed_properties: Json,
    pub nodes: Vec<Node>,
    pub operator: Option<String>,
    pub math: Math,
    pub math_property: Option<String>,
    pub math_property_type: MathPropertyType,
    pub math_hogql: Option<String>,
    pub math_group_type_index: Option<usize>,
    pub math_multiplier: Option<f64>,
    /// Only for exclusions of funnels.
    #[serde(rename = "funnelFromStep")]
    pub funnel_from_step: Option<i64>,
    #[serde(rename = "funnelToStep")]
    pub funnel_to_step: Option<i64>,
    #[serde(rename = "optionalInFunnel")]
    pub optional_in_funnel: bool,
}

impl Node {
    /// Whether both select the same events, whatever they are called.
    pub fn selects_as(&self, other: &Self) -> bool {
        let unnamed = |node: &Self| Self { name: None, custom_name: None, ..node.clone() };
        unnamed(self) == unnamed(other)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum MathPropertyType {
    #[default]
    // The second name is that of PostHog's picker.
    #[serde(rename = "event_properties", alias = "numerical_event_properties")]
    Event,
    #[serde(rename = "person_properties")]
    Person,
    #[serde(rename = "session_properties")]
    Session,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Math {
    #[default]
    Total,
    Dau,
    WeeklyActive,
    MonthlyActive,
    UniqueSession,
    UniqueGroup,
    FirstTimeForUser,
    FirstMatchingEventForUser,
    Sum,
    Avg,
    Min,
    Max,
    Median,
    /// Of box plots.
    #[serde(skip)]
    P25,
    P75,
    P90,
    P95,
    P99,
    AvgCountPerActor,
    MinCountPerActor,
    MaxCountPerActor,
    MedianCountPerActor,
    P75CountPerActor,
    P90CountPerActor,
    P95CountPerActor,
    P99CountPerActor,
    Hogql,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BreakdownFilter {
    /// A property name, or one or several cohort ids.
    #[schemars(with = "Option<model::json_shapes::BreakdownProperty>")]
    pub breakdown: Json,
    #[schemars(with = "Option<model::json_shapes::BreakdownType>")]
    pub breakdown_type: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub breakdowns: Vec<BreakdownSpec>,
    pub breakdown_limit: Option<usize>,
    #[serde(deserialize_with = "or_default")]
    pub breakdown_hide_other_aggregation: bool,
    pub breakdown_histogram_bin_count: Option<usize>,
    pub breakdown_group_type_index: Option<usize>,
    #[serde(deserialize_with = "or_default")]
    pub breakdown_normalize_url: bool,
    /// Accepted and ignored; dashboards send it.
    #[serde(rename = "breakdown_path_cleaning")]
    #[schemars(with = "Option<bool>")]
    _path_cleaning: IgnoredAny,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Breakdown")]
pub struct BreakdownSpec {
    #[schemars(with = "Option<model::json_shapes::BreakdownProperty>")]
    pub property: Json,
    #[serde(rename = "type")]
    #[schemars(with = "Option<model::json_shapes::BreakdownType>")]
    pub kind: Option<String>,
    pub group_type_index: Option<usize>,
    pub histogram_bin_count: Option<usize>,
    #[serde(deserialize_with = "or_default")]
    pub normalize_url: bool,
}

/// Treats null like an absent key.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Accepts null, a filter group or a list of filters.
fn filters<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Json, D::Error> {
    let sent = Json::deserialize(deserializer)?;
    let fits = match &sent {
        Json::Null | Json::Object(_) => true,
        Json::Array(filters) => filters.iter().all(Json::is_object),
        _ => false,
    };
    let why = || serde::de::Error::custom("Expected a list of filters, or a group of them.");
    if fits { Ok(sent) } else { Err(why()) }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CompareFilter {
    pub compare: bool,
    pub compare_to: Option<String>,
}

/// Filter overrides of a dashboard or a request.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "FilterOverrides")]
pub struct Overrides {
    pub date_from: Option<String>,
    pub date_to: Option<String>,
    #[serde(rename = "explicitDate")]
    pub explicit_date: Option<bool>,
    /// A list of property filters, or a group of them.
    #[serde(deserialize_with = "filters")]
    #[schemars(with = "Option<model::json_shapes::PropertyFilters>")]
    pub properties: Json,
    pub breakdown_filter: Option<BreakdownFilter>,
    pub interval: Option<Interval>,
}

impl BreakdownFilter {
    pub(crate) fn is_empty(&self) -> bool {
        let named = match &self.breakdown {
            Json::Null => false,
            Json::String(name) => !name.is_empty(),
            Json::Array(all) => !all.is_empty(),
            _ => true,
        };
        !named && self.breakdowns.is_empty()
    }
}

impl Base {
    /// A date in the overrides replaces the whole date range; properties are added.
    pub(crate) fn apply(&mut self, overrides: &Overrides) {
        let given = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        if given(&overrides.date_from) || given(&overrides.date_to) {
            self.date_range = DateRange {
                date_from: overrides.date_from.clone(),
                date_to: overrides.date_to.clone(),
                explicit_date: overrides.explicit_date,
            };
        }
        let current = std::mem::take(&mut self.properties);
        self.properties = both(current, overrides.properties.clone());
    }
}

pub(crate) fn is_empty(filters: &Json) -> bool {
    match filters {
        Json::Null => true,
        Json::Array(all) => all.is_empty(),
        Json::Object(group) => group.is_empty(),
        _ => false,
    }
}

/// Conjunction of two filter lists or groups.
fn both(own: Json, other: Json) -> Json {
    if is_empty(&other) {
        return own;
    }
    if is_empty(&own) {
        return other;
    }
    let group = |filters: Json| match filters {
        Json::Array(_) => serde_json::json!({ "type": "AND", "values": filters }),
        group => group,
    };
    serde_json::json!({ "type": "AND", "values": [group(own), group(other)] })
}

/// A query without its kind and the keys that have no effect.
pub(crate) fn without_always(json: &Json) -> Result<Map<String, Json>> {
    let Json::Object(query) = json else {
        return Err(Error::Parse("A query is an object.".into()));
    };
    let mut query = query.clone();
    query.retain(|key, value| !value.is_null() && !ALWAYS.contains(&key.as_str()));
    Ok(query)
}

/// Parses a query strictly, into the shared keys and those of its kind.
pub(crate) fn read<T: DeserializeOwned>(json: &Json) -> Result<(Base, T)> {
    let Json::Object(query) = json else {
        return Err(Error::Parse("A query is an object.".into()));
    };
    let mut query = query.clone();
    query.retain(|key, _| key == "kind" || !ALWAYS.contains(&key.as_str()));
    let kind = query.remove("kind");
    strip_noop_keys(kind.as_ref().and_then(Json::as_str).unwrap_or_default(), &mut query);
    let mut base = Map::new();
    for key in BASE {
        if let Some(value) = query.remove(*key) {
            base.insert((*key).to_owned(), value);
        }
    }
    let base: Base = parse(Json::Object(base))?;
    if base.sampling_factor.is_some_and(|factor| !(factor > 0.0 && factor <= 1.0)) {
        return Err(Error::Parse("samplingFactor is between 0 and 1.".into()));
    }
    check_group(base.aggregation_group_type_index)?;
    Ok((base, parse(Json::Object(query))?))
}

fn parse<T: DeserializeOwned>(json: Json) -> Result<T> {
    model::deserialize_strict(&json).map_err(|why| Error::Parse(why.dotted_message()))
}

pub(crate) fn check_group(index: Option<usize>) -> Result<()> {
    match index {
        Some(index) if index >= GROUP_TYPES => {
            Err(Error::Parse(format!("There is no group type with the index {index}.")))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Kind {
        series: Vec<Node>,
        #[serde(default, rename = "breakdownFilter")]
        breakdown_filter: BreakdownFilter,
    }

    #[test]
    fn unknown_keys_are_rejected_and_common_keys_accepted() {
        let query = json!({
            "kind": "TrendsQuery", "version": 2, "tags": {}, "modifiers": null, "response": {},
            "name": "x", "samplingFactor": null, "filterTestAccounts": true,
            "breakdownFilter": {"breakdown": null, "breakdown_type": "event"},
            "series": [{"kind": "EventsNode", "event": null, "custom_name": null, "math": "p75_count_per_actor"}],
        });
        let (base, kind) = read::<Kind>(&query).unwrap();
        assert!(base.filter_test_accounts);
        assert_eq!(kind.series[0].math, Math::P75CountPerActor);
        assert!(kind.breakdown_filter.is_empty());
        for (key, value) in [
            ("frobnicate", json!(1)),
            ("dateRange", json!({"from": "-7d"})),
            ("samplingFactor", json!(0)),
            ("samplingFactor", json!(1.5)),
            ("aggregation_group_type_index", json!(5)),
            ("series", json!([{"kind": "EventsNode", "math": "frobnicate"}])),
            ("series", json!([{"kind": "EventsNode", "evnt": "a"}])),
            ("series", json!([{"kind": "Nope"}])),
            ("breakdownFilter", json!({"breakdown_limits": 2})),
        ] {
            let mut wrong = query.clone();
            wrong[key] = value.clone();
            assert!(matches!(read::<Kind>(&wrong), Err(Error::Parse(_))), "{key} {value}");
        }
        assert!(matches!(read::<Kind>(&json!([])), Err(Error::Parse(_))));
    }

    #[test]
    fn null_overrides_are_accepted() {
        let overrides = json!({
            "date_from": null, "properties": null, "interval": null, "unknown": 1,
            "breakdown_filter": {"breakdown": "x", "breakdowns": null, "breakdown_limit": null,
                "breakdown_hide_other_aggregation": null, "breakdown_normalize_url": null,
                "breakdown_path_cleaning": true},
        });
        let overrides: Overrides = model::deserialize_strict(&overrides).unwrap();
        assert!(!overrides.breakdown_filter.unwrap().is_empty());
        for (field, value) in [
            ("date_from", json!(5)),
            ("properties", json!("x")),
            ("properties", json!([5])),
            ("breakdown_filter", json!([])),
            ("interval", json!("fortnight")),
        ] {
            let refused =
                model::deserialize_strict::<Overrides>(&json!({ field: value })).unwrap_err();
            assert_eq!(refused.attr, field);
        }
    }

    #[test]
    fn override_filters_are_added_and_override_dates_replace() {
        let mut base = Base {
            date_range: DateRange { date_from: Some("-30d".into()), ..DateRange::default() },
            properties: json!([{"key": "a", "value": 1}]),
            ..Base::default()
        };
        base.apply(&Overrides::default());
        assert_eq!(base.date_range.date_from.as_deref(), Some("-30d"));
        assert_eq!(base.properties, json!([{"key": "a", "value": 1}]));
        base.apply(&Overrides {
            date_to: Some("-1d".into()),
            properties: json!([{"key": "b", "value": 2}]),
            ..Overrides::default()
        });
        assert_eq!(base.date_range.date_from, None);
        assert_eq!(base.date_range.date_to.as_deref(), Some("-1d"));
        let and = json!({"type": "AND", "values": [
            {"type": "AND", "values": [{"key": "a", "value": 1}]},
            {"type": "AND", "values": [{"key": "b", "value": 2}]},
        ]});
        assert_eq!(base.properties, and);
    }
}
