//! Funnels as a HogQL statement.
//!
//! `moments` has one row per actor and timestamp: which steps and exclusions its events match.
//! `actors` collects them to arrays, and `attempts` has an array of the times of completed steps for
//! every possible start. `conversions` keeps the best attempt of each actor, or of each actor and
//! interval. A compared period has the same common table expressions, named `…_previous`.

pub(super) mod correlation;
mod result;

use facts::QueryContext;
use hogql::ast::{Expr, Query};
use hogql::build::{any, boolean, call, field, in_cohort, not};
use model::CohortId;
use serde_json::Value as Json;

use super::count::{Attribution, FunnelOutput};
use super::shape::{self, COMPARED};
use super::step_matcher::{Order, Rules};
use super::{FunnelsQuery, Viz};
use crate::lower::breakdown::{BreakdownBy, BreakdownValues, Histograms, cohort_text, label};
use crate::lower::intervals::Intervals;
use crate::lower::selection::{Actor, Lowering, both, missing_action, within};
use crate::lower::{Statement, unsupported};
use crate::query::date_range::Period;
use crate::result::InsightResult;
use crate::{Error, Result};

/// Steps of an unordered funnel that may match the same event. The statement has a term for each of
/// their subsets.
const OVERLAPPING_MAX: usize = 4;
/// The time of an optional step that an attempt skips.
const SKIPPED: i64 = 0;

struct Plan<'a> {
    query: &'a FunnelsQuery,
    lowering: Lowering<'a>,
    period: Period,
    /// The period that the query's own is compared with.
    previous: Option<Period>,
    rules: Rules,
    output: FunnelOutput,
    attribution: Attribution,
    by: BreakdownBy,
}

/// What one set of common table expressions counts.
struct Part<'p> {
    /// Ends the names of the common table expressions.
    suffix: String,
    period: &'p Period,
    /// The cohort of a breakdown by cohorts.
    cohort: Option<CohortId>,
}

/// The columns of common table expressions that follow from the rules.
struct Columns {
    /// The actor, and the breakdown value if every value has a funnel of its own.
    keys: Vec<&'static str>,
    /// Arrays of timestamps.
    arrays: Vec<String>,
    /// `touched`, if an event decides the value.
    touched: Vec<String>,
}

impl Columns {
    fn all(&self) -> Vec<String> {
        let keys = self.keys.iter().map(|key| (*key).to_owned());
        keys.chain(self.arrays.iter().cloned()).chain(self.touched.iter().cloned()).collect()
    }
}

impl FunnelsQuery {
    fn lowering<'a>(&'a self, context: &'a QueryContext) -> Result<Plan<'a>> {
        let lowering = Lowering::new(context, &self.base)?;
        let mut periods = self.periods(&lowering.scope.dates)?.into_iter();
        let (period, previous) = (periods.next(), periods.next());
        let period = period.ok_or_else(|| Error::invalid("The query has no period."))?;
        let by = match self.spec.funnels_filter.funnel_viz_type {
            Viz::TimeToConvert => BreakdownBy::Nothing,
            _ => BreakdownBy::new(&self.spec.breakdown_filter, Histograms::Ignored)?,
        };
        Ok(Plan {
            query: self,
            lowering,
            period,
            previous,
            rules: self.rules()?,
            output: self.output()?,
            attribution: self.attribution()?,
            by,
        })
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        self.lowering(context)?.statement()
    }

    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        let plan = self.lowering(context)?;
        let (results, has_more) = plan.results(rows)?;
        let Period { from, to, .. } = plan.period;
        let calendar = &plan.lowering.scope.dates.calendar;
        let mut result = InsightResult::new(results, calendar, from, to, self.spec.interval)?;
        result.has_more = has_more.then_some(true);
        Ok(result)
    }
}

