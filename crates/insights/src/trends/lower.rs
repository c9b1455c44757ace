//! Trends as a HogQL statement.
//!
//! For each series and period, `points` has the numbers by breakdown value and interval; with a
//! breakdown, `all` and `top` find the values of the largest lines first. `lines` fills intervals
//! without events where the display needs them.

mod result;

use facts::QueryContext;
use hogql::ast::{Expr, Query};
use hogql::build::{boolean, call, field, in_cohort, int, number};
use hogql::filter::Value;
use hogql::parse_expr;
use hogql::tables::Table;
use hogql::types::Kind;
use model::CohortId;

use super::formula::Formula;
use super::series::DisplayMode;
use super::{ComparedPeriod, Display, SeriesResult, TrendsQuery};
use crate::Result;
use crate::aggregates::function::AggregateFn;
use crate::lower::breakdown::{BreakdownBy, BreakdownValues, Histograms, cohort_text};
use crate::lower::first_events::FirstEvents;
use crate::lower::intervals::Intervals;
use crate::lower::selection::{Actor, Lowering, both, within};
use crate::lower::{Statement, expression, unsupported};
use crate::query::date_range::Period;
use crate::query::spec::{Math, MathPropertyType, Node};

/// Everything that determines the statement.
struct Plan<'a> {
    query: &'a TrendsQuery,
    lowering: Lowering<'a>,
    /// The period, and the one that it is compared with.
    periods: Vec<(ComparedPeriod, Period)>,
    by: BreakdownBy,
    formulas: Vec<(Formula, String)>,
    display_mode: DisplayMode,
}

/// One series in one period and one cohort.
struct Unit<'a> {
    plan: &'a Plan<'a>,
    order: usize,
    node: &'a Node,
    side: ComparedPeriod,
    period: &'a Period,
    /// None unless the breakdown is by cohorts.
    cohort: Option<Option<CohortId>>,
}

/// A SELECT and the expressions that fill it.
struct Filled {
    text: String,
    parts: Vec<(String, Expr)>,
}

/// The events, or a common table expression, that a unit counts.
struct Source {
    table: String,
    filter: Expr,
    keys: Vec<Expr>,
    time: Expr,
}

impl TrendsQuery {
    fn lowering<'a>(&'a self, context: &'a QueryContext) -> Result<Plan<'a>> {
        let lowering = Lowering::new(context, &self.base)?;
        let range = &self.base.date_range;
        let period = lowering.scope.dates.period(range, self.spec.interval)?;
        let compare = &self.spec.compare_filter;
        let periods = match lowering.scope.dates.previous(&period, range, compare)? {
            None => vec![(ComparedPeriod::Single, period)],
            Some(previous) => {
                vec![(ComparedPeriod::Current, period), (ComparedPeriod::Previous, previous)]
            }
        };
        Ok(Plan {
            query: self,
            lowering,
            periods,
            by: BreakdownBy::new(&self.breakdown_filter(), Histograms::Supported)?,
            formulas: self.formulas()?,
            display_mode: self.spec.trends_filter.display.display_mode(),
        })
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        if self.spec.trends_filter.display == Display::BoxPlot {
            return Err(unsupported("A box plot"));
        }
        self.lowering(context)?.statement()
    }
}

