//! Breakdowns as expressions.
//!
//! An absent value is the empty string, which no value is. Values beyond the limit are marked by a
//! column of their own (`rest`), because a label could also be a value.

use hogql::ast::{Expr, ExprKind};
use hogql::build::{call, literal};
use hogql::filter::Value;
use hogql::tables::Table;
use model::CohortId;
use serde_json::Value as Json;
use warehouse::GROUP_TYPES;

use super::rows::Row;
use super::selection::{column, text_of_expression};
use super::{expression, unsupported};
use crate::query::spec::BreakdownFilter;
use crate::scan::breakdown::{BreakdownSegment, LIMIT, NULL, list};
use crate::{Error, Result};

/// How a statement is broken down.
pub(crate) enum BreakdownBy {
    Nothing,
    Values(BreakdownValues),
    /// None for all users.
    Cohorts(Vec<Option<CohortId>>),
}

pub(crate) struct BreakdownValues {
    /// One string per dimension, never NULL.
    pub keys: Vec<Expr>,
    pub limit: usize,
    pub hide_other: bool,
    pub listed: bool,
}

/// Whether the kind of insight groups numbers to bins; others ignore the number of bins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Histograms {
    Supported,
    Ignored,
}

impl BreakdownBy {
    pub fn new(filter: &BreakdownFilter, histograms: Histograms) -> Result<Self> {
        if filter.is_empty() {
            return Ok(Self::Nothing);
        }
        let kind = filter.breakdown_type.as_deref().unwrap_or("event");
        if filter.breakdowns.is_empty() && kind == "cohort" {
            return cohorts(&filter.breakdown).map(Self::Cohorts);
        }
        if let [one] = filter.breakdowns.as_slice()
            && one.kind.as_deref() == Some("cohort")
        {
            return cohorts(&one.property).map(Self::Cohorts);
        }
        let mut keys = Vec::new();
        for one in &filter.breakdowns {
            let kind = one.kind.as_deref().unwrap_or("event");
            for name in list(&one.property) {
                let text = text(kind, name, one.group_type_index)?;
                let bins = one.histogram_bin_count.filter(|_| histograms == Histograms::Supported);
                keys.push(key(text, one.normalize_url, bins)?);
            }
        }
        if filter.breakdowns.is_empty() {
            for name in list(&filter.breakdown) {
                let text = text(kind, name, filter.breakdown_group_type_index)?;
                let bins = filter.breakdown_histogram_bin_count;
                let bins = bins.filter(|_| histograms == Histograms::Supported);
                keys.push(key(text, filter.breakdown_normalize_url, bins)?);
            }
        }
        let listed = !filter.breakdowns.is_empty() || keys.len() > 1;
        Ok(Self::Values(BreakdownValues {
            keys,
            limit: filter.breakdown_limit.unwrap_or(LIMIT),
            hide_other: filter.breakdown_hide_other_aggregation,
            listed,
        }))
    }
}

fn cohorts(json: &Json) -> Result<Vec<Option<CohortId>>> {
    let cohort = |json: &&Json| match json {
        Json::String(all) if all == "all" => Ok(None),
        json => match CohortId::from_json(json) {
            Some(id) if id.0 >= 0 => Ok(Some(id)),
            _ => Err(Error::Invalid(format!("{json} is no cohort."))),
        },
    };
    let cohorts: Vec<Option<CohortId>> = list(json).iter().map(cohort).collect::<Result<_>>()?;
    let is_repeated = |(at, id): (usize, &Option<CohortId>)| cohorts[..at].contains(id);
    match cohorts.iter().enumerate().any(is_repeated) {
        true => Err(unsupported("A cohort that is listed twice")),
        false => Ok(cohorts),
    }
}

/// A cohort, or all users, as a column shows it.
pub(crate) fn cohort_text(id: Option<CohortId>) -> String {
    id.map_or_else(|| "all".to_owned(), |id| id.0.to_string())
}

