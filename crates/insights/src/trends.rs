//! Trends: counts, distinct actors and aggregates of properties over time.

mod actors;
mod box_plot;
mod distinct_by_value;
mod formula;
mod lines;
mod lower;
mod series;
mod shape;

use facts::ReadView;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

pub(crate) use lines::Lines;
pub(crate) use series::DisplayMode;

use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::query::date_range::Period;
use crate::query::spec::{self, Base, BreakdownFilter, CompareFilter, Math, Node, Overrides};
use crate::result::InsightResult;
use crate::scan::context::ScanContext;
use crate::{Error, Interval, Result};
use formula::Formula;
use series::SeriesQuery;

/// Formulas name series by one letter.
const SERIES_MAX: usize = 26;
const FORMULAS_MAX: usize = 26;
/// Default breakdown limit of a world map: all countries fit.
const WORLD_MAP_LIMIT: usize = 300;

#[derive(Clone, Debug)]
pub struct TrendsQuery {
    pub base: Base,
    spec: TrendsSpec,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TrendsSpec {
    series: Vec<Node>,
    #[serde(default)]
    interval: Interval,
    #[serde(default)]
    trends_filter: TrendsFilter,
    #[serde(default)]
    breakdown_filter: BreakdownFilter,
    #[serde(default)]
    compare_filter: CompareFilter,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(transform = |schema: &mut schemars::Schema| crate::schema::with_display_options(schema, "trendsFilter"))]
struct TrendsFilter {
    display: Display,
    formula: Option<String>,
    formulas: Vec<String>,
    formula_nodes: Vec<FormulaNode>,
    smoothing_intervals: Option<usize>,
    #[serde(rename = "breakdown_histogram_bin_count")]
    bin_count: Option<usize>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FormulaNode {
    formula: String,
    #[serde(default)]
    custom_name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "ChartDisplay")]
enum Display {
    #[default]
    ActionsLineGraph,
    ActionsBar,
    ActionsUnstackedBar,
    ActionsStackedBar,
    ActionsAreaGraph,
    ActionsLineGraphCumulative,
    BoldNumber,
    ActionsPie,
    ActionsBarValue,
    ActionsTable,
    WorldMap,
    CalendarHeatmap,
    /// A number with the line of its values.
    Metric,
    /// The distribution of a property in each interval.
    BoxPlot,
    Auto,
    TwoDimensionalHeatmap,
}

impl Display {
    fn display_mode(self) -> DisplayMode {
        match self {
            Self::ActionsLineGraphCumulative => DisplayMode::Cumulative,
            Self::BoldNumber
            | Self::ActionsPie
            | Self::ActionsBarValue
            | Self::ActionsTable
            | Self::WorldMap => DisplayMode::Total,
            Self::ActionsLineGraph
            | Self::ActionsBar
            | Self::ActionsUnstackedBar
            | Self::ActionsStackedBar
            | Self::ActionsAreaGraph
            | Self::CalendarHeatmap
            | Self::Metric
            | Self::BoxPlot
            | Self::Auto
            | Self::TwoDimensionalHeatmap => DisplayMode::Series,
        }
    }
}

/// Which period a result describes when periods are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ComparedPeriod {
    Single,
    Current,
    Previous,
}

/// The lines of one series in one period.
pub(crate) struct SeriesResult<'a> {
    pub order: usize,
    pub node: &'a Node,
    pub side: ComparedPeriod,
    pub period: &'a Period,
    pub lines: Lines,
}

