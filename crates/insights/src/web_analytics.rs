//! Web analytics: tables about page views, visitors and sessions. Each is computed by one HogQL
//! statement, and there are no operators of its own.
//!
//! A session counts in the period in which it started, and its person is that of its first event that
//! passes the filters.

mod external_clicks;
mod goals;
mod overview;
mod page_urls;
mod periods;
mod stats_table;
mod vitals_paths;

use facts::{Needs, QueryContext};
use hogql::ast::{Expr, Query};
use hogql::build::{any, binary, call, field, is_null, literal};
use model::ActionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value as Json, json};

use crate::lower::selection::{Lowering, both};
use crate::query::spec::{Base, CompareFilter, Node, NodeKind, Overrides, read};
use crate::statement_query::StatementResult;
use crate::{Error, Interval, Result, collect_filter_needs};

pub(crate) use external_clicks::ExternalClicksSpec;
pub(crate) use goals::GoalsSpec;
pub(crate) use page_urls::PageUrlsSpec;
use periods::Periods;
pub(crate) use stats_table::StatsTableSpec;
pub(crate) use vitals_paths::VitalsPathsSpec;

/// Rows of a table without a limit.
const LIMIT_DEFAULT: u64 = 100;

/// Keys of [`WebBase`].
const WEB: &[&str] = &[
    "conversionGoal",
    "compareFilter",
    "doPathCleaning",
    "sampling",
    "includeRevenue",
    "interval",
    "orderBy",
    "useSessionsTable",
    "useWebAnalyticsPrecompute",
];