impl<'a> Plan<'a> {
    fn units(&'a self) -> Result<Vec<Unit<'a>>> {
        let cohorts: Vec<Option<Option<CohortId>>> = match &self.by {
            BreakdownBy::Cohorts(cohorts) => cohorts.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        let mut units = Vec::new();
        for (side, period) in &self.periods {
            for (order, node) in self.query.spec.series.iter().enumerate() {
                if self.lowering.named(node)?.is_none() {
                    continue;
                }
                for cohort in &cohorts {
                    let (side, cohort) = (*side, *cohort);
                    units.push(Unit { plan: self, order, node, side, period, cohort });
                }
            }
        }
        Ok(units)
    }

    fn is_total(&self) -> bool {
        self.display_mode == DisplayMode::Total
    }

    fn smoothing(&self) -> usize {
        let intervals = self.query.spec.trends_filter.smoothing_intervals.unwrap_or(1);
        if self.is_total() { 1 } else { intervals }
    }

    /// Whether each line needs a number for every interval.
    fn is_dense(&self) -> bool {
        let cumulative = self.display_mode == DisplayMode::Cumulative;
        !self.is_total() && (cumulative || self.smoothing() > 1 || !self.formulas.is_empty())
    }

    fn compares(&self) -> bool {
        self.periods.len() > 1
    }

    fn values(&self) -> Option<&BreakdownValues> {
        match &self.by {
            BreakdownBy::Values(values) => Some(values),
            _ => None,
        }
    }

    /// The columns that identify a line within a series, and its interval.
    fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        if let Some(values) = self.values() {
            keys.push("rest".to_owned());
            keys.extend(values.columns());
        }
        if !self.is_total() {
            keys.push("bucket".to_owned());
        }
        keys
    }

    /// The columns in front of those, in this order.
    fn constants(&self) -> Vec<&'static str> {
        let series = self.query.spec.series.len() > 1;
        let cohort = matches!(self.by, BreakdownBy::Cohorts(_));
        let all = [(series, "series"), (self.compares(), "period"), (cohort, "cohort")];
        all.into_iter().filter(|(is_used, _)| *is_used).map(|(_, name)| name).collect()
    }

    fn hides_others(&self) -> bool {
        self.values().is_some_and(|values| values.hide_other)
    }

    fn statement(&self) -> Result<Query> {
        let units = self.units()?;
        let mut statement = Statement::default();
        let plain = self.constants().is_empty() && self.values().is_none() && !self.is_dense();
        if let ([unit], true) = (units.as_slice(), plain && self.formulas.is_empty()) {
            let Filled { mut text, parts } = unit.points(&unit.source(&mut statement)?, false)?;
            if !self.is_total() {
                text.push_str(" ORDER BY bucket");
            }
            return statement.finish(&text, &borrowed(&parts));
        }
        let mut selects = Vec::new();
        for unit in &units {
            selects.push(unit.lines(&mut statement)?);
        }
        if selects.is_empty() {
            // Every series is a deleted action.
            return statement.finish("SELECT 0 AS value WHERE false", &[]);
        }
        let mut columns: Vec<String> =
            self.constants().into_iter().map(str::to_owned).chain(self.keys()).collect();
        let lines = selects.join(" UNION ALL ");
        if !self.formulas.is_empty() {
            return self.formula_statement(statement, &lines);
        }
        let order = columns.join(", ");
        columns.push("value".to_owned());
        columns.extend((self.smoothing() > 1).then(|| "weight".to_owned()));
        columns.extend(self.hides_others().then(|| "has_more".to_owned()));
        let order = match order.is_empty() {
            true => String::new(),
            false => format!(" ORDER BY {order}"),
        };
        let text = format!("SELECT {} FROM ({lines}){order}", columns.join(", "));
        statement.finish(&text, &[])
    }

