//! Retention as a HogQL statement: `starts` has the interval in which each actor starts, `returns` the
//! intervals in which it is active again.

use std::ops::RangeInclusive;

use facts::QueryContext;
use hogql::ast::{Expr, Query};
use hogql::build::{boolean, call, field, in_cohort, int};
use hogql::filter::Value;
use model::CohortId;
use serde_json::Value as Json;

use super::amounts::Aggregation;
use super::count::{Cell, Windows};
use super::{RetentionQuery, RetentionType};
use crate::lower::Statement;
use crate::lower::breakdown::{BreakdownBy, BreakdownValues, Histograms, cohort_text};
use crate::lower::first_events::FirstEvents;
use crate::lower::intervals::Intervals;
use crate::lower::rows::Row;
use crate::lower::selection::{Actor, Lowering, both, missing_action, within};
use crate::query::calendar::Buckets;
use crate::query::spec::Node;
use crate::result::InsightResult;
use crate::scan::breakdown::BreakdownSegment;
use crate::{Error, Result};

struct Plan<'a> {
    query: &'a RetentionQuery,
    lowering: Lowering<'a>,
    rows: Buckets,
    /// For each column of the table the intervals or windows after the start.
    later: Vec<RangeInclusive<usize>>,
    windows: Windows,
    aggregation: Option<Aggregation<'a>>,
    by: BreakdownBy,
}

type Table = Vec<Vec<Cell>>;

