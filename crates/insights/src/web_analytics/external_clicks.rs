//! `WebExternalClicksTableQuery`: links to other sites that visitors clicked.

use hogql::ast::Query;
use hogql::build::{binary, call, int, is_null, literal};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;

use super::{Table, is_event, page, property, rows_max};
use crate::Result;
use crate::lower::Statement;
use crate::lower::selection::both;
use crate::statement_query::StatementResult;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebExternalClicksFields")]
pub(crate) struct ExternalClicksSpec {
    pub limit: Option<u64>,
    /// Counts links that differ only behind `?` or `#` as one.
    strip_query_params: bool,
}

const COLUMNS: [(&str, &str); 3] = [
    ("context.columns.url", "String"),
    ("context.columns.visitors", "UInt64"),
    ("context.columns.clicks", "UInt64"),
];

impl Table<'_> {
    pub(super) fn external_clicks(&self, spec: &ExternalClicksSpec) -> Result<Query> {
        let link = property("$external_click_url");
        let url = match spec.strip_query_params {
            true => call("cutQueryStringAndFragment", vec![link.clone()]),
            false => link.clone(),
        };
        let is_click =
            binary(hogql::ast::BinaryOp::Equal, property("$event_type"), literal("click"));
        let is_link = is_null(call("nullIf", vec![link, literal("")]), true);
        let clicks = both([Some(is_event("$autocapture")), Some(is_click), Some(is_link)]);
        let mut statement = Statement::default();
        let parts = [("url", url), ("events", self.current_events(clicks))];
        statement.cte(
            "links",
            "SELECT {url} AS url, argMin(person_id, timestamp) AS person, count() AS clicks \
             FROM events WHERE {events} GROUP BY $session_id, url",
            &parts,
        )?;
        statement.finish(
            "SELECT url, uniq(person) AS visitors, sum(clicks) AS clicked FROM links GROUP BY url \
             ORDER BY visitors DESC, url LIMIT {limit}",
            &[("limit", int(rows_max(spec.limit) + 1))],
        )
    }
}

impl ExternalClicksSpec {
    pub(super) fn result(&self, mut rows: Vec<Vec<Json>>, result: &mut StatementResult) {
        page(&mut rows, rows_max(self.limit), 0, result);
        result.results = rows.into_iter().map(Json::Array).collect();
        result.columns = Some(COLUMNS.map(|(name, ty)| (name.to_owned(), ty)).to_vec());
    }
}