    /// The letters of the series, their numbers as columns, and the formulas over them.
    fn formula_statement(&self, mut statement: Statement, lines: &str) -> Result<Query> {
        let several = self.query.spec.series.len() > 1;
        let constants = self.constants().into_iter().filter(|name| *name != "series");
        let keys: Vec<String> = constants.map(str::to_owned).chain(self.keys()).collect();
        let mut inputs = keys.clone();
        for (at, letter) in letters(self.query.spec.series.len()) {
            inputs.push(match several {
                true => format!("sum(if(series = {at}, value, NULL)) AS {letter}"),
                false => format!("sum(value) AS {letter}"),
            });
        }
        if self.hides_others() {
            inputs.push("max(more) AS has_more".to_owned());
        }
        let lines = match self.hides_others() {
            false => lines.to_owned(),
            true => lines.replace(" AS has_more ", " AS more "),
        };
        let group = match keys.is_empty() {
            true => String::new(),
            false => format!(" GROUP BY {}", keys.join(", ")),
        };
        let text = format!("SELECT {} FROM ({lines}){group}", inputs.join(", "));
        statement.cte("inputs", &text, &[])?;
        let mut columns = keys.clone();
        let series = letters(self.query.spec.series.len());
        columns.extend(series.map(|(_, letter)| letter.to_string()));
        let mut parts = Vec::new();
        for (at, (formula, _)) in self.formulas.iter().enumerate() {
            let own = formula.to_expr(&|series| {
                let letter = letters(series + 1).last().map_or('A', |(_, letter)| letter);
                call("ifNull", vec![field(&[&letter.to_string()]), int(0)])
            });
            parts.push((format!("formula_{at}"), own));
            columns.push(format!("ifNotFinite({{formula_{at}}}, 0) AS formula_{}", at + 1));
        }
        columns.extend(self.hides_others().then(|| "has_more".to_owned()));
        let order = match keys.is_empty() {
            true => String::new(),
            false => format!(" ORDER BY {}", keys.join(", ")),
        };
        let text = format!("SELECT {} FROM inputs{order}", columns.join(", "));
        statement.finish(&text, &borrowed(&parts))
    }
}

/// The index and the letter of each series.
fn letters(series: usize) -> impl Iterator<Item = (usize, char)> {
    ('A'..='Z').take(series).enumerate()
}

fn side_text(side: ComparedPeriod) -> &'static str {
    match side {
        ComparedPeriod::Single | ComparedPeriod::Current => "current",
        ComparedPeriod::Previous => "previous",
    }
}

fn borrowed(parts: &[(String, Expr)]) -> Vec<(&str, Expr)> {
    parts.iter().map(|(name, expr)| (name.as_str(), expr.clone())).collect()
}

impl Filled {
    fn new(text: String) -> Self {
        Self { text, parts: Vec::new() }
    }

    fn with(mut self, name: &str, expr: Expr) -> Self {
        self.parts.push((name.to_owned(), expr));
        self
    }

    fn add_to(self, statement: &mut Statement, cte: &str) -> Result<()> {
        statement.cte(cte, &self.text, &borrowed(&self.parts))
    }
}

