//! Signatures of functions as text, from the table that resolving uses.

use hogql::functions::{Arg, Function, FunctionKind, Lambda, Returns};
use schemars::JsonSchema;
use serde::Serialize;

#[derive(Debug, Serialize, JsonSchema)]
pub struct FunctionSignature {
    pub name: &'static str,
    pub aliases: Vec<&'static str>,
    pub kind: SignatureKind,
    /// Such as `substring(string, integer[, integer])`; `…` repeats the argument before it.
    pub signature: String,
    /// The ClickHouse type of the result; null where it follows from the arguments.
    pub returns: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "FunctionKind")]
pub enum SignatureKind {
    Scalar,
    Aggregate,
    Window,
}

impl FunctionSignature {
    pub fn new(function: &Function) -> Self {
        let kind = match function.kind {
            FunctionKind::Scalar => SignatureKind::Scalar,
            FunctionKind::Aggregate => SignatureKind::Aggregate,
            FunctionKind::Window => SignatureKind::Window,
        };
        let returns = match function.returns {
            Returns::Kind(kind) => Some(kind.ty().name("UTC")),
            _ => None,
        };
        let (name, aliases) = (function.name, function.aliases.to_vec());
        Self { name, aliases, kind, signature: signature(function), returns }
    }
}

fn signature(function: &Function) -> String {
    let parameters = match function.parameters {
        (_, 0) => String::new(),
        (0, 1) => "([parameter])".to_owned(),
        (1, 1) => "(parameter)".to_owned(),
        _ => "(parameters…)".to_owned(),
    };
    format!("{}{parameters}({})", function.name, arguments(function))
}

fn arguments(function: &Function) -> String {
    let mut text = match function.lambda {
        Lambda::None => String::new(),
        Lambda::Optional => "[lambda, ]".to_owned(),
        Lambda::Required => "lambda, ".to_owned(),
    };
    let required = function.args.len() - function.optional;
    for (no, arg) in function.args.iter().enumerate() {
        let comma = if no == 0 { "" } else { ", " };
        let repeats = function.repeats && no + 1 == function.args.len();
        let more = if repeats { ", …" } else { "" };
        let (open, close) = if no < required { ("", "") } else { ("[", "]") };
        text += &format!("{open}{comma}{}{more}{close}", word(*arg));
    }
    text
}

const fn word(arg: Arg) -> &'static str {
    match arg {
        Arg::Any => "value",
        Arg::String | Arg::ConstString => "string",
        Arg::Int | Arg::ConstInt => "integer",
        Arg::Number => "number",
        Arg::Condition => "condition",
        Arg::Time => "time",
        Arg::Interval => "interval",
        Arg::Array => "array",
        Arg::Map => "map",
        Arg::Tuple => "tuple",
        Arg::Unit => "unit",
        Arg::Zone => "zone",
        Arg::Key => "key",
    }
}

#[cfg(test)]
mod tests {
    use hogql::functions::function_named;

    use super::*;

    #[test]
    fn signatures_show_parameters_optional_and_repeated_arguments() {
        for (name, expected) in [
            ("count", "count([value, …])"),
            ("quantile", "quantile([parameter])(number)"),
            ("substring", "substring(string, integer[, integer])"),
            ("arrayMap", "arrayMap(lambda, array, …)"),
            ("now", "now([zone])"),
        ] {
            assert_eq!(signature(function_named(name).unwrap()), expected);
        }
    }
}
