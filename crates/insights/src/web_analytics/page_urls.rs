//! `WebPageURLSearchQuery`: page URLs that contain a text, the most viewed first.

use hogql::ast::{BinaryOp, Query};
use hogql::build::{binary, call, int, is_null, literal};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Table, is_event, property, rows_max};
use crate::Result;
use crate::lower::Statement;
use crate::lower::selection::both;
use crate::statement_query::StatementResult;

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "WebPageUrlFields")]
pub(crate) struct PageUrlsSpec {
    search_term: Option<String>,
    strip_query_params: bool,
    pub limit: Option<u64>,
}

impl Table<'_> {
    pub(super) fn page_urls(&self, spec: &PageUrlsSpec) -> Result<Query> {
        let address = property("$current_url");
        let url = match spec.strip_query_params {
            true => call("cutQueryStringAndFragment", vec![address.clone()]),
            false => address.clone(),
        };
        let search = spec.search_term.as_deref().filter(|text| !text.is_empty()).map(|text| {
            let lower = call("lower", vec![address.clone()]);
            let position = call("position", vec![lower, literal(&text.to_lowercase())]);
            binary(BinaryOp::Greater, position, int(0))
        });
        let dates = (!self.periods.is_unbounded()).then(|| self.periods.current("timestamp"));
        let events = both([
            Some(is_event("$pageview")),
            Some(is_null(address, true)),
            search,
            dates,
            self.lowering.common(),
        ]);
        Statement::default().finish(
            "SELECT {url} AS url, count() AS views FROM events WHERE {events} GROUP BY url \
             ORDER BY views DESC, url LIMIT {limit}",
            &[("url", url), ("events", events), ("limit", int(rows_max(spec.limit) + 1))],
        )
    }
}

impl PageUrlsSpec {
    pub(super) fn result(&self, mut rows: Vec<Vec<Json>>, result: &mut StatementResult) {
        let limit = rows_max(self.limit);
        result.has_more = Some(rows.len() as u64 > limit);
        rows.truncate(limit as usize);
        let item = |row: &Vec<Json>| json!({ "url": row.first(), "count": row.get(1) });
        result.results = rows.iter().map(item).collect();
    }
}
