//! Prints property filters ([`FilterExpr`]) as HogQL, for `{filters}` and for events and actors
//! queries.

use facts::QueryContext;
use hogql::ast::{BinaryOp, Expr};
pub(crate) use hogql::build::{all, binary, call, field, in_cohort, literal, logic, timestamp};
use hogql::filter::FilterPrinter;
use model::filter_expr::FilterExpr;
pub(crate) use model::filter_expr::FilteredRows as Rows;
use model::{ActionStep, StringMatching, Timestamp, Zone};
use serde_json::Value as Json;

use crate::Result;

pub(crate) struct Conditions<'a> {
    rows: Rows,
    now: Timestamp,
    zone: &'a Zone,
    path_cleaning: Vec<(String, String)>,
}

impl<'a> Conditions<'a> {
    pub fn new(context: &'a QueryContext, rows: Rows) -> Self {
        let path_cleaning = context.path_cleaning.replacements();
        Self { rows, now: context.now, zone: &context.zone, path_cleaning: path_cleaning.collect() }
    }
}

/// Whether filters can be printed; neither the time nor the zone matters for that.
pub(crate) fn check(filters: &Json, rows: Rows) -> Result<()> {
    let (now, zone) = (Timestamp::from_micros(0), &Zone::named("UTC"));
    Conditions { rows, now, zone, path_cleaning: Vec::new() }.read(filters).map(drop)
}

impl Conditions<'_> {
    /// The condition of filters; none if they keep all rows.
    pub fn read(&self, filters: &Json) -> Result<Option<Expr>> {
        let filters = FilterExpr::parse(filters, self.rows, self.now, self.zone)
            .map_err(facts::Error::from)?;
        if filters.keeps_all() {
            return Ok(None);
        }
        Ok(Some(self.print(&filters)?))
    }

    /// The events that a step of an action matches.
    pub fn of_step(&self, step: &ActionStep, filters: &FilterExpr) -> Result<Expr> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let mut parts = Vec::new();
        if let Some(event) = given(&step.event) {
            parts.push(binary(BinaryOp::Equal, field(&["event"]), literal(&event)));
        }
        if let Some(url) = given(&step.url) {
            let matching = step.url_matching.unwrap_or(StringMatching::Contains);
            parts.push(matches(field(&["properties", "$current_url"]), &url, matching));
        }
        let elements = [&step.tag_name, &step.text, &step.href, &step.selector];
        if elements.into_iter().any(|text| given(text).is_some()) {
            let conditions = serde_json::json!({
                "tag_name": step.tag_name, "selector": step.selector,
                "text": step.text, "text_matching": step.text_matching,
                "href": step.href, "href_matching": step.href_matching,
            });
            let chain = field(&["elements_chain"]);
            parts.push(call("matchesElements", vec![chain, literal(&conditions.to_string())]));
        }
        if !filters.keeps_all() {
            parts.push(self.print(filters)?);
        }
        Ok(all(parts))
    }

    pub fn print(&self, filters: &FilterExpr) -> Result<Expr> {
        let printer = FilterPrinter { rows: self.rows, path_cleaning: &self.path_cleaning };
        Ok(printer.print(filters)?)
    }
}

fn matches(text: Expr, pattern: &str, matching: StringMatching) -> Expr {
    match matching {
        StringMatching::Exact => binary(BinaryOp::Equal, text, literal(pattern)),
        StringMatching::Regex => binary(BinaryOp::Match, text, literal(pattern)),
        StringMatching::Contains => {
            let position = call("position", vec![text, literal(pattern)]);
            binary(BinaryOp::Greater, position, hogql::build::int(0))
        }
    }
}

#[cfg(test)]
mod tests;
