//! Shapes of JSON that the API stores and returns as it was sent: property filters, and the filters of
//! flags and cohorts. They only document the API; the modules that give the JSON its meaning parse and
//! check it. Unknown keys are kept, so no shape forbids further keys.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;

use crate::property::Operator;

/// A type of `api`'s document that this crate cannot name, by reference.
pub(crate) fn stored_query(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "anyOf": [{ "$ref": "#/components/schemas/StoredQuery" }, { "type": "null" }] })
}

/// See [`stored_query`].
pub(crate) fn filter_overrides(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "$ref": "#/components/schemas/FilterOverrides" })
}

/// See [`stored_query`].
pub(crate) fn variables(_: &mut SchemaGenerator) -> Schema {
    let variable = json_schema!({ "$ref": "#/components/schemas/QueryVariable" });
    json_schema!({ "type": ["object", "null"], "additionalProperties": variable })
}

/// A list that is always empty.
pub type EmptyList = [(); 0];

/// An object that is always empty.
pub enum EmptyObject {}

impl JsonSchema for EmptyObject {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "EmptyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "maxProperties": 0 })
    }
}

/// A list of property filters, all of which must match, or a group of them.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum PropertyFilters {
    List(Vec<PropertyFilterOrGroup>),
    Group(PropertyFilterGroup),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum PropertyFilterOrGroup {
    Filter(PropertyFilterShape),
    Group(PropertyFilterGroup),
}

#[derive(JsonSchema)]
pub struct PropertyFilterGroup {
    #[schemars(rename = "type")]
    pub kind: LogicalOperator,
    #[schemars(default)]
    pub values: Vec<PropertyFilterOrGroup>,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "UPPERCASE")]
pub enum LogicalOperator {
    And,
    Or,
}

/// A condition on a property.
#[derive(JsonSchema)]
#[schemars(rename = "PropertyFilter")]
pub struct PropertyFilterShape {
    /// A property's name; an expression if the type is `hogql`, a flag's id if it is `flag`.
    pub key: Option<FilterKey>,
    #[schemars(rename = "type")]
    pub kind: Option<PropertyFilterKind>,
    /// `exact` if absent.
    pub operator: Option<PropertyOperator>,
    pub value: Option<FilterValue>,
    /// Of a group's property.
    pub group_type_index: Option<u8>,
}

/// A property filter, with names that responses add.
#[derive(JsonSchema)]
pub struct FlagPropertyFilter {
    #[schemars(flatten)]
    pub filter: PropertyFilterShape,
    pub cohort_name: Option<String>,
    pub group_key_names: Option<BTreeMap<String, String>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum FilterKey {
    Text(String),
    Number(f64),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum PropertyFilterKind {
    Event,
    EventMetadata,
    Feature,
    Person,
    PersonMetadata,
    Group,
    Session,
    Element,
    Cohort,
    #[schemars(rename = "static-cohort")]
    StaticCohort,
    #[schemars(rename = "precalculated-cohort")]
    PrecalculatedCohort,
    Hogql,
    Flag,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum FilterValue {
    One(FilterScalar),
    Many(Vec<FilterScalar>),
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum FilterScalar {
    Null(()),
    Boolean(bool),
    Number(f64),
    Text(String),
}

/// A number, or a string: an id and its digits, a property's name and a cohort's id, or a date and
/// a number of intervals.
#[derive(JsonSchema)]
#[schemars(untagged, rename = "NumberOrText")]
pub enum IdOrDigits {
    Number(i64),
    Text(String),
}

/// One or several properties or cohorts.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum BreakdownProperty {
    One(IdOrDigits),
    Several(Vec<IdOrDigits>),
}

/// The value that a series, a step or a row of a broken-down result has.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum BreakdownValue {
    One(IdOrDigits),
    Several(Vec<IdOrDigits>),
}

#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
pub enum BreakdownType {
    Event,
    EventMetadata,
    Person,
    Group,
    Session,
    Cohort,
    Hogql,
}

/// Legacy names, which writes accept.
const LEGACY_OPERATORS: [&str; 2] = ["min", "max"];

pub enum PropertyOperator {}

impl PropertyOperator {
    fn words() -> impl Iterator<Item = &'static str> {
        let words = Operator::ALL.iter().map(|operator| operator.as_str());
        words.chain([crate::filter_expr::IS_CLEANED_PATH_EXACT]).chain(LEGACY_OPERATORS)
    }
}

impl JsonSchema for PropertyOperator {
    fn schema_name() -> Cow<'static, str> {
        "PropertyOperator".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Self::words().collect::<Vec<_>>() })
    }
}

