//! Lowers insights to HogQL statements, and reads results from their rows.
//!
//! One statement computes one insight. [`Insight::to_hogql`] builds its syntax tree and
//! [`Insight::result_of_rows`] reads the insight's result from the rows, so that any engine that runs
//! HogQL can compute it. Fixed text becomes the frame of the tree, and everything that comes from the
//! query is inserted as a tree ([`hogql::template`]).
//!
//! What the operators of this crate and the statement mean is the same; a property test compares
//! them. Where a query uses what HogQL cannot express, lowering is an error.

pub(crate) mod breakdown;
pub(crate) mod first_events;
pub(crate) mod intervals;
pub(crate) mod rows;
pub(crate) mod selection;

use facts::QueryContext;
use hogql::ast::{Body, Expr, Query, With, WithValue};
use hogql::build::{int, name};
use hogql::template::{self, Parts};
use serde_json::Value as Json;

use crate::result::InsightResult;
use crate::{Error, Insight, Result};

impl Insight {
    /// The statement that computes this insight, without a limit on its rows.
    pub fn to_hogql(&self, context: &QueryContext) -> Result<Query> {
        match self {
            Self::Trends(query) => query.to_hogql(context),
            Self::Funnels(query) => query.to_hogql(context),
            Self::Retention(query) => query.to_hogql(context),
            Self::Lifecycle(query) => query.to_hogql(context),
            Self::Stickiness(query) => query.to_hogql(context),
            Self::Paths(query) => query.to_hogql(context),
        }
    }

    /// The statement as text that a `HogQLQuery` can run: with the largest limit, since a statement
    /// without one returns few rows.
    pub fn hogql_text(&self, context: &QueryContext) -> Result<String> {
        let mut query = self.to_hogql(context)?;
        if query.with.len() > hogql::limits::WITH_MAX {
            return Err(Error::invalid("The statement has too many common table expressions."));
        }
        if let Body::Select(select) = &mut query.body
            && select.limit.is_none()
        {
            select.limit = Some(int(hogql::limits::ROWS_MAX));
        }
        let text = query.to_string();
        match text.len() > hogql::limits::TEXT_BYTES_MAX {
            true => Err(Error::invalid("The statement is too long.")),
            false => Ok(text),
        }
    }

    /// The result, from the rows of [`Insight::to_hogql`] in the same context.
    pub fn result_of_rows(
        &self,
        context: &QueryContext,
        rows: &[Vec<Json>],
    ) -> Result<InsightResult> {
        match self {
            Self::Trends(query) => query.result_of_rows(context, rows),
            Self::Funnels(query) => query.result_of_rows(context, rows),
            Self::Retention(query) => query.result_of_rows(context, rows),
            Self::Lifecycle(query) => query.result_of_rows(context, rows),
            Self::Stickiness(query) => query.result_of_rows(context, rows),
            Self::Paths(query) => query.result_of_rows(context, rows),
        }
    }
}

pub(crate) fn unsupported(what: &str) -> Error {
    Error::Invalid(format!("{what} cannot be expressed in HogQL."))
}

/// Parses an expression with inserted parts.
pub(crate) fn expression(text: &str, parts: &Parts<'_>) -> Result<Expr> {
    Ok(template::expression(text, parts)?)
}

/// Collects the common table expressions of a statement.
#[derive(Default)]
pub(crate) struct Statement {
    with: Vec<With>,
}

impl Statement {
    pub fn cte(&mut self, cte: &str, text: &str, parts: &Parts<'_>) -> Result<()> {
        let query = template::statement(text, parts)?;
        self.with.push(With {
            name: name(cte),
            columns: Vec::new(),
            value: WithValue::Query(query),
        });
        Ok(())
    }

    /// The statement whose last SELECT is `text`.
    pub fn finish(self, text: &str, parts: &Parts<'_>) -> Result<Query> {
        let Query { body, .. } = template::statement(text, parts)?;
        Ok(Query { with: self.with, body })
    }
}