impl Plan<'_> {
    fn values(&self) -> Option<&BreakdownValues> {
        match &self.by {
            BreakdownBy::Values(values) => Some(values),
            _ => None,
        }
    }

    /// Whether every breakdown value has a funnel of its own.
    fn by_every(&self) -> bool {
        self.attribution == Attribution::Every && self.values().is_some()
    }

    /// The step whose event decides the breakdown value, from 1.
    fn attributed_step(&self) -> Option<usize> {
        match self.attribution {
            Attribution::Step(step) if self.values().is_some() => Some(step + 1),
            _ => None,
        }
    }

    fn is_touched(&self) -> bool {
        let touch = matches!(self.attribution, Attribution::First | Attribution::Last);
        touch && self.values().is_some()
    }

    fn is_trend(&self) -> bool {
        matches!(self.output, FunnelOutput::Trend { .. })
    }

    fn periods(&self) -> impl Iterator<Item = &Period> {
        std::iter::once(&self.period).chain(&self.previous)
    }

    /// The query's own period without a breakdown by cohorts.
    fn whole(&self) -> Part<'_> {
        Part { suffix: String::new(), period: &self.period, cohort: None }
    }

    /// The last step before `step`, both from 1, that a conversion may not skip.
    fn required_before(&self, step: usize) -> usize {
        self.rules.required_before(step - 1) + 1
    }

    fn is_optional(&self, step: usize) -> bool {
        self.rules.optional & 1 << (step - 1) != 0
    }

    /// Whether `p` completed a step.
    fn reached(&self, step: usize) -> String {
        match self.is_optional(step) {
            false => format!("length(p) >= {step}"),
            true => format!("length(p) >= {step} AND p[{step}] != {SKIPPED}"),
        }
    }

    /// Whether two steps, from 1, may match the same event.
    fn overlap(&self, a: usize, b: usize) -> bool {
        self.rules.overlaps[a - 1] & 1 << (b - 1) != 0
    }

    fn statement(&self) -> Result<Query> {
        let mut statement = Statement::default();
        let cohorts: Vec<Option<Option<CohortId>>> = match &self.by {
            BreakdownBy::Cohorts(cohorts) => cohorts.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        let mut selects = Vec::new();
        for (at, period) in self.periods().enumerate() {
            let word = COMPARED[at];
            for cohort in &cohorts {
                let mut suffix = if at == 0 { String::new() } else { format!("_{word}") };
                let mut constant = match self.previous {
                    None => String::new(),
                    Some(_) => format!("'{word}' AS period, "),
                };
                if let Some(id) = cohort {
                    suffix.push_str(&format!("_{}", cohort_text(*id)));
                    constant.push_str(&format!("'{}' AS cohort, ", cohort_text(*id)));
                }
                let part = Part { suffix, period, cohort: cohort.flatten() };
                self.conversions(&mut statement, &part)?;
                match self.output {
                    // The histograms of both periods have the same bins.
                    FunnelOutput::Times { .. } => {}
                    _ => selects.push(self.counts(&mut statement, &part, &constant)?),
                }
            }
        }
        if let FunnelOutput::Times { from, to } = self.output {
            selects.push(self.histogram(&mut statement, from + 1, to + 1)?);
        }
        let order = match &self.by {
            BreakdownBy::Nothing => "",
            BreakdownBy::Cohorts(_) => "cohort",
            BreakdownBy::Values(_) => "rest, breakdown_1",
        };
        let period = self.previous.as_ref().map_or("", |_| "period");
        let mut order: Vec<&str> =
            [period, order].into_iter().filter(|order| !order.is_empty()).collect();
        match self.output {
            FunnelOutput::Steps => {}
            FunnelOutput::Trend { .. } => order.push("bucket"),
            FunnelOutput::Times { .. } => order.push("bin_start"),
        }
        let mut text = match selects.as_slice() {
            [one] => one.clone(),
            several => format!("SELECT * FROM ({})", several.join(" UNION ALL ")),
        };
        if !order.is_empty() {
            text.push_str(&format!(" ORDER BY {}", order.join(", ")));
        }
        statement.finish(&text, &[])
    }

    /// The events by actor and timestamp.
    fn moments(&self, statement: &mut Statement, part: &Part<'_>) -> Result<()> {
        let Part { suffix, period, cohort } = part;
        let (query, steps) = (self.query, self.rules.steps);
        let actor = match query.spec.funnels_filter.funnel_aggregate_by_hogql.as_deref() {
            Some(text) if !text.is_empty() => Actor::of_expression(text)?,
            _ => Actor::of(query.base.aggregation_group_type_index),
        };
        let mut matched = Vec::new();
        for node in query.nodes() {
            matched.push(self.lowering.own(node)?.ok_or_else(|| missing_action(node))?);
        }
        let is_step = any(matched[..steps].to_vec());
        let is_any = match self.rules.order {
            Order::Strict => None,
            _ => Some(any(matched.clone())),
        };
        let cohort = cohort.map(|id| in_cohort(field(&["person_id"]), id, false));
        let time = within(Some(period.from), period.to);
        let common = self.lowering.common();
        let filter = both([Some(time), common, is_any, cohort, actor.exists()]);
        let mut columns = Vec::new();
        let mut parts = vec![("actor".to_owned(), actor.expr), ("filter".to_owned(), filter)];
        for (at, own) in matched.into_iter().enumerate() {
            let name = match at.checked_sub(steps) {
                None => format!("s{}", at + 1),
                Some(exclusion) => format!("x{}", exclusion + 1),
            };
            columns.push(format!("max({{{name}}}) AS {name}"));
            parts.push((name, own));
        }
        if self.rules.order == Order::Strict {
            columns.push("max({other}) AS other".to_owned());
            let matches_step = call("ifNull", vec![is_step.clone(), boolean(false)]);
            parts.push(("other".to_owned(), not(matches_step)));
        }
        let mut group = vec!["actor", "t"];
        if let Some(values) = self.values() {
            let key = values.keys[0].clone();
            parts.push(("label".to_owned(), label(key.clone())?));
            parts.push(("key".to_owned(), key));
            parts.push(("is_step".to_owned(), is_step));
            if self.by_every() {
                columns.push("{key} AS own_value".to_owned());
                group.push("own_value");
            } else if let Some(step) = self.attributed_step() {
                columns.push(format!("argMinIf({{key}}, {{label}}, {{s{step}}}) AS own_value"));
            } else {
                columns.push(
                    "argMinIf({key}, {label}, {is_step} AND {key} != '') AS own_value".to_owned(),
                );
            }
        }
        let text = format!(
            "SELECT {{actor}} AS actor, toUnixTimestamp64Micro(timestamp) AS t, {} FROM events WHERE \
             {{filter}} GROUP BY {}",
            columns.join(", "),
            group.join(", ")
        );
        let parts: Vec<(&str, Expr)> =
            parts.iter().map(|(name, expr)| (name.as_str(), expr.clone())).collect();
        statement.cte(&format!("moments{suffix}"), &text, &parts)
    }

    /// The moments of each actor as arrays.
    fn actors(&self, statement: &mut Statement, suffix: &str) -> Result<Columns> {
        let (steps, exclusions) = (self.rules.steps, self.rules.exclusions.len());
        let mut keys = vec!["actor"];
        if self.by_every() {
            keys.push("own_value");
        }
        let mut columns = Columns { keys, arrays: Vec::new(), touched: Vec::new() };
        let mut selected: Vec<String> = columns.keys.iter().map(|key| (*key).to_owned()).collect();
        let mut add = |name: String, text: String, arrays: &mut Vec<String>| {
            selected.push(format!("{text} AS {name}"));
            arrays.push(name);
        };
        let arrays = &mut columns.arrays;
        match self.rules.order {
            Order::Strict => {
                let flags: String = (1..=steps).map(|step| format!(", s{step}")).collect();
                let text = format!("arraySort(groupArray(tuple(t{flags}, other)))");
                add("slots".to_owned(), text, arrays);
            }
            Order::Ordered => {
                for step in 1..=steps {
                    let text = format!("arraySort(groupArrayIf(t, s{step}))");
                    add(format!("times_{step}"), text, arrays);
                }
            }
            Order::Unordered => {
                let mut all: Vec<String> = (1..=steps).map(|step| format!("s{step}")).collect();
                let text = format!("arraySort(groupArrayIf(t, {}))", all.join(" OR "));
                add("times_any".to_owned(), text, arrays);
                all.clear();
                for component in self.components()? {
                    for subset in subsets(&component) {
                        let flags: Vec<String> =
                            subset.iter().map(|step| format!("s{step}")).collect();
                        let text = format!("arraySort(groupArrayIf(t, {}))", flags.join(" OR "));
                        add(union_name(&subset), text, arrays);
                    }
                }
            }
        }
        if let Some(step) = self.attributed_step() {
            let text = format!("arraySort(groupArrayIf(tuple(t, own_value), s{step}))");
            add("attributed".to_owned(), text, arrays);
        }
        for exclusion in (1..=exclusions).filter(|_| !self.by_every()) {
            let text = format!("groupArrayIf(t, x{exclusion})");
            add(format!("excluding_{exclusion}"), text, arrays);
        }
        if self.is_touched() {
            let pick = if self.attribution == Attribution::First { "argMinIf" } else { "argMaxIf" };
            selected.push(format!("{pick}(own_value, t, own_value != '') AS touched"));
            columns.touched.push("touched".to_owned());
        }
        let group = columns.keys.join(", ");
        let from = format!("moments{suffix}");
        let text = format!("SELECT {} FROM {from} GROUP BY {group}", selected.join(", "));
        if !self.by_every() || exclusions == 0 {
            statement.cte(&format!("actors{suffix}"), &text, &[])?;
            return Ok(columns);
        }
        // Exclusions apply to the funnels of all values.
        statement.cte(&format!("actors_of_values{suffix}"), &text, &[])?;
        let names: Vec<String> =
            (1..=exclusions).map(|exclusion| format!("excluding_{exclusion}")).collect();
        let each: String = (1..=exclusions)
            .map(|exclusion| format!(", groupArrayIf(t, x{exclusion}) AS excluding_{exclusion}"))
            .collect();
        let text = format!("SELECT actor{each} FROM {from} GROUP BY actor");
        statement.cte(&format!("excluding{suffix}"), &text, &[])?;
        let own: Vec<String> =
            columns.all().iter().map(|name| format!("a.{name} AS {name}")).collect();
        let joined: String = names.iter().map(|name| format!(", x.{name} AS {name}")).collect();
        let text = format!(
            "SELECT {}{joined} FROM actors_of_values{suffix} a INNER JOIN excluding{suffix} x ON \
             a.actor = x.actor",
            own.join(", ")
        );
        statement.cte(&format!("actors{suffix}"), &text, &[])?;
        columns.arrays.extend(names);
        Ok(columns)
    }

    /// Connected components of overlapping steps.
    fn components(&self) -> Result<Vec<Vec<usize>>> {
        let mut all: Vec<Vec<usize>> = Vec::new();
        for step in 1..=self.rules.steps {
            let near = |own: &Vec<usize>| own.iter().any(|other| self.overlap(step, *other));
            let (joined, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(near);
            let mut own: Vec<usize> = joined.into_iter().flatten().collect();
            own.push(step);
            all = rest;
            all.push(own);
        }
        if all.iter().any(|own| own.len() > OVERLAPPING_MAX) {
            return Err(unsupported("An unordered funnel of so many overlapping steps"));
        }
        Ok(all)
    }

    /// Adds `attempts`: the times of completed steps, for every possible start in order.
    fn attempts(
        &self,
        statement: &mut Statement,
        suffix: &str,
        columns: &Columns,
    ) -> Result<String> {
        let kept = columns.all().join(", ");
        let window = self.rules.window;
        let mut from = format!("actors{suffix}");
        let mut stage = |statement: &mut Statement, step: usize, attempts: &str| {
            let name = format!("step_{step}{suffix}");
            let attempts = attempts.replace("{from}", &from);
            let text = format!("SELECT {kept}, {attempts} AS attempts FROM {from}");
            from = name.clone();
            statement.cte(&name, &text, &[])
        };
        match self.rules.order {
            Order::Ordered => {
                stage(statement, 1, "arrayMap(t -> [t], times_1)")?;
                for step in 2..=self.rules.steps {
                    let (before, required) = (step - 1, self.required_before(step));
                    let mut tests = vec![format!("t >= p[{required}]")];
                    let overlapping = (1..step)
                        .filter(|other| self.overlap(step, *other) && !self.is_optional(*other));
                    tests.extend(overlapping.map(|other| format!("t > p[{other}]")));
                    tests.push(format!("t - p[1] <= {window}"));
                    let mut times =
                        format!("arrayFilter(t -> {}, times_{step})", tests.join(" AND "));
                    if self.is_optional(step) {
                        times = format!("arrayConcat({times}, [{SKIPPED}])");
                    }
                    let text = format!(
                        "arrayMap(p -> if(length(p) = {before}, arrayConcat(p, arraySlice({times}, \
                         1, 1)), p), {{from}}.attempts)"
                    );
                    stage(statement, step, &text)?;
                }
                if self.rules.optional != 0 {
                    self.skip_optional(&mut |step, text| stage(statement, step, text))?;
                }
            }
            Order::Strict if self.rules.optional != 0 => {
                return Err(unsupported("A strict funnel with optional steps"));
            }
            Order::Strict => {
                let other = self.rules.steps + 2;
                let first = "arrayMap(i -> tuple(i, 1, [slots[i].1]), arrayFilter(i -> \
                             slots[i].2 = 1, arrayEnumerate(slots)))";
                stage(statement, 1, first)?;
                for step in 2..=self.rules.steps {
                    let (before, flag) = (step - 1, step + 1);
                    let overlapping = (1..step).filter(|other| self.overlap(step, *other)).max();
                    // `p.2` is the first step that the current slot completed.
                    let stays = match overlapping {
                        None => format!("slots[p.1].{flag} = 1"),
                        Some(last) => format!("slots[p.1].{flag} = 1 AND p.2 > {last}"),
                    };
                    let text = format!(
                        "arrayMap(p -> multiIf(length(p.3) < {before}, p, {stays}, tuple(p.1, p.2, \
                         arrayPushBack(p.3, slots[p.1].1)), slots[p.1].{other} = 0 AND p.1 < \
                         length(slots) AND slots[p.1 + 1].{flag} = 1 AND slots[p.1 + 1].1 - p.3[1] \
                         <= {window}, tuple(p.1 + 1, {step}, arrayPushBack(p.3, slots[p.1 + 1].1)), \
                         p), {{from}}.attempts)"
                    );
                    stage(statement, step, &text)?;
                }
                let last = self.rules.steps + 1;
                stage(statement, last, "arrayMap(p -> p.3, {from}.attempts)")?;
            }
            Order::Unordered => {
                let mut parts = Vec::new();
                for component in self.components()? {
                    let size = component.len();
                    for done in 1..=size {
                        parts.push(time_of_matching(&component, done, window));
                    }
                }
                let text = format!(
                    "arrayMap(s -> arraySort(arrayConcat({})), times_any)",
                    parts.join(", ")
                );
                stage(statement, 1, &text)?;
            }
        }
        Ok(from)
    }

    /// Drops optional steps from attempts that have the earliest time of each: those at the end that
    /// were not reached, and those that do not lie before the next step that counts.
    fn skip_optional(&self, stage: &mut dyn FnMut(usize, &str) -> Result<()>) -> Result<()> {
        let steps = self.rules.steps;
        let text = format!(
            "arrayMap(p -> arraySlice(p, 1, arrayMax(arrayMap(i -> if(p[i] != {SKIPPED}, i, 0), \
             arrayEnumerate(p)))), {{from}}.attempts)"
        );
        stage(steps + 1, &text)?;
        let optional = (2..=steps).rev().filter(|step| self.is_optional(*step));
        for (at, step) in optional.enumerate() {
            let (before, after) = (step - 1, step + 1);
            let mut tests = vec![format!(
                "arrayExists(t -> t != {SKIPPED} AND t < p[{step}], arraySlice(p, {after}))"
            )];
            let overlapping = (after..=steps).filter(|other| self.overlap(step, *other));
            tests.extend(
                overlapping.map(|other| format!("length(p) >= {other} AND p[{other}] = p[{step}]")),
            );
            let text = format!(
                "arrayMap(p -> if(length(p) > {step} AND p[{step}] != {SKIPPED} AND ({}), \
                 arrayConcat(arraySlice(p, 1, {before}), [{SKIPPED}], arraySlice(p, {after})), p), \
                 {{from}}.attempts)",
                tests.join(" OR ")
            );
            stage(steps + 2 + at, &text)?;
        }
        Ok(())
    }

    /// Adds `conversions`: `p`, the times of the best attempt, and where the result needs them the
    /// breakdown value and the interval.
    fn conversions(&self, statement: &mut Statement, part: &Part<'_>) -> Result<()> {
        let suffix = part.suffix.as_str();
        self.moments(statement, part)?;
        let columns = self.actors(statement, suffix)?;
        let attempts = self.attempts(statement, suffix, &columns)?;
        let kept = columns.all().join(", ");
        let best = format!("best{suffix}");
        match self.output {
            FunnelOutput::Trend { from, .. } => {
                let calendar = &self.lowering.scope.dates.calendar;
                let intervals = Intervals { calendar, buckets: &part.period.buckets };
                let start = hogql::parse_expr("fromUnixTimestamp(intDiv(p[1], 1000000))")?;
                let bucket = intervals.bucket(start)?;
                let text = format!(
                    "SELECT {kept}, p, {{bucket}} AS bucket FROM {attempts} ARRAY JOIN attempts AS p"
                );
                let entered = format!("entered{suffix}");
                statement.cte(&entered, &text, &[("bucket", bucket)])?;
                let by = columns.keys.join(", ");
                let ranked = format!("ranked{suffix}");
                let text = format!(
                    "SELECT {kept}, p, bucket FROM {entered} ORDER BY {by}, bucket, length(p) DESC, \
                     p[1] LIMIT 1 BY {by}, bucket"
                );
                statement.cte(&ranked, &text, &[])?;
                let text =
                    format!("SELECT {kept}, p, bucket FROM {ranked} WHERE length(p) > {from}");
                statement.cte(&best, &text, &[])?;
            }
            FunnelOutput::Steps | FunnelOutput::Times { .. } => {
                let text = format!(
                    "SELECT {kept}, arrayFirst(p -> length(p) = arrayMax(arrayMap(q -> length(q), \
                     attempts)), attempts) AS p FROM {attempts} WHERE length(attempts) > 0"
                );
                statement.cte(&best, &text, &[])?;
            }
        }
        let mut tests = Vec::new();
        for (at, exclusion) in self.rules.exclusions.iter().enumerate() {
            let (from, to) = (exclusion.from + 1, exclusion.to + 1);
            // Of skipped steps, the nearest completed ones outside of the range.
            let after = match self.is_optional(from) {
                false => format!("p[{from}]"),
                true => format!("arrayMax(arraySlice(p, 1, {from}))"),
            };
            let before = match self.is_optional(to) {
                false => format!("p[{to}]"),
                true => {
                    format!("arrayMin(arrayFilter(t -> t != {SKIPPED}, arraySlice(p, {to})))")
                }
            };
            tests.push(format!(
                "NOT (length(p) >= {to} AND arrayExists(t -> t > {after} AND t < {before}, \
                 excluding_{}))",
                at + 1
            ));
        }
        let filter = match tests.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", tests.join(" AND ")),
        };
        let value = match (self.values(), self.attribution) {
            (None, _) => None,
            (_, Attribution::First | Attribution::Last) => Some("touched".to_owned()),
            (_, Attribution::Every) => Some("own_value".to_owned()),
            (_, Attribution::Step(step)) => Some(self.value_at_step(step + 1)?),
        };
        let value = value.map_or_else(String::new, |value| format!(", {value} AS reached_value"));
        let bucket = if self.is_trend() { ", bucket" } else { "" };
        let text = format!("SELECT actor, p{bucket}{value} FROM {best}{filter}");
        statement.cte(&format!("conversions{suffix}"), &text, &[])
    }

    fn value_at_step(&self, step: usize) -> Result<String> {
        let time = match self.rules.order {
            Order::Ordered | Order::Strict => format!("length(p) >= {step} AND e.1 = p[{step}]"),
            Order::Unordered => {
                if (1..=self.rules.steps).any(|other| self.overlap(step, other)) {
                    return Err(unsupported("The value of a step that overlaps with others"));
                }
                format!("e.1 >= p[1] AND e.1 - p[1] <= {}", self.rules.window)
            }
        };
        Ok(format!("arrayFirst(e -> {time}, attributed).2"))
    }

    /// Adds the ranking of breakdown values; returns the SELECT of the result.
    fn counts(&self, statement: &mut Statement, part: &Part<'_>, constant: &str) -> Result<String> {
        let suffix = part.suffix.as_str();
        let mut from = format!("conversions{suffix}");
        let (mut keys, mut more) = (String::new(), String::new());
        if let Some(values) = self.values() {
            let text = format!(
                "SELECT reached_value AS breakdown_1, count() AS weight FROM {from} GROUP BY \
                 breakdown_1"
            );
            statement.cte(&format!("values_all{suffix}"), &text, &[])?;
            let text = format!(
                "SELECT breakdown_1 FROM values_all{suffix} ORDER BY weight DESC, {} LIMIT {}",
                values.labels(),
                values.limit
            );
            statement.cte(&format!("top_all{suffix}"), &text, &[BreakdownValues::null()])?;
            let is_rest = format!("reached_value NOT IN (SELECT breakdown_1 FROM top_all{suffix})");
            let hidden = match values.hide_other {
                true => {
                    format!(" WHERE reached_value IN (SELECT breakdown_1 FROM top_all{suffix})")
                }
                false => String::new(),
            };
            let bucket = if self.is_trend() { ", bucket" } else { "" };
            let text = format!(
                "SELECT p{bucket}, {is_rest} AS rest, if({is_rest}, '', reached_value) AS \
                 breakdown_1 FROM {from}{hidden}"
            );
            from = format!("named{suffix}");
            statement.cte(&from, &text, &[])?;
            keys = "rest, breakdown_1, ".to_owned();
            if values.hide_other {
                more = format!(
                    ", (SELECT count() FROM values_all{suffix}) > {} AS has_more",
                    values.limit
                );
            }
        }
        let group = |columns: &str| match columns.trim_end_matches(", ") {
            "" => String::new(),
            columns => format!(" GROUP BY {columns}"),
        };
        Ok(match self.output {
            FunnelOutput::Steps => {
                let mut columns = Vec::new();
                for step in 1..=self.rules.steps {
                    let reached = self.reached(step);
                    columns.push(format!("countIf({reached}) AS step_{step}"));
                    if step > 1 {
                        let before = self.required_before(step);
                        let seconds = format!("(p[{step}] - p[{before}]) / 1000000");
                        columns.push(format!("avgIf({seconds}, {reached}) AS average_{step}"));
                        columns.push(format!(
                            "quantileIf(0.5)({seconds}, {reached}) AS median_{step}"
                        ));
                    }
                }
                let group = group(&keys);
                format!("SELECT {constant}{keys}{}{more} FROM {from}{group}", columns.join(", "))
            }
            FunnelOutput::Trend { to, .. } => {
                let group = group(&format!("{keys}bucket"));
                format!(
                    "SELECT {constant}{keys}bucket, count() AS entered, countIf(length(p) > {to}) AS \
                     converted{more} FROM {from}{group}"
                )
            }
            FunnelOutput::Times { .. } => String::new(),
        })
    }

    /// The histogram of each period.
    fn histogram(&self, statement: &mut Statement, first: usize, last: usize) -> Result<String> {
        let times = |(at, _): (usize, &Period)| {
            let (word, suffix) = match at {
                0 => (COMPARED[0], String::new()),
                at => (COMPARED[at], format!("_{}", COMPARED[at])),
            };
            format!(
                "SELECT '{word}' AS period, (p[{last}] - p[{first}]) / 1000000 AS seconds FROM \
                 conversions{suffix} WHERE length(p) >= {last}"
            )
        };
        let times: Vec<String> = self.periods().enumerate().map(times).collect();
        statement.cte("conversion_times", &times.join(" UNION ALL "), &[])?;
        let text = "SELECT count() AS conversions, toInt(floor(min(seconds))) AS low, \
                    toInt(ceil(max(seconds))) AS high FROM conversion_times";
        statement.cte("stats", text, &[])?;
        // The cube root of the number of conversions, rounded up.
        let bins = match self.query.bins() {
            Some(bins) => bins.to_string(),
            None => format!(
                "arrayCount(n -> n * n * n < conversions, range(1, {})) + 1",
                shape::BINS_MAX
            ),
        };
        let text =
            format!("SELECT low, high, toInt({bins}) AS bins FROM stats WHERE conversions > 0");
        statement.cte("sized", &text, &[])?;
        let width = "intDiv(high - low + bins - 1, bins)";
        let text = format!(
            "SELECT low, bins, if({width} = 0, {}, {width}) AS width FROM sized",
            shape::WIDTH
        );
        statement.cte("bounds", &text, &[])?;
        let words: Vec<String> =
            self.periods().zip(COMPARED).map(|(_, word)| format!("'{word}'")).collect();
        let text = format!(
            "SELECT period, bin, sum(actors) AS actors FROM (SELECT w.period AS period, \
             arrayJoin(range(b.bins + 1)) AS bin, 0 AS actors FROM (SELECT arrayJoin([{}]) AS \
             period) w CROSS JOIN bounds b UNION ALL SELECT c.period AS period, \
             least(intDiv(toInt(floor(c.seconds)) - b.low, b.width), b.bins) AS bin, 1 AS actors \
             FROM conversion_times c CROSS JOIN bounds b) GROUP BY period, bin",
            words.join(", ")
        );
        statement.cte("histogram", &text, &[])?;
        let text = "SELECT period, avg(seconds) AS average, quantile(0.5)(seconds) AS median FROM \
                    conversion_times GROUP BY period";
        statement.cte("averages", text, &[])?;
        let period = self.previous.as_ref().map_or("", |_| "h.period AS period, ");
        Ok(format!(
            "SELECT {period}b.low + h.bin * b.width AS bin_start, h.actors AS actors, a.average AS \
             average, a.median AS median FROM histogram h CROSS JOIN bounds b LEFT JOIN averages a \
             ON h.period = a.period"
        ))
    }
}

