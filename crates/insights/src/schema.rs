//! JSON Schemas of insight queries and of their results, for the API's document.
//!
//! The schema of a query derives from the structures that parse it. Results are built as JSON, so
//! their structures here only document them; a test reads the results of every kind into them.

use std::borrow::Cow;

use model::json_shapes::{BreakdownValue, IdOrDigits, PropertyFilters};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use crate::actors::Status;
use crate::funnels::{CorrelationSpec, FunnelsSpec};
use crate::lifecycle::LifecycleSpec;
use crate::paths::PathsSpec;
use crate::query::noop_keys::{DISPLAY_ONLY, DisplayOption};
use crate::query::spec::Base;
use crate::retention::RetentionSpec;
use crate::stickiness::StickinessSpec;
use crate::timeline::TimelineQuery;
use crate::trends::TrendsSpec;
use crate::web_analytics::{
    ExternalClicksSpec, GoalsSpec, OverviewSpec, PageUrlsSpec, StatsTableSpec, VitalsPathsSpec,
    WebBase,
};

pub use crate::web_analytics::SamplingRate;

/// Names the schemas of the kinds.
macro_rules! kinds {
    ($($name:ident: $kind:literal = $($spec:ty)|+),+ $(,)?) => {$(
        pub enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $kind.into()
            }

            fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
                let parts = [Base::json_schema(schemas), $(<$spec>::json_schema(schemas)),+];
                query_of_kind($kind, &parts)
            }
        }
    )+};
}

kinds! {
    Trends: "TrendsQuery" = TrendsSpec,
    Funnels: "FunnelsQuery" = FunnelsSpec,
    Retention: "RetentionQuery" = RetentionSpec,
    Lifecycle: "LifecycleQuery" = LifecycleSpec,
    Stickiness: "StickinessQuery" = StickinessSpec,
    Paths: "PathsQuery" = PathsSpec,
    WebOverview: "WebOverviewQuery" = WebBase | OverviewSpec,
    WebStatsTable: "WebStatsTableQuery" = WebBase | StatsTableSpec,
    WebGoals: "WebGoalsQuery" = WebBase | GoalsSpec,
    WebExternalClicks: "WebExternalClicksTableQuery" = WebBase | ExternalClicksSpec,
    WebVitalsPaths: "WebVitalsPathBreakdownQuery" = WebBase | VitalsPathsSpec,
    WebPageUrls: "WebPageURLSearchQuery" = WebBase | PageUrlsSpec,
    WebVitalsFields: "WebVitalsFields" = WebBase,
}

/// The keys of a funnel correlation beside its source.
pub fn funnel_correlation(schemas: &mut SchemaGenerator) -> Schema {
    CorrelationSpec::json_schema(schemas)
}

pub enum SessionsTimeline {}

impl JsonSchema for SessionsTimeline {
    fn schema_name() -> Cow<'static, str> {
        "SessionsTimelineQuery".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        query_of_kind("SessionsTimelineQuery", &[TimelineQuery::json_schema(schemas)])
    }
}

