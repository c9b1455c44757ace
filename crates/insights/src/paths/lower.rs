//! Paths as a HogQL statement: the items of each actor's events, split into sessions, cut to the
//! bounds, and counted as edges.

use facts::QueryContext;
use hogql::ast::{Expr, ExprKind, Query};
use hogql::build::{all, any, call, expr, field, int, literal, not};
use hogql::filter::Value;
use serde_json::{Value as Json, json};

use super::items::{compile, grouping};
use super::walk::SESSION_GAP_MICROS;
use super::{EDGES, EDGES_MAX, EventType, PathsQuery, STEPS, STEPS_MAX};
use crate::lower::breakdown::without_slash;
use crate::lower::rows::Row;
use crate::lower::selection::{Actor, Lowering, both, text_of_expression, within};
use crate::lower::{Statement, expression};
use crate::query::date_range::Period;
use crate::result::InsightResult;
use crate::scan::context::json_number;
use crate::{Error, Interval, Result};

impl PathsQuery {
    fn period_of(&self, lowering: &Lowering<'_>) -> Result<Period> {
        lowering.scope.dates.period(&self.base.date_range, Interval::Day)
    }

    pub(crate) fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        let lowering = Lowering::new(context, &self.base)?;
        let filter = &self.spec.paths_filter;
        let edges_max = Self::bounded(filter.edge_limit, EDGES, EDGES_MAX, "edgeLimit")?;
        let period = self.period_of(&lowering)?;
        let mut statement = Statement::default();
        let actor = Actor::of(self.base.aggregation_group_type_index);
        let time = within(Some(period.from), period.to);
        let events = both([self.types(), lowering.common(), Some(time), actor.exists()]);
        let items = [("actor", actor.expr), ("item", self.item()?), ("filter", events)];
        let mut is_item = vec![expression("item != ''", &[])?];
        is_item.extend(self.excluded(field(&["item"])).map(not));
        statement.cte(
            "named",
            "SELECT {actor} AS actor, toUnixTimestamp64Micro(timestamp) AS t, {item} AS item FROM \
             events WHERE {filter}",
            &items,
        )?;
        statement.cte(
            "items",
            "SELECT actor, t, item, t - lagInFrame(t, 1, 0) OVER (PARTITION BY actor ORDER BY t, \
             item ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS gap FROM named \
             WHERE {is_item}",
            &[("is_item", all(is_item))],
        )?;
        let text = format!(
            "SELECT actor, t, item, sum(if(gap > {SESSION_GAP_MICROS}, 1, 0)) OVER (PARTITION BY \
             actor ORDER BY t, item ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS session_no \
             FROM items"
        );
        statement.cte("sessions_of_items", &text, &[])?;
        statement.cte(
            "walks",
            "SELECT actor, session_no, arraySort(groupArray(tuple(t, item))) AS walk FROM \
             sessions_of_items GROUP BY actor, session_no",
            &[],
        )?;
        statement.cte(
            "paths",
            "SELECT arrayFilter((step, i) -> i = 1 OR step.2 != walk[i - 1].2, walk, \
             arrayEnumerate(walk)) AS path FROM walks",
            &[],
        )?;
        let (paths, longest) = self.bounds(&mut statement)?;
        let text = format!(
            "SELECT i AS step, path[i].2 AS item, path[i + 1].2 AS next_item, path[i + 1].1 - \
             path[i].1 AS micros FROM (SELECT path, range(1, length(path)) AS steps FROM {paths}) \
             ARRAY JOIN steps AS i"
        );
        statement.cte("edges", &text, &[])?;
        let mut having = Vec::new();
        if let Some(least) = filter.min_edge_weight {
            having.push(expression("count() >= {n}", &[("n", int(least))])?);
        }
        if let Some(most) = filter.max_edge_weight {
            having.push(expression("count() <= {n}", &[("n", int(most))])?);
        }
        let text = format!(
            "SELECT step, concat(toString(step), '_', item) AS source, concat(toString(step + 1), \
             '_', next_item) AS target, count() AS value, avg(micros) / 1000 AS \
             average_conversion_time FROM edges GROUP BY step, item, next_item HAVING {{fits}} \
             ORDER BY value DESC, source, target LIMIT {edges_max}"
        );
        statement.cte("top_edges", &text, &[("fits", all(having))])?;
        // Edges that no other edge leads to are dropped.
        let mut reached = Vec::new();
        for step in 1..longest.max(2) {
            let leads = match step {
                1 => String::new(),
                _ => format!(" AND source IN (SELECT target FROM step_{})", step - 1),
            };
            let text = format!(
                "SELECT source, target, value, average_conversion_time FROM top_edges WHERE step = \
                 {step}{leads}"
            );
            statement.cte(&format!("step_{step}"), &text, &[])?;
            reached.push(format!(
                "SELECT source, target, value, average_conversion_time FROM step_{step}"
            ));
        }
        let text = format!(
            "SELECT source, target, value, average_conversion_time FROM ({}) ORDER BY value DESC, \
             source, target",
            reached.join(" UNION ALL ")
        );
        statement.finish(&text, &[])
    }

    /// Cuts paths to start point, end point and step limit; returns the last common table expression
    /// and the largest number of items.
    fn bounds(&self, statement: &mut Statement) -> Result<(String, usize)> {
        let filter = &self.spec.paths_filter;
        let limit = Self::bounded(filter.step_limit, STEPS, STEPS_MAX, "stepLimit")?;
        let given =
            |text: &Option<String>| text.as_deref().filter(|text| !text.is_empty()).map(literal);
        let (start, end) = (given(&filter.start_point), given(&filter.end_point));
        let mut from = "paths".to_owned();
        let position = "indexOf(arrayMap(step -> step.2, path), {point})";
        if let Some(start) = start.clone() {
            let text = format!(
                "SELECT arraySlice(paths.path, {position}) AS path FROM paths WHERE {position} > 0",
            );
            let text = text.replace(", path)", ", paths.path)");
            statement.cte("begun", &text, &[("point", start)])?;
            from = "begun".to_owned();
        }
        if let Some(end) = end.clone() {
            let text = format!(
                "SELECT arraySlice({from}.path, 1, {position}) AS path FROM {from} WHERE \
                 {position} > 0",
            );
            let text = text.replace(", path)", &format!(", {from}.path)"));
            statement.cte("ended", &text, &[("point", end)])?;
            from = "ended".to_owned();
        }
        let half = limit / 2;
        let own = format!("{from}.path");
        let (cut, longest) = match (start, end) {
            (Some(_), Some(_)) => (
                format!(
                    "if(length({own}) <= {limit}, {own}, arrayConcat(arraySlice({own}, 1, {half}), \
                     [tuple({own}[{}].1, '...')], arraySlice({own}, length({own}) - {half} + 1, \
                     {half})))",
                    half + 1
                ),
                limit.max(2 * half + 1),
            ),
            (None, Some(_)) => (
                format!(
                    "if(length({own}) <= {limit}, {own}, arraySlice({own}, length({own}) - {limit} \
                     + 1, {limit}))"
                ),
                limit,
            ),
            _ => (format!("arraySlice({own}, 1, {limit})"), limit),
        };
        statement.cte("bounded", &format!("SELECT {cut} AS path FROM {from}"), &[])?;
        Ok(("bounded".to_owned(), longest))
    }

    /// The types of events that can be items; none for all.
    fn types(&self) -> Option<Expr> {
        let types = &self.spec.paths_filter.include_event_types;
        if types.is_empty() || types.contains(&EventType::Hogql) {
            return None;
        }
        let event = |name: &str| {
            hogql::build::binary(hogql::ast::BinaryOp::Equal, field(&["event"]), literal(name))
        };
        let mut parts = Vec::new();
        if types.contains(&EventType::Custom) {
            parts.push(not(call("startsWith", vec![field(&["event"]), literal("$")])));
        }
        parts.extend(types.contains(&EventType::Pageview).then(|| event("$pageview")));
        parts.extend(types.contains(&EventType::Screen).then(|| event("$screen")));
        Some(any(parts))
    }

    /// Whether a string is excluded; none if nothing is.
    fn excluded(&self, text: Expr) -> Option<Expr> {
        let excluded = &self.spec.paths_filter.exclude_events;
        if excluded.is_empty() {
            return None;
        }
        let set = excluded.iter().map(|event| literal(event)).collect();
        let set = Box::new(expr(ExprKind::Array(set)));
        Some(expr(ExprKind::In { expr: Box::new(text), set, negated: false }))
    }

    /// The name of an event in a path; the empty string if it has none.
    fn item(&self) -> Result<Expr> {
        let filter = &self.spec.paths_filter;
        let raw = match filter.include_event_types.contains(&EventType::Hogql) {
            true => {
                text_of_expression(filter.paths_hogql_expression.as_deref().unwrap_or("event"))?
            }
            false => {
                let property = |name: &str| Value::property(&["properties"], name).text;
                let url = property("$current_url");
                let url = match filter.show_full_urls {
                    true => without_slash(url)?,
                    false => path_of(url)?,
                };
                expression(
                    "multiIf(event = '$pageview', {url}, event = '$screen', {screen}, event)",
                    &[("url", url), ("screen", property("$screen_name"))],
                )?
            }
        };
        let mut item = call("ifNull", vec![raw, literal("")]);
        let project = match (filter.path_replacements, &self.cleaning) {
            (true, Some(rules)) => rules.as_slice(),
            (true, None) => return Err(Error::invalid("The project's rules are not known here.")),
            (false, _) => &[],
        };
        for rule in project.iter().chain(&filter.local_path_cleaning_filters) {
            let (Some(pattern), Some(alias)) = (&rule.regex, &rule.alias) else { continue };
            let replacement = facts::replacement(&compile(pattern)?, alias);
            let args = vec![item, literal(pattern), literal(&replacement)];
            item = call("replaceRegexpAll", args);
        }
        if !filter.path_groupings.is_empty() {
            let mut branches = Vec::new();
            for pattern in &filter.path_groupings {
                let (regex, name) = grouping(pattern)?;
                branches.push(call("match", vec![item.clone(), literal(regex.as_str())]));
                branches.push(literal(&name));
            }
            branches.push(item);
            item = call("multiIf", branches);
        }
        match self.excluded(field(&["event"])) {
            None => Ok(item),
            Some(is_excluded) => Ok(call("if", vec![is_excluded, literal(""), item])),
        }
    }

    pub(crate) fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        let lowering = Lowering::new(context, &self.base)?;
        let period = self.period_of(&lowering)?;
        let edge = |row: &Vec<Json>| {
            let mut row = Row::new(row);
            Ok(json!({
                "source": row.text()?,
                "target": row.text()?,
                "value": row.count()?,
                "average_conversion_time": row.number()?.map_or(Json::Null, json_number),
            }))
        };
        let results = rows.iter().map(edge).collect::<Result<Vec<Json>>>()?;
        let calendar = &lowering.scope.dates.calendar;
        let Period { from, to, .. } = period;
        InsightResult::new(Json::Array(results), calendar, from, to, Interval::Day)
    }
}

/// The path of a URL, without query, fragment and trailing slash.
fn path_of(url: Expr) -> Result<Expr> {
    let parts = r"'(?s)^(?:.*?://[^/?#]*)?(/|[^?#]*?)/?(?:[?#].*)?$', '\\1'";
    let text = format!("replaceRegexpOne(replaceRegexpOne({{url}}, {parts}), '^$', '/')");
    expression(&text, &[("url", url)])
}