/// A flag's conditions, variants and payloads.
#[derive(JsonSchema)]
pub struct FlagFilters {
    /// The first condition that matches decides.
    pub groups: Option<Vec<FlagCondition>>,
    pub multivariate: Option<FlagVariants>,
    /// By the variant's key, or `true` for a boolean flag: JSON as a string.
    pub payloads: Option<BTreeMap<String, Value>>,
    /// The group type that the flag buckets by; persons if absent.
    pub aggregation_group_type_index: Option<u8>,
    pub feature_enrollment: Option<bool>,
    pub holdout: Option<FlagHoldout>,
}

#[derive(JsonSchema)]
pub struct FlagCondition {
    pub properties: Option<Vec<FlagPropertyFilter>>,
    /// 100 if absent.
    pub rollout_percentage: Option<f64>,
    /// The variant that all who match get.
    pub variant: Option<String>,
    pub description: Option<String>,
    pub sort_key: Option<String>,
    pub aggregation_group_type_index: Option<u8>,
}

#[derive(JsonSchema)]
pub struct FlagVariants {
    pub variants: Vec<FlagVariant>,
}

#[derive(JsonSchema)]
pub struct FlagVariant {
    pub key: String,
    pub name: Option<String>,
    pub rollout_percentage: f64,
}

#[derive(JsonSchema)]
pub struct FlagHoldout {
    pub id: i64,
    pub exclusion_percentage: f64,
}

/// The persons of a cohort.
#[derive(JsonSchema)]
pub struct CohortFilters {
    pub properties: Option<CohortConditionGroup>,
}

/// An empty object matches everyone.
#[derive(JsonSchema)]
pub struct CohortConditionGroup {
    #[schemars(rename = "type")]
    pub kind: Option<LogicalOperator>,
    pub values: Option<Vec<CohortConditionOrGroup>>,
}

/// The legacy form of a cohort's conditions: one group of several must match as a whole.
#[derive(JsonSchema)]
pub struct LegacyCohortGroup {
    pub properties: Option<Vec<CohortConditionOrGroup>>,
}

#[derive(JsonSchema)]
#[schemars(untagged)]
pub enum CohortConditionOrGroup {
    Condition(CohortCondition),
    Group(CohortConditionGroup),
}

/// A condition on a person's properties, cohorts or events.
#[derive(JsonSchema)]
pub struct CohortCondition {
    #[schemars(rename = "type")]
    pub kind: CohortConditionKind,
    /// A property, an event's name or an action's id.
    pub key: Option<FilterKey>,
    /// For `behavioral`: `performed_event`, `performed_event_multiple` or
    /// `performed_event_first_time`.
    pub value: Option<FilterValue>,
    pub operator: Option<CohortOperator>,
    pub negation: Option<bool>,
    /// The following fields belong to `behavioral`.
    pub event_type: Option<EntityType>,
    pub time_value: Option<FilterKey>,
    pub time_interval: Option<TimeInterval>,
    pub operator_value: Option<FilterKey>,
    /// A date as in insight queries, such as `-30d`, in place of `time_value`.
    pub explicit_datetime: Option<String>,
    pub explicit_datetime_to: Option<String>,
    pub event_filters: Option<Vec<PropertyFilterOrGroup>>,
}

/// Counts are compared with `eq`, too.
pub enum CohortOperator {}

impl JsonSchema for CohortOperator {
    fn schema_name() -> Cow<'static, str> {
        "CohortOperator".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = PropertyOperator::words().chain(["eq"]).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum CohortConditionKind {
    Person,
    Cohort,
    #[schemars(rename = "static-cohort")]
    StaticCohort,
    #[schemars(rename = "precalculated-cohort")]
    PrecalculatedCohort,
    Behavioral,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum EntityType {
    Events,
    Actions,
}

#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum TimeInterval {
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
}

/// Positions of a tile by breakpoint: `sm`, the grid, and `xs`, one column.
pub type TileLayouts = BTreeMap<String, TileLayout>;

/// Columns and rows of a grid; further keys are kept.
#[derive(JsonSchema)]
pub struct TileLayout {
    #[schemars(default)]
    pub x: f64,
    #[schemars(default)]
    pub y: f64,
    #[schemars(default)]
    pub w: f64,
    #[schemars(default)]
    pub h: f64,
}