/// The keys that all kinds share, beside those of [`Base`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebAnalyticsFields")]
pub(crate) struct WebBase {
    conversion_goal: Option<ConversionGoal>,
    compare_filter: CompareFilter,
    /// Applies the project's path cleaning rules.
    do_path_cleaning: bool,
    order_by: Option<(OrderField, Direction)>,
    /// Accepted and ignored: results are exact.
    sampling: Option<Sampling>,
    /// Accepted and ignored, as in PostHog.
    include_revenue: bool,
    interval: Option<Interval>,
    use_sessions_table: bool,
    use_web_analytics_precompute: bool,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum ConversionGoal {
    #[serde(rename_all = "camelCase")]
    Action { action_id: i64 },
    #[serde(rename_all = "camelCase")]
    Event { custom_event_name: String },
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebAnalyticsSampling")]
struct Sampling {
    enabled: bool,
    force_sampling_rate: Option<SamplingRate>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplingRate {
    pub numerator: f64,
    #[serde(default)]
    pub denominator: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "WebAnalyticsOrderField")]
enum OrderField {
    Visitors,
    Views,
    AvgTimeOnPage,
    Clicks,
    BounceRate,
    AverageScrollPercentage,
    ScrollGt80Percentage,
    TotalConversions,
    UniqueConversions,
    ConversionRate,
    ConvertingUsers,
    RageClicks,
    DeadClicks,
    Errors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "WebAnalyticsOrderDirection")]
enum Direction {
    Asc,
    Desc,
}

impl Direction {
    const fn word(self) -> &'static str {
        match self {
            Self::Asc => "ASC",
            Self::Desc => "DESC",
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebOverviewFields")]
pub(crate) struct OverviewSpec {}

#[derive(Clone, Debug)]
pub struct WebQuery {
    base: Base,
    web: WebBase,
    kind: WebKind,
}

#[derive(Clone, Debug)]
enum WebKind {
    Overview,
    StatsTable(StatsTableSpec),
    Goals(GoalsSpec),
    ExternalClicks(ExternalClicksSpec),
    VitalsPaths(VitalsPathsSpec),
    PageUrls(PageUrlsSpec),
}

/// A column of a table: its name, and the type of its two values.
struct Column {
    name: &'static str,
    value: &'static str,
}

impl WebQuery {
    /// None if `kind` is not a web analytics query.
    pub fn parse(kind: &str, json: &Json) -> Option<Result<Self>> {
        Some(match kind {
            "WebOverviewQuery" => Self::read(json, |OverviewSpec {}| WebKind::Overview),
            "WebStatsTableQuery" => Self::read(json, WebKind::StatsTable),
            "WebGoalsQuery" => Self::read(json, WebKind::Goals),
            "WebExternalClicksTableQuery" => Self::read(json, WebKind::ExternalClicks),
            "WebVitalsPathBreakdownQuery" => Self::read(json, WebKind::VitalsPaths),
            "WebPageURLSearchQuery" => Self::read(json, WebKind::PageUrls),
            _ => return None,
        })
    }

    /// Reads the keys of a `WebVitalsQuery` that is not its source: the insight in it has its own.
    pub fn check_vitals(json: &Json) -> Result<()> {
        Self::read(json, |OverviewSpec {}| WebKind::Overview).map(drop)
    }

    fn read<T: DeserializeOwned>(json: &Json, kind: fn(T) -> WebKind) -> Result<Self> {
        let Json::Object(query) = json else {
            return Err(Error::Parse("A query is an object.".into()));
        };
        let (mut query, mut web) = (query.clone(), Map::new());
        for key in WEB {
            web.extend(query.remove(*key).map(|value| ((*key).to_owned(), value)));
        }
        web.retain(|_, value| !value.is_null());
        let web = model::deserialize_strict(&Json::Object(web));
        let web: WebBase = web.map_err(|why| Error::Parse(why.dotted_message()))?;
        let (base, own) = read(&Json::Object(query))?;
        Ok(Self { base, web, kind: kind(own) })
    }

    /// Applies the filter overrides of a dashboard or a request.
    pub fn apply_filters(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
    }

    /// Whether it reports on the project's actions, which the caller then names.
    pub fn wants_actions(&self) -> bool {
        matches!(self.kind, WebKind::Goals(_))
    }

    /// Sets the actions that a goals query reports on.
    pub fn set_actions(&mut self, actions: Vec<ActionId>) {
        if let WebKind::Goals(goals) = &mut self.kind {
            goals.actions = actions;
        }
    }

    pub fn actions(&self) -> Vec<ActionId> {
        let goals = match &self.kind {
            WebKind::Goals(goals) => goals.actions.clone(),
            _ => Vec::new(),
        };
        let goal = match &self.web.conversion_goal {
            Some(ConversionGoal::Action { action_id }) => Some(ActionId(*action_id)),
            _ => None,
        };
        goals.into_iter().chain(goal).collect()
    }

    /// What must be loaded.
    pub fn needs(&self) -> Needs {
        let mut needs = Needs::default();
        collect_filter_needs(&self.base.properties, &mut needs);
        needs.actions.extend(self.actions());
        // Session fields are columns of the statement.
        needs.sessions.clear();
        (needs.groups, needs.earliest) = (true, true);
        needs
    }

    pub fn set_default_limit(&mut self, rows: u64) {
        let limit = match &mut self.kind {
            WebKind::StatsTable(spec) => &mut spec.limit,
            WebKind::ExternalClicks(spec) => &mut spec.limit,
            WebKind::PageUrls(spec) => &mut spec.limit,
            WebKind::Overview | WebKind::Goals(_) | WebKind::VitalsPaths(_) => return,
        };
        *limit = limit.or(Some(rows));
    }

    /// The statement that computes the result.
    pub fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let table = Table::new(self, context)?;
        match &self.kind {
            WebKind::Overview => table.overview(),
            WebKind::StatsTable(spec) => table.stats_table(spec),
            WebKind::Goals(spec) => table.goals(spec),
            WebKind::ExternalClicks(spec) => table.external_clicks(spec),
            WebKind::VitalsPaths(spec) => table.vitals_paths(spec),
            WebKind::PageUrls(spec) => table.page_urls(spec),
        }
    }

    /// The result, from the rows of [`Self::to_hogql`] in the same context.
    pub fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: Vec<Vec<Json>>,
    ) -> Result<StatementResult> {
        let table = Table::new(self, context)?;
        let mut result = StatementResult::new(Json::Null);
        result.resolved = Some(table.periods.resolved()?);
        result.more.insert("samplingRate".into(), json!({ "numerator": 1, "denominator": 1 }));
        match &self.kind {
            WebKind::Overview => table.overview_result(&rows, &mut result)?,
            WebKind::StatsTable(spec) => table.stats_result(spec, rows, &mut result)?,
            WebKind::Goals(spec) => table.goals_result(spec, &rows, &mut result)?,
            WebKind::ExternalClicks(spec) => spec.result(rows, &mut result),
            WebKind::VitalsPaths(_) => vitals_paths::result(rows, &mut result)?,
            WebKind::PageUrls(spec) => spec.result(rows, &mut result),
        }
        Ok(result)
    }
}

/// A query while its statement is built.
struct Table<'a> {
    web: &'a WebBase,
    lowering: Lowering<'a>,
    periods: Periods<'a>,
}

