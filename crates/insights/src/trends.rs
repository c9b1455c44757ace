//! Trends: how often, by how many, how much, over time.

mod actors;
mod lines;
mod measure;
mod shape;
mod wide;

use facts::ReadView;
use serde::Deserialize;
use serde_json::Value as Json;

pub(crate) use lines::{Lines, Share};
pub(crate) use measure::DisplayMode;

use crate::context::QueryContext;
use crate::formula::Formula;
use crate::hogql::HogqlCompiler;
use crate::limits::QueryLimits;
use crate::range::Period;
use crate::result::InsightResult;
use crate::spec::{self, Base, BreakdownFilter, CompareFilter, Math, Node, Overrides};
use crate::{Error, Interval, Result};
use measure::Measure;

/// Letters name series in formulas.
const SERIES_MAX: usize = 26;
const FORMULAS_MAX: usize = 26;
/// Values of a view map unless a limit is given: all countries fit.
const MAP_LIMIT: usize = 300;

#[derive(Clone, Debug)]
pub struct TrendsQuery {
    pub base: Base,
    own: Own,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Own {
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

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct TrendsFilter {
    display: Display,
    formula: Option<String>,
    formulas: Vec<String>,
    formula_nodes: Vec<FormulaNode>,
    smoothing_intervals: Option<usize>,
    #[serde(rename = "breakdown_histogram_bin_count")]
    bin_count: Option<usize>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FormulaNode {
    formula: String,
    #[serde(default)]
    custom_name: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
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
            | Self::CalendarHeatmap => DisplayMode::Series,
        }
    }
}

/// Which of two compared periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Alone,
    Current,
    Previous,
}

/// All lines of one series in one period.
pub(crate) struct Found<'a> {
    pub order: usize,
    pub node: &'a Node,
    pub side: Side,
    pub period: &'a Period,
    pub lines: Lines,
}

impl TrendsQuery {
    pub(crate) fn parse(json: &Json) -> Result<Self> {
        let (base, mut own) = spec::read::<Own>(json)?;
        if own.series.is_empty() || own.series.len() > SERIES_MAX {
            let detail = format!("A TrendsQuery has 1 to {SERIES_MAX} series.");
            return Err(Error::Parse(detail));
        }
        for node in &own.series {
            spec::check_group(node.math_group_type_index)?;
        }
        let bins = own.trends_filter.bin_count;
        let filter = &mut own.breakdown_filter;
        filter.breakdown_histogram_bin_count = filter.breakdown_histogram_bin_count.or(bins);
        Ok(Self { base, own })
    }

    pub(crate) fn apply(&mut self, dashboard: &Overrides) {
        self.base.apply(dashboard);
        if let Some(breakdown) = &dashboard.breakdown_filter {
            self.own.breakdown_filter = breakdown.clone();
        }
        self.own.interval = dashboard.interval.unwrap_or(self.own.interval);
    }

    pub(crate) fn nodes(&self) -> Vec<&Node> {
        self.own.series.iter().collect()
    }

    pub(crate) fn breakdown(&self) -> Option<&BreakdownFilter> {
        Some(&self.own.breakdown_filter)
    }

    fn formulas(&self) -> Result<Vec<(Formula, String)>> {
        let filter = &self.own.trends_filter;
        let one = filter.formula.iter().chain(&filter.formulas);
        let one = one.map(|text| (text.as_str(), None));
        let nodes = filter.formula_nodes.iter();
        let nodes = nodes.map(|node| (node.formula.as_str(), node.custom_name.as_deref()));
        let all: Vec<_> = if filter.formula_nodes.is_empty() {
            one.filter(|(text, _)| !text.trim().is_empty()).collect()
        } else {
            nodes.collect()
        };
        if all.len() > FORMULAS_MAX {
            return Err(Error::Invalid(format!("At most {FORMULAS_MAX} formulas are possible.")));
        }
        let read = |(text, name): (&str, Option<&str>)| {
            let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
            let name = name.unwrap_or_else(|| format!("Formula ({text})"));
            Ok((Formula::parse(text, self.own.series.len())?, name))
        };
        all.into_iter().map(read).collect()
    }

    fn breakdown_filter(&self) -> BreakdownFilter {
        let mut breakdown = self.own.breakdown_filter.clone();
        if self.own.trends_filter.display == Display::WorldMap {
            breakdown.breakdown_limit = breakdown.breakdown_limit.or(Some(MAP_LIMIT));
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
        let context = QueryContext::new(view, limits, &self.base, hogql)?;
        let Own { series, interval, trends_filter, compare_filter, .. } = &self.own;
        let breakdown = self.breakdown_filter();
        let display_mode = trends_filter.display.display_mode();
        let range = &self.base.date_range;
        let period = context.dates.period(range, *interval)?;
        let previous = context.dates.previous(&period, range, compare_filter)?;
        let sides = match &previous {
            None => vec![(Side::Alone, &period)],
            Some(previous) => vec![(Side::Current, &period), (Side::Previous, previous)],
        };
        let mut found = Vec::new();
        for (side, period) in sides {
            for (order, node) in series.iter().enumerate() {
                let measure = Measure { context: &context, node, period, display_mode };
                if let Some(mut lines) = measure.lines(&breakdown)? {
                    smooth(
                        &mut lines,
                        display_mode,
                        trends_filter.smoothing_intervals.unwrap_or(1),
                    );
                    found.push(Found { order, node, side, period, lines });
                }
            }
        }
        let more = found.iter().any(|found| found.lines.more);
        let shape = shape::Shape { context: &context, display_mode, several: series.len() > 1 };
        let results = if formulas.is_empty() {
            shape.series(&found)?
        } else {
            shape.formulas(&found, &formulas, series.len())?
        };
        let (from, to) = (period.from, period.to);
        let mut result = InsightResult::new(results, &context.dates.calendar, from, to, *interval)?;
        result.has_more = Some(more);
        Ok(result)
    }
}

/// Each number becomes the whole part of the mean of itself and those before it.
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

/// As results name it.
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
