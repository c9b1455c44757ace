//! JSON Schemas of queries and of their responses, for the API's document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use insights::Interval;
use insights::schema::{
    self, BoxPlot, FunnelCorrelations, FunnelsResult, LifecycleSeries, PageUrl, PathsEdge,
    RetentionRow, SamplingRate, StickinessSeries, TimelineEntry, TrendsSeries, WebOverviewItem,
    WebVitalsBands, query_of_kind,
};
use model::json_shapes::{
    BreakdownProperty, BreakdownType, EntityType, FilterValue, IdOrDigits, PropertyFilters,
};
use model::{ProjectId, Timestamp};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value as Json, json};

use crate::actors_query::Fields as ActorsFields;
use crate::events_query::Fields as EventsFields;
use crate::hogql_query::HogqlQuery;
use crate::language::autocomplete::{AutocompleteQuery, Suggestion};
use crate::language::database_schema::SchemaTable;
use crate::language::function_signature::FunctionSignature;
use crate::language::metadata::{MetadataQuery, Notice};

pub use crate::hogql_query::Variable;
/// By their ids.
pub type Variables = BTreeMap<String, Variable>;
pub use insights::Overrides as FilterOverrides;
pub use insights::schema::{GoalLine, ResultCustomization};

/// Names the schema of an object with a `kind`.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $kind:literal = $parts:expr),+ $(,)?) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $kind.into()
            }

            fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
                let parts: fn(&mut SchemaGenerator) -> Vec<Schema> = $parts;
                query_of_kind($kind, &parts(schemas))
            }
        }
    )+};
}

kinds! {
    Hogql: "HogQLQuery" = |schemas| vec![HogqlQuery::json_schema(schemas)],
    Events: "EventsQuery" = |schemas| vec![
        EventsFields::json_schema(schemas),
        optional("source", schemas.subschema_for::<DrillDownSource>()),
    ],
    Actors: "ActorsQuery" = |schemas| vec![
        ActorsFields::json_schema(schemas),
        optional("source", schemas.subschema_for::<ActorsSource>()),
    ],
    /// The data point of an insight whose actors or events are listed.
    InsightActors: "InsightActorsQuery" = |schemas| vec![
        source(schemas.subschema_for::<InsightQuery>()),
        insights::DataPoint::json_schema(schemas),
    ],
    FunnelsActors: "FunnelsActorsQuery" = |schemas| vec![
        source(schemas.subschema_for::<schema::Funnels>()),
        insights::DataPoint::json_schema(schemas),
    ],
    /// The insight of a web vitals chart.
    WebVitals: "WebVitalsQuery" = |schemas| vec![
        schema::WebVitalsFields::json_schema(schemas),
        source(schemas.subschema_for::<InsightQuery>()),
    ],
    FunnelCorrelation: "FunnelCorrelationQuery" = |schemas| vec![
        schema::funnel_correlation(schemas),
        source(schemas.subschema_for::<FunnelsActors>()),
    ],
    /// Displays an insight.
    InsightViz: "InsightVizNode" = |schemas| vec![
        source(schemas.subschema_for::<InsightQuery>()),
    ],
    /// Displays rows.
    DataTable: "DataTableNode" = |schemas| vec![
        source(schemas.subschema_for::<TableQuery>()),
    ],
    /// Displays the rows of a statement as a chart.
    DataVisualization: "DataVisualizationNode" = |schemas| vec![
        source(schemas.subschema_for::<Hogql>()),
        optional("display", json_schema!({ "type": ["string", "null"] })),
    ],
    /// Checks a statement, an expression or a template.
    Metadata: "HogQLMetadata" = |schemas| vec![MetadataQuery::json_schema(schemas)],
    /// Names that can stand at the cursor.
    Autocomplete: "HogQLAutocomplete" = |schemas| vec![AutocompleteQuery::json_schema(schemas)],
    /// The tables and functions of HogQL.
    DatabaseSchema: "DatabaseSchemaQuery" = |_| vec![],
    /// The query of another insight.
    SavedInsight: "SavedInsightNode" = |_| vec![
        required("shortId", json_schema!({ "type": "string" })),
    ],
}