impl RetentionQuery {
    fn lowering<'a>(&'a self, context: &'a QueryContext) -> Result<Plan<'a>> {
        let lowering = Lowering::new(context, &self.base)?;
        let (rows, later) = (self.rows(&lowering.scope)?, self.columns()?);
        let by = BreakdownBy::new(&self.spec.breakdown_filter, Histograms::Ignored)?;
        let (windows, aggregation) = (self.windows()?, self.aggregation()?);
        Ok(Plan { query: self, lowering, rows, later, windows, aggregation, by })
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
        let (tables, has_more) = plan.tables(rows)?;
        let calendar = &plan.lowering.scope.dates.calendar;
        let mut results = Vec::new();
        for (segment, table) in tables {
            results.extend(self.shape(calendar, (&plan.rows, &plan.later), &segment, &table)?);
        }
        let from = plan.rows.starts.first().copied().unwrap_or(plan.rows.end);
        let (end, interval) = (plan.rows.end - 1, plan.rows.interval);
        let mut result = InsightResult::new(Json::Array(results), calendar, from, end, interval)?;
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

    /// The columns that identify a table.
    fn columns(&self) -> Vec<String> {
        match &self.by {
            BreakdownBy::Nothing => Vec::new(),
            BreakdownBy::Cohorts(_) => vec!["cohort".to_owned()],
            BreakdownBy::Values(values) => {
                std::iter::once("rest".to_owned()).chain(values.columns()).collect()
            }
        }
    }

    fn cohorts(&self) -> Vec<Option<Option<CohortId>>> {
        match &self.by {
            BreakdownBy::Cohorts(cohorts) => cohorts.iter().copied().map(Some).collect(),
            _ => vec![None],
        }
    }

    fn first_row(&self) -> i64 {
        self.rows.starts.first().copied().unwrap_or(self.rows.end)
    }

    fn statement(&self) -> Result<Query> {
        let mut statement = Statement::default();
        let mut selects = Vec::new();
        for cohort in self.cohorts() {
            selects.push(self.counts(&mut statement, cohort)?);
        }
        let calendar = &self.lowering.scope.dates.calendar;
        let intervals = Intervals { calendar, buckets: &self.rows };
        let listed: String = self.columns().iter().map(|column| format!("{column}, ")).collect();
        let more = match self.values().filter(|values| values.hide_other) {
            None => String::new(),
            Some(values) => {
                format!(", (SELECT count() FROM values_all) > {} AS has_more", values.limit)
            }
        };
        let amount = match self.aggregation {
            None => "",
            Some(Aggregation { is_average: false, .. }) => ", amount",
            Some(Aggregation { is_average: true, .. }) => ", amount / actors AS average",
        };
        let text = format!(
            "SELECT {listed}{{buckets}}[start + 1] AS bucket, later, actors{amount}{more} FROM ({}) \
             ORDER BY {listed}start, later",
            selects.join(" UNION ALL ")
        );
        statement.finish(&text, &[("buckets", intervals.list()?)])
    }

    /// The events of a node, in a cohort.
    fn selected(&self, node: &Node, cohort: Option<CohortId>) -> Result<Expr> {
        let selected = self.lowering.selected(node)?.ok_or_else(|| missing_action(node))?;
        let cohort = cohort.map(|id| in_cohort(field(&["person_id"]), id, false));
        Ok(both([Some(selected), cohort]))
    }

    /// Adds the common table expressions; returns a SELECT of the columns, `start`, `later` and
    /// `actors`.
    fn counts(
        &self,
        statement: &mut Statement,
        cohort: Option<Option<CohortId>>,
    ) -> Result<String> {
        let filter = &self.query.spec.retention_filter;
        let calendar = &self.lowering.scope.dates.calendar;
        let intervals = Intervals { calendar, buckets: &self.rows };
        let actor = Actor::of(self.query.base.aggregation_group_type_index);
        let suffix = match cohort {
            None => "all".to_owned(),
            Some(id) => cohort_text(id),
        };
        let id = cohort.flatten();
        let mut keys = self.values().map(|values| values.keys.clone()).unwrap_or_default();
        let time = within(Some(self.first_row()), self.rows.end - 1);
        let target = self.selected(&self.query.target, id)?;
        let (table, selected, at) = match filter.retention_type {
            RetentionType::Recurring if self.windows == Windows::Calendar => {
                let own = both([Some(target), Some(time.clone()), actor.exists()]);
                ("events".to_owned(), own, field(&["timestamp"]))
            }
            first => {
                let ever = match first {
                    RetentionType::FirstEverOccurrence => {
                        self.lowering.named(&self.query.target)?
                    }
                    _ => None,
                };
                let name = format!("first_{suffix}");
                let since = (first == RetentionType::Recurring).then(|| self.first_row());
                let until = within(since, self.rows.end - 1);
                FirstEvents {
                    actor: actor.expr.clone(),
                    selected: target,
                    ever,
                    within: both([Some(until), actor.exists()]),
                    from: self.first_row(),
                    keys: &keys,
                }
                .add_to(statement, &name)?;
                keys = (0..keys.len()).map(FirstEvents::value).collect();
                (name, boolean(true), field(&["first_at"]))
            }
        };
        let own_actor = match table.as_str() {
            "events" => actor.expr.clone(),
            _ => field(&["actor"]),
        };
        self.starts(
            statement,
            &suffix,
            &table,
            (own_actor, intervals.index(at)?, selected),
            &keys,
        )?;
        let within_rows =
            |selected: Expr| both([Some(selected), Some(time.clone()), actor.exists()]);
        let back = within_rows(self.selected(&self.query.returning, id)?);
        if let Some(aggregation) = &self.aggregation {
            let start = within_rows(self.selected(&self.query.target, id)?);
            self.start_amounts(statement, &suffix, aggregation, (&actor, start, back.clone()))?;
        }
        let mut parts = vec![
            ("actor", actor.expr.clone()),
            ("filter", back),
            ("least", int(filter.minimum_occurrences.unwrap_or(1))),
        ];
        let events = match self.windows {
            Windows::Calendar => {
                parts.push(("at", intervals.index(field(&["timestamp"]))?));
                let mut amount = "";
                if let Some(aggregation) = &self.aggregation {
                    parts.push(("amount", amount_of(aggregation)));
                    amount = ", sum({amount}) AS amount";
                }
                format!(
                    "SELECT {{actor}} AS actor, {{at}} AS at{amount} FROM events WHERE {{filter}} \
                     GROUP BY actor, at HAVING count() >= {{least}}"
                )
            }
            // The number of the window after the actor's first event.
            Windows::Rolling(micros) => format!(
                "SELECT e.actor AS actor, intDiv(e.t - f.first_t, {micros}) AS at FROM (SELECT \
                 {{actor}} AS actor, toUnixTimestamp64Micro(timestamp) AS t FROM events WHERE \
                 {{filter}}) e INNER JOIN (SELECT actor, toUnixTimestamp64Micro(first_at) AS first_t \
                 FROM {table}) f ON e.actor = f.actor WHERE e.t >= f.first_t GROUP BY e.actor, at \
                 HAVING count() >= {{least}}"
            ),
        };
        let amounts = match self.aggregation {
            None => "",
            Some(_) => ", groupArray(amount) AS amounts",
        };
        let text = format!(
            "SELECT actor, groupArray(at) AS returned{amounts} FROM ({events}) GROUP BY actor"
        );
        statement.cte(&format!("returns_{suffix}"), &text, &parts)?;
        let columns = match &self.by {
            BreakdownBy::Values(_) => self.columns(),
            _ => Vec::new(),
        };
        let listed: String = columns.iter().map(|column| format!("{column}, ")).collect();
        let from_starts: String =
            columns.iter().map(|column| format!("s.{column} AS {column}, ")).collect();
        let constant = match cohort {
            None => String::new(),
            Some(_) => format!("'{suffix}' AS cohort, "),
        };
        let started = format!("starts_{suffix}");
        let (started, start_amount, amounts, return_amount) = match self.aggregation {
            None => (started, "", "", String::new()),
            Some(_) => (
                format!(
                    "(SELECT {from_starts}s.start AS start, ifNull(b.amount, 0) AS own FROM \
                     {started} s LEFT JOIN start_amounts_{suffix} b ON s.actor = b.actor AND \
                     s.start = b.at)"
                ),
                ", sum(own) AS amount",
                ", r.amounts AS amounts",
                format!(
                    ", sum(arraySum((at, own) -> if({}, own, 0), returned, amounts)) AS amount",
                    self.is_in_column()
                ),
            ),
        };
        let is_back = self.is_back();
        Ok(format!(
            "SELECT {constant}{listed}start, 0 AS later, count() AS actors{start_amount} FROM \
             {started} GROUP BY {listed}start UNION ALL SELECT {constant}{listed}start, later, \
             count() AS actors{return_amount} FROM (SELECT {from_starts}s.start AS start, r.returned \
             AS returned{amounts} FROM starts_{suffix} s INNER JOIN returns_{suffix} r ON s.actor = \
             r.actor) ARRAY JOIN range(1, {}) AS later WHERE {is_back} GROUP BY {listed}start, later",
            self.later.len()
        ))
    }

    /// `start_amounts`: the amount of each actor in each interval, if it starts in it.
    fn start_amounts(
        &self,
        statement: &mut Statement,
        suffix: &str,
        aggregation: &Aggregation<'_>,
        (actor, start, back): (&Actor, Expr, Expr),
    ) -> Result<()> {
        let calendar = &self.lowering.scope.dates.calendar;
        let intervals = Intervals { calendar, buckets: &self.rows };
        let mut parts = vec![
            ("actor", actor.expr.clone()),
            ("at", intervals.index(field(&["timestamp"]))?),
            ("start", start),
        ];
        let name = format!("start_amounts_{suffix}");
        if aggregation.starts_are_returns {
            parts.push(("amount", amount_of(aggregation)));
            let text = "SELECT {actor} AS actor, {at} AS at, sum({amount}) AS amount FROM events WHERE \
                        {start} GROUP BY actor, at";
            return statement.cte(&name, text, &parts);
        }
        let first = format!("first_starts_{suffix}");
        let text = "SELECT {actor} AS actor, {at} AS at, min(timestamp) AS since FROM events WHERE \
                    {start} GROUP BY actor, at";
        statement.cte(&first, text, &parts)?;
        parts.extend([("amount", amount_of(aggregation)), ("back", back)]);
        let text = format!(
            "SELECT e.actor AS actor, e.at AS at, sum(e.number) AS amount FROM (SELECT {{actor}} AS \
             actor, {{at}} AS at, timestamp AS time, {{amount}} AS number FROM events WHERE {{back}}) \
             e INNER JOIN {first} f ON e.actor = f.actor AND e.at = f.at WHERE e.time > f.since \
             GROUP BY e.actor, e.at"
        );
        statement.cte(&name, &text, &parts)
    }

    /// The first and the last interval or window of the column `later`.
    fn column_bounds(&self) -> (String, String) {
        let base = if self.windows == Windows::Calendar { "start + " } else { "" };
        if self.query.spec.retention_filter.retention_custom_brackets.is_empty() {
            return (format!("{base}later"), format!("{base}later"));
        }
        let listed = |bound: fn(&RangeInclusive<usize>) -> usize| {
            let columns = self.later.iter().skip(1);
            columns.map(|column| bound(column).to_string()).collect::<Vec<_>>().join(", ")
        };
        let bound = |bounds: String| format!("{base}[{bounds}][later]");
        (bound(listed(|column| *column.start())), bound(listed(|column| *column.end())))
    }

    /// Whether the interval `at` is in the column `later`.
    fn is_in_column(&self) -> String {
        let (first, last) = self.column_bounds();
        match first == last {
            true => format!("at = {first}"),
            false => format!("at >= {first} AND at <= {last}"),
        }
    }

    /// Whether `returned` has an interval or window of the column `later`.
    fn is_back(&self) -> String {
        let (first, last) = self.column_bounds();
        match (self.query.spec.retention_filter.cumulative, first == last) {
            (true, _) => format!("arrayMax(returned) >= {first}"),
            (false, true) => format!("has(returned, {first})"),
            (false, false) => format!("arrayExists(at -> {}, returned)", self.is_in_column()),
        }
    }

    /// `starts`: each actor with each interval in which it starts, by breakdown value.
    fn starts(
        &self,
        statement: &mut Statement,
        suffix: &str,
        table: &str,
        (actor, at, filter): (Expr, Expr, Expr),
        keys: &[Expr],
    ) -> Result<()> {
        let parts = [("actor", actor), ("at", at), ("filter", filter)];
        let Some(values) = self.values() else {
            let text = format!(
                "SELECT DISTINCT {{actor}} AS actor, {{at}} AS start FROM {table} WHERE {{filter}}"
            );
            return statement.cte(&format!("starts_{suffix}"), &text, &parts);
        };
        let columns = values.columns();
        let names: Vec<String> = (0..keys.len()).map(|at| format!("key_{at}")).collect();
        let mut parts = parts.to_vec();
        parts.extend(names.iter().map(String::as_str).zip(keys.iter().cloned()));
        let defined: String = names
            .iter()
            .zip(&columns)
            .map(|(key, column)| format!(", {{{key}}} AS {column}"))
            .collect();
        let text = format!(
            "SELECT DISTINCT {{actor}} AS actor, {{at}} AS start{defined} FROM {table} WHERE \
             {{filter}}"
        );
        statement.cte("all_starts", &text, &parts)?;
        let listed = columns.join(", ");
        let text = format!("SELECT {listed}, count() AS weight FROM all_starts GROUP BY {listed}");
        statement.cte("values_all", &text, &[])?;
        let text = format!(
            "SELECT {listed} FROM values_all ORDER BY weight DESC, {} LIMIT {}",
            values.labels(),
            values.limit
        );
        statement.cte("top_all", &text, &[BreakdownValues::null()])?;
        let is_rest = format!("{} NOT IN (SELECT {listed} FROM top_all)", qualified(&columns));
        let named: String = columns
            .iter()
            .map(|column| format!(", if({is_rest}, '', all_starts.{column}) AS {column}"))
            .collect();
        let hidden = match values.hide_other {
            true => format!(" WHERE {}", is_rest.replace(" NOT IN ", " IN ")),
            false => String::new(),
        };
        let text = format!(
            "SELECT DISTINCT actor, start, {is_rest} AS rest{named} FROM all_starts{hidden}"
        );
        statement.cte(&format!("starts_{suffix}"), &text, &[])
    }

    /// The tables of the result, the largest first, and whether a breakdown has values beyond its
    /// limit.
    fn tables(&self, rows: &[Vec<Json>]) -> Result<(Vec<(BreakdownSegment, Table)>, bool)> {
        let empty = || vec![vec![Cell::default(); self.later.len()]; self.rows.len()];
        let mut tables: Vec<(BreakdownSegment, Table)> = Vec::new();
        match &self.by {
            BreakdownBy::Nothing => tables.push((BreakdownSegment::Whole, empty())),
            BreakdownBy::Cohorts(cohorts) => {
                for id in cohorts {
                    tables.push((self.cohort_segment(*id), empty()));
                }
            }
            BreakdownBy::Values(_) => {}
        }
        let mut has_more = false;
        for row in rows {
            let mut row = Row::new(row);
            let segment = match &self.by {
                BreakdownBy::Nothing => BreakdownSegment::Whole,
                BreakdownBy::Cohorts(cohorts) => {
                    let text = row.text()?;
                    let id = cohorts.iter().find(|id| cohort_text(**id) == text);
                    self.cohort_segment(id.copied().flatten())
                }
                BreakdownBy::Values(values) => unlisted(values.segment(&mut row)?),
            };
            has_more |= matches!(segment, BreakdownSegment::Other(..));
            let bucket = row.bucket(&self.rows)?;
            let (later, count) = (row.count()? as usize, row.count()?);
            let amount = match self.aggregation {
                None => 0.0,
                Some(_) => row.number()?.unwrap_or(0.0),
            };
            if self.values().is_some_and(|values| values.hide_other) {
                has_more |= row.truth()?;
            }
            if !tables.iter().any(|(known, _)| *known == segment) {
                tables.push((segment.clone(), empty()));
            }
            for (_, table) in tables.iter_mut().filter(|(known, _)| *known == segment) {
                let cell = table[bucket].get_mut(later);
                *cell.ok_or_else(|| Error::invalid("There is no such interval."))? =
                    Cell { count, amount };
            }
        }
        if self.values().is_some() {
            let weight = |table: &Table| table.iter().map(|row| row[0].count).sum::<u64>();
            tables.sort_by(|(a, own), (b, other)| {
                let by_rank = a.rank().cmp(&b.rank());
                let by_weight = by_rank.then_with(|| weight(other).cmp(&weight(own)));
                by_weight.then_with(|| a.label().cmp(&b.label()))
            });
        }
        Ok((tables, has_more))
    }

    fn cohort_segment(&self, id: Option<CohortId>) -> BreakdownSegment {
        let cohort = id.and_then(|id| self.lowering.scope.context.cohorts.get(&id));
        let name = cohort.map_or("all users", String::as_str).to_owned();
        BreakdownSegment::Cohort(id.map(|id| id.0), name)
    }
}

/// The number of the property of an event; 0 where it is none.
fn amount_of(aggregation: &Aggregation<'_>) -> Expr {
    let properties: &[&str] =
        if aggregation.is_of_person { &["person", "properties"] } else { &["properties"] };
    let number = Value::property(properties, aggregation.property).number();
    let is_finite = call("ifNull", vec![call("isFinite", vec![number.clone()]), boolean(false)]);
    call("if", vec![is_finite, call("ifNull", vec![number, int(0)]), int(0)])
}

fn qualified(columns: &[String]) -> String {
    let all: Vec<String> = columns.iter().map(|column| format!("all_starts.{column}")).collect();
    match all.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    }
}

/// Retention never shows values as a list.
fn unlisted(segment: BreakdownSegment) -> BreakdownSegment {
    match segment {
        BreakdownSegment::Values(texts, _) => BreakdownSegment::Values(texts, false),
        BreakdownSegment::Null(texts, _) => BreakdownSegment::Null(texts, false),
        BreakdownSegment::Other(dimensions, _) => BreakdownSegment::Other(dimensions, false),
        other => other,
    }
}