impl TrendsQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, mut spec) = spec::read::<TrendsSpec>(json)?;
        if spec.series.is_empty() || spec.series.len() > SERIES_MAX {
            let detail = format!("A TrendsQuery has 1 to {SERIES_MAX} series.");
            return Err(Error::Parse(detail));
        }
        for node in &spec.series {
            spec::check_group(node.math_group_type_index)?;
        }
        let bins = spec.trends_filter.bin_count;
        let filter = &mut spec.breakdown_filter;
        filter.breakdown_histogram_bin_count = filter.breakdown_histogram_bin_count.or(bins);
        Ok(Self { base, spec })
    }

    pub(crate) fn apply(&mut self, overrides: &Overrides) {
        self.base.apply(overrides);
        if let Some(breakdown) = &overrides.breakdown_filter {
            self.spec.breakdown_filter = breakdown.clone();
        }
        self.spec.interval = overrides.interval.unwrap_or(self.spec.interval);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        self.spec.series.iter().collect()
    }

    pub(crate) fn breakdown(&self) -> Option<&BreakdownFilter> {
        Some(&self.spec.breakdown_filter)
    }

    fn formulas(&self) -> Result<Vec<(Formula, String)>> {
        let filter = &self.spec.trends_filter;
        let unnamed = filter.formula.iter().chain(&filter.formulas);
        let unnamed = unnamed.map(|text| (text.as_str(), None));
        let nodes = filter.formula_nodes.iter();
        let nodes = nodes.map(|node| (node.formula.as_str(), node.custom_name.as_deref()));
        let all: Vec<_> = if filter.formula_nodes.is_empty() {
            unnamed.filter(|(text, _)| !text.trim().is_empty()).collect()
        } else {
            nodes.collect()
        };
        if all.len() > FORMULAS_MAX {
            return Err(Error::Invalid(format!("At most {FORMULAS_MAX} formulas are possible.")));
        }
        let read = |(text, name): (&str, Option<&str>)| {
            let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
            let name = name.unwrap_or_else(|| format!("Formula ({text})"));
            Ok((Formula::parse(text, self.spec.series.len())?, name))
        };
        all.into_iter().map(read).collect()
    }

    fn breakdown_filter(&self) -> BreakdownFilter {
        let mut breakdown = self.spec.breakdown_filter.clone();
        if self.spec.trends_filter.display == Display::WorldMap {
            breakdown.breakdown_limit = breakdown.breakdown_limit.or(Some(WORLD_MAP_LIMIT));
        }
        breakdown
    }

    pub(crate) fn run(
        &self,
        view: &ReadView,
        limits: &QueryLimits,
        hogql: Option<&HogqlCompiler>,
    ) -> Result<InsightResult> {
        let formulas = self.formulas()?;
        let context = ScanContext::new(view, limits, &self.base, hogql)?;
        if self.spec.trends_filter.display == Display::BoxPlot {
            return self.box_plot(&context);
        }
        let TrendsSpec { series, interval, trends_filter, compare_filter, .. } = &self.spec;
        let breakdown = self.breakdown_filter();
        let display_mode = trends_filter.display.display_mode();
        let range = &self.base.date_range;
        let period = context.scope.dates.period(range, *interval)?;
        let previous = context.scope.dates.previous(&period, range, compare_filter)?;
        let sides = match &previous {
            None => vec![(ComparedPeriod::Single, &period)],
            Some(previous) => {
                vec![(ComparedPeriod::Current, &period), (ComparedPeriod::Previous, previous)]
            }
        };
        let mut computed = Vec::new();
        for (side, period) in sides {
            for (order, node) in series.iter().enumerate() {
                let query = SeriesQuery { context: &context, node, period, display_mode };
                if let Some(mut lines) = query.lines(&breakdown)? {
                    smooth(
                        &mut lines,
                        display_mode,
                        trends_filter.smoothing_intervals.unwrap_or(1),
                    );
                    computed.push(SeriesResult { order, node, side, period, lines });
                }
            }
        }
        let more = computed.iter().any(|computed| computed.lines.has_more);
        let shape = shape::Shape { scope: &context.scope, display_mode, several: series.len() > 1 };
        let results = if formulas.is_empty() {
            shape.series(&computed)?
        } else {
            shape.formulas(&computed, &formulas, series.len())?
        };
        let (from, to) = (period.from, period.to);
        let mut result =
            InsightResult::new(results, &context.scope.dates.calendar, from, to, *interval)?;
        result.has_more = Some(more);
        Ok(result)
    }
}

/// Moving average over `intervals` buckets, rounded down.
fn smooth(lines: &mut Lines, display_mode: DisplayMode, intervals: usize) {
    if intervals < 2 || display_mode == DisplayMode::Total {
        return;
    }
    for line in &mut lines.lines {
        let data = std::mem::take(&mut line.data);
        let mean = |at: usize| {
            let window = &data[(at + 1).saturating_sub(intervals)..=at];
            (window.iter().sum::<f64>() / window.len() as f64).floor()
        };
        line.data = (0..data.len()).map(mean).collect();
    }
}

/// The name of a math in results.
pub(crate) fn math_name(math: Math) -> &'static str {
    match math {
        Math::Total => "total",
        Math::Dau => "dau",
        Math::WeeklyActive => "weekly_active",
        Math::MonthlyActive => "monthly_active",
        Math::UniqueSession => "unique_session",
        Math::UniqueGroup => "unique_group",
        Math::FirstTimeForUser => "first_time_for_user",
        Math::FirstMatchingEventForUser => "first_matching_event_for_user",
        Math::Sum => "sum",
        Math::Avg => "avg",
        Math::Min => "min",
        Math::Max => "max",
        Math::Median => "median",
        Math::P25 => "p25",
        Math::P75 => "p75",
        Math::P90 => "p90",
        Math::P95 => "p95",
        Math::P99 => "p99",
        Math::AvgCountPerActor => "avg_count_per_actor",
        Math::MinCountPerActor => "min_count_per_actor",
        Math::MaxCountPerActor => "max_count_per_actor",
        Math::MedianCountPerActor => "median_count_per_actor",
        Math::P75CountPerActor => "p75_count_per_actor",
        Math::P90CountPerActor => "p90_count_per_actor",
        Math::P95CountPerActor => "p95_count_per_actor",
        Math::P99CountPerActor => "p99_count_per_actor",
        Math::Hogql => "hogql",
    }
}