/// Events and properties that go with converting or dropping off.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunnelCorrelations {
    pub events: Vec<FunnelCorrelation>,
    /// Whether one side of the funnel has more than ten times as many actors as the other.
    pub skewed: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunnelCorrelation {
    pub event: CorrelatedEvent,
    pub success_count: u64,
    pub failure_count: u64,
    pub odds_ratio: f64,
    /// `success` or `failure`.
    pub correlation_type: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FunnelCorrelatedEvent")]
pub struct CorrelatedEvent {
    /// `event`, `property::value` or `event::property::value`.
    pub event: String,
    #[schemars(with = "model::json_shapes::EmptyObject")]
    pub properties: Json,
    #[schemars(with = "model::json_shapes::EmptyList")]
    pub elements: Vec<Json>,
}

/// A session of a timeline; without an id its events have none.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineEntry {
    #[serde(rename = "sessionId")]
    pub session_id: Option<String>,
    pub events: Vec<TimelineEvent>,
    pub recording_duration_s: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineEvent {
    pub id: String,
    pub uuid: String,
    pub distinct_id: String,
    pub event: String,
    pub timestamp: String,
    #[schemars(with = "std::collections::BTreeMap<String, serde_json::Value>")]
    pub properties: Json,
    pub elements_chain: Option<String>,
    #[schemars(with = "Vec<std::collections::BTreeMap<String, model::json_shapes::FilterValue>>")]
    pub elements: Vec<Json>,
}

/// An object with a `kind`, and the properties of all parts.
pub fn query_of_kind(kind: &str, parts: &[Schema]) -> Schema {
    let mut properties = Map::new();
    properties.insert("kind".into(), json!({ "const": kind }));
    let mut required = vec![json!("kind")];
    for part in parts {
        let own = part.get("properties").and_then(Json::as_object).into_iter().flatten();
        let own = own.filter(|(name, _)| *name != "kind");
        properties.extend(own.map(|(name, schema)| (name.clone(), schema.clone())));
        let names = part.get("required").and_then(Json::as_array).into_iter().flatten();
        required.extend(names.filter(|name| **name != "kind").cloned());
    }
    json_schema!({ "type": "object", "properties": properties, "required": required })
}

/// Adds the display options of an object to its schema.
pub(crate) fn with_display_options(schema: &mut Schema, object: &str) {
    let options = DISPLAY_ONLY.iter().filter(|(name, _)| *name == object);
    let options = options.flat_map(|(_, options)| *options);
    let properties = schema.ensure_object().entry("properties").or_insert_with(|| json!({}));
    let Json::Object(properties) = properties else { return };
    for (name, option) in options {
        let shape = match option {
            DisplayOption::Flag => json!({ "type": ["boolean", "null"] }),
            DisplayOption::Number => json!({ "type": ["number", "null"] }),
            DisplayOption::Text => json!({ "type": ["string", "null"] }),
            DisplayOption::Numbers => list_of(&json!({ "type": "number" })),
            DisplayOption::Texts => list_of(&json!({ "type": "string" })),
            DisplayOption::Word(words) => {
                json!({ "enum": words.iter().map(|word| Some(*word)).chain([None]).collect::<Vec<_>>() })
            }
            DisplayOption::GoalLines => list_of(&reference::<GoalLine>()),
            DisplayOption::Lifecycles => list_of(&reference::<Status>()),
            DisplayOption::Customizations => json!({
                "type": ["object", "null"],
                "additionalProperties": reference::<ResultCustomization>(),
            }),
            DisplayOption::Unlisted => continue,
        };
        properties.insert((*name).to_owned(), shape);
    }
}

fn list_of(item: &Json) -> Json {
    json!({ "type": ["array", "null"], "items": item })
}

/// A transform has no generator, so the document registers these types by itself.
fn reference<T: JsonSchema>() -> Json {
    json!({ "$ref": format!("#/components/schemas/{}", T::schema_name()) })
}

/// A horizontal line of a chart.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct GoalLine {
    pub label: String,
    pub value: f64,
    pub border_color: Option<String>,
    pub display_label: Option<bool>,
    pub display_if_crossed: Option<bool>,
}

/// How a chart draws a series.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
pub struct ResultCustomization {
    pub assignment_by: Option<CustomizedBy>,
    pub color: Option<String>,
    pub hidden: Option<bool>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum CustomizedBy {
    Value,
    Position,
}

/// A series of a trends result.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrendsSeries {
    /// A value for each of `days`. Null or empty if the chart shows only `aggregated_value`.
    pub data: Option<Vec<Option<f64>>>,
    /// The sum of the values.
    pub count: Option<f64>,
    pub aggregated_value: Option<f64>,
    pub labels: Option<Vec<String>>,
    pub days: Vec<String>,
    pub label: String,
    pub filter: ResolvedRange,
    #[schemars(with = "Option<BreakdownValue>")]
    pub breakdown_value: Option<Json>,
    pub compare: Option<bool>,
    pub compare_label: Option<ComparedRange>,
    /// The series of the query; null for a formula.
    pub action: Option<ResultSeries>,
    /// The index of the formula.
    pub order: Option<i64>,
}

/// The distribution of a property's values in one interval.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BoxPlot {
    pub day: String,
    pub label: String,
    pub min: f64,
    pub p25: f64,
    pub median: f64,
    pub p75: f64,
    pub max: f64,
    pub mean: f64,
    pub series_index: u64,
    pub series_label: String,
}

/// A number of a web overview.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebOverviewItem {
    pub key: String,
    /// `unit`, `duration_s` or `percentage`.
    pub kind: String,
    pub is_increase_bad: Option<bool>,
    pub value: Option<f64>,
    /// Of the period that is compared with.
    pub previous: Option<f64>,
    pub change_from_previous_pct: Option<i64>,
}

