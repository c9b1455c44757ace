//! Constant integers: limits, offsets, and arguments of `numbers`.

use super::Resolver;
use super::scope::Named;
use crate::ast::{self, BinaryOp, ExprKind as Ast, Literal, UnaryOp};
use crate::error::{Checked, Fault};

/// Aliases and scalars that refer to each other, where they are followed without resolving them.
pub(super) const ALIASES_MAX: usize = 16;

impl<'a> Resolver<'a> {
    /// A constant number, such as a limit.
    pub(super) fn constant_u64(&mut self, expr: &'a ast::Expr, of: &str) -> Checked<u64> {
        let value = self.constant(expr, ALIASES_MAX)?;
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| {
            let message = format!("{of} takes a whole number that is the same for all rows");
            Fault::invalid(message, expr.span)
        })
    }

    /// A constant number; none if it is only known when the statement runs.
    pub(super) fn constant_or_none(&mut self, expr: &'a ast::Expr) -> Checked<Option<u64>> {
        let value = self.constant(expr, ALIASES_MAX)?;
        match value.map(u64::try_from) {
            Some(Err(_)) => Err(Fault::invalid("numbers() takes no negative number", expr.span)),
            value => Ok(value.and_then(std::result::Result::ok)),
        }
    }

    /// The value of a constant integer expression, also through at most this many scalars of `WITH`.
    fn constant(&mut self, expr: &'a ast::Expr, scalars: usize) -> Checked<Option<i128>> {
        self.charge(1, expr.span)?;
        Ok(match &expr.kind {
            Ast::Literal(Literal::Int(value)) => Some(i128::from(*value)),
            Ast::Literal(Literal::Float(value)) if value.fract() == 0.0 && *value < 1e18 => {
                Some(*value as i128)
            }
            Ast::Unary(UnaryOp::Negate, operand) => {
                self.constant(operand, scalars)?.and_then(i128::checked_neg)
            }
            Ast::Binary(op, left, right) => {
                let left = self.constant(left, scalars)?;
                let right = self.constant(right, scalars)?;
                left.zip(right).and_then(|(left, right)| compute(*op, left, right))
            }
            Ast::Field(chain) if chain.len() == 1 && scalars > 0 => {
                let named = self.named.iter().rev().find(|(name, _)| *name == chain[0].text);
                match named.map(|(_, named)| *named) {
                    Some(Named::Scalar(expr)) => self.constant(expr, scalars - 1)?,
                    Some(Named::Cte(_)) | None => None,
                }
            }
            Ast::Call(call) => {
                let mut args = Vec::new();
                for arg in &call.args {
                    let Some(arg) = self.constant(arg, scalars)? else { return Ok(None) };
                    args.push(arg);
                }
                match (call.name.text.to_ascii_lowercase().as_str(), &args[..]) {
                    ("least", args) => args.iter().min().copied(),
                    ("greatest", args) => args.iter().max().copied(),
                    ("intdiv", [left, right]) => left.checked_div(*right),
                    ("toint", [value]) => Some(*value),
                    _ => None,
                }
            }
            _ => None,
        })
    }
}

fn compute(op: BinaryOp, left: i128, right: i128) -> Option<i128> {
    match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Subtract => left.checked_sub(right),
        BinaryOp::Multiply => left.checked_mul(right),
        BinaryOp::Divide if left.checked_rem(right) == Some(0) => left.checked_div(right),
        BinaryOp::Modulo => left.checked_rem(right),
        _ => None,
    }
}
