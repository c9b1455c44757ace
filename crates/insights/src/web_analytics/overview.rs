//! `WebOverviewQuery`: visitors, views, sessions, their duration and bounces, or conversions.

use hogql::ast::Query;
use serde_json::{Value as Json, json};

use super::{Table, is_view};
use crate::Result;
use crate::lower::Statement;
use crate::lower::rows::Row;
use crate::statement_query::StatementResult;

/// Keys of the items, their units, and whether an increase is bad.
const OF_SESSIONS: [(&str, &str, Option<bool>); 5] = [
    ("visitors", "unit", None),
    ("views", "unit", None),
    ("sessions", "unit", None),
    ("session duration", "duration_s", None),
    ("bounce rate", "percentage", Some(true)),
];
const OF_CONVERSIONS: [(&str, &str, Option<bool>); 4] = [
    ("visitors", "unit", None),
    ("total conversions", "unit", None),
    ("unique conversions", "unit", None),
    ("conversion rate", "percentage", None),
];

impl Table<'_> {
    /// One row: each number, followed by the number of the period that is compared with.
    pub(super) fn overview(&self) -> Result<Query> {
        let goal = self.goal()?;
        let mut parts = vec![
            ("events", self.events(self.views_or(goal.clone()))),
            ("inside", self.periods.any("started")),
            ("view", is_view()),
        ];
        let (of_session, numbers): (_, &[&str]) = match goal {
            None => (
                "countIf({view}) AS views, any(session.$session_duration) AS duration, \
                 any(if(session.$is_bounce, 1, 0)) AS bounced",
                &[
                    "uniqIf(person, {in})",
                    "sumIf(views, {in})",
                    "countIf({in})",
                    "avgIf(duration, {in})",
                    "avgIf(bounced, {in}) * 100",
                ],
            ),
            Some(goal) => {
                parts.push(("goal", goal));
                (
                    "countIf({goal}) AS conversions",
                    &[
                        "uniqIf(person, {in})",
                        "sumIf(conversions, {in})",
                        "uniqIf(person, conversions > 0 AND {in})",
                        "uniqIf(person, conversions > 0 AND {in}) / uniqIf(person, {in}) * 100",
                    ],
                )
            }
        };
        let mut statement = Statement::default();
        let sessions = format!(
            "SELECT argMin(person_id, timestamp) AS person, min(session.$start_timestamp) AS started, \
             {of_session} FROM events WHERE {{events}} GROUP BY $session_id HAVING {{inside}}"
        );
        statement.cte("visits", &sessions, &parts)?;
        let pairs = numbers.iter().flat_map(|number| {
            ["{current}", "{previous}"].map(|period| number.replace("{in}", period))
        });
        let text = format!("SELECT {} FROM visits", pairs.collect::<Vec<_>>().join(", "));
        let (current, previous) =
            (self.periods.current("started"), self.periods.previous("started"));
        statement.finish(&text, &[("current", current), ("previous", previous)])
    }

    pub(super) fn overview_result(
        &self,
        rows: &[Vec<Json>],
        result: &mut StatementResult,
    ) -> Result<()> {
        let items: &[_] = match self.web.conversion_goal {
            None => &OF_SESSIONS,
            Some(_) => &OF_CONVERSIONS,
        };
        let mut row = Row::new(rows.first().map(Vec::as_slice).unwrap_or_default());
        let mut shaped = Vec::new();
        for (key, kind, is_increase_bad) in items {
            let (value, previous) = (row.number()?, row.number()?);
            let previous = previous.filter(|_| self.periods.compares());
            let change = value.zip(previous).filter(|(_, previous)| *previous != 0.0);
            let change = change.map(|(value, previous)| {
                (100.0 * (value - previous) / previous).round_ties_even() as i64
            });
            shaped.push(json!({
                "key": key,
                "kind": kind,
                "isIncreaseBad": is_increase_bad,
                "value": value,
                "previous": previous,
                "changeFromPreviousPct": change,
            }));
        }
        result.results = Json::Array(shaped);
        let (from, to) = self.periods.resolved()?;
        result.more.insert("dateFrom".into(), from.into());
        result.more.insert("dateTo".into(), to.into());
        Ok(())
    }
}