/// The paths of each band of a web vitals metric.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebVitalsBands {
    pub good: Vec<WebVitalsPath>,
    pub needs_improvements: Vec<WebVitalsPath>,
    pub poor: Vec<WebVitalsPath>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebVitalsPath {
    pub path: String,
    pub value: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PageUrl {
    pub url: String,
    /// How often it was viewed.
    pub count: u64,
}

/// The range and interval that a result covers.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolvedRange {
    pub insight: String,
    pub interval: String,
    pub date_from: String,
    pub date_to: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ComparedRange {
    Current,
    Previous,
}

/// The series of a query, as results repeat it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResultSeries {
    /// An event's name or an action's id; null for all events.
    #[schemars(with = "Option<IdOrDigits>")]
    pub id: Option<Json>,
    #[serde(rename = "type")]
    pub kind: String,
    pub order: i64,
    pub name: String,
    pub custom_name: Option<String>,
    pub math: Option<String>,
    pub math_property: Option<String>,
    pub math_hogql: Option<String>,
    pub math_group_type_index: Option<i64>,
    #[schemars(with = "Option<PropertyFilters>")]
    pub properties: Option<Json>,
    pub days: Option<Vec<String>>,
}

/// A step of a funnel.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunnelStep {
    /// An event's name or an action's id.
    #[schemars(with = "Option<IdOrDigits>")]
    pub action_id: Option<Json>,
    pub name: String,
    pub custom_name: Option<String>,
    pub order: i64,
    #[serde(rename = "type")]
    pub kind: String,
    /// How many actors reached the step.
    pub count: u64,
    /// In seconds, from the last required step before.
    pub average_conversion_time: Option<f64>,
    pub median_conversion_time: Option<f64>,
    #[schemars(with = "Option<BreakdownValue>")]
    pub breakdown: Option<Json>,
    #[schemars(with = "Option<BreakdownValue>")]
    pub breakdown_value: Option<Json>,
    /// Always empty: an `ActorsQuery` lists them.
    #[schemars(with = "Vec<String>")]
    pub people: Vec<Json>,
    pub converted_people_url: Option<String>,
    pub dropped_people_url: Option<String>,
    /// If the query compares periods.
    pub compare_label: Option<ComparedRange>,
}

/// A histogram of conversion times.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunnelTimes {
    pub average_conversion_time: Option<f64>,
    pub median_conversion_time: Option<f64>,
    /// The first second of each bin, and how many actors converted in it.
    pub bins: Vec<(i64, u64)>,
    /// If the query compares periods.
    pub compare_label: Option<ComparedRange>,
}

/// Conversion rates over time, in percent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FunnelTrend {
    pub count: u64,
    pub data: Vec<Option<f64>>,
    pub days: Vec<String>,
    pub labels: Vec<String>,
    #[schemars(with = "Option<BreakdownValue>")]
    pub breakdown_value: Option<Json>,
    /// If the query compares periods.
    pub compare_label: Option<ComparedRange>,
}

/// Steps; steps for each breakdown value; conversion times, of each period if the query compares two;
/// or rates over time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FunnelsResult {
    Steps(Vec<FunnelStep>),
    BrokenDown(Vec<Vec<FunnelStep>>),
    Trends(Vec<FunnelTrend>),
    ComparedTimes(Vec<FunnelTimes>),
    Times(FunnelTimes),
}

/// The actors of one interval, and how many came back in each later one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionRow {
    pub values: Vec<RetentionCount>,
    pub label: String,
    pub date: String,
    #[schemars(with = "Option<BreakdownValue>")]
    pub breakdown_value: Option<Json>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetentionCount {
    pub count: u64,
    /// With `aggregationType` `sum` or `avg`: that of the property, over the actors counted.
    pub aggregation_value: Option<f64>,
    pub label: String,
}

/// The actors of one status.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LifecycleSeries {
    pub action: ResultSeries,
    pub data: Vec<i64>,
    pub count: i64,
    pub labels: Vec<String>,
    pub days: Vec<String>,
    pub label: String,
    /// Counts of `dormant` are negative.
    pub status: Status,
}

/// How many actors were active in how many intervals.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StickinessSeries {
    pub count: u64,
    pub data: Vec<u64>,
    /// Numbers of intervals.
    pub days: Vec<u64>,
    pub labels: Vec<String>,
    pub label: String,
    pub action: ResultSeries,
    pub compare: Option<bool>,
    pub compare_label: Option<ComparedRange>,
}

/// How often actors went from one step of a path to the next.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PathsEdge {
    /// The number of the step, an underscore, and the step's name.
    pub source: String,
    pub target: String,
    pub value: u64,
    /// In milliseconds.
    pub average_conversion_time: Option<f64>,
}
