//! Aggregates and window functions.

use hogql::functions::{EmptyValue, Extreme, Nesting};
use hogql::plan::{Aggregate, Value};

use super::selects::Scope;
use super::{Printer, unsupported};
use crate::error::Result;

/// Those with the same name and meaning.
const SAME: &[&str] = &[
    "any",
    "anyLast",
    "argMax",
    "argMin",
    "avg",
    "avgWeighted",
    "corr",
    "count",
    "covarPop",
    "covarSamp",
    "cume_dist",
    "deltaSum",
    "dense_rank",
    "first_value",
    "groupArray",
    "groupArrayLast",
    "groupArraySorted",
    "groupBitAnd",
    "groupBitOr",
    "groupBitXor",
    "groupUniqArray",
    "kurtPop",
    "kurtSamp",
    "lagInFrame",
    "last_value",
    "leadInFrame",
    "max",
    "min",
    "nth_value",
    "ntile",
    "percent_rank",
    "quantileExact",
    "quantileExactHigh",
    "quantileExactLow",
    "rank",
    "row_number",
    "skewPop",
    "skewSamp",
    "stddevPop",
    "stddevSamp",
    "sum",
    "sumMap",
    "uniqExact",
    "varPop",
    "varSamp",
    "windowFunnel",
];

impl Printer<'_> {
    /// The call of an aggregate, or of a window function.
    pub fn aggregate(&mut self, scope: &mut Scope, call: &Aggregate) -> Result<String> {
        let name = call.function.0.name;
        let mut parameters = Vec::new();
        for parameter in &call.parameters {
            parameters.push(match parameter {
                Value::UInt(number) => number.to_string(),
                Value::Int(number) => number.to_string(),
                Value::Float(number) => format!("{number:?}"),
                Value::String(text) => self.string(text),
                _ => return Err(unsupported(format!("a parameter of {name}"))),
            });
        }
        let mut distinct = call.distinct;
        let mut printed = match name {
            // ClickHouse's own are estimates.
            "uniq" => "uniqExact".to_owned(),
            "count" if distinct => {
                distinct = false;
                "uniqExact".to_owned()
            }
            "median" => {
                parameters.push("0.5".to_owned());
                "quantileExactInclusive".to_owned()
            }
            "quantile" => "quantileExactInclusive".to_owned(),
            "quantiles" => "quantilesExactInclusive".to_owned(),
            "medianExact" => "quantileExact".to_owned(),
            "medianExactLow" => "quantileExactLow".to_owned(),
            name if SAME.contains(&name) => name.to_owned(),
            name => return Err(unsupported(format!("the aggregate {name}"))),
        };
        if distinct && !matches!(name, "uniq" | "uniqExact") {
            printed.push_str("Distinct");
        }
        printed.push_str(match call.combinators.nesting {
            None => "",
            Some(Nesting::Array) => "Array",
            Some(Nesting::ForEach) => "ForEach",
            Some(Nesting::Map) => "Map",
        });
        printed.push_str(match call.combinators.extreme {
            None => "",
            Some(Extreme::Min) => "ArgMin",
            Some(Extreme::Max) => "ArgMax",
        });
        let mut args = Vec::new();
        for arg in &call.args {
            args.push(self.expr(scope, arg)?);
        }
        if let Some(filter) = &call.filter {
            printed.push_str("If");
            args.push(format!("ifNull({}, false)", self.expr(scope, filter)?));
        }
        printed.push_str(match call.combinators.empty {
            None => "",
            Some(EmptyValue::Null) => "OrNull",
            Some(EmptyValue::Default) => "OrDefault",
        });
        let parameters = match parameters.is_empty() {
            true => String::new(),
            false => format!("({})", parameters.join(", ")),
        };
        Ok(format!("{printed}{parameters}({})", args.join(", ")))
    }
}
