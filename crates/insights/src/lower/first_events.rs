//! The first event of each actor.

use hogql::ast::Expr;
use hogql::build::{call, field, timestamp};
use model::Timestamp;

use super::Statement;
use super::breakdown::label;
use super::selection::both;
use crate::Result;

/// A common table expression of `actor`, `first_at` and the breakdown values of the event.
pub(crate) struct FirstEvents<'a> {
    pub actor: Expr,
    pub selected: Expr,
    /// If set, the first of these events must be the first selected one.
    pub ever: Option<Expr>,
    /// The end of the time range, and whether the event has an actor.
    pub within: Expr,
    /// First events before this time do not count, in microseconds.
    pub from: i64,
    pub keys: &'a [Expr],
}

impl FirstEvents<'_> {
    /// The column of a breakdown value.
    pub fn value(at: usize) -> Expr {
        field(&[&format!("value_{at}")])
    }

    pub fn add_to(self, statement: &mut Statement, name: &str) -> Result<()> {
        let is_ever = self.ever.is_some();
        let events = self.ever.unwrap_or_else(|| self.selected.clone());
        // Among events with equal timestamps the smallest labels win.
        let mut order = vec![field(&["timestamp"])];
        for key in self.keys {
            order.push(label(key.clone())?);
        }
        let key_names: Vec<String> = (0..self.keys.len()).map(|at| format!("key_{at}")).collect();
        let mut parts: Vec<(&str, Expr)> = vec![
            ("actor", self.actor),
            ("selected", self.selected),
            ("order", call("tuple", order)),
            ("filter", both([Some(events), Some(self.within)])),
            ("from", timestamp(Timestamp::from_micros(self.from))),
        ];
        parts.extend(key_names.iter().map(String::as_str).zip(self.keys.iter().cloned()));
        // Without `ever`, every event is a selected one.
        let function = |name: &str, args: &str| match is_ever {
            true => format!("{name}If({args}, {{selected}})"),
            false => format!("{name}({args})"),
        };
        let first = function("min", "timestamp");
        let mut columns = String::new();
        for (at, key) in key_names.iter().enumerate() {
            let value = function("argMin", &format!("{{{key}}}, {{order}}"));
            columns.push_str(&format!(", {value} AS value_{at}"));
        }
        let ever = match is_ever {
            true => format!(" AND countIf({{selected}}) > 0 AND min(timestamp) = {first}"),
            false => String::new(),
        };
        let text = format!(
            "SELECT {{actor}} AS actor, {first} AS first_at{columns} FROM events WHERE {{filter}} \
             GROUP BY actor HAVING {first} >= {{from}}{ever}"
        );
        statement.cte(name, &text, &parts)
    }
}