fn source(schema: Schema) -> Schema {
    required("source", schema)
}

fn required(name: &str, schema: Schema) -> Schema {
    json_schema!({ "properties": { name: schema }, "required": [name] })
}

fn optional(name: &str, schema: Schema) -> Schema {
    json_schema!({ "properties": { name: schema } })
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum InsightQuery {
    Trends(#[schemars(with = "schema::Trends")] ()),
    Funnels(#[schemars(with = "schema::Funnels")] ()),
    Retention(#[schemars(with = "schema::Retention")] ()),
    Lifecycle(#[schemars(with = "schema::Lifecycle")] ()),
    Stickiness(#[schemars(with = "schema::Stickiness")] ()),
    Paths(#[schemars(with = "schema::Paths")] ()),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum RowsQuery {
    Hogql(#[schemars(with = "Hogql")] ()),
    Events(#[schemars(with = "Events")] ()),
    Actors(#[schemars(with = "Actors")] ()),
}

/// A query whose result a table shows.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum TableQuery {
    Rows(#[schemars(with = "RowsQuery")] ()),
    Web(#[schemars(with = "WebQuery")] ()),
    Point(#[schemars(with = "DrillDownSource")] ()),
}

/// Web analytics.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum WebQuery {
    Overview(#[schemars(with = "schema::WebOverview")] ()),
    StatsTable(#[schemars(with = "schema::WebStatsTable")] ()),
    Goals(#[schemars(with = "schema::WebGoals")] ()),
    ExternalClicks(#[schemars(with = "schema::WebExternalClicks")] ()),
    Vitals(#[schemars(with = "WebVitals")] ()),
    VitalsPaths(#[schemars(with = "schema::WebVitalsPaths")] ()),
    PageUrls(#[schemars(with = "schema::WebPageUrls")] ()),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum ActorsSource {
    Point(#[schemars(with = "DrillDownSource")] ()),
    /// A statement with a column `actor_id`, `person_id` or `id`, or whose first column is the id.
    Hogql(#[schemars(with = "Hogql")] ()),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum DrillDownSource {
    Insight(#[schemars(with = "InsightActors")] ()),
    Funnels(#[schemars(with = "FunnelsActors")] ()),
}

/// A query that the server can run.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum Query {
    Insight(#[schemars(with = "InsightQuery")] ()),
    Rows(#[schemars(with = "RowsQuery")] ()),
    InsightViz(#[schemars(with = "InsightViz")] ()),
    DataTable(#[schemars(with = "DataTable")] ()),
    DataVisualization(#[schemars(with = "DataVisualization")] ()),
    SavedInsight(#[schemars(with = "SavedInsight")] ()),
    Point(#[schemars(with = "DrillDownSource")] ()),
    Web(#[schemars(with = "WebQuery")] ()),
    FunnelCorrelation(#[schemars(with = "FunnelCorrelation")] ()),
    SessionsTimeline(#[schemars(with = "schema::SessionsTimeline")] ()),
    Language(#[schemars(with = "LanguageQuery")] ()),
}

/// A query about HogQL, for editors.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum LanguageQuery {
    Metadata(#[schemars(with = "Metadata")] ()),
    Autocomplete(#[schemars(with = "Autocomplete")] ()),
    DatabaseSchema(#[schemars(with = "DatabaseSchema")] ()),
}

/// The query whose rows an expression reads.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum SourceQuery {
    Rows(#[schemars(with = "RowsQuery")] ()),
    Insight(#[schemars(with = "InsightQuery")] ()),
}

/// The query of an insight, as it was sent.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum StoredQuery {
    Known(#[schemars(with = "Query")] ()),
    Other(OtherQuery),
}

/// A query of a kind that this server stores but cannot run.
#[derive(JsonSchema)]
pub struct OtherQuery {
    pub kind: String,
}

/// An insight in the form that preceded queries, which is converted to a query. Further keys are kept.
#[derive(JsonSchema)]
pub struct LegacyFilters {
    pub insight: Option<LegacyInsight>,
    /// `Stickiness` or `Lifecycle`, of a trend.
    pub shown_as: Option<String>,
    pub events: Option<Vec<LegacyEntity>>,
    pub actions: Option<Vec<LegacyEntity>>,
    pub properties: Option<LegacyProperties>,
    pub filter_test_accounts: Option<bool>,
    pub date_from: Option<String>,
    pub date_to: Option<String>,
    pub interval: Option<Interval>,
    pub breakdown: Option<BreakdownProperty>,
    pub breakdown_type: Option<BreakdownType>,
    pub breakdowns: Option<Vec<LegacyBreakdown>>,
    pub compare: Option<bool>,
    pub display: Option<String>,
    pub formula: Option<String>,
    pub smoothing_intervals: Option<u64>,
    pub funnel_viz_type: Option<String>,
    pub funnel_order_type: Option<String>,
    pub funnel_window_interval: Option<i64>,
    pub funnel_window_interval_unit: Option<String>,
    pub funnel_from_step: Option<i64>,
    pub funnel_to_step: Option<i64>,
    pub bin_count: Option<IdOrDigits>,
    pub exclusions: Option<Vec<LegacyEntity>>,
    pub target_entity: Option<LegacyEntity>,
    pub returning_entity: Option<LegacyEntity>,
    pub period: Option<String>,
    pub total_intervals: Option<u64>,
    pub retention_type: Option<String>,
    pub include_event_types: Option<Vec<String>>,
    pub start_point: Option<String>,
    pub end_point: Option<String>,
    pub step_limit: Option<u64>,
    pub edge_limit: Option<u64>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "UPPERCASE")]
pub enum LegacyInsight {
    Trends,
    Stickiness,
    Lifecycle,
    Funnels,
    Retention,
    Paths,
}

/// A series, a step, an exclusion or an entity of retention.
#[derive(JsonSchema)]
pub struct LegacyEntity {
    /// An event's name or an action's id; null for all events.
    pub id: Option<IdOrDigits>,
    #[schemars(rename = "type")]
    pub kind: Option<EntityType>,
    pub order: Option<i64>,
    pub name: Option<String>,
    pub custom_name: Option<String>,
    pub math: Option<String>,
    pub math_property: Option<String>,
    pub math_group_type_index: Option<u8>,
    pub properties: Option<LegacyProperties>,
    /// Of an exclusion.
    pub funnel_from_step: Option<i64>,
    pub funnel_to_step: Option<i64>,
}

#[derive(JsonSchema)]
pub struct LegacyBreakdown {
    pub property: Option<BreakdownProperty>,
    #[schemars(rename = "type")]
    pub kind: Option<BreakdownType>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum LegacyProperties {
    Filters(PropertyFilters),
    /// By the property's name, with two underscores and an operator at its end.
    ByName(BTreeMap<String, FilterValue>),
}

/// The response to a query.
#[derive(JsonSchema)]
pub struct QueryResponse {
    pub results: QueryResults,
    #[schemars(rename = "hasMore")]
    pub has_more: Option<bool>,
    /// The statement in HogQL.
    pub hogql: Option<String>,
    pub timings: Vec<Timing>,
    pub error: Option<String>,
    pub modifiers: Modifiers,
    /// Of a run that refreshes this cached result.
    pub query_status: Option<QueryStatus>,
    pub resolved_date_range: Option<ResolvedDateRange>,
    pub is_cached: bool,
    pub cache_key: String,
    pub last_refresh: Timestamp,
    pub cache_target_age: Timestamp,
    pub next_allowed_client_refresh: Timestamp,
    pub timezone: String,
    pub calculation_trigger: Option<String>,
    pub query_metadata: Option<QueryMetadata>,
    /// Of queries whose results are rows.
    #[schemars(default)]
    pub columns: Vec<String>,
    /// The ClickHouse type of each column, for HogQL with its name.
    #[schemars(default)]
    pub types: Vec<ColumnType>,
    /// The physical plan of a HogQL query that asks for it.
    pub explain: Option<Vec<String>>,
    pub query: Option<String>,
    pub limit: Option<u64>,
    pub offset: Option<u64>,
    #[schemars(rename = "nextCursor")]
    pub next_cursor: Option<String>,
    pub missing_actors_count: Option<u64>,
    /// Of web analytics: always 1.
    #[schemars(rename = "samplingRate")]
    pub sampling_rate: Option<SamplingRate>,
    #[schemars(rename = "dateFrom")]
    pub date_from: Option<String>,
    #[schemars(rename = "dateTo")]
    pub date_to: Option<String>,
    /// Of `HogQLMetadata`.
    #[schemars(rename = "isValid")]
    pub is_valid: Option<bool>,
    pub errors: Option<Vec<Notice>>,
    pub warnings: Option<Vec<Notice>>,
    pub notices: Option<Vec<Notice>>,
    pub table_names: Option<Vec<String>>,
    /// Of `HogQLAutocomplete`.
    pub suggestions: Option<Vec<Suggestion>>,
    pub incomplete_list: Option<bool>,
    /// Of `DatabaseSchemaQuery`, by their names.
    pub tables: Option<BTreeMap<String, SchemaTable>>,
    pub joins: Option<model::json_shapes::EmptyList>,
    pub functions: Option<Vec<FunctionSignature>>,
}

/// By the kind of the query.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum QueryResults {
    Trends(Vec<TrendsSeries>),
    Funnels(FunnelsResult),
    Retention(Vec<RetentionRow>),
    Lifecycle(Vec<LifecycleSeries>),
    Stickiness(Vec<StickinessSeries>),
    Paths(Vec<PathsEdge>),
    BoxPlots(Vec<BoxPlot>),
    WebOverview(Vec<WebOverviewItem>),
    WebVitalsPaths(Vec<WebVitalsBands>),
    PageUrls(Vec<PageUrl>),
    FunnelCorrelations(FunnelCorrelations),
    Timeline(Vec<TimelineEntry>),
    /// A list of values for each row, in the order of `columns`.
    Rows(Vec<Vec<Json>>),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum ColumnType {
    Type(String),
    NameAndType((String, String)),
}

#[derive(JsonSchema)]
pub struct Timing {
    pub k: String,
    /// In seconds.
    pub t: f64,
}

#[derive(JsonSchema)]
#[schemars(rename = "QueryModifiers")]
pub struct Modifiers {
    #[schemars(rename = "personsOnEventsMode")]
    pub persons_on_events_mode: String,
}

#[derive(JsonSchema)]
pub struct ResolvedDateRange {
    pub date_from: String,
    pub date_to: String,
}

/// What a query read.
#[derive(JsonSchema)]
pub struct QueryMetadata {
    pub rows_scanned: Option<u64>,
    pub rows_matched: Option<u64>,
    pub segments: Option<u64>,
    pub cached_columns: Option<u64>,
    pub peak_memory_bytes: Option<u64>,
}

/// The state of a query that runs in the background.
#[derive(JsonSchema)]
pub struct QueryStatus {
    pub id: String,
    pub query_async: bool,
    pub team_id: ProjectId,
    pub error: bool,
    pub complete: bool,
    pub error_message: Option<String>,
    pub results: Option<Box<QueryResponse>>,
    pub insight_id: Option<i64>,
    pub dashboard_id: Option<i64>,
    pub start_time: Option<Timestamp>,
    pub pickup_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub expiration_time: Option<Timestamp>,
    pub task_id: Option<String>,
    pub query_progress: Option<QueryProgress>,
    pub labels: Option<Vec<String>>,
}

#[derive(JsonSchema)]
pub struct QueryProgress {
    /// In milliseconds.
    pub time_elapsed: i64,
}

#[derive(JsonSchema)]
pub struct QueryStatusResponse {
    pub query_status: QueryStatus,
}

/// When to compute, and when to use a cached result; true forces, false does not.
pub enum RefreshMode {}

impl JsonSchema for RefreshMode {
    fn schema_name() -> Cow<'static, str> {
        "RefreshMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut modes: Vec<Json> =
            crate::Refresh::MODES.iter().map(|(word, _)| json!(word)).collect();
        modes.extend([json!(true), json!(false), Json::Null]);
        json_schema!({ "enum": modes })
    }
}