impl Unit<'_> {
    /// The suffix of its common table expressions.
    fn name(&self) -> String {
        let letter = letters(self.order + 1).last().map_or('a', |(_, letter)| letter);
        let mut name = letter.to_ascii_lowercase().to_string();
        if self.side == ComparedPeriod::Previous {
            name.push_str("_previous");
        }
        if self.cohort.is_some() {
            name.push_str(&format!("_{}", cohort_text(self.cohort.flatten())));
        }
        name
    }

    fn intervals(&self) -> Intervals<'_> {
        let calendar = &self.plan.lowering.scope.dates.calendar;
        Intervals { calendar, buckets: &self.period.buckets }
    }

    fn rolling_days(&self) -> Option<i64> {
        match self.node.math {
            Math::WeeklyActive => Some(7),
            Math::MonthlyActive => Some(30),
            _ => None,
        }
    }

    fn actor(&self) -> Actor {
        Actor::of(self.plan.lowering.scope.base.aggregation_group_type_index)
    }

    /// What must exist for an event to count: an actor, a session or a group.
    fn counted(&self) -> Option<Actor> {
        match self.node.math {
            Math::Total | Math::Hogql => None,
            Math::UniqueSession => Some(Actor::session()),
            Math::UniqueGroup => Some(Actor::group(self.node.math_group_type_index.unwrap_or(0))),
            math if AggregateFn::for_property(math).is_some() => {
                self.of_session().then(Actor::session)
            }
            _ => Some(self.actor()),
        }
    }

    fn of_session(&self) -> bool {
        self.node.math_property.as_deref() == Some("$session_duration")
            || self.node.math_property_type == MathPropertyType::Session
    }

    fn selected(&self) -> Result<Expr> {
        let selected = self.plan.lowering.selected(self.node)?.unwrap_or_else(|| boolean(false));
        let cohort = self.cohort.flatten();
        let cohort = cohort.map(|id| in_cohort(field(&["person_id"]), id, false));
        Ok(both([Some(selected), cohort]))
    }

    fn source(&self, statement: &mut Statement) -> Result<Source> {
        let calendar = &self.plan.lowering.scope.dates.calendar;
        let Period { from, to, buckets } = self.period;
        let keys = self.plan.values().map(|values| values.keys.clone()).unwrap_or_default();
        let exists = self.counted().and_then(|actor| actor.exists());
        if matches!(self.node.math, Math::FirstTimeForUser | Math::FirstMatchingEventForUser) {
            return self.first_events(statement, keys, exists);
        }
        let from = match self.rolling_days() {
            None => *from,
            Some(days) if self.plan.is_total() => calendar.window_start(*to, days)?.min(*from),
            Some(days) => {
                let first = buckets.starts.first().copied().unwrap_or(*from);
                calendar.window_start(first, days)?
            }
        };
        Ok(Source {
            table: "events".to_owned(),
            filter: both([Some(self.selected()?), Some(within(Some(from), *to)), exists]),
            keys,
            time: field(&["timestamp"]),
        })
    }

    /// The first event of each actor.
    fn first_events(
        &self,
        statement: &mut Statement,
        keys: Vec<Expr>,
        exists: Option<Expr>,
    ) -> Result<Source> {
        let Period { from, to, .. } = *self.period;
        let ever = match self.node.math {
            Math::FirstTimeForUser => self.plan.lowering.named(self.node)?,
            _ => None,
        };
        let name = format!("first_{}", self.name());
        let first = FirstEvents {
            actor: self.actor().expr,
            selected: self.selected()?,
            ever,
            within: both([Some(within(None, to)), exists]),
            from,
            keys: &keys,
        };
        first.add_to(statement, &name)?;
        let keys = (0..keys.len()).map(FirstEvents::value).collect();
        Ok(Source { table: name, filter: boolean(true), keys, time: field(&["first_at"]) })
    }

    /// The numbers by the source's keys and interval. `ranked` tells values beyond the limit apart.
    fn points(&self, source: &Source, ranked: bool) -> Result<Filled> {
        let total = self.plan.is_total();
        let mut keys: Vec<(String, Expr)> = Vec::new();
        let mut filter = source.filter.clone();
        let names = self.plan.values().map(BreakdownValues::columns).unwrap_or_default();
        if ranked {
            let columns = names.join(", ");
            let tuple = match source.keys.as_slice() {
                [one] => one.clone(),
                several => call("tuple", several.to_vec()),
            };
            let top = format!("{{value}} IN (SELECT {columns} FROM top_{})", self.name());
            let is_top = expression(&top, &[("value", tuple.clone())])?;
            let rest = expression(&top.replace(" IN ", " NOT IN "), &[("value", tuple)])?;
            if self.plan.hides_others() {
                filter = both([Some(filter), Some(is_top)]);
                keys.push(("rest".to_owned(), boolean(false)));
            } else {
                keys.push(("rest".to_owned(), rest));
            }
        }
        for (name, key) in names.iter().zip(&source.keys) {
            let own = match ranked && !self.plan.hides_others() {
                false => key.clone(),
                true => {
                    let parts = [("rest", keys[0].1.clone()), ("key", key.clone())];
                    expression("if({rest}, '', {key})", &parts)?
                }
            };
            keys.push((name.clone(), own));
        }
        let rolling = self.rolling_days().filter(|_| !total);
        if !total && rolling.is_none() {
            keys.push(("bucket".to_owned(), self.intervals().bucket(source.time.clone())?));
        }
        let mut filled = self.aggregate(&keys, rolling)?;
        for (name, key) in keys {
            filled = filled.with(&format!("key_{name}"), key);
        }
        filled.text = filled.text.replace("{source}", &source.table);
        Ok(filled.with("filter", filter))
    }

    /// A SELECT of the keys and `value`. `{source}` in its text is the table.
    fn aggregate(&self, keys: &[(String, Expr)], rolling: Option<i64>) -> Result<Filled> {
        let columns: Vec<&str> = keys.iter().map(|(name, _)| name.as_str()).collect();
        let defined: String =
            columns.iter().map(|name| format!("{{key_{name}}} AS {name}, ")).collect();
        let listed: String = columns.iter().map(|name| format!("{name}, ")).collect();
        let group = |more: &[&str]| {
            let all: Vec<&str> = columns.iter().chain(more).copied().collect();
            match all.is_empty() {
                true => String::new(),
                false => format!(" GROUP BY {}", all.join(", ")),
            }
        };
        let factor = self.node.math_multiplier.map(number);
        let scaled = |value: &str| match &factor {
            None => value.to_owned(),
            Some(_) => format!("({value}) * {{factor}}"),
        };
        let with_factor = |filled: Filled| match &factor {
            None => filled,
            Some(factor) => filled.with("factor", factor.clone()),
        };
        let plain = |value: &str| {
            let value = scaled(value);
            let group = group(&[]);
            with_factor(Filled::new(format!(
                "SELECT {defined}{value} AS value FROM {{source}} WHERE {{filter}}{group}"
            )))
        };
        // One row per key and `id`, then an aggregate of the rows of each key.
        let nested = |id: &str, inner: &str, value: &str| {
            let value = scaled(value);
            let (group_inner, group) = (group(&[id]), group(&[]));
            with_factor(Filled::new(format!(
                "SELECT {listed}{value} AS value FROM (SELECT {defined}{{{id}}} AS {id}, {inner} \
                 FROM {{source}} WHERE {{filter}}{group_inner}){group}"
            )))
        };
        let actor = self.actor().expr;
        Ok(match self.node.math {
            Math::Total | Math::FirstTimeForUser | Math::FirstMatchingEventForUser => {
                plain("count()")
            }
            Math::WeeklyActive | Math::MonthlyActive if rolling.is_some() => {
                let days = rolling.unwrap_or(1) - 1;
                let bucket = || field(&["bucket"]);
                let last = self.intervals().last_day(bucket(), self.period.to)?;
                let value = scaled(&format!(
                    "uniqExactIf(actor, day >= toStartOfDay(subtractDays({{last}}, {days})) AND \
                     day <= {{last}})"
                ));
                let group = group(&["bucket"]);
                with_factor(Filled::new(format!(
                    "SELECT {listed}bucket, {value} AS value FROM (SELECT DISTINCT {defined}\
                     toStartOfDay(timestamp) AS day, {{actor}} AS actor FROM {{source}} WHERE \
                     {{filter}}) ARRAY JOIN {{buckets}} AS bucket{group}"
                )))
                .with("last", last)
                .with("buckets", self.intervals().list()?)
                .with("actor", actor)
            }
            // An actor counts from its first interval on.
            Math::Dau if self.plan.display_mode == DisplayMode::Cumulative => {
                let bucket = columns.last().copied().unwrap_or("bucket");
                let others: Vec<&str> =
                    columns.iter().copied().filter(|name| *name != bucket).collect();
                let listed: String = others.iter().map(|name| format!("{name}, ")).collect();
                let defined: String =
                    others.iter().map(|name| format!("{{key_{name}}} AS {name}, ")).collect();
                let inner: String = others.iter().map(|name| format!("{name}, ")).collect();
                let value = scaled("count()");
                with_factor(Filled::new(format!(
                    "SELECT {listed}first AS bucket, {value} AS value FROM (SELECT {defined}\
                     {{actor}} AS actor, min({{key_bucket}}) AS first FROM {{source}} WHERE \
                     {{filter}} GROUP BY {inner}actor) GROUP BY {inner}bucket"
                )))
                .with("actor", actor)
            }
            Math::Dau | Math::WeeklyActive | Math::MonthlyActive => {
                plain("uniqExact({actor})").with("actor", actor)
            }
            Math::UniqueSession | Math::UniqueGroup => {
                let counted = self.counted().unwrap_or_else(Actor::person).expr;
                plain("uniqExact({counted})").with("counted", counted)
            }
            Math::Hogql => {
                let text = self.node.math_hogql.as_deref().unwrap_or_default();
                plain("ifNull(ifNotFinite({math}, 0), 0)").with("math", parse_expr(text)?)
            }
            math => match AggregateFn::for_count_per_actor(math) {
                Some(function) => {
                    let value = function.text("events", None);
                    // Over no rows, averages and quantiles are NaN.
                    let value = format!("ifNotFinite({value}, 0)");
                    nested("actor", "count() AS events", &value).with("actor", actor)
                }
                None => {
                    let function =
                        AggregateFn::for_property(math).ok_or_else(|| unsupported("This math"))?;
                    let name = self.node.math_property.as_deref().unwrap_or_default();
                    match self.of_session() {
                        true => {
                            let value = function.text("x", Some("isFinite(x)"));
                            nested(
                                "session_key",
                                "max({number}) AS x",
                                &format!("ifNull({value}, 0)"),
                            )
                            .with("session_key", Actor::session().expr)
                            .with("number", session_number(name))
                        }
                        false => {
                            let value = function.text("{number}", Some("isFinite({number})"));
                            plain(&format!("ifNull({value}, 0)"))
                                .with("number", self.property_number(name))
                        }
                    }
                }
            },
        })
    }

    fn property_number(&self, name: &str) -> Expr {
        match self.node.math_property_type {
            MathPropertyType::Person => Value::property(&["person", "properties"], name).number(),
            _ => Value::property(&["properties"], name).number(),
        }
    }

    /// Adds the common table expressions; returns a SELECT of the constants, the keys, the value and,
    /// where the result needs them, the weight and `has_more`.
    fn lines(&self, statement: &mut Statement) -> Result<String> {
        let (plan, name) = (self.plan, self.name());
        let source = self.source(statement)?;
        if let Some(values) = plan.values() {
            let columns = values.columns().join(", ");
            self.points(&source, false)?.add_to(statement, &format!("all_{name}"))?;
            let text = format!(
                "SELECT {columns}, sum(value) AS weight FROM all_{name} GROUP BY {columns}"
            );
            statement.cte(&format!("values_{name}"), &text, &[])?;
            let text = format!(
                "SELECT {columns} FROM values_{name} ORDER BY weight DESC, {} LIMIT {}",
                values.labels(),
                values.limit
            );
            statement.cte(&format!("top_{name}"), &text, &[BreakdownValues::null()])?;
        }
        let points = format!("points_{name}");
        self.points(&source, plan.values().is_some())?.add_to(statement, &points)?;
        let mut constants = Vec::new();
        for constant in plan.constants() {
            constants.push(match constant {
                "series" => format!("{} AS series", self.order),
                "period" => format!("'{}' AS period", side_text(self.side)),
                _ => format!("'{}' AS cohort", cohort_text(self.cohort.flatten())),
            });
        }
        let keys = plan.keys();
        let from = match plan.is_dense() {
            false => points,
            true => self.dense(statement, &points)?,
        };
        let mut columns: Vec<String> = constants.into_iter().chain(keys).collect();
        columns.push("toFloat(value) AS value".to_owned());
        if plan.smoothing() > 1 && plan.formulas.is_empty() {
            columns.push("weight".to_owned());
        }
        if let Some(values) = plan.values().filter(|values| values.hide_other) {
            let more = format!("(SELECT count() FROM values_{name}) > {}", values.limit);
            columns.push(format!("{more} AS has_more"));
        }
        Ok(format!("SELECT {} FROM {from}", columns.join(", ")))
    }

    /// A number for every interval; running totals and moving averages.
    fn dense(&self, statement: &mut Statement, points: &str) -> Result<String> {
        let (plan, name) = (self.plan, self.name());
        let mut line: Vec<String> = plan.keys();
        line.pop();
        let listed: String = line.iter().map(|column| format!("{column}, ")).collect();
        let zeros = match line.is_empty() {
            true => "SELECT arrayJoin({buckets}) AS bucket, 0 AS value".to_owned(),
            false => format!(
                "SELECT {listed}arrayJoin({{buckets}}) AS bucket, 0 AS value FROM (SELECT DISTINCT \
                 {} FROM {points})",
                line.join(", ")
            ),
        };
        let text = format!(
            "SELECT {listed}bucket, sum(value) AS value FROM (SELECT {listed}bucket, value FROM \
             {points} UNION ALL {zeros}) GROUP BY {listed}bucket"
        );
        let filled = format!("filled_{name}");
        statement.cte(&filled, &text, &[("buckets", self.intervals().list()?)])?;
        let partition = match line.is_empty() {
            true => String::new(),
            false => format!("PARTITION BY {} ", line.join(", ")),
        };
        let mut from = filled;
        if plan.display_mode == DisplayMode::Cumulative {
            let running = format!("running_{name}");
            let text = format!(
                "SELECT {listed}bucket, sum(value) OVER ({partition}ORDER BY bucket ROWS BETWEEN \
                 UNBOUNDED PRECEDING AND CURRENT ROW) AS value FROM {from}"
            );
            statement.cte(&running, &text, &[])?;
            from = running;
        }
        if plan.smoothing() > 1 {
            let smooth = format!("smooth_{name}");
            let weight = match plan.display_mode {
                DisplayMode::Cumulative => format!(
                    "last_value({from}.value) OVER ({partition}ORDER BY bucket ROWS BETWEEN UNBOUNDED \
                     PRECEDING AND UNBOUNDED FOLLOWING)"
                ),
                _ => format!("sum({from}.value) OVER ({})", partition.trim_end()),
            };
            let text = format!(
                "SELECT {listed}bucket, floor(avg({from}.value) OVER ({partition}ORDER BY bucket ROWS \
                 BETWEEN {} PRECEDING AND CURRENT ROW)) AS value, {weight} AS weight FROM {from}",
                plan.smoothing() - 1
            );
            statement.cte(&smooth, &text, &[])?;
            from = smooth;
        }
        Ok(from)
    }
}

/// A session field as a number; booleans are 0 and 1.
fn session_number(name: &str) -> Expr {
    let kind = Table::Sessions.column(name).map(|(_, ty)| ty.kind);
    match kind {
        Some(Kind::Bool) => call("toFloat", vec![field(&["session", name])]),
        kind => Value::column(&["session", name], kind).number(),
    }
}

impl AggregateFn {
    /// A call of the function in HogQL, of the rows that pass a condition.
    fn text(self, x: &str, condition: Option<&str>) -> String {
        let (name, parameter) = match self {
            Self::Sum => ("sum", String::new()),
            Self::Avg => ("avg", String::new()),
            Self::Min => ("min", String::new()),
            Self::Max => ("max", String::new()),
            Self::Quantile(part) => ("quantile", format!("({part})")),
        };
        match condition {
            None => format!("{name}{parameter}({x})"),
            Some(condition) => format!("{name}If{parameter}({x}, {condition})"),
        }
    }
}