impl<'a> Table<'a> {
    fn new(query: &'a WebQuery, context: &'a QueryContext) -> Result<Self> {
        let lowering = Lowering::new(context, &query.base)?;
        let periods = Periods::new(context, &query.base.date_range, &query.web.compare_filter)?;
        Ok(Self { web: &query.web, lowering, periods })
    }

    /// Events that are a view, or that reach the goal.
    fn views_or(&self, goal: Option<Expr>) -> Expr {
        any([is_view()].into_iter().chain(goal).collect())
    }

    /// Events of sessions in the periods that pass the filters and `condition`.
    fn events(&self, condition: Expr) -> Expr {
        let in_session = is_null(field(&["$session_id"]), true);
        both([
            Some(in_session),
            Some(self.periods.any("timestamp")),
            Some(condition),
            self.lowering.common(),
        ])
    }

    /// As [`Self::events`], of the query's own period, in sessions or not.
    fn current_events(&self, condition: Expr) -> Expr {
        both([Some(self.periods.current("timestamp")), Some(condition), self.lowering.common()])
    }

    /// The condition of the conversion goal.
    fn goal(&self) -> Result<Option<Expr>> {
        match &self.web.conversion_goal {
            None => Ok(None),
            Some(ConversionGoal::Event { custom_event_name }) => {
                Ok(Some(is_event(custom_event_name)))
            }
            Some(ConversionGoal::Action { action_id }) => {
                let goal = self.action(ActionId(*action_id))?;
                let why = || Error::Missing(format!("There is no action {action_id}."));
                goal.map(Some).ok_or_else(why)
            }
        }
    }

    /// The events of an action; none if it is deleted.
    fn action(&self, id: ActionId) -> Result<Option<Expr>> {
        let id = Some(json!(id.0));
        self.lowering.named(&Node { kind: NodeKind::Actions, id, ..Node::default() })
    }

    /// A path, cleaned if the query says so.
    fn path(&self, path: Expr) -> Expr {
        match self.web.do_path_cleaning {
            true => self.lowering.cleaned_path(path),
            false => path,
        }
    }
}

fn is_event(name: &str) -> Expr {
    binary(hogql::ast::BinaryOp::Equal, field(&["event"]), literal(name))
}

fn is_view() -> Expr {
    any(vec![is_event("$pageview"), is_event("$screen")])
}

/// The string of an event's property; NULL if it is absent or empty.
fn property(name: &str) -> Expr {
    call("toString", vec![field(&["properties", name])])
}

/// A page of rows: the statement has read one row more.
fn page(rows: &mut Vec<Vec<Json>>, limit: u64, offset: u64, result: &mut StatementResult) {
    result.has_more = Some(rows.len() as u64 > limit);
    rows.truncate(limit as usize);
    result.more.insert("limit".into(), limit.into());
    result.more.insert("offset".into(), offset.into());
}

fn rows_max(limit: Option<u64>) -> u64 {
    limit.unwrap_or(LIMIT_DEFAULT).clamp(1, hogql::limits::ROWS_MAX - 1)
}
