//! `WebVitalsPathBreakdownQuery`: the paths of each band of a web vitals metric.

use hogql::ast::Query;
use hogql::build::{call, field, is_null, number};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value as Json, json};

use super::{Table, is_event, property};
use crate::Result;
use crate::lower::Statement;
use crate::lower::rows::Row;
use crate::lower::selection::both;
use crate::statement_query::StatementResult;

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WebVitalsPathFields")]
pub(crate) struct VitalsPathsSpec {
    metric: Metric,
    percentile: Percentile,
    /// Values up to the first are good, above the second poor.
    thresholds: (f64, f64),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(rename = "WebVitalsMetric")]
enum Metric {
    Inp,
    Lcp,
    Cls,
    Fcp,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "WebVitalsPercentile")]
enum Percentile {
    P75,
    P90,
    P99,
}

const BANDS: [&str; 3] = ["good", "needs_improvements", "poor"];

impl Metric {
    const fn property(self) -> &'static str {
        match self {
            Self::Inp => "$web_vitals_INP_value",
            Self::Lcp => "$web_vitals_LCP_value",
            Self::Cls => "$web_vitals_CLS_value",
            Self::Fcp => "$web_vitals_FCP_value",
        }
    }
}

impl Percentile {
    const fn level(self) -> &'static str {
        match self {
            Self::P75 => "0.75",
            Self::P90 => "0.9",
            Self::P99 => "0.99",
        }
    }
}

impl Table<'_> {
    /// Rows of band, path and value, at most 20 of a band.
    pub(super) fn vitals_paths(&self, spec: &VitalsPathsSpec) -> Result<Query> {
        let events = both([
            Some(is_event("$web_vitals")),
            Some(is_null(property("$pathname"), true)),
            Some(self.periods.any("timestamp")),
            self.lowering.common(),
        ]);
        let value = call("toFloat", vec![field(&["properties", spec.metric.property()])]);
        let mut statement = Statement::default();
        let text = format!(
            "SELECT {{path}} AS path, quantile({})({{value}}) AS value FROM events \
             WHERE {{events}} GROUP BY path HAVING value >= 0",
            spec.percentile.level()
        );
        let path = self.path(property("$pathname"));
        statement.cte("paths", &text, &[("path", path), ("value", value), ("events", events)])?;
        let (good, poor) = (number(spec.thresholds.0), number(spec.thresholds.1));
        statement.finish(
            "SELECT multiIf(value <= {good}, 'good', value <= {poor}, 'needs_improvements', 'poor') \
             AS band, path, value FROM paths ORDER BY value, path LIMIT 20 BY band LIMIT 60",
            &[("good", good), ("poor", poor)],
        )
    }
}

pub(super) fn result(rows: Vec<Vec<Json>>, result: &mut StatementResult) -> Result<()> {
    let mut bands: Map<String, Json> =
        BANDS.iter().map(|band| ((*band).to_owned(), json!([]))).collect();
    for row in &rows {
        let mut row = Row::new(row);
        let band = row.text()?;
        let item = json!({ "path": row.next()?, "value": row.next()? });
        if let Some(Json::Array(band)) = bands.get_mut(band) {
            band.push(item);
        }
    }
    result.results = json!([bands]);
    Ok(())
}
