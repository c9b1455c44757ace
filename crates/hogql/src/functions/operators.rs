//! Operators in the form of functions. The resolver resolves a call as the operator, so that both
//! have one meaning.

use super::{Arg, Fixed, Function, Nulls, Returns, function};
use crate::ast::{BinaryOp, LogicOp};

use Arg::{Any, Condition, String};

const UINT8: Returns = Returns::Kind(Fixed::UInt8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Binary(BinaryOp),
    In { negated: bool },
    Logic(LogicOp),
    Not,
}

/// Never null, as the operators (contract, query 5.1).
const fn comparison(name: &'static str, side: &'static [Arg]) -> Function {
    function(name, side, UINT8).nulls(Nulls::Custom)
}

const VALUES: &[Arg] = &[Any, Any];
const STRINGS: &[Arg] = &[String, String];

pub(super) const OPERATORS: &[Function] = &[
    comparison("equals", VALUES),
    comparison("notEquals", VALUES),
    comparison("less", VALUES),
    comparison("lessOrEquals", VALUES),
    comparison("greater", VALUES),
    comparison("greaterOrEquals", VALUES),
    comparison("in", VALUES),
    comparison("notIn", VALUES),
    comparison("like", STRINGS),
    comparison("notLike", STRINGS),
    comparison("ilike", STRINGS),
    comparison("notILike", STRINGS),
    function("and", &[Condition, Condition], UINT8).repeats(),
    function("or", &[Condition, Condition], UINT8).repeats(),
    function("xor", &[Condition, Condition], UINT8).repeats(),
    function("not", &[Condition], UINT8),
];

/// The operator that a call of this function stands for.
pub(crate) fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "equals" => Operator::Binary(BinaryOp::Equal),
        "notEquals" => Operator::Binary(BinaryOp::NotEqual),
        "less" => Operator::Binary(BinaryOp::Less),
        "lessOrEquals" => Operator::Binary(BinaryOp::LessOrEqual),
        "greater" => Operator::Binary(BinaryOp::Greater),
        "greaterOrEquals" => Operator::Binary(BinaryOp::GreaterOrEqual),
        "like" => Operator::Binary(BinaryOp::Like),
        "notLike" => Operator::Binary(BinaryOp::NotLike),
        "ilike" => Operator::Binary(BinaryOp::ILike),
        "notILike" => Operator::Binary(BinaryOp::NotILike),
        "plus" => Operator::Binary(BinaryOp::Add),
        "minus" => Operator::Binary(BinaryOp::Subtract),
        "multiply" => Operator::Binary(BinaryOp::Multiply),
        "divide" => Operator::Binary(BinaryOp::Divide),
        "modulo" => Operator::Binary(BinaryOp::Modulo),
        "in" => Operator::In { negated: false },
        "notIn" => Operator::In { negated: true },
        "and" => Operator::Logic(LogicOp::And),
        "or" => Operator::Logic(LogicOp::Or),
        "not" => Operator::Not,
        _ => return None,
    })
}