/// The string of a dimension; NULL if it is absent.
fn text(kind: &str, name: &Json, group: Option<usize>) -> Result<Expr> {
    let name = match name {
        Json::String(name) => name.clone(),
        other => other.to_string(),
    };
    Ok(match kind {
        "event" => Value::property(&["properties"], &name).text,
        "event_metadata" => {
            column(&facts::event_column(&name).ok_or_else(|| unsupported("The breakdown"))?)
        }
        "hogql" => text_of_expression(&name)?,
        "person" => Value::property(&["person", "properties"], &name).text,
        "session" => {
            let kind = Table::Sessions.column(&name).map(|(_, ty)| ty.kind);
            Value::column(&["session", &name], kind).text
        }
        "group" => match group {
            Some(index) if index < GROUP_TYPES => {
                Value::property(&[&format!("group_{index}"), "properties"], &name).text
            }
            _ => return Err(unsupported("The breakdown")),
        },
        _ => return Err(unsupported("The breakdown")),
    })
}

fn key(text: Expr, normalize_url: bool, bins: Option<usize>) -> Result<Expr> {
    if bins.is_some() {
        return Err(unsupported("A histogram"));
    }
    let text = match normalize_url {
        false => text,
        // Without query, fragment and trailing slash.
        true => expression(
            r"replaceRegexpOne({url}, '(?s)^(/|[^?#]*?)/?(?:[?#].*)?$', '\\1')",
            &[("url", text)],
        )?,
    };
    Ok(or_empty(text))
}

/// The string, or the empty string where it is absent.
fn or_empty(text: Expr) -> Expr {
    match text.kind {
        // `nullIf(x, '')`
        ExprKind::Call(inner) if inner.name.text == "nullIf" && inner.args[1] == literal("") => {
            call("ifNull", vec![inner.args[0].clone(), literal("")])
        }
        _ => call("ifNull", vec![text, literal("")]),
    }
}

/// A path without its trailing slash, unless it is nothing else.
pub(crate) fn without_slash(path: Expr) -> Result<Expr> {
    expression(r"replaceRegexpOne({path}, '(?s)^(.+)/$', '\\1')", &[("path", path)])
}

/// The column names of the dimensions: `breakdown_1` and so on.
pub(crate) fn columns(dimensions: usize) -> Vec<String> {
    (1..=dimensions).map(|no| format!("breakdown_{no}")).collect()
}

/// The label of a value, by which equal ranks are sorted.
pub(crate) fn label(value: Expr) -> Result<Expr> {
    expression("if({value} = '', {null}, {value})", &[("value", value), ("null", literal(NULL))])
}

impl BreakdownValues {
    pub fn columns(&self) -> Vec<String> {
        columns(self.keys.len())
    }

    /// The columns as labels, for ORDER BY.
    pub fn labels(&self) -> String {
        let label = |column: &String| format!("if({column} = '', {{null}}, {column})");
        self.columns().iter().map(label).collect::<Vec<_>>().join(", ")
    }

    /// The part that fills `{null}` of [`Self::labels`].
    pub fn null() -> (&'static str, Expr) {
        ("null", literal(NULL))
    }

    /// Reads `rest` and the columns of the dimensions.
    pub fn segment(&self, row: &mut Row<'_>) -> Result<BreakdownSegment> {
        let is_rest = row.truth()?;
        let texts: Vec<&str> = self.keys.iter().map(|_| row.text()).collect::<Result<_>>()?;
        if is_rest {
            return Ok(BreakdownSegment::Other(texts.len(), self.listed));
        }
        let is_absent = texts.iter().all(|text| text.is_empty());
        let label =
            |text: &&str| if text.is_empty() { NULL.to_owned() } else { (*text).to_owned() };
        let labels = texts.iter().map(label).collect();
        Ok(match is_absent {
            true => BreakdownSegment::Null(labels, self.listed),
            false => BreakdownSegment::Values(labels, self.listed),
        })
    }
}