/// All subsets of steps that are not empty.
fn subsets(steps: &[usize]) -> Vec<Vec<usize>> {
    let subset = |bits: u32| {
        let chosen = steps.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
        chosen.map(|(_, step)| *step).collect()
    };
    (1..1u32 << steps.len()).map(subset).collect()
}

fn union_name(subset: &[usize]) -> String {
    let steps: Vec<String> = subset.iter().map(usize::to_string).collect();
    format!("times_of_{}", steps.join("_"))
}

/// The time at which `done` of the overlapping steps are completed, as an array that is empty if they
/// never are.
///
/// Each step needs a timestamp of its own, so the completed steps are a matching. By Hall's theorem it
/// has `done` steps once every subset has as many timestamps as it has steps, less those that may
/// stay open. The time of that is the latest over the subsets.
fn time_of_matching(component: &[usize], done: usize, window: i64) -> String {
    let open = component.len() - done;
    let mut times = Vec::new();
    let mut exist = Vec::new();
    for subset in subsets(component).into_iter().filter(|subset| subset.len() > open) {
        let needed = subset.len() - open;
        let within =
            format!("arrayFilter(t -> t >= s AND t - s <= {window}, {})", union_name(&subset));
        times.push(format!("{within}[{needed}]"));
        exist.push(format!("length({within}) >= {needed}"));
    }
    match times.as_slice() {
        // One step: its first timestamp.
        [_] if component.len() == 1 => format!(
            "arraySlice(arrayFilter(t -> t >= s AND t - s <= {window}, {}), 1, 1)",
            union_name(component)
        ),
        times => {
            format!("arrayFilter(t -> {}, [arrayMax([{}])])", exist.join(" AND "), times.join(", "))
        }
    }
}
