//! `WebGoalsQuery`: how many visitors reach each of the project's actions.

use hogql::ast::Query;
use hogql::build::all;
use model::ActionId;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Direction, OrderField, Table};
use crate::Result;
use crate::lower::Statement;
use crate::lower::rows::Row;
use crate::statement_query::StatementResult;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebGoalsFields")]
pub(crate) struct GoalsSpec {
    /// Accepted and ignored: at most five actions are reported.
    #[serde(rename = "limit")]
    _limit: Option<u64>,
    #[serde(skip)]
    pub actions: Vec<ActionId>,
}

const COLUMNS: [(&str, &str); 4] = [
    ("context.columns.action_name", "String"),
    ("context.columns.converting_users", "Tuple(UInt64, Nullable(UInt64))"),
    ("context.columns.total_conversions", "Tuple(UInt64, Nullable(UInt64))"),
    ("context.columns.conversion_rate", "Tuple(Float64, Nullable(Float64))"),
];

impl Table<'_> {
    /// One row: visitors, then events and converting visitors of each action; each number is followed
    /// by that of the period that is compared with.
    pub(super) fn goals(&self, spec: &GoalsSpec) -> Result<Query> {
        let (current, previous) =
            (self.periods.current("timestamp"), self.periods.previous("timestamp"));
        let (mut goals, mut parts) = (Vec::new(), Vec::new());
        let names: Vec<(String, String)> = (0..spec.actions.len())
            .map(|no| (format!("current_{no}"), format!("previous_{no}")))
            .collect();
        let (mut counts, mut numbers) = (String::new(), String::new());
        for (id, (now, before)) in spec.actions.iter().zip(&names) {
            let Some(goal) = self.action(*id)? else { continue };
            goals.push(goal.clone());
            parts.push((now.as_str(), all(vec![goal.clone(), current.clone()])));
            parts.push((before.as_str(), all(vec![goal, previous.clone()])));
            counts += &format!(", countIf({{{now}}}) AS {now}, countIf({{{before}}}) AS {before}");
            numbers += &format!(
                ", sum({now}), sum({before}), uniqIf(person, {now} > 0), uniqIf(person, {before} > 0)"
            );
        }
        let goal = (!goals.is_empty()).then(|| hogql::build::any(goals));
        parts.push(("events", self.events(self.views_or(goal))));
        parts.push(("inside", self.periods.any("started")));
        let mut statement = Statement::default();
        let text = format!(
            "SELECT argMin(person_id, timestamp) AS person, min(session.$start_timestamp) AS started\
             {counts} FROM events WHERE {{events}} GROUP BY $session_id HAVING {{inside}}"
        );
        statement.cte("visits", &text, &parts)?;
        let text = format!(
            "SELECT uniqIf(person, {{current}}), uniqIf(person, {{previous}}){numbers} FROM visits"
        );
        let (current, previous) =
            (self.periods.current("started"), self.periods.previous("started"));
        statement.finish(&text, &[("current", current), ("previous", previous)])
    }

    pub(super) fn goals_result(
        &self,
        spec: &GoalsSpec,
        rows: &[Vec<Json>],
        result: &mut StatementResult,
    ) -> Result<()> {
        let mut row = Row::new(rows.first().map(Vec::as_slice).unwrap_or_default());
        let compares = self.periods.compares();
        let visitors = [row.count()?, row.count()?];
        let rate = |converted: u64, visitors: u64| match visitors {
            0 => 0.0,
            visitors => converted as f64 / visitors as f64,
        };
        let mut items = Vec::new();
        for id in &spec.actions {
            let Some(action) = self.lowering.scope.context.actions.get(id) else { continue };
            let total = [row.count()?, row.count()?];
            let converted = [row.count()?, row.count()?];
            let rates = [rate(converted[0], visitors[0]), rate(converted[1], visitors[1])];
            items.push((action.name.clone(), converted, total, rates));
        }
        if let Some((by, direction)) = self.web.order_by {
            let key = |(_, converted, total, rates): &(_, [u64; 2], [u64; 2], [f64; 2])| match by {
                OrderField::ConvertingUsers => converted[0] as f64,
                OrderField::TotalConversions => total[0] as f64,
                OrderField::ConversionRate => rates[0],
                _ => 0.0,
            };
            items.sort_by(|a, b| match direction {
                Direction::Asc => key(a).total_cmp(&key(b)),
                Direction::Desc => key(b).total_cmp(&key(a)),
            });
        }
        let row = |(name, converted, total, rates): (String, [u64; 2], [u64; 2], [f64; 2])| {
            json!([
                name,
                [Some(converted[0]), compares.then_some(converted[1])],
                [Some(total[0]), compares.then_some(total[1])],
                [Some(rates[0]), compares.then_some(rates[1])],
            ])
        };
        result.results = items.into_iter().map(row).collect();
        result.columns = Some(COLUMNS.map(|(name, ty)| (name.to_owned(), ty)).to_vec());
        Ok(())
    }
}
